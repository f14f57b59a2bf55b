"""What keys and clicks can ask of the screen."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from tfdbg_cli.commands.reply import Reply
from tfdbg_cli.common.documents import Document
from tfdbg_cli.ui.screen.state import ScreenState

__all__ = ["Commander"]


class Commander(Protocol):
    """What keys and clicks can ask for besides changing the state (see `App`)."""

    state: ScreenState

    def execute(self, text: str) -> Reply | None:
        """Run a command line and apply its Reply."""
        ...

    def drain_queue(self) -> None:
        """Run the commands that are still queued."""
        ...

    def push(self, document: Document, command: str, *, once: bool = False) -> None:
        """Show a Document as a new screen; ``once``: instead of an older one of that command."""
        ...

    def move_screen(self, step: int) -> None:
        """Go back (-1) or forward (1) in the screens."""
        ...

    def search(self, regex: str, direction: int) -> None:
        """Go to a match; an empty regex is the last one."""
        ...

    def cancel_work(self) -> bool:
        """Give up a search that is still going on; False: there is none."""
        ...

    def at_work(self) -> AbstractContextManager[None]:
        """Ctrl-C interrupts what is done inside."""
        ...

    def copy(self, text: str) -> None:
        """Put a text on the clipboard."""
        ...

    def show_in_pager(self) -> None:
        """Give the lines of this screen to ``$PAGER``."""
        ...

    def edit(self, text: str) -> str:
        """A command line, after the user has edited it."""
        ...

    def set_mouse(self, on: bool) -> None:
        """Take the mouse, or leave it to the terminal."""
        ...

    def program_output(self) -> str:
        """What the program printed at this stop."""
        ...

    def redraw(self) -> None:
        """Repaint everything."""
        ...

    def run(self, command: str) -> Reply | None:
        """Run a command line and what it is made of; ``None``: it was interrupted."""
        reply = self.execute(command)
        self.drain_queue()
        return reply

    def follow(self, command: str) -> None:
        """Run the command of a link or of a menu."""
        self.state.service.history.play(command)
        self.run(command)
