"""Where keys are understood just now, and which of them the status line tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tfdbg_cli.commands.preview import row_subject
from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.ui.keys import HINTS, Where
from tfdbg_cli.ui.screen.state import ScreenState
from tfdbg_cli.ui.screen.view import View

__all__ = ["Hint", "clicked_place", "hints", "page_places", "places"]


class Hint(NamedTuple):
    """A key, a word on it, and its action."""

    key: str
    word: str
    action: str


def places(state: ScreenState) -> tuple[Where, ...]:
    """Where a key is looked for, the first that knows it decides."""
    if state.palette is not None:
        return (Where.PALETTE, Where.EDIT)
    if state.menu_at is not None:
        return (Where.MENU, Where.ANYWHERE)
    if state.page_mode:
        return page_places(state)
    if state.prompt.is_searching:
        return (Where.HISTORY, Where.PROMPT, Where.EDIT, Where.ANYWHERE)
    if state.clicked:
        return (clicked_place(state),)
    if not state.prompt.line.text:
        typed = (Where.EMPTY, Where.PROMPT, Where.EDIT, Where.ANYWHERE)
        return (Where.HELP, *typed) if _is_help(state) else typed
    if state.prompt.completion is not None:
        return (Where.CANDIDATES, Where.PROMPT, Where.EDIT, Where.ANYWHERE)
    return (Where.PROMPT, Where.EDIT, Where.ANYWHERE)


def page_places(state: ScreenState) -> tuple[Where, ...]:
    """Where a key of the page is looked for."""
    view = state.view
    found: tuple[Where, ...] = (Where.PAGE, Where.ANYWHERE)
    if view is None:
        return found
    if "picture" in view.document.turns:
        found = (Where.TENSOR, *found)
    if "closer" in view.document.turns:
        found = (Where.MAP, *found)
    if view.cursor:
        return (Where.ELEMENT, *found)
    of_kind = {"source": Where.SOURCE, "verdict": Where.VERDICT, "help": Where.HELP}
    if view.document.kind in of_kind:
        found = (of_kind[view.document.kind], *found)
    if view.table:
        found = (Where.TABLE, *found)
        row = view.table.line
        if row is not None and row_subject(row)[0]:
            found = (Where.ROW, *found)
    return (Where.BESIDE, *found) if state.pane.columns else found


def clicked_place(state: ScreenState) -> Where:
    """What was put under the cursor by a click: a row, or an element."""
    return Where.TABLE if state.view is not None and state.view.table else Where.ELEMENT


def _is_help(state: ScreenState) -> bool:
    return state.view is not None and state.view.document.kind == "help"


def hints(state: ScreenState) -> list[Hint]:
    """The keys of this screen, the most wanted first.

    At the prompt these are the keys of the page, which Esc leads to.
    """
    if state.palette is not None or state.menu_at is not None or state.question is not None:
        return []
    found: dict[str, Hint] = {}
    for where in page_places(state):
        for action, word in HINTS.get(where, ()):
            key = state.keys.key_of(action, where, Where.TENSOR)
            if key and key not in found and _can_act(action, state.view):
                found[key] = Hint(key, word, action)
    return list(found.values())


def _can_act(action: str, view: View | None) -> bool:
    """Whether there is something on the page that an action of a hint is for."""
    if view is None or action not in _ASKED:
        return True
    return _ASKED[action](view)


def _has_cells(view: View) -> bool:
    """Whether a cursor could be put somewhere, and isn't anywhere yet."""
    if view.cursor or view.table:
        return False
    numbers = range(view.top, view.bottom)
    with contained:  # a damaged dump: the page says so
        return any(view.document.table_at(n) or view.document.cells(n) for n in numbers)
    return False


# What some pages of a kind have and others haven't.
_ASKED: dict[str, Callable[[View], bool]] = {
    "to_element": _has_cells,
    "next_link": lambda view: not view.table and bool(view.links(view.top, view.bottom)),
    "sort_up": lambda view: view.table.field is not None,
    "filter_cell": lambda view: view.table.field is not None,
    "map_next_slice": lambda view: "next slice" in view.document.turns,
    "next_bad": lambda view: bool(view.document.steps),
}
