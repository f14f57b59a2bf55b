"""The line at the bottom of the terminal while the program runs between two stops."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import urwid

from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.common.interpreter.threads import OwnThread
from tfdbg_cli.common.printable import printable
from tfdbg_cli.common.streams import high_copy
from tfdbg_cli.ui.screen.paint.cells import text_width
from tfdbg_cli.ui.screen.terminal.terminal import watchdog_of_terminal

__all__ = ["ProgressLine"]

# A run that is over sooner needs no line; afterwards it is drawn so often, and in between somebody
# looks so often whether the program needs the terminal for itself.
_DELAY, _PERIOD, _GLANCE = 0.4, 0.25, 0.05


class ProgressLine:
    """Keeps the last row of the terminal for itself, by a scroll region, as apt does.

    The program prints above it to its own terminal, by whatever way it likes. A thread draws the
    row; it is asleep most of the time and ends with the line. While the terminal is in other hands
    (another process group's, or a debugger's, an editor's or a game's that reads single keys) there
    is not a row; when the process is stopped (Ctrl-Z), the watchdog takes it away.

    Args:
        describe: the text of the line; called in the thread.
        terminal: a descriptor of the terminal.
    """

    def __init__(self, describe: Callable[[], str], terminal: int = 1) -> None:
        self._describe = describe
        self._terminal = high_copy(terminal)
        self._size = (0, 0)
        self._modes = self._line_modes()
        self._wake = threading.Event()
        self._ended = False
        self._writing = threading.RLock()
        self._curses_begin: Callable[[], Any] | None = None
        try:
            self._thread = OwnThread(self._draw_on)
        except OSError:
            os.close(self._terminal)
            raise

    def refresh(self) -> None:
        """Draw at once."""
        self._wake.set()

    def end(self) -> None:
        """Give the row back."""
        self._ended = True
        self._wake.set()
        self._thread.join()
        self._let_go_of_curses()
        self._withdraw()
        os.close(self._terminal)

    def _draw_on(self) -> None:
        due = time.monotonic() + _DELAY
        while not self._ended:
            pause = _GLANCE if self._size != (0, 0) else _DELAY / 2
            is_wanted = self._wake.wait(min(pause, max(due - time.monotonic(), 0.0)))
            self._wake.clear()
            if self._ended:
                return
            self._take_curses()
            with self._writing:
                if not self._is_free():
                    self._withdraw()
                    due = time.monotonic() + _DELAY
                elif is_wanted or time.monotonic() >= due:
                    with contextlib.suppress(OSError):
                        self._draw()
                    due = time.monotonic() + _PERIOD

    def _take_curses(self) -> None:
        """Have the row go before the program's curses shows a screen.

        The terminal brings back what was below that screen, and the program goes on there: a row
        that was still up would be in its next line.
        """
        curses = sys.modules.get("_curses")
        if curses is None or self._curses_begin is not None:
            return
        begin: Callable[[], Any] = curses.initscr
        self._curses_begin = begin

        @functools.wraps(begin)
        def initscr() -> Any:
            with self._writing:  # until it is up, which the thread then sees
                self._withdraw()
                return begin()

        curses.initscr = initscr  # type: ignore[attr-defined]

    def _let_go_of_curses(self) -> None:
        curses = sys.modules.get("_curses")
        if curses is not None and self._curses_begin is not None:
            curses.initscr = self._curses_begin  # type: ignore[attr-defined]

    def _is_free(self) -> bool:
        """Whether the terminal is in the hands and in the modes in which it was found."""
        with contextlib.suppress(OSError, AttributeError):  # it needn't control this process
            if os.tcgetpgrp(self._terminal) != os.getpgrp():
                return False
        return self._line_modes() == self._modes and not _has_curses()

    def _line_modes(self) -> int:
        """Whether it gives whole lines, and echoes them."""
        with contained:  # not on Windows; or the terminal is gone
            import termios

            found: int = termios.tcgetattr(self._terminal)[3] & (termios.ICANON | termios.ECHO)
            return found
        return 0

    def _withdraw(self) -> None:
        """Take the row away, if it is there."""
        if self._size == (0, 0):
            return
        _, rows = self._size
        self._size = (0, 0)
        dog = watchdog_of_terminal(self._terminal)
        if dog is not None and dog.took_row():
            return
        if not _has_curses():  # it has set up the whole screen anew, its last row too
            self._write(f"\x1b7\x1b[r\x1b[{rows};1H\x1b[2K\x1b8")
        if dog is not None:
            dog.down()

    def _draw(self) -> None:
        size = os.get_terminal_size(self._terminal)
        columns, rows = size.columns, size.lines
        if rows < 3 or columns < 10:
            return
        text = printable(self._describe())
        if text_width(text) >= columns:
            end, _ = urwid.calc_text_pos(text, 0, len(text), columns - 2)
            text = text[:end] + ">"
        begin = ""
        dog = watchdog_of_terminal(self._terminal)
        if dog is not None and dog.took_row():  # while the process was stopped
            self._size = (0, 0)
        if (columns, rows) != self._size:
            if self._size == (0, 0) and dog is not None:
                dog.row_up()
            # Make room below the cursor (IND keeps its column); the last row scrolls no more.
            begin = f"\x1bD\x1b7\x1b[1;{rows - 1}r\x1b8\x1b[1A"
            self._size = columns, rows
        self._write(f"{begin}\x1b7\x1b[{rows};1H\x1b[0;7m{text}\x1b[0m\x1b[K\x1b8")

    def _write(self, text: str) -> None:
        # In one piece, so that nothing of the program's gets between.
        with contextlib.suppress(OSError):
            os.write(self._terminal, text.encode("utf-8", "replace"))


def _has_curses() -> bool:
    """Whether the program shows a screen with its own curses."""
    curses = sys.modules.get("_curses")
    if curses is None:
        return False
    try:
        return not curses.isendwin()
    except curses.error:  # it was never begun
        return False
