"""Cutting long output into screenfuls, for the UIs that print on a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

from tfdbg_cli.common.documents import Line

__all__ = ["rows_of", "screenfuls"]


def _width(text: str) -> int:
    """The columns of a text; wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )


def rows_of(made: Line, columns: int) -> int:
    """How many rows a terminal of so many columns needs for a line, which it wraps."""
    return max(-(-_width(made.text) // columns), 1)


def screenfuls(lines: Iterable[Line], rows: int, columns: int) -> Iterator[list[Line]]:
    """Cut lines into blocks that fit on a screen; each has a line, however long that is.

    Args:
        lines: taken one beyond the block that is yielded, never further.
        rows: of the screen.
        columns: of the screen; longer lines take several rows.
    """
    block: list[Line] = []
    taken = 0
    for made in lines:
        needed = rows_of(made, columns)
        if block and taken + needed > rows:
            yield block
            block, taken = [], 0
        block.append(made)
        taken += needed
    if block:
        yield block
