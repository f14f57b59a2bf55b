"""Makes mutants of a module: copies with one small mistake each, by its syntax tree."""

from __future__ import annotations

import ast
import difflib
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Mutant", "code_of", "diff_of", "mutants_of", "reasons"]

#: A function that names one of these is left alone: its mutants could end what isn't theirs, or
#: remove it.
HARMFUL = frozenset(
    {"fork", "kill", "killpg", "pthread_kill", "raise_signal", "remove", "removedirs", "rename"}
    | {"replace", "rmdir", "rmtree", "setrlimit", "system", "truncate", "unlink", "Popen"}
)

_COMPARED = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_COMPUTED = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.BitXor: ast.BitAnd,
}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: In these nothing is mutated: types, wording, and what isn't executed.
_LEFT_OUT = frozenset({"annotation", "returns", "decorator_list"})


@dataclass(frozen=True)
class Mutant:
    """One mistake: the ``number``-th that can be made in a module.

    ``function`` is the outermost function that it is in, empty where the module's or a class's own
    lines change; ``lines`` are those of the statement: a test that runs none of them can't tell.
    """

    path: str
    number: int
    kind: str
    function: str
    lines: tuple[int, int]


@dataclass
class _Place:
    """Where a node stands, and what it may become."""

    parent: ast.AST
    field: str
    index: int | None
    kind: str
    make: Callable[[], ast.AST | None]
    function: str
    statement: ast.stmt

    def put(self) -> None:
        made = self.make()
        here: Any = getattr(self.parent, self.field)
        old = here if self.index is None else here[self.index]
        if made is not None:
            ast.fix_missing_locations(ast.copy_location(made, old))
        if self.index is None:
            setattr(self.parent, self.field, made)
        elif self.kind == "gut":
            # What follows stays, so that the function is a closure or a generator as before.
            here.insert(0, made)
        else:
            here[self.index : self.index + 1] = [] if made is None else [made]


