"""Statements of running code, cut out of their source and compiled so that they can be run."""

from __future__ import annotations

import ast
import copy
import dis
import keyword
from collections.abc import Iterator, Sequence
from types import CodeType

from tfdbg_cli.common.interpreter.unwarned import unwarned

__all__ = [
    "OPTIMIZED",
    "SCOPES",
    "codes_in",
    "compile_quietly",
    "compile_statements",
    "declared_global",
    "is_part_of",
    "own_nodes",
    "variables_of",
    "variables_used",
    "with_scopes",
]

#: What has variables of its own.
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)

#: CO_OPTIMIZED: the code of a function, whose variables are no dictionary's.
OPTIMIZED = 0x1
# CO_FUTURE_*: the future statements that were in effect.
_FUTURES = 0xFFF0000


def own_nodes(statements: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """All nodes that run as part of statements; not the bodies of functions that are made there."""
    pending: list[ast.AST] = list(reversed(statements))
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            pending += reversed(node.decorator_list)
        elif not isinstance(node, ast.Lambda):
            pending += reversed(list(ast.iter_child_nodes(node)))


def with_scopes(tree: ast.Module) -> Iterator[tuple[ast.AST, str, ast.AST]]:
    """The nodes of a module, with the name of the class around each and what has its variables.

    The name is empty where there is no class.
    """
    pending: list[tuple[ast.AST, str, ast.AST]] = [(tree, "", tree)]
    while pending:
        node, owner, scope = pending.pop()
        yield node, owner, scope
        if isinstance(node, ast.ClassDef):
            owner = node.name
        if isinstance(node, SCOPES):
            scope = node
        pending += [(child, owner, scope) for child in ast.iter_child_nodes(node)]


def declared_global(scope: ast.AST) -> frozenset[str]:
    """The names that a function has declared ``global``."""
    return frozenset(
        name
        for node in own_nodes(getattr(scope, "body", []))
        if isinstance(node, ast.Global)
        for name in node.names
    )


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """Code, and that of all functions and classes in it."""
    pending = [code]
    while pending:
        current = pending.pop()
        yield current
        pending += [item for item in current.co_consts if isinstance(item, CodeType)]


def compile_quietly(tree: ast.Module, filename: str, flags: int = 0) -> CodeType:
    """Compile what Python has compiled before, and has warned of then.

    Args:
        tree: what to compile.
        filename: it is from.
        flags: ``CO_FUTURE_*``.
    """
    with unwarned():
        code: CodeType = compile(tree, filename, "exec", flags=flags, dont_inherit=True)
    return code


def variables_of(code: CodeType) -> list[str]:
    """The names of a function's variables, its own and those of the functions around it."""
    names = dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars))
    return [name for name in names if name.isidentifier() and not keyword.iskeyword(name)]


def compile_statements(
    statements: Sequence[ast.stmt], code: CodeType, owner: str, declared: frozenset[str]
) -> CodeType:
    """Compile statements under the file name, function name and line numbers that they have.

    Args:
        statements: one after the other; they aren't changed.
        code: of the function, class or module that they are in.
        owner: the class around them, with which private names are spelled out; or empty.
        declared: the names that the function around them has declared ``global``.

    Returns:
        For a function: code without arguments whose variables are all cells (`variables_of`). Else
        code to be run with the namespace's dictionaries, and for a class in a function the cells of
        the variables around it.
    """
    body: list[ast.stmt] = [copy.deepcopy(node) for node in statements]
    is_function = bool(code.co_flags & OPTIMIZED)
    if is_function:
        plain = _StandIn(code)
        body = [plain.visit(node) for node in body]
        made, depth = _in_function(body, code, owner, declared), 3 if owner else 2
    else:
        # First, so that a string at the beginning of the block is nobody's docstring.
        body.insert(0, ast.Pass())
        # Private names in a class's own body are spelled out, too.
        is_class = bool(owner) and code.co_name == owner
        made = ast.Module([_class(owner, body)] if is_class else body, [])
        depth = int(is_class)
        if is_class and code.co_freevars:
            made, depth = _around([_class(owner, body)], owner, code.co_freevars), 2
    for node in ast.walk(made):
        if isinstance(node, ast.stmt | ast.expr) and not hasattr(node, "lineno"):
            node.lineno = node.end_lineno = code.co_firstlineno
            node.col_offset = node.end_col_offset = 0
    ast.fix_missing_locations(made)
    compiled = compile_quietly(made, code.co_filename, code.co_flags & _FUTURES)
    for _ in range(depth):
        compiled = next(item for item in compiled.co_consts if isinstance(item, CodeType))
    if not is_function:
        # The body of a class holds its qualified name.
        constants = tuple(
            code.co_qualname if type(item) is str and item == compiled.co_qualname else item
            for item in compiled.co_consts
        )
        compiled = compiled.replace(co_name=code.co_name, co_consts=constants)
    return _renamed(compiled, compiled.co_qualname, code.co_qualname)


