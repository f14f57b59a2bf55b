"""Gives the terminal back when the process dies without a chance to do so itself.

``os._exit``, an abort in C++, SIGSEGV and SIGKILL run no code of ours. A second small process waits
for the death of this one, and takes the last row away where this one is stopped (Ctrl-Z) while it
has it. It is no child of this one (a program that waits for all its children must not wait for it),
and it is asked for nothing as long as all goes well.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import termios

from tfdbg_cli.ui.screen.terminal.watchdog_main import DOWN, MODES, ROW, UP

__all__ = ["Watchdog"]


class Watchdog:
    """The process that restores one terminal.

    Args:
        terminal: a descriptor of the terminal, in the modes to restore.

    Raises:
        OSError: it can't be started.
    """

    def __init__(self, terminal: int) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        script = pathlib.Path(__file__).with_name("watchdog_main.py")
        try:
            # Isolated and without site-packages: it starts in some 10 ms, whatever is installed.
            command = [sys.executable, "-I", "-S", str(script), str(theirs.fileno())]
            subprocess.run(
                [*command, str(os.getpid()), _modes(terminal)],
                stdin=subprocess.DEVNULL,
                stdout=terminal,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                check=True,
            )
        except (OSError, termios.error, subprocess.SubprocessError) as error:
            ours.close()
            raise OSError(f"The terminal's watchdog can't be started: {error}") from error
        finally:
            theirs.close()
        self._socket = ours

    def up(self, output: int | None = None) -> None:
        """From now on the screen is ours.

        Args:
            output: a file with what the program printed meanwhile, to be printed after its death.
        """
        if output is None:
            self._say(UP)
        else:
            with contextlib.suppress(OSError):
                socket.send_fds(self._socket, [UP], [output])

    def row_up(self) -> None:
        """From now on the last row is ours, and nothing else."""
        self._say(ROW)

    def modes_changed(self) -> None:
        """From now on the terminal has other modes, and nothing of ours is shown."""
        self._say(MODES)

    def down(self) -> None:
        """The terminal is as it was found."""
        self._say(DOWN)

    def _say(self, what: bytes) -> None:
        with contextlib.suppress(OSError):
            self._socket.send(what)

    def took_row(self) -> bool:
        """Whether it took our row away because the process was stopped; said once."""
        with contextlib.suppress(OSError):
            return bool(self._socket.recv(64, socket.MSG_DONTWAIT))
        return False

    def close(self) -> None:
        """It is needed no more, and ends."""
        self.down()
        self._socket.close()


def _modes(terminal: int) -> str:
    """The modes of a terminal as the text of a Python literal."""
    return repr(termios.tcgetattr(terminal))
