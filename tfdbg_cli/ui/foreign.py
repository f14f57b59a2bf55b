"""Ctrl-C on a terminal that belongs to another session than this process.

torchrun starts each rank in a session of its own. The ranks can read and write the terminal, but
its Ctrl-C is a signal for torchrun alone, which then ends them all.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from typing import Any

from tfdbg_cli.common.interpreter.threads import OwnThread

__all__ = ["ForeignKeys", "is_foreign"]

_CTRL_C = b"\x03"


def is_foreign(terminal: int = 0) -> bool:
    """Whether a descriptor is a terminal that sends its signals to others than this process."""
    if sys.platform == "win32":
        return False
    try:
        if not os.isatty(terminal):
            return False
        os.tcgetpgrp(terminal)
    except OSError:
        return os.isatty(terminal)
    return False


class ForeignKeys:
    """Reads the keys of a foreign terminal while the program runs, and makes Ctrl-C a signal again.

    The first one is sent to this process; the next one to the parent, as without the debugger. What
    else is typed is dropped.

    Args:
        terminal: a descriptor of the terminal.

    Raises:
        OSError: the terminal can't be set up.
    """

    def __init__(self, terminal: int = 0) -> None:
        import termios

        from tfdbg_cli.ui.screen.terminal.watchdog import Watchdog

        self._terminal = terminal
        self._parent = os.getppid()
        self._lock = threading.Lock()
        self._modes: Any = None
        self._wake, self._waker = os.pipe()
        try:
            self._watchdog = Watchdog(terminal)  # a terminal without Ctrl-C must not be left behind
            self._watchdog.modes_changed()
            ours = termios.tcgetattr(terminal)
            self._modes = termios.tcgetattr(terminal)
            ours[3] &= ~termios.ISIG
            ours[6][termios.VEOL] = _CTRL_C  # it ends a line, so that it can be read at once
            termios.tcsetattr(terminal, termios.TCSADRAIN, ours)
            self._thread = OwnThread(self._read)
        except (OSError, termios.error) as error:
            self._restore()
            self._close_pipe()
            raise OSError(str(error)) from error

    def _read(self) -> None:
        presses = 0
        while True:
            ready, _, _ = select.select([self._terminal, self._wake], [], [])
            if self._wake in ready:
                return
            try:
                data = os.read(self._terminal, 1024)
            except OSError:
                return
            if not data:
                return
            for _ in range(data.count(_CTRL_C)):
                presses += 1
                if presses == 1:
                    os.kill(os.getpid(), signal.SIGINT)
                    continue
                # The program may hang where no handler of Python's is run: in a collective.
                self._restore()
                if os.getppid() == self._parent:  # not who takes in orphans: for init it's a reboot
                    os.kill(self._parent, signal.SIGINT)
                return

    def _restore(self) -> None:
        import termios

        with self._lock:
            modes, self._modes = self._modes, None
            if modes is not None:
                with contextlib.suppress(termios.error):
                    termios.tcsetattr(self._terminal, termios.TCSADRAIN, modes)
                self._watchdog.close()

    def end(self) -> None:
        """Give the keys back."""
        os.write(self._waker, b"x")
        self._thread.join()
        self._restore()
        self._close_pipe()

    def _close_pipe(self) -> None:
        os.close(self._wake)
        os.close(self._waker)
