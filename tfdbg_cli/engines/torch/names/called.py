"""What the program has written to have an op done, read from its source where somebody asks."""

from __future__ import annotations

import ast
import functools
from types import CodeType

from tfdbg_cli.dumps.source_text import live_source
from tfdbg_cli.engines.kit.stacks import DEBUGGER, Stack, kind_of
from tfdbg_cli.engines.torch.private import API_FILES

__all__ = ["called_as", "expression_at"]

_LONGEST = 40


def called_as(stack: Stack) -> str:
    """The function or operator that led to an op: ``F.softmax``, ``q @ k``; empty: nobody knows.

    Args:
        stack: of the op.
    """
    for code, position in stack.pairs():
        if kind_of(code) != DEBUGGER and code.co_filename not in API_FILES:
            found = expression_at(code, position)
            return _short(found.func if isinstance(found, ast.Call) else found) if found else ""
    return ""


def expression_at(code: CodeType, position: int) -> ast.AST | None:
    """The expression, or augmented assignment, whose value an instruction computes."""
    return _expression(code.co_filename, code, position)


@functools.lru_cache(maxsize=10_000)
def _expression(path: str, code: CodeType, position: int) -> ast.AST | None:
    # The path is an argument of its own, as codes are equal whatever their files.
    places = [*code.co_positions()]
    at = position // 2
    text = _text(path, *places[at]) if 0 <= at < len(places) else ""
    try:
        (statement,) = ast.parse(f"({text})" if "\n" in text else text).body
    except (SyntaxError, ValueError):
        return None
    return statement.value if isinstance(statement, ast.Expr) else statement


def _short(node: ast.AST) -> str:
    text = ast.unparse(node)
    if len(text) <= _LONGEST:
        return text
    if isinstance(node, ast.Attribute):  # a method of an expression
        return f"(…).{node.attr}"
    if isinstance(node, ast.BinOp):
        return ast.unparse(ast.BinOp(ast.Name("…"), node.op, ast.Name("…")))
    return ""


def _text(
    path: str, line: int | None, last: int | None, column: int | None, end: int | None
) -> str:
    """A piece of a source file; its columns are bytes."""
    if line is None or last is None or column is None or end is None:
        return ""
    source = live_source(path)
    lines = source.lines if source is not None else []
    found = [each.encode() for each in lines[line - 1 : last]]
    if not found:
        return ""
    found[-1] = found[-1][:end]
    found[0] = found[0][column:]
    return b"\n".join(found).decode(errors="replace")
