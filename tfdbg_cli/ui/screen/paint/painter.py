"""The state of the screen to rows of cells."""

from __future__ import annotations

from collections.abc import Sequence

import urwid

from tfdbg_cli.ui.keys import Where
from tfdbg_cli.ui.screen.paint import bars, popups
from tfdbg_cli.ui.screen.paint.cells import Cells, Segment, Target, clip, is_utf8, joined
from tfdbg_cli.ui.screen.paint.page import page_rows, thumb
from tfdbg_cli.ui.screen.panes import Pane
from tfdbg_cli.ui.screen.state import ScreenState
from tfdbg_cli.ui.screen.view import View

__all__ = ["paint"]

# A page of fewer rows is covered by the list of commands from top to bottom.
_SMALL = 12


def paint(state: ScreenState) -> tuple[list[Cells], tuple[int, int] | None]:
    """All rows of the screen, and the cursor ``(column, row)`` or ``None``."""
    view, areas, cols = state.view, state.areas, state.size[0]
    rows: list[Cells] = []
    if areas.title[0] < areas.title[1]:
        source = view if view is not None else state.service
        mark = state.views.mark(view) if view is not None else ""
        rows.append(bars.title_row(source.title, source.title_role, cols, mark))
    if areas.nav[0] < areas.nav[1]:
        rows.append(bars.nav_row(state.views, cols))
    if areas.menu[0] < areas.menu[1] and view is not None:
        rows.append(bars.menu_row(view.document.menu, state.menu_at, cols))
    if view is not None:
        view.resize(cols - state.pane.lay_out(view, cols, areas.page_height), areas.page_height)
        page = page_rows(view, state.colors, state.hyperlinks)
        rows += beside(page, view, state) if state.pane.columns else page
    else:
        rows += [clip((), 0, cols)] * areas.page_height
    if areas.status[0] < areas.status[1]:
        rows.append(bars.status_row(state, cols))
    cursor = None
    if areas.prompt[0] < areas.prompt[1]:
        palette = state.palette
        line = state.prompt.line if palette is None else palette.line
        prompt = state.service.prompt if palette is None else "find> "
        row, column = bars.prompt_row(prompt, line.text, line.cursor, cols)
        rows.append(row)
        is_typed = not state.page_mode and state.menu_at is None and state.question is None
        if palette is not None or is_typed:
            cursor = (column, areas.prompt[0])
    # One row of message covers the status line and nothing of the page.
    behind = areas.status[1]
    over = _overlay(state, behind - areas.page[0])
    rows[behind - len(over) : behind] = over
    return rows, cursor


def _overlay(state: ScreenState, room: int) -> list[Cells]:
    """A question, a message or a list: they cover the status line and the rows above it."""
    cols, behind = state.size[0], state.areas.status[1]
    state.popup = (behind, behind)
    if room < 1:
        return []
    if state.question is not None:
        return popups.question_rows(state.question, state.answer, cols, room)
    if state.palette is not None:
        height = room if room < _SMALL else room * 2 // 3
        rows = popups.palette_rows(state.palette, height, cols)
    elif state.message is not None:
        key = state.keys.key_of("show_details", Where.ANYWHERE)
        return popups.message_rows(state.message, bool(state.details), cols, room, key)
    elif state.prompt.completion is not None:
        height = min(max(state.areas.page_height // 2, 1), room)
        candidates = state.prompt.completion.candidates
        rows = popups.candidate_rows(candidates, state.prompt.chosen, height, cols)
    else:
        return []
    state.popup = (behind - len(rows), behind)
    return rows


def beside(left: Sequence[Cells], view: View, state: ScreenState) -> list[Cells]:
    """The rows of a list with those of its pane.

    Args:
        left: the rows of the list.
        view: the list.
        state: of the screen; its pane was laid out.
    """
    pane = state.pane
    shown = pane.look(view, max(len(left) - 1, 1))
    right = [_title(pane, shown), *page_rows(shown, state.colors, state.hyperlinks)]
    unicode = is_utf8(urwid.util.get_encoding())
    bar = "" if thumb(view)[1] else "│" if unicode else "|"  # the scroll bar parts them, too
    border = clip([Segment(bar, "scrollbar")], 0, 1)
    return [
        joined(joined(one, view.width, border), view.width + 1, other)
        for one, other in zip(left, right, strict=True)
    ]


def _title(pane: Pane, shown: View) -> Cells:
    """What it shows; a click shows it alone."""
    menu = shown.document.menu
    command = menu[0].command if menu and not pane.is_waiting else ""
    text = command or ("…" if pane.is_waiting else "")
    target = Target("command", command) if command else None
    head = [Segment(f"-- {pane.kind}: ", "nav"), Segment(text, "nav-link+link", target)]
    head = [*head, Segment(" " + "-" * pane.columns, "nav")]
    return clip(head, 0, pane.columns - 1, "nav")
