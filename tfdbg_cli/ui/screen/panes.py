"""The pane beside a list: what of the row under the cursor it shows, and when that is looked up."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import urwid
from urwid.display import raw

from tfdbg_cli.commands.preview import KINDS, preview_command
from tfdbg_cli.common.documents import Document, Line, TextDocument, line
from tfdbg_cli.ui.screen.terminal.hurry import Hurry, giving_way
from tfdbg_cli.ui.screen.view import View

if TYPE_CHECKING:
    from tfdbg_cli.ui.screen.state import ScreenState

__all__ = ["Pane", "PaneWork"]

# On a narrower or lower page there is no pane.
_COLUMNS, _ROWS = 100, 6

# Nothing is looked up before the cursor has rested so long.
_REST_SECONDS = 0.12

# So many rows that were looked at last are kept.
_MOST_KEPT = 32


class Pane:
    """What stands beside the list that is shown.

    Args:
        state: of the screen.

    Attributes:
        columns: how many it took when the screen was painted last; 0: it was not there.
        wanted: the command line for the row under the cursor; empty: nothing can be shown.
    """

    def __init__(self, state: ScreenState) -> None:
        self._state = state
        self._kept: OrderedDict[str, View] = OrderedDict()
        self._last: View | None = None
        self.columns = 0
        self.wanted = ""

    @property
    def kind(self) -> str:
        """One of `KINDS`, or ``off``."""
        return str(self._state.service.settings.get("pane"))

    @property
    def is_on(self) -> bool:
        """Whether there is to be one, where there is room."""
        return self.kind in KINDS

    def next_kind(self) -> str:
        """Show something else until the program's end; returns what."""
        kinds = ("off", *KINDS)
        after = kinds[(kinds.index(self.kind) + 1) % len(kinds)] if self.kind in kinds else "off"
        self._state.service.settings.override("pane", after)
        return after

    def lay_out(self, view: View, columns: int, rows: int) -> int:
        """The columns that it takes beside a view: none where there is no room, or no list."""
        is_there = self.is_on and columns >= _COLUMNS and rows >= _ROWS
        is_there = is_there and view.document.kind != "verdict"  # it has the whole width
        self.columns = columns * 9 // 20 if is_there and view.document.tables else 0
        if not self.columns:
            self.wanted = ""
        return self.columns

    @property
    def view(self) -> View | None:
        """What is shown; of another row, as long as that of this one isn't here."""
        if self.wanted in self._kept:
            self._kept.move_to_end(self.wanted)
            self._last = self._kept[self.wanted]
        return self._last

    @property
    def is_waiting(self) -> bool:
        """Whether something is to be looked up."""
        return bool(self.columns and self.wanted and self.wanted not in self._kept)

    def look(self, view: View, height: int) -> View:
        """What to paint beside a view, in so many rows."""
        row = view.table.line
        self.wanted = preview_command(self.kind, row) if row is not None else ""
        if row is None or not self.wanted:
            text = "c puts a cursor on a row." if row is None else "Nothing is known of this row."
            found = _note(text)
        else:
            found = self.view or _note("…")
        found.resize(self.columns - 1, height)
        return found

    def keep(self, command: str, document: Document) -> None:
        """What a command line shows has come."""
        view = View(
            document, command, "", "", (self.columns - 1, self._state.areas.page_height - 1)
        )
        if document.initial_line:
            # The line that is meant stands where it can be seen with what is around it.
            view.mark = document.initial_line
            view.go_to(document.initial_line - view.height // 3)
        self._kept[command] = view
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)

    def forget(self) -> None:
        """A command may have changed what there is to see; until it is here, the old is shown."""
        self._kept.clear()

    def scroll(self, pages: float) -> None:
        """Scroll what is shown by so many pages of it."""
        if self.columns and self.view is not None:
            self.view.scroll(round(pages * self.view.height))


def _note(text: str) -> View:
    return View(TextDocument([line((text, "dim"))]), "", "", "")


class PaneWork:
    """Looks up what the pane shows when the cursor rests.

    Args:
        state: of the screen.
        at_work: inside of it Ctrl-C interrupts.
    """

    def __init__(
        self, state: ScreenState, at_work: Callable[[], AbstractContextManager[None]]
    ) -> None:
        #: urwid's loop while it runs.
        self.loop: urwid.MainLoop | None = None
        self._state = state
        self._at_work = at_work
        self._is_set = False

    def drawn(self) -> None:
        """The screen was drawn: if something is missing, look it up soon."""
        if self._state.pane.is_waiting and self.loop is not None and not self._is_set:
            self._is_set = True
            self.loop.event_loop.alarm(_REST_SECONDS, self._rested)

    def _rested(self) -> None:
        self._is_set = False
        pane = self._state.pane
        if not pane.is_waiting or time.monotonic() - self._state.last_key < _REST_SECONDS:
            return  # what is drawn after this asks again
        found = self._document(pane.wanted, pane.columns - 2)
        if found is not None:
            pane.keep(pane.wanted, found)

    def _document(self, command: str, width: int) -> Document | None:
        """What a command line shows; ``None``: a key was pressed before it was there."""
        screen = self.loop.screen if self.loop is not None else None
        files = screen.get_input_descriptors() if isinstance(screen, raw.Screen) else []
        hurry = Hurry()
        try:
            with self._at_work(), giving_way(files) as hurry:
                reply = self._state.service.run(command, width)
        except KeyboardInterrupt:
            return None if hurry.came else TextDocument([_dim("Cancelled.")])
        if reply.document is None:
            return TextDocument([_dim(reply.message.text if reply.message is not None else "-")])
        return reply.document


def _dim(text: str) -> Line:
    return line((text, "dim"))
