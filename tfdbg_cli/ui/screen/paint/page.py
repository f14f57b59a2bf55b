"""The page: the visible lines of a View as rows of cells, and the scroll bar beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import urwid

from tfdbg_cli.common.documents import Line
from tfdbg_cli.ui.hyperlinks import address_of
from tfdbg_cli.ui.marks import cut_at, match_places
from tfdbg_cli.ui.screen.paint.cells import Cells, Look, Segment, Target, clip, is_utf8, joined
from tfdbg_cli.ui.screen.paint.inked import inked_segment
from tfdbg_cli.ui.screen.view import LinkPlace, View

__all__ = ["page_rows", "thumb"]

# In a longer line, matches are marked only as far as they can be seen.
_LONG_LINE = 10_000

_GOES_ON = Segment(">", "dim")
_NOTHING = Line()

# What shows that its line is marked.
_MARKED = frozenset({"", "dim", "source"})

# What keeps its look on the row that the cursor is on.
_STAY = frozenset({"nan", "inf", "error", "warning", "highlight"})


def thumb(view: View) -> tuple[int, int]:
    """First row and length of the scroll bar's thumb; length 0: everything is visible."""
    count, height = view.document.line_count, view.height
    if count <= height or height < 1:
        return 0, 0
    length = max(height * height // count, 1)
    return round(view.top / view.last_top * (height - length)), length


def page_rows(view: View, colors: int = 1, hyperlinks: str = "") -> list[Cells]:
    """The rows of the page, ``view.height`` of them, ``view.width`` columns each.

    Only the visible lines are asked of the Document. The last column is the scroll bar's; a line
    that goes on to the right ends in ``>``.

    Args:
        view: what is shown.
        colors: how many colours the terminal has; 1: none.
        hyperlinks: how lines of source are linked in the terminal; empty: not at all.
    """
    encoding = urwid.util.get_encoding()
    unicode = is_utf8(encoding)
    track = clip([Segment("│" if unicode else "|", "scrollbar")], 0, 1)
    block = clip([Segment("█" if unicode else "#", "scrollbar-thumb")], 0, 1)
    first, length = thumb(view)
    if not length:
        track = clip((), 0, 1)
    focused = view.focused_link()
    lines = view.visible()
    rows: list[Cells] = []
    top = view.line_at(0)
    before, view.painted = view.painted, {}
    for row in range(view.height):
        number, made = top + row, lines[row] if row < len(lines) else _NOTHING
        link = focused if focused is not None and focused.line == number else None
        # All that a row depends on. One that is as it was on the page before is painted already.
        state = (number == view.mark, link, view.cursor.span_on(number), number == view.match)
        cell = view.table.span_on(number)
        looks = (encoding, colors, hyperlinks, view.left, view.width, view.pattern, state, cell)
        painted = before.get(number)
        if painted is None or painted[:2] != (looks, made):
            segments = _segments(view, made, number, link, colors)
            if hyperlinks:
                segments = [_linked(segment, hyperlinks) for segment in segments]
            fill = "text" if cell is None else "table-row"
            cells = _clipped(segments, view, view.frozen(number) if view.left else 0, fill)
            painted = (looks, made, cells)
        view.painted[number] = painted
        cells = painted[2]
        bar = block if first <= row < first + length else track
        rows.append(cells._replace(data=cells.data + bar.data, runs=cells.runs + bar.runs))
    return rows


def _on_row(attribute: Look) -> Look:
    """The look of a piece of the row that the cursor is on; what is bad, or drawn, stays."""
    if not isinstance(attribute, str) or attribute.partition("+")[0] in _STAY:
        return attribute
    return "table-row"


def _linked(segment: Segment, style: str) -> Segment:
    """A piece, which the terminal itself leads on from where it leads to a line of source."""
    target = segment.target
    address = address_of(target.value, style) if target and target.kind == "command" else ""
    if not address:
        return segment
    over = urwid.AttrSpec(hyperlink=address)
    return segment._replace(attribute=urwid.LayeredAttr(over, segment.attribute))


def _clipped(segments: list[Segment], view: View, frozen: int, fill: str) -> Cells:
    """A row as far as it is scrolled sideways, behind what doesn't scroll."""
    width = view.width - 1 - frozen
    cells = clip(segments, view.left + frozen, width, fill, marker=_GOES_ON)
    if not frozen:
        return cells
    return joined(clip(segments, 0, frozen, fill), frozen, cells)


def _segments(
    view: View, made: Line, number: int, focused: LinkPlace | None, colors: int
) -> list[Segment]:
    """The segments of one line: roles, links, the focused link, what the search found."""
    is_marked = number == view.mark
    unicode = is_utf8(urwid.util.get_encoding())
    pieces: list[Segment] = []
    for index, span in enumerate(made.spans):
        if span.ink is not None and colors > 1 and span.link is None:
            pieces.append(inked_segment(span.text, span.role or "text", span.ink, colors, unicode))
        elif span.link is None:
            look = "mark" if is_marked and span.role in _MARKED else span.role or "text"
            pieces.append(Segment(span.text, look))
        elif focused is not None and focused.first_span <= index <= focused.last_span:
            pieces.append(Segment(span.text, "link-focus", Target("command", span.link.command)))
        else:
            name = (span.role or "link") + "+link"
            pieces.append(Segment(span.text, name, Target("command", span.link.command)))
    element = view.cursor.span_on(number)
    if element is not None:  # what pixels stand in place of is written out here
        pieces = _marked(pieces, [element], lambda attribute: "link-focus", made.text)
    cell = view.table.span_on(number)
    if cell is not None:
        pieces = _marked(pieces, [(0, len(made.text))], _on_row)
        pieces = _marked(pieces, [cell], lambda attribute: "table-cell")
    if view.pattern is None or element is not None:
        return pieces
    text = made.text
    end = len(text)
    if end > _LONG_LINE:
        end = min(end, view.left + view.width + _LONG_LINE)
    found = "match-current" if number == view.match else "match"
    places = match_places(view.pattern, text, end)
    return _marked(pieces, places, lambda attribute: found) if places else pieces


def _marked(
    pieces: Sequence[Segment],
    places: Sequence[tuple[int, int]],
    look: Callable[[Look], Look],
    text: str = "",
) -> list[Segment]:
    """The segments of a line, cut at some places, which look otherwise.

    Args:
        text: what those places say, if it isn't what the segments say.
    """
    made: list[Segment] = []
    at = 0
    for index, part, found in cut_at([piece.text for piece in pieces], places):
        behind, piece = at + len(part), pieces[index]
        if found:
            shown = text[at:behind] or part
            made.append(Segment(shown, look(piece.attribute), piece.target))
        else:
            made.append(Segment(part, piece.attribute, piece.target))
        at = behind
    return made
