"""Pieces of text to rows of terminal cells: clipped by columns, with attributes and targets."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import urwid

from tfdbg_cli.common.printable import printable

__all__ = [
    "Cells",
    "Look",
    "Segment",
    "Target",
    "canvas_of",
    "clip",
    "is_utf8",
    "joined",
    "shortened",
    "text_width",
]


#: Of a piece of text: an entry of the palette, colours of its own, or one over the other.
Look = str | urwid.AttrSpec | urwid.LayeredAttr


class Target(NamedTuple):
    """What a click does.

    Attributes:
        kind: ``command`` (of the debugger), ``action`` (of the key table), ``answer`` (to a
            question), ``candidate`` (of a completion) or ``entry`` (of the list of commands).
        value: which one.
    """

    kind: str
    value: str


class Segment(NamedTuple):
    """A piece of text with its look and, if it can be clicked, a target."""

    text: str
    attribute: Look = "text"
    target: Target | None = None


class Cells(NamedTuple):
    """One row of the screen.

    Attributes:
        data: the text in the terminal's encoding, exactly as wide as was asked for.
        runs: attributes with lengths in bytes of ``data``.
        targets: ``(first column, column behind, target)``.
        more: whether the text goes on behind the right edge.
    """

    data: bytes
    runs: list[tuple[Look, int]]
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


def _encodable(text: str, encoding: str) -> str:
    """A text that the terminal can show: no joiners that join nothing.

    What is typed may hold anything, and takes a column for each character.
    """
    text = text.encode(encoding, "replace").decode(encoding).replace("\u200d", "")
    if printable(text) == text:
        return text
    return "".join(["?" if printable(each) != each else each for each in text])


def is_utf8(encoding: str) -> bool:
    """Whether that is UTF-8, which has all characters."""
    return encoding.lower().replace("-", "") == "utf8"


class _Window(NamedTuple):
    """Which characters a window of columns shows, and the blanks where wide ones are cut."""

    begin: int
    end: int
    before: int
    more: bool


def _window(text: str, left: int, width: int) -> _Window:
    size = len(text)
    if text.isascii():
        return _Window(min(left, size), min(left + width, size), 0, size > left + width)
    begin, column = urwid.calc_text_pos(text, 0, size, left)
    before = 0
    if column < left and begin < size:  # the left half of a wide character is cut off
        begin = urwid.move_next_char(text, begin, size)
        before = min(1, width)
    end, _ = urwid.calc_text_pos(text, begin, size, width - before)
    return _Window(begin, end, before, end < size)


def shortened(text: str, width: int) -> str:
    """A text, or as much of it as there is room for, and a sign that it goes on."""
    if text_width(text) <= width:
        return text
    end, _ = urwid.calc_text_pos(text, 0, len(text), max(width - 1, 0))
    return text[:end] + "…"


def joined(left: Cells, width: int, right: Cells) -> Cells:
    """Two rows, the left one so wide."""
    shifted = [(first + width, behind + width, target) for first, behind, target in right.targets]
    return Cells(left.data + right.data, left.runs + right.runs, left.targets + shifted, right.more)


def clip(
    segments: Sequence[Segment],
    left: int,
    width: int,
    fill: str = "text",
    marker: Segment | None = None,
) -> Cells:
    """The part of a row of segments that a window of columns shows.

    Args:
        segments: the row, from column 0.
        left: the first column of the window.
        width: the columns of the window.
        fill: the attribute behind the end of the text.
        marker: takes the last column if the text goes on behind it.
    """
    encoding = urwid.util.get_encoding()
    # Characters may combine across segments: columns are counted over the whole row.
    text = "".join([segment.text for segment in segments])
    if not (text.isprintable() and (text.isascii() or is_utf8(encoding))):
        segments = [s._replace(text=_encodable(s.text, encoding)) for s in segments]
        text = "".join([segment.text for segment in segments])
    window = _window(text, left, width)
    marked = marker is not None and window.more and width > 1
    if marked:
        width -= 1
        window = _window(text, left, width)
    data = b" " * window.before
    runs: list[tuple[Look, int]] = [(fill, window.before)] if window.before else []
    targets: list[tuple[int, int, Target]] = []
    at = 0
    for segment in segments:
        first, behind = max(at, window.begin), min(at + len(segment.text), window.end)
        if first < behind:
            part = segment.text[first - at : behind - at].encode(encoding)
            data += part
            runs.append((segment.attribute, len(part)))
            if segment.target is not None:
                column = window.before + text_width(text[window.begin : first])
                end = window.before + text_width(text[window.begin : behind])
                targets.append((column, end, segment.target))
        at += len(segment.text)
        if at >= window.end:
            break
    blanks = width - window.before - text_width(text[window.begin : window.end])
    if blanks > 0:
        data += b" " * blanks
        runs.append((fill, blanks))
    if marked and marker is not None:
        data += marker.text.encode(encoding)
        runs.append((marker.attribute, len(marker.text)))
    return Cells(data, runs, targets, window.more)


_Run = tuple[Hashable, Literal["0", "U"] | None, bytes]


class _RowsCanvas(urwid.TextCanvas):
    """A canvas that is asked for all of it at once, and has all in pieces: a picture has thousands.

    Args:
        rows: from the top.
        width: the columns.
        cursor: ``(column, row)``; ``None``: hidden.
    """

    def __init__(
        self, rows: Sequence[Cells], width: int, cursor: tuple[int, int] | None = None
    ) -> None:
        super().__init__(cursor=cursor, maxcol=width, check_width=False)
        self._text = [row.data for row in rows]
        self._rows = rows

    def content(
        self,
        trim_left: int = 0,
        trim_top: int = 0,
        cols: int = 0,
        rows: int = 0,
        attr: Mapping[Hashable, Hashable] | None = None,
    ) -> Iterator[list[_Run]]:
        """The rows, each as ``(attribute, None, text)``: those of the whole screen."""
        for row in self._rows:
            pieces: list[_Run] = []
            at = 0
            for attribute, size in row.runs:
                pieces.append((attribute, None, row.data[at : at + size]))
                at += size
            yield pieces


def canvas_of(
    rows: Sequence[Cells], width: int, cursor: tuple[int, int] | None = None
) -> urwid.TextCanvas:
    """One canvas of rows that are ``width`` columns wide each.

    Args:
        rows: from the top.
        width: the columns.
        cursor: ``(column, row)``; ``None``: hidden.
    """
    return _RowsCanvas(rows, width, cursor)
