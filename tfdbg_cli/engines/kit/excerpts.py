"""A stretch of a function's statements, cut out of its source so that it can be run once more."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any

from tfdbg_cli.dumps.source_text import live_source
from tfdbg_cli.engines.kit.statements import (
    OPTIMIZED,
    SCOPES,
    codes_in,
    compile_quietly,
    compile_statements,
    declared_global,
    own_nodes,
    with_scopes,
)
from tfdbg_cli.engines.kit.variables import Variables, uses_of

__all__ = ["Excerpt", "Refused", "excerpt"]

_WAITING = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)
# A loop of one round: `continue` and `break` of a loop around the statements end them.
_ONCE = "for [] in [()]: pass"


class Refused(Exception):
    """Why something can't be run again: a clause, to follow a colon."""


@dataclass(frozen=True)
class Excerpt:
    """Statements of a function or module, ready to be run.

    Those of a function run in one of their own, with the same names: what they bind is not bound
    in the original. Those of a module run in its namespace, which is put back.

    Attributes:
        first_line, last_line: where they are in their file.
        repeats: the first instruction is in a loop of theirs.
        variables: what they read and set.
    """

    first_line: int
    last_line: int
    repeats: bool
    variables: Variables
    _code: CodeType
    _is_module: bool

    @property
    def lines(self) -> str:
        """``line 7`` or ``lines 7-9``."""
        if self.first_line == self.last_line:
            return f"line {self.first_line}"
        return f"lines {self.first_line}-{self.last_line}"

    def run(self, frame: FrameType, kept: Mapping[str, Any], made: dict[str, Any]) -> None:
        """Run the statements.

        Args:
            frame: the frame that is in the middle of them.
            kept: what those of `variables.carried` that were bound held when they began.
            made: gets what they have bound, also when they raise.

        Raises:
            Refused: they would use up an iterator of the program's.
            BaseException: whatever they raise.
        """
        space = frame.f_locals
        variables = self.variables
        values = {name: space[name] for name in variables.names if name in space}
        for name in variables.carried:
            values.pop(name, None)
            if name in kept:
                values[name] = kept[name]
        for name in variables.iterated:
            if hasattr(values.get(name), "__next__"):
                raise Refused(f"{self.lines} take what comes next of {name}")
        shared = frame.f_globals
        before = dict(shared)
        try:
            if self._is_module:
                for name in variables.carried - values.keys():
                    space.pop(name, None)
                space.update(values)
                exec(self._code, shared, space)
            else:
                self._call(shared, values, made)
        finally:
            if self._is_module:
                made.update((name, space[name]) for name in variables.stored if name in space)
            for name in shared.keys() - before.keys():
                del shared[name]
            shared.update(before)

    def _call(
        self, shared: dict[str, Any], values: Mapping[str, Any], made: dict[str, Any]
    ) -> None:
        code = self._code
        cells = tuple(
            CellType(values[name]) if name in values else CellType() for name in code.co_freevars
        )
        try:
            FunctionType(code, shared, code.co_name, None, cells)()
        finally:
            for name, cell in zip(code.co_freevars, cells, strict=True):
                if name in self.variables.stored:
                    with contextlib.suppress(ValueError):  # it is empty
                        made[name] = cell.cell_contents


def excerpt(code: CodeType, first: int, last: int) -> Excerpt:
    """The whole statements from one instruction to another.

    Args:
        code: of a function or module.
        first: offset of the instruction in the first statement (``f_lasti``).
        last: offset of the one in the last statement.

    Raises:
        Refused: there is no such stretch, or it must not be run twice.
    """
    scope, owner = _source_of(code)
    is_module = isinstance(scope, ast.Module)
    statements = _stretch(scope.body, _place(code, first), _place(code, last))
    for node in own_nodes(statements):
        if isinstance(node, _WAITING):
            raise Refused("the lines hand over to other code in between (yield or await)")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if called in ("next", "__next__", "input"):
                raise Refused(f"line {node.lineno} calls {called}()")
    first_line, last_line = statements[0].lineno, statements[-1].end_lineno
    repeats = _is_in_loop(statements[0], _place(code, first))
    owned = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    receiver = code.co_varnames[0] if code.co_argcount else ""
    variables = uses_of(statements, None if is_module else owned, receiver, owner)
    loop = ast.parse(_ONCE).body[0]
    assert isinstance(loop, ast.For)
    loop.body = statements
    ast.copy_location(loop, statements[0])
    try:
        made = compile_statements([loop], code, owner, declared_global(scope))
    except SyntaxError as error:
        raise Refused(f"the lines don't stand alone ({error.msg})") from None
    return Excerpt(first_line, last_line or first_line, repeats, variables, made, is_module)


