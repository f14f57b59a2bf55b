"""Where keys are understood just now, and which of them the status line tells."""

from __future__ import annotations

from typing import NamedTuple

from tfdbg_cli.ui.keys import HINTS, Where
from tfdbg_cli.ui.screen.state import ScreenState

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
            if key and key not in found:
                found[key] = Hint(key, word, action)
    return list(found.values())
