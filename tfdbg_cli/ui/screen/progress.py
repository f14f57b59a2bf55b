"""The line at the bottom of the terminal while the program runs between two stops."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

import urwid

from tfdbg_cli.ui.screen.cells import text_width
from tfdbg_cli.ui.screen.terminal import watchdog_of_terminal

__all__ = ["ProgressLine"]

# A run that is over sooner needs no line; afterwards it is drawn so often.
_DELAY, _PERIOD = 0.4, 0.25


class ProgressLine:
    """Keeps the last row of the terminal for itself, by a scroll region, as apt does.

    The program prints above it to its own terminal, by whatever way it likes. A thread draws the
    row; it is asleep most of the time and ends with the line.

    Args:
        describe: the text of the line; called in the thread.
        terminal: a descriptor of the terminal.
    """

    def __init__(self, describe: Callable[[], str], terminal: int = 1) -> None:
        self._describe = describe
        self._terminal = os.dup(terminal)
        self._size = (0, 0)
        self._wake = threading.Event()
        self._ended = False
        self._watches_resume = False
        if (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGCONT) == signal.SIG_DFL
        ):
            signal.signal(signal.SIGCONT, self._resumed)
            self._watches_resume = True
        self._thread = threading.Thread(target=self._draw_on, name="tfdbg-progress", daemon=True)
        self._thread.start()

    def _resumed(self, number: int, frame: FrameType | None) -> None:
        """Another program had the terminal: what was set up of it is gone."""
        self._size = (0, 0)
        self._wake.set()

    def refresh(self) -> None:
        """Draw at once."""
        self._wake.set()

    def end(self) -> None:
        """Give the row back."""
        self._ended = True
        self._wake.set()
        self._thread.join()
        if self._watches_resume:
            with contextlib.suppress(ValueError):  # another thread's turn
                if signal.getsignal(signal.SIGCONT) == self._resumed:
                    signal.signal(signal.SIGCONT, signal.SIG_DFL)
        if self._size != (0, 0):
            _, rows = self._size
            self._write(f"\x1b7\x1b[r\x1b[{rows};1H\x1b[2K\x1b8")
            dog = watchdog_of_terminal(self._terminal)
            if dog is not None:
                dog.down()
        os.close(self._terminal)

    def _draw_on(self) -> None:
        pause = _DELAY
        while not self._ended:
            self._wake.wait(pause)
            self._wake.clear()
            pause = _PERIOD
            if not self._ended:
                with contextlib.suppress(OSError):
                    self._draw()

    def _draw(self) -> None:
        size = os.get_terminal_size(self._terminal)
        columns, rows = size.columns, size.lines
        if rows < 3 or columns < 10:
            return
        text = self._describe()
        if text_width(text) >= columns:
            end, _ = urwid.calc_text_pos(text, 0, len(text), columns - 2)
            text = text[:end] + ">"
        begin = ""
        if (columns, rows) != self._size:
            if self._size == (0, 0):
                dog = watchdog_of_terminal(self._terminal)
                if dog is not None:
                    dog.row_up()
            # Make room below the cursor (IND keeps its column); the last row scrolls no more.
            begin = f"\x1bD\x1b7\x1b[1;{rows - 1}r\x1b8\x1b[1A"
            self._size = columns, rows
        self._write(f"{begin}\x1b7\x1b[{rows};1H\x1b[0;7m{text}\x1b[0m\x1b[K\x1b8")

    def _write(self, text: str) -> None:
        # In one piece, so that nothing of the program's gets between.
        with contextlib.suppress(OSError):
            os.write(self._terminal, text.encode("utf-8", "replace"))
