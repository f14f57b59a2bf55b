"""The ``with`` block that a frame is entering: found in the source and looked at."""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType

from tfdbg_cli.common.interpreter.unwarned import unwarned
from tfdbg_cli.dumps.sources import user_frame
from tfdbg_cli.tracing.asked import asked_for
from tfdbg_cli.tracing.errors import TraceBlockError, WithBlockNotFoundError
from tfdbg_cli.tracing.source import sources
from tfdbg_cli.tracing.statements import SCOPES, declared_global, own_nodes, with_scopes

__all__ = [
    "CAN_DELETE",
    "Block",
    "blocks_of",
    "not_found",
    "refusal",
    "refuse",
]

_LOOPS = (ast.For, ast.While)
_WAITING = {
    ast.Await: "await",
    ast.AsyncFor: "async for",
    ast.AsyncWith: "async with",
    ast.Yield: "yield",
    ast.YieldFrom: "yield from",
}
#: Whether a variable of a running function can be deleted from outside.
CAN_DELETE = sys.version_info < (3, 12)
_AROUND = 5
_ONLY_WITH = (
    "the block can't be entered in another way. A function may make the trace: "
    "`return tfdbg_cli.trace(...)`, and `with` its result."
)
# Since Python 3.14 the special methods are loaded one by one, at the place of the expression.
_ENTERING = "BEFORE_WITH"


@dataclass(frozen=True)
class Block:
    """A ``with`` block in its source.

    Attributes:
        statements: its body; where the ``with`` has more items, a ``with`` of those.
        target: what comes after ``as``, if anything does.
        names: the variables that hold the tracer, or what else it is called: ``self.t``.
        owner: the class around it, with which private names are spelled out; or empty.
        declared: the names that the function around it has declared ``global``.
        lines: of the whole source.
        asked: the tensors that it asks for; ``None``: that can't be told.
    """

    statements: Sequence[ast.stmt]
    target: ast.expr | None
    names: frozenset[str]
    owner: str
    declared: frozenset[str]
    lines: Sequence[str]
    asked: frozenset[str] | None


def blocks_of(frame: FrameType) -> Iterator[Block]:
    """The ``with`` blocks that a frame may be entering, one for each text that may be its source.

    Args:
        frame: suspended in a call of ``__enter__``.
    """
    seen: list[Sequence[str]] = []
    for lines in sources(frame):
        if lines not in seen:
            seen.append(lines)
            tree = _parsed("\n".join(lines) + "\n")
            if tree is not None:
                found = _find(tree, frame, lines)
                if found is not None:
                    yield found


def not_found(frame: FrameType, found: Block | None) -> WithBlockNotFoundError:
    """The error that says why a block can't be used.

    Args:
        frame: the one that enters it.
        found: a block in a text that isn't what runs; ``None``: there was none.
    """
    entering = frame.f_code
    if found is None:  # a library's function that was called to enter it: the call is the user's
        frame = user_frame(frame) or frame
    code, line = frame.f_code, frame.f_lineno
    where = f"{code.co_filename}, line {line}, in {code.co_name}"
    lines = next(iter(sources(frame)), None)
    if lines is None:
        return WithBlockNotFoundError(
            f"The source of this trace block isn't known: {where}.",
            "Compile the text under a name of its own and make it known: "
            "linecache.cache[name] = (len(text), None, text.splitlines(True), name). "
            "Or use `for t in tfdbg_cli.runs(...)`, which needs no source.",
        )
    shown = _around(lines, line)
    if found is not None:
        why = "The source has changed since it was compiled: this is not the trace block that runs"
        hint = "Load it again."
    elif _parsed("\n".join(lines) + "\n") is None:
        why, hint = "The source of the trace block is not plain Python", ""
    else:
        why = "There is no `with` statement that enters a trace block here"
        if entering is not code:
            why = (
                f"A trace block is entered by {entering.co_name}() here, not by a `with` statement"
            )
        hint = f"Write `with tfdbg_cli.trace(...) as t:`; {_ONLY_WITH}"
    return WithBlockNotFoundError(f"{why}: {where}.\n{shown}\n{hint}".rstrip())


def _around(lines: Sequence[str], line: int) -> str:
    """The lines around one, numbered."""
    if line > len(lines):
        return f"  (the text has {len(lines)} lines only)"
    first, last = max(1, line - _AROUND), min(len(lines), line + _AROUND)
    return "\n".join(
        f"{number:6}  {lines[number - 1]}{'  <--- HERE' if number == line else ''}"
        for number in range(first, last + 1)
    )


@functools.lru_cache(maxsize=16)
def _parsed(text: str) -> ast.Module | None:
    try:
        with unwarned():
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _find(tree: ast.Module, frame: FrameType, lines: Sequence[str]) -> Block | None:
    """The item of a ``with`` statement that a frame is at."""
    code = frame.f_code
    positions = list(code.co_positions())
    at = frame.f_lasti // 2
    place = positions[at]
    line, column = place[0], place[2]
    for node, owner, function in with_scopes(tree):
        if isinstance(node, ast.With):
            for index, item in enumerate(node.items):
                if column is None:
                    matches = line in (node.lineno, item.context_expr.lineno)
                elif _span(node) == place:
                    matches = index == _which(code, at) % len(node.items)
                else:
                    matches = place in (_span(item.context_expr), _rest(node, index))
                if matches and _names(function, code):
                    return _block(node, index, owner, function, lines)
    return None


