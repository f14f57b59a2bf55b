"""The state of the screen to rows of cells."""

from __future__ import annotations

from tfdbg_cli.ui.screen import bars
from tfdbg_cli.ui.screen.cells import Cells, clip
from tfdbg_cli.ui.screen.page import page_rows
from tfdbg_cli.ui.screen.state import State

__all__ = ["paint"]


def paint(state: State) -> tuple[list[Cells], tuple[int, int] | None]:
    """All rows of the screen, and the cursor ``(column, row)`` or ``None``."""
    view, areas, cols = state.view, state.areas, state.size[0]
    rows: list[Cells] = []
    if areas.title[0] < areas.title[1]:
        source = view if view is not None else state.service
        rows.append(bars.title_row(source.title, source.title_role, cols))
    if areas.nav[0] < areas.nav[1]:
        rows.append(bars.nav_row(state.views, cols))
    if areas.menu[0] < areas.menu[1] and view is not None:
        rows.append(bars.menu_row(view.document.menu, state.menu_at, cols))
    if view is not None:
        view.resize(cols, areas.page_height)
        rows += page_rows(view)
    else:
        rows += [clip((), 0, cols)] * areas.page_height
    if areas.status[0] < areas.status[1]:
        rows.append(bars.status_row(state, cols))
    cursor = None
    if areas.prompt[0] < areas.prompt[1]:
        line = state.prompt.line
        row, column = bars.prompt_row(state.service.prompt, line.text, line.cursor, cols)
        rows.append(row)
        if not state.page_mode and state.menu_at is None and state.question is None:
            cursor = (column, areas.prompt[0])
    # One row of message covers the status line and nothing of the page.
    behind = areas.status[1]
    over = _overlay(state)[: behind - areas.page[0]]
    rows[behind - len(over) : behind] = over
    return rows, cursor


def _overlay(state: State) -> list[Cells]:
    """A question, a message or candidates: they cover the status line and the rows above it."""
    cols = state.size[0]
    if state.question is not None:
        return bars.question_rows(state.question, state.answer, cols)
    if state.message is not None:
        return bars.message_rows(state.message, bool(state.details), cols)
    if state.prompt.completion is not None:
        height = max(state.areas.page_height // 2, 1)
        candidates = state.prompt.completion.candidates
        return bars.candidate_rows(candidates, state.prompt.chosen, height, cols)
    return []
