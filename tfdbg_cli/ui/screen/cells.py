"""Pieces of text to rows of terminal cells: clipped by columns, with attributes and targets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import urwid

__all__ = ["Cells", "Segment", "Target", "canvas_of", "clip", "text_width"]


class Target(NamedTuple):
    """What a click does.

    Attributes:
        kind: ``command`` (of the debugger), ``action`` (of the key table), ``answer`` (to a
            question) or ``candidate`` (of a completion).
        value: which one.
    """

    kind: str
    value: str


class Segment(NamedTuple):
    """A piece of text with the name of its attribute and, if it can be clicked, a target."""

    text: str
    attribute: str = "text"
    target: Target | None = None


class Cells(NamedTuple):
    """One row of the screen.

    Attributes:
        data: the text in the terminal's encoding, exactly as wide as was asked for.
        runs: attribute names with lengths in bytes of ``data``.
        targets: ``(first column, column behind, target)``.
        more: whether the text goes on behind the right edge.
    """

    data: bytes
    runs: list[tuple[str, int]]
    targets: list[tuple[int, int, Target]]
    more: bool

    def target_at(self, column: int) -> Target | None:
        """What a click in a column does."""
        for first, behind, target in self.targets:
            if first <= column < behind:
                return target
        return None


def text_width(text: str) -> int:
    """The columns that a text takes."""
    return len(text) if text.isascii() else urwid.calc_width(text, 0, len(text))


def _cut(text: str, first: int, behind: int) -> tuple[str, int, bool]:
    """The part of a text in columns ``first`` to ``behind - 1``, padded where a wide one is cut.

    Returns:
        The part, the columns up to its end (``behind`` at most), whether there is more.
    """
    if text.isascii():
        return text[first:behind], min(len(text), behind), len(text) > behind
    size = len(text)
    begin, column = urwid.calc_text_pos(text, 0, size, first)
    padding = ""
    if column < first and begin < size:
        begin = urwid.move_next_char(text, begin, size)
        _, column = urwid.calc_text_pos(text, 0, begin, behind)
        padding = " " * min(column - first, behind - first)
    if column >= behind:
        return padding, behind, begin < size
    end, taken = urwid.calc_text_pos(text, begin, size, behind - column)
    if end >= size:
        return padding + text[begin:end], column + taken, False
    # A wide character that doesn't fit leaves one column free.
    part = padding + text[begin:end] + " " * (behind - column - taken)
    return part, behind, True


def _encodable(text: str, encoding: str) -> str:
    return text.encode(encoding, "replace").decode(encoding)


def clip(segments: Iterable[Segment], left: int, width: int, fill: str = "text") -> Cells:
    """The part of a row of segments that a window of columns shows.

    Args:
        segments: the row, from column 0.
        left: the first column of the window.
        width: the columns of the window.
        fill: the attribute behind the end of the text.
    """
    encoding = urwid.util.get_encoding()
    pieces: list[bytes] = []
    runs: list[tuple[str, int]] = []
    targets: list[tuple[int, int, Target]] = []
    column, more, plain = 0, False, True
    right = left + width
    for segment in segments:
        if column >= right:
            more = more or bool(segment.text)
            break
        text = segment.text
        if not text.isascii():
            text = _encodable(text, encoding)
            plain = False
        part, end, more = _cut(text, max(left - column, 0), right - column)
        end += column
        if part:
            data = part.encode(encoding)
            pieces.append(data)
            if runs and runs[-1][0] == segment.attribute:
                runs[-1] = (segment.attribute, runs[-1][1] + len(data))
            else:
                runs.append((segment.attribute, len(data)))
            if segment.target is not None:
                targets.append((max(column, left) - left, end - left, segment.target))
        column = end
        if more:
            break
    data = b"".join(pieces)
    # Characters that combine across segments make the whole narrower than its parts.
    shown = len(data) if plain else urwid.calc_width(data, 0, len(data))
    if shown < width:
        data += b" " * (width - shown)
        runs.append((fill, width - shown))
    return Cells(data, runs, targets, more)


def canvas_of(
    rows: Sequence[Cells], width: int, cursor: tuple[int, int] | None = None
) -> urwid.TextCanvas:
    """One canvas of rows that are ``width`` columns wide each.

    Args:
        rows: from the top.
        width: the columns.
        cursor: ``(column, row)``; ``None``: hidden.
    """
    return urwid.TextCanvas(
        [row.data for row in rows],
        [list(row.runs) for row in rows],
        cursor=cursor,
        maxcol=width,
        check_width=False,
    )