def _span(node: ast.expr | ast.stmt) -> tuple[int, int | None, int, int | None]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _rest(node: ast.With, index: int) -> tuple[int, int | None, int, int | None]:
    """The place of an item and all that follows it: a statement of its own in our own code."""
    item = node.items[index].context_expr
    return item.lineno, node.end_lineno, item.col_offset, node.end_col_offset


def _which(code: CodeType, at: int) -> int:
    """How many items of the same statement are entered by earlier instructions.

    All have the statement's place. A ``finally`` is compiled twice, so there may be more of them
    than items.
    """
    positions = list(code.co_positions())
    return sum(
        1
        for instruction in dis.get_instructions(code)
        if instruction.opname == _ENTERING
        and instruction.offset // 2 < at
        and positions[instruction.offset // 2] == positions[at]
    )


def _names(scope: ast.AST, code: CodeType) -> bool:
    """Whether code has the name of a scope; that of a notebook's cell may be ``<cell line: 1>``."""
    if isinstance(scope, ast.Module):
        return code.co_name.startswith("<")
    return getattr(scope, "name", "") == code.co_name


def _block(
    node: ast.With, index: int, owner: str, function: ast.AST, lines: Sequence[str]
) -> Block:
    item = node.items[index]
    body: Sequence[ast.stmt] = node.body
    if index + 1 < len(node.items):
        rest = ast.With(node.items[index + 1 :], node.body)
        place = _rest(node, index + 1)
        rest.lineno, rest.end_lineno, rest.col_offset, rest.end_col_offset = place
        body = [rest]
    names = {
        ast.unparse(part)
        for part in (item.context_expr, item.optional_vars)
        if isinstance(part, ast.Name | ast.Attribute | ast.Subscript)
    }
    if isinstance(item.context_expr, ast.NamedExpr):
        names.add(item.context_expr.target.id)
    tracer, declared = frozenset(names), declared_global(function)
    asked = asked_for(body, tracer, function)
    return Block(body, item.optional_vars, tracer, owner, declared, lines, asked)


def refuse(block: Block, frame: FrameType) -> None:
    """Look for statements that a block can't have.

    Args:
        block: what to look at.
        frame: that it is in.

    Raises:
        TraceBlockError: one would leave the block, hand over to other code within it, or delete a
            variable of the function around it where that can't be done.
    """
    code = frame.f_code
    _refuse_leaving(block, frame)
    if code.co_flags & inspect.CO_OPTIMIZED and not CAN_DELETE:
        names = [node for node in own_nodes(block.statements) if isinstance(node, ast.Name)]
        made = {node.id for node in names if isinstance(node.ctx, ast.Store)} | block.declared
        for node in names:
            if isinstance(node.ctx, ast.Del) and node.id not in made:
                message = (
                    f"This Python can't delete {node.id} of {code.co_name} from a trace block."
                )
                hint = "Delete it after the block."
                raise refusal(node, message, hint, block, code.co_filename)


def _refuse_leaving(block: Block, frame: FrameType) -> None:
    pending: list[tuple[ast.AST, bool]] = [(node, False) for node in reversed(block.statements)]
    while pending:
        node, in_loop = pending.pop()
        word = ""
        if isinstance(node, ast.Return):
            word = "return"
        elif isinstance(node, ast.Break | ast.Continue) and not in_loop:
            word = "break" if isinstance(node, ast.Break) else "continue"
        elif type(node) in _WAITING:
            word = _WAITING[type(node)]
        elif isinstance(node, ast.comprehension) and node.is_async:
            word = "async for"
        if word:
            raise _refusal_to_leave(word, node, block, frame)
        if isinstance(node, SCOPES):
            continue
        for field, value in ast.iter_fields(node):
            children = value if isinstance(value, list) else [value]
            # The `else` of a loop is no part of it.
            inside = in_loop or (isinstance(node, _LOOPS) and field == "body")
            pending += [(child, inside) for child in children if isinstance(child, ast.AST)]


def _refusal_to_leave(word: str, node: ast.AST, block: Block, frame: FrameType) -> TraceBlockError:
    if word in ("return", "break", "continue"):
        message = f"`{word}` would leave the trace block, which belongs to the run."
        hint = "Let the block end first, or end the run by t.stop()."
    else:
        message = f"`{word}` would let other code run in the middle of the trace block."
        hint = _without_manager(frame) or "Do it before the block or after it."
    return refusal(node, message, hint, block, frame.f_code.co_filename)


def _without_manager(frame: FrameType) -> str:
    """What to write in place of a function of ``contextlib.contextmanager``; empty: it is none."""
    caller = frame.f_back
    if caller is None or caller.f_globals.get("__name__") != "contextlib":
        return ""
    name, at = frame.f_code.co_name, user_frame(caller)
    where = f" ({at.f_code.co_filename}, line {at.f_lineno})" if at is not None else ""
    return (
        f"`with {name}(...)`{where} can have the block itself: let {name} "
        "`return tfdbg_cli.trace(...)`, without @contextmanager."
    )


def refusal(node: ast.AST, message: str, hint: str, block: Block, filename: str) -> TraceBlockError:
    """The error that refuses a block because of one of its statements.

    Args:
        node: what is refused.
        message, hint: what is wrong, and what to do.
        block: it is in.
        filename: of the source.
    """
    line = getattr(node, "lineno", 0) or block.statements[0].lineno  # a comprehension has none
    column = getattr(node, "col_offset", 0)
    text = block.lines[line - 1] if line <= len(block.lines) else ""
    return TraceBlockError(message, hint, filename, line, column, text)