def mutants_of(path: Path, gut: bool = False) -> list[Mutant]:
    """All mutants of a file; with ``gut`` those whose functions do nothing, instead."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        Mutant(str(path), number, place.kind, place.function, _lines(place))
        for number, place in enumerate(_places(tree, gut))
    ]


def code_of(mutant: Mutant) -> Any:
    """The compiled module with the mistake in it; lines are numbered as without it."""
    tree = ast.parse(Path(mutant.path).read_text(encoding="utf-8"))
    _places(tree, mutant.kind == "gut")[mutant.number].put()
    return compile(tree, mutant.path, "exec", dont_inherit=True)


def diff_of(mutant: Mutant) -> str:
    """The mistake as lines with ``-`` and ``+``."""
    if mutant.kind == "gut":
        return f"- {mutant.function}\n+ return None"
    tree = ast.parse(Path(mutant.path).read_text(encoding="utf-8"))
    before = ast.unparse(tree).split("\n")
    _places(tree, False)[mutant.number].put()
    lines = difflib.unified_diff(before, ast.unparse(tree).split("\n"), lineterm="", n=0)
    return "\n".join(
        textwrap.shorten(line, 200) for line in lines if line[:3] not in ("---", "+++", "@@ ")
    )


def reasons(text: str) -> dict[tuple[str, str, str], str]:
    """Why nothing has to tell some mistakes, by module, function and `diff_of`.

    Args:
        text: a line with ``#`` and a reason for all mistakes up to the next one; for each of them
            ``MODULE: FUNCTION`` and the lines of the difference.
    """
    found: dict[tuple[str, str, str], str] = {}
    reason = ""
    for block in re.split(r"\n(?![-+])", text.strip()):
        head, _, diff = block.partition("\n")
        if head.startswith("# "):
            reason = head[2:]
        elif head:
            module, _, function = head.partition(": ")
            found[module, function, diff] = reason
    return found


def _lines(place: _Place) -> tuple[int, int]:
    """Those that are run if the mistake is: of a statement with a body only its head."""
    statement: Any = place.statement
    if place.kind == "gut":
        return statement.body[0].lineno, statement.end_lineno
    body = getattr(statement, "body", None) or getattr(statement, "cases", None)
    if body:
        first = body[0]
        last = getattr(first, "lineno", statement.lineno + 1) - 1
        return statement.lineno, max(statement.lineno, last)
    return statement.lineno, statement.end_lineno


def _places(tree: ast.Module, gut: bool) -> list[_Place]:
    return list(_gutted(tree, "") if gut else _walk(tree, "", None))


def _gutted(node: Any, prefix: str) -> Iterator[_Place]:
    for part in node.body:
        if isinstance(part, ast.ClassDef):
            yield from _gutted(part, f"{prefix}{part.name}.")
        elif isinstance(part, _FUNCTIONS) and not _is_harmful(part) and not _is_empty(part):
            yield _Place(
                part,
                "body",
                0,
                "gut",
                lambda: ast.Return(ast.Constant(None)),
                prefix + part.name,
                part,
            )


def _is_empty(function: Any) -> bool:
    """Whether a function does nothing as it is, or says that others have to."""
    for part in function.body:
        if isinstance(part, ast.Pass) or (
            isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)
        ):
            continue
        if isinstance(part, ast.Return) and (
            part.value is None or ast.unparse(part.value) == "None"
        ):
            continue
        return isinstance(part, ast.Raise) and "NotImplementedError" in ast.unparse(part)
    return True


def _is_harmful(function: ast.AST) -> bool:
    return any(
        (isinstance(part, ast.Name) and part.id in HARMFUL)
        # str.replace has two arguments and dataclasses.replace is a name: only paths are renamed.
        or (isinstance(part, ast.Attribute) and part.attr in HARMFUL and not _is_text(part))
        for part in ast.walk(function)
    )


def _is_text(part: ast.Attribute) -> bool:
    return part.attr in ("replace", "remove") and ast.unparse(part.value) not in ("os", "Path")


def _walk(node: ast.AST, function: str, statement: ast.stmt | None) -> Iterator[_Place]:
    """``function`` is where ``node`` is executed: ``f``, ``C.f``; ``C.`` at an import."""
    for field, value in ast.iter_fields(node):
        if field in _LEFT_OUT or (field == "type" and isinstance(node, ast.ExceptHandler)):
            continue
        within = function
        # The defaults of a function are made where it is.
        if field == "body" and (not function or function.endswith(".")):
            if isinstance(node, ast.ClassDef):
                within = f"{function}{node.name}."
            elif isinstance(node, _FUNCTIONS):
                within = function + node.name
        several = isinstance(value, list)
        for index, part in enumerate(value if several else [value]):
            if not isinstance(part, ast.AST) or _is_left_out(part, node):
                continue
            inside = part if isinstance(part, ast.stmt) else statement
            assert inside is not None
            for kind, make in _changes(part, node, field):
                yield _Place(
                    node,
                    field,
                    index if several else None,
                    kind,
                    make,
                    "" if within.endswith(".") else within,
                    inside,
                )
            yield from _walk(part, within, inside)


def _is_left_out(part: ast.AST, parent: ast.AST) -> bool:
    if isinstance(part, ast.Import | ast.ImportFrom | ast.Assert):
        return True
    if isinstance(part, _FUNCTIONS) and _is_harmful(part):
        return True
    if isinstance(part, ast.If) and "TYPE_CHECKING" in ast.unparse(part.test):
        return True
    if isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) in ("__all__", "__slots__"):
        return True
    if isinstance(part, ast.Assign) and isinstance(parent, ast.Module):
        # A name for a type.
        return isinstance(part.value, ast.Subscript)
    # Wording: docstrings, and what is said in an error.
    if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
        return True
    return isinstance(parent, ast.JoinedStr) and isinstance(part, ast.Constant)


def _changes(
    node: ast.AST, parent: ast.AST, field: str
) -> Iterator[tuple[str, Callable[[], ast.AST | None]]]:
    """What a node may become, each with the name of its kind."""
    match node:
        case ast.Compare(left=left, ops=[first, *rest], comparators=right):
            for other in _COMPARED[type(first)]:
                yield (
                    "comparison",
                    lambda other=other: ast.Compare(left, [other(), *rest], right),
                )
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _COMPUTED:
            yield "arithmetic", lambda: ast.BinOp(left, _COMPUTED[type(op)](), right)
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in _COMPUTED:
            yield (
                "arithmetic",
                lambda: ast.AugAssign(target, _COMPUTED[type(op)](), value),
            )
        case ast.BoolOp(op=op, values=values):
            other = ast.Or if isinstance(op, ast.And) else ast.And
            yield "and/or", lambda: ast.BoolOp(other(), values)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield "not", lambda: operand
        case ast.Constant(value=bool(value)):
            yield "constant", lambda: ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield "constant", lambda: ast.Constant(value + 1)
        case ast.Constant(value=float(value)):
            yield "constant", lambda: ast.Constant(value * 2 + 1.0)
        case ast.Constant(value=str(value)) if not _is_wording(value, parent):
            yield "text", lambda: ast.Constant(f"{value}XX" if value else "XX")
        case ast.Constant(value=bytes(value)):
            yield "text", lambda: ast.Constant(value + b"X")
        case ast.Return(value=value) if value is not None and not _is_none(value):
            yield "return", lambda: ast.Return(ast.Constant(None))
        case ast.Assign(targets=targets, value=value) if not _is_none(value):
            yield "assignment", lambda: ast.Assign(targets, ast.Constant(None))
        case ast.Expr(value=ast.Call()):
            yield "call left out", ast.Pass
        case ast.Raise() if not isinstance(parent, ast.ExceptHandler):
            yield "raise left out", ast.Pass
        case ast.Break():
            yield "jump", ast.Continue
        case ast.Continue():
            yield "jump", ast.Break
        case ast.ExceptHandler(type=caught, name=name, body=body) if not isinstance(
            body[0], ast.Raise
        ):
            yield "handler", lambda: ast.ExceptHandler(caught, name, [ast.Raise(), *body])
        case ast.Slice(lower=lower, upper=upper, step=step):
            if lower is not None:
                yield "slice", lambda: ast.Slice(None, upper, step)
            if upper is not None:
                yield "slice", lambda: ast.Slice(lower, None, step)
        case ast.expr() if field == "test" and isinstance(
            node, ast.Name | ast.Attribute | ast.Call | ast.Subscript
        ):
            yield "not", lambda: ast.UnaryOp(ast.Not(), node)
        case ast.keyword(arg=str()) if isinstance(parent, ast.Call) and not _says(parent):
            yield "argument left out", lambda: None


def _is_none(value: ast.AST) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _is_wording(text: str, parent: ast.AST) -> bool:
    """Whether a text is said to people: in an error, or in some words."""
    is_said = isinstance(parent, ast.Call) and _says(parent)
    return is_said or re.search(r"\w \w+ \w", text) is not None


def _says(call: ast.Call) -> bool:
    name = ast.unparse(call.func).rpartition(".")[2]
    return name.endswith(("Error", "Warning", "warn")) or name in ("_check", "warning")
