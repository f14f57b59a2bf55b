"""Where in a line of source the call is that made a node."""

from __future__ import annotations

import ast
import re

from tfdbg_cli.dumps.sources import Frame

__all__ = ["call_in"]


def call_in(text: str, frame: Frame, op_type: str) -> tuple[int, int]:
    """The characters of a line that made a node; the whole line where that isn't known.

    Of a method of a long expression it is the method alone, and of an operator its sign.

    Args:
        text: the line, as it is in the file.
        frame: whose line it is.
        op_type: of the node: where the frame has no columns, the one word of that name counts.
    """
    whole = len(text) - len(text.lstrip()), len(text.rstrip())
    if frame.columns is None:
        words = [*re.finditer(rf"(?i)(?<![a-z]){re.escape(op_type)}(?![a-z])", text)]
        return words[0].span() if len(words) == 1 and op_type else whole
    # Python counts in bytes; a call that goes on in the next line has no end in this one.
    first, last = (len(text.encode()[:at].decode(errors="replace")) for at in frame.columns)
    found = _operator(text[first:last])
    start, end = first + found[0], first + found[1]
    return (start, end) if whole[0] <= start < end <= whole[1] else whole


def _operator(text: str) -> tuple[int, int]:
    """What an expression does last: its function or method, with the arguments, or its operator."""
    try:
        found = ast.parse(f"({text})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0, len(text)

    def column(at: int) -> int:
        return len(text.encode()[: at - 1].decode(errors="replace"))  # there is a bracket before it

    if isinstance(found, ast.BinOp):
        between = column(found.left.end_col_offset or 0), column(found.right.col_offset)
        sign = text[slice(*between)].strip(" ()")
        start = text.find(sign, between[0])
        return start, start + len(sign)
    if isinstance(found, ast.Call) and isinstance(found.func, ast.Attribute):
        owner = found.func.value
        while isinstance(owner, ast.Attribute):
            owner = owner.value
        if not isinstance(owner, ast.Name):
            return column((found.func.end_col_offset or 0) - len(found.func.attr)), len(text)
    return 0, len(text)
