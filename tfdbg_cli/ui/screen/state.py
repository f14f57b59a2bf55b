"""What the screen shows, as plain data, and which rows its parts take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tfdbg_cli.commands.reply import Question, Service, Toast
from tfdbg_cli.ui.bindings import KeyTable
from tfdbg_cli.ui.screen.input.editor import Prompt
from tfdbg_cli.ui.screen.input.palette import Palette
from tfdbg_cli.ui.screen.panes import Pane
from tfdbg_cli.ui.screen.stack import ViewStack
from tfdbg_cli.ui.screen.view import View

__all__ = ["Areas", "ScreenState", "areas_for"]


class Areas(NamedTuple):
    """Which rows the parts of the screen take: ``(first, behind)``; equal: there is no room."""

    title: tuple[int, int]
    nav: tuple[int, int]
    menu: tuple[int, int]
    page: tuple[int, int]
    status: tuple[int, int]
    prompt: tuple[int, int]

    @property
    def page_height(self) -> int:
        """The rows of the page."""
        return self.page[1] - self.page[0]


def areas_for(rows: int, has_menu: bool) -> Areas:
    """Share out the rows. A small terminal loses, in turn, navigation, menu, title and status."""
    status = 1 if rows >= 3 else 0
    title = 1 if rows >= 5 else 0
    menu = 1 if has_menu and rows >= 8 else 0
    nav = 1 if rows >= 10 else 0
    prompt = 1 if rows >= 2 else 0
    page = rows - status - title - menu - nav - prompt
    at = 0
    places = []
    for height in (title, nav, menu, page, status, prompt):
        places.append((at, at + height))
        at += height
    return Areas(*places)


@dataclass
class ScreenState:
    """The state of the screen during one stop.

    Attributes:
        service: what is debugged.
        views: the screens so far.
        size: columns and rows of the terminal.
        mouse: whether clicks are ours.
        keys: what the keys do.
        prompt: the line that is typed.
        palette: the list of what can be done, while it is open.
        message: shown until the next key.
        last_message: what was shown before.
        details: more about the last error.
        question: waits for an answer.
        answer: what was typed of it.
        page_mode: whether single letters act on the page.
        clicked: whether the cursor was put on an element by a click: the arrows move it, until
            another key is pressed.
        menu_at: which entry of the menu has the focus, if any.
        program_printed: whether there is output of the program to look at.
        last_key: when the last key was pressed (`time.monotonic`).
        pane: what stands beside lists.
        colors: how many colours the terminal has; 1: none, or they are off.
        hyperlinks: how lines of source are linked in the terminal; empty: not at all.
        popup: the rows that a list covered when the screen was painted, ``(first, behind)``.
    """

    service: Service
    views: ViewStack
    size: tuple[int, int]
    mouse: bool
    keys: KeyTable = field(default_factory=KeyTable)
    prompt: Prompt = field(default_factory=Prompt)
    palette: Palette | None = None
    message: Toast | None = None
    last_message: Toast | None = None
    details: tuple[str, ...] = ()
    question: Question | None = None
    answer: str = ""
    page_mode: bool = False
    clicked: bool = False
    menu_at: int | None = None
    program_printed: bool = False
    colors: int = 1
    hyperlinks: str = ""
    popup: tuple[int, int] = (0, 0)
    last_key: float = 0.0
    pane: Pane = field(init=False)

    def __post_init__(self) -> None:
        """The pane looks at all of it."""
        self.pane = Pane(self)

    @property
    def view(self) -> View | None:
        """The screen that is shown."""
        return self.views.current

    @property
    def areas(self) -> Areas:
        """The rows of the parts, now."""
        view = self.view
        return areas_for(self.size[1], view is not None and bool(view.document.menu))