def _in_function(
    body: list[ast.stmt], code: CodeType, owner: str, declared: frozenset[str]
) -> ast.Module:
    """A function in a class, if there is one around it, in a function that has its variables."""
    names = variables_of(code)
    inner: list[ast.stmt] = [ast.Pass()]
    stored = [name for name in names if name not in {"__class__", "__debug__"}]
    if stored:
        inner.append(ast.Nonlocal(stored))
    shared = sorted(declared - {*names})
    if shared:
        inner.append(ast.Global(shared))
    function: ast.stmt = _function(code.co_name, [*inner, *body])
    if owner:
        function = _class(owner, [function])
    return _around([function], owner or code.co_name, names)


def _around(body: list[ast.stmt], bound: str, names: Sequence[str]) -> ast.Module:
    """A function that has variables of these names, around the definition of something."""
    held: list[ast.expr] = [ast.Name(name, ast.Store()) for name in names]
    variables: list[ast.stmt] = [ast.Assign([name], ast.Constant(None)) for name in held]
    if bound not in names:  # then the statements mean the global one
        variables.append(ast.Global([bound]))
    return ast.Module([_function("outer", [*variables, *body])], [])


def _function(name: str, body: list[ast.stmt]) -> ast.FunctionDef:
    arguments = ast.arguments([], [], None, [], [], None, [])
    made = ast.FunctionDef(name, arguments, body, [], None)
    if "type_params" in ast.FunctionDef._fields:
        made.type_params = []  # type: ignore[attr-defined,unused-ignore]
    return made


def _class(name: str, body: list[ast.stmt]) -> ast.ClassDef:
    made = ast.ClassDef(name, [], [], body, [])
    if "type_params" in ast.ClassDef._fields:
        made.type_params = []  # type: ignore[attr-defined,unused-ignore]
    return made


class _StandIn(ast.NodeTransformer):
    """Makes the statements of a function such as may stand in another one with its variables.

    Args:
        code: of the function.
    """

    def __init__(self, code: CodeType) -> None:
        variables = variables_of(code)
        self._receiver = code.co_varnames[0] if code.co_argcount else ""
        self._has_super = "__class__" in variables and "super" not in variables

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> ast.AST:
        """Declared already, at the top."""
        return ast.copy_location(ast.Pass(), node)

    visit_Nonlocal = visit_Global

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """A variable of an outer scope can't be annotated; in a function nobody reads it."""
        if not isinstance(node.target, ast.Name):
            return self.generic_visit(node)
        made: ast.stmt = ast.Pass()
        if node.value is not None:
            made = ast.Assign([node.target], node.value)
        return self.generic_visit(ast.copy_location(made, node))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """`super()` looks for the first argument of the function that it stands in."""
        is_super = isinstance(node.func, ast.Name) and node.func.id == "super"
        if is_super and self._has_super and self._receiver and not (node.args or node.keywords):
            names = ("__class__", self._receiver)
            node.args = [ast.copy_location(ast.Name(name, ast.Load()), node) for name in names]
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.AST) -> ast.AST:
        return node  # a scope of its own

    visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = visit_FunctionDef


def _renamed(code: CodeType, before: str, after: str) -> CodeType:
    """Code, and that of the functions in it, under the qualified name that the user knows."""
    constants = tuple(
        _renamed(item, before, after) if isinstance(item, CodeType) else item
        for item in code.co_consts
    )
    name = code.co_qualname
    if name.startswith(before):
        name = after + name[len(before) :]
    return code.replace(co_consts=constants, co_qualname=name)


def variables_used(code: CodeType) -> frozenset[str]:
    """The variables of the function around it that compiled statements use, or functions in it."""
    return frozenset(
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname.endswith(("DEREF", "_CLOSURE", "FROM_DICT_OR_DEREF"))
    )


def is_part_of(part: CodeType, code: CodeType) -> bool:
    """Whether compiled statements may be a part of code: they name and hold nothing else.

    A source that was edited after it was compiled is told by this in most cases.
    """
    # Since Python 3.12 the variables of a comprehension are among the function's.
    if part.co_flags & OPTIMIZED and not {*part.co_varnames} <= {*variables_of(code)}:
        return False
    known = {*_constants(code), repr(part.co_name)}  # a class's body knows its own name
    if not part.co_flags & OPTIMIZED and not {*part.co_freevars} <= {*code.co_freevars}:
        return False
    return {*part.co_names} <= {*code.co_names} and {*_constants(part)} <= known


def _constants(code: CodeType) -> Iterator[str]:
    for item in code.co_consts:
        if isinstance(item, int | float | complex | str | bytes):
            yield f"{item!r}"