def _source_of(code: CodeType) -> tuple[Any, str]:
    """The function or module that is the source of a code object, and the class around it."""
    name = code.co_name
    found = live_source(code.co_filename)
    if found is None:
        raise Refused(f"there is no source text of {code.co_filename}")
    text = "\n".join(found.lines) + "\n"
    try:
        tree = ast.parse(text)
        whole = compile_quietly(tree, code.co_filename)
    except (SyntaxError, ValueError):
        raise Refused(f"the source text of {code.co_filename} is not plain Python") from None
    if code.co_flags & OPTIMIZED:
        scopes = [
            (node, owner)
            for node, owner, _ in with_scopes(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name == name
            and _first_line(node) == code.co_firstlineno
        ]
        codes = [made for made in codes_in(whole) if made.co_name == name]
        if scopes and any(made.co_code == code.co_code for made in codes):
            return scopes[0]
    elif name == "<module>" or name.startswith("<cell"):
        # A notebook compiles the statements of a cell one by one.
        for part in (tree, *(ast.Module([node], []) for node in tree.body)):
            if compile_quietly(part, code.co_filename).co_code == code.co_code:
                return part, ""
    if name.startswith("<") and name != "<module>":
        raise Refused(f"the calls are in a {name.strip('<>')}")
    raise Refused(f"{code.co_filename} has changed since it was read")


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([node.lineno, *(item.lineno for item in node.decorator_list)])


def _place(code: CodeType, offset: int) -> tuple[int, int | None]:
    """Line and column of an instruction."""
    for index, (line, _, column, _) in enumerate(code.co_positions()):
        if 2 * index == offset and line is not None:
            return line, column
    raise Refused(f"nobody knows which line of {code.co_name} it was")


def _stretch(
    body: list[ast.stmt], first: tuple[int, int | None], last: tuple[int, int | None]
) -> list[ast.stmt]:
    """The statements from one place to another, in the innermost block that holds both."""
    while True:
        start, end = _index(body, first), _index(body, last)
        if start is None or end is None:
            raise Refused("the lines can't be told from the source text")
        if start > end:
            raise Refused(
                f"the backward pass (line {last[0]}) comes before the forward call "
                f"(line {first[0]}) of the iteration before"
            )
        inner = next(
            (
                block
                for block in _blocks(body[start])
                if start == end and _index(block, first) is not None is not _index(block, last)
            ),
            None,
        )
        if inner is None:
            return body[start : end + 1]
        body = inner


def _index(body: Sequence[ast.stmt | ast.expr], place: tuple[int, int | None]) -> int | None:
    line, column = place
    for index, node in enumerate(body):
        end, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        if column is None:
            if node.lineno <= line <= end:
                return index
        elif (node.lineno, node.col_offset) <= (line, column) < (end, end_column):
            return index
    return None


def _is_in_loop(node: ast.stmt, place: tuple[int, int | None]) -> bool:
    """Whether a place in a statement is inside a loop inside it."""
    loops = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    return any(
        isinstance(part, loops) and _index([part], place) is not None for part in ast.walk(node)
    )


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements directly inside a statement."""
    if isinstance(node, SCOPES):
        return
    for _, value in ast.iter_fields(node):
        if isinstance(value, list) and value:
            if isinstance(value[0], ast.stmt):
                yield value
            elif isinstance(value[0], ast.ExceptHandler | ast.match_case):
                yield from (item.body for item in value)
