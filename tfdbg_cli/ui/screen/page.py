"""The page: the visible lines of a View as rows of cells, and the scroll bar beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import urwid

from tfdbg_cli.documents import Line
from tfdbg_cli.ui.screen.cells import Cells, Segment, Target, clip
from tfdbg_cli.ui.screen.view import LinkPlace, View

__all__ = ["page_rows", "thumb"]

# In a longer line, matches are marked only as far as they can be seen.
_LONG_LINE = 10_000


def thumb(view: View) -> tuple[int, int]:
    """First row and length of the scroll bar's thumb; length 0: everything is visible."""
    count, height = view.document.line_count, view.height
    if count <= height or height < 1:
        return 0, 0
    length = max(height * height // count, 1)
    return round(view.top / view.last_top * (height - length)), length


def page_rows(view: View) -> list[Cells]:
    """The rows of the page, ``view.height`` of them, ``view.width`` columns each.

    Only the visible lines are asked of the Document. The last column is the scroll bar's; a line
    that goes on to the right ends in ``>``.
    """
    unicode = urwid.util.get_encoding().lower().replace("-", "") == "utf8"
    track, block = ("│", "█") if unicode else ("|", "#")
    first, length = thumb(view)
    focused = view.focused_link()
    lines = view.visible()
    width = view.width - 1
    rows: list[Cells] = []
    for row in range(view.height):
        number = view.top + row
        segments: list[Segment] = []
        if row < len(lines):
            link = focused if focused is not None and focused.line == number else None
            segments = list(_segments(view, lines[row], number, link))
        cells = clip(segments, view.left, width)
        if cells.more and width > 1:
            cells = _join(clip(segments, view.left, width - 1), Segment(">", "dim"))
        if not length:
            bar = Segment(" ")
        elif first <= row < first + length:
            bar = Segment(block, "scrollbar-thumb")
        else:
            bar = Segment(track, "scrollbar")
        rows.append(_join(cells, bar))
    return rows


def _join(cells: Cells, segment: Segment) -> Cells:
    """A row with one more segment of one column at its right end."""
    added = clip([segment], 0, 1)
    return cells._replace(data=cells.data + added.data, runs=cells.runs + added.runs)


def _segments(view: View, made: Line, number: int, focused: LinkPlace | None) -> Iterator[Segment]:
    """The segments of one line: roles, links, the focused link, what the search found."""
    plain = "mark" if number == view.mark else "text"
    pieces: list[Segment] = []
    for index, span in enumerate(made.spans):
        if span.link is None:
            pieces.append(Segment(span.text, span.role or plain))
        elif focused is not None and focused.first_span <= index <= focused.last_span:
            pieces.append(Segment(span.text, "link-focus", Target("command", span.link.command)))
        else:
            name = (span.role or "link") + "+link"
            pieces.append(Segment(span.text, name, Target("command", span.link.command)))
    if view.pattern is None:
        yield from pieces
        return
    attribute = "match-current" if number == view.match else "match"
    yield from _marked(pieces, _places(view, view.pattern, made.text), attribute)


def _places(view: View, pattern: re.Pattern[str], text: str) -> list[tuple[int, int]]:
    end = len(text)
    if end > _LONG_LINE:
        end = min(end, view.left + view.width + _LONG_LINE)
    return [m.span() for m in pattern.finditer(text, 0, end) if m.end() > m.start()]


def _marked(
    pieces: list[Segment], places: list[tuple[int, int]], attribute: str
) -> Iterator[Segment]:
    """The segments with the places cut out and given the attribute; targets stay."""
    at = 0
    for piece in pieces:
        begin, end = at, at + len(piece.text)
        at = end
        cut = begin
        for first, last in places:
            low, high = max(first, cut), min(last, end)
            if low >= high:
                continue
            if low > cut:
                yield piece._replace(text=piece.text[cut - begin : low - begin])
            yield piece._replace(text=piece.text[low - begin : high - begin], attribute=attribute)
            cut = high
        if cut < end:
            yield piece._replace(text=piece.text[cut - begin :])
