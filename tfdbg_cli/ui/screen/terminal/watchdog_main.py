"""The process behind `terminal.watchdog`: run as a script, imports nothing of ours."""

from __future__ import annotations

import ast
import contextlib
import os
import select
import signal
import socket
import sys
import termios
import time
from typing import Any

__all__ = ["main"]

# What of the terminal is not as it was found: the whole screen, the last row, its modes, nothing.
UP, ROW, MODES, DOWN = b"U", b"R", b"M", b"D"

# The alternate screen, the mouse (four modes), focus reports, bracketed paste, cursor keys and
# keypad, the scroll region (which moves the cursor), attributes, and the cursor itself.
RESTORE = (
    b"\x1b[?1049l"
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l"
    b"\x1b[?1l\x1b>\x1b7\x1b[r\x1b8\x1b[0m\x1b[?25h\r"
)


# The row that tells how far the program is. The cursor is where the program, and by now perhaps
# the shell, has written last: leaving an alternate screen that isn't up would move it.
CLEAR_ROW = b"\x1b7\x1b[r\x1b[999;1H\x1b[2K\x1b8"


# For so long the terminal has one row less: whoever is at its prompt is told of both sizes.
NUDGE = 0.05

# How often it is looked whether the process is stopped, while it has a row.
GLANCE = 0.1


def _is_stopped(pid: int) -> bool:
    """Whether a process waits for SIGCONT, as after Ctrl-Z."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2][:1] == b"T"
    except OSError:  # not everywhere
        with os.popen(f"ps -o state= -p {pid}") as answer:
            return answer.read()[:1] == "T"


def _take_row(channel: socket.socket) -> None:
    """Take the row away, and say so to the process for when it goes on."""
    with contextlib.suppress(OSError):
        os.write(1, CLEAR_ROW)
        channel.send(b"T")


def _watch(channel: socket.socket, process: int | None, pid: int) -> tuple[bytes, int | None]:
    """Wait for the end of the process; returns what was up on the terminal, and its output file."""
    is_up, output = DOWN, None
    while True:
        sources = [channel.fileno()] if process is None else [channel.fileno(), process]
        ready, _, _ = select.select(sources, [], [], GLANCE if is_up == ROW else None)
        if not ready and _is_stopped(pid):
            _take_row(channel)
            is_up = DOWN
        elif channel.fileno() in ready:
            data, files, _, _ = socket.recv_fds(channel, 64, 4)
            if not data:
                return is_up, output
            if output is not None:
                os.close(output)
            is_up, output = data[-1:], files[-1] if files else None
        elif ready:
            # What it said before it died may still be on its way.
            channel.setblocking(False)
            with contextlib.suppress(BlockingIOError, ConnectionError):
                data, files, _, _ = socket.recv_fds(channel, 64, 4)
                if data:
                    is_up, output = data[-1:], files[-1] if files else None
            return is_up, output


def _restore(is_up: bytes, modes: list[Any], output: int | None) -> None:
    """Put the terminal on descriptor 1 into order and print what was held back."""
    with contextlib.suppress(OSError, termios.error):
        os.write(1, {UP: RESTORE, ROW: CLEAR_ROW}.get(is_up, b""))
        if is_up in (UP, MODES):
            termios.tcsetattr(1, termios.TCSADRAIN, modes)
    at = 0
    with contextlib.suppress(OSError):
        while output is not None and (chunk := os.pread(output, 1 << 16, at)):
            at += os.write(1, chunk)


def _nudge() -> None:
    """Have the shell draw its prompt again.

    A shell knows of a death before this process does, and may have drawn its prompt on the
    alternate screen. Shells draw it anew when the terminal gets another size.
    """
    with contextlib.suppress(OSError, termios.error):
        rows, columns = termios.tcgetwinsize(1)
        if rows > 1:
            termios.tcsetwinsize(1, (rows - 1, columns))
            time.sleep(NUDGE)
            if termios.tcgetwinsize(1) == (rows - 1, columns):  # nobody else has changed it
                termios.tcsetwinsize(1, (rows, columns))


def main(channel_fd: int, pid: int, modes: str) -> None:
    """Leave the caller's children, and watch."""
    if os.fork():
        os._exit(0)
    for name in ("SIGINT", "SIGQUIT", "SIGHUP", "SIGTERM", "SIGTTOU", "SIGTSTP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    process = None
    with contextlib.suppress(OSError, AttributeError):
        # Where the system has it: children of the program may hold the other end of the channel.
        process = os.pidfd_open(pid)
    is_up, output = _watch(socket.socket(fileno=channel_fd), process, pid)
    _restore(is_up, ast.literal_eval(modes), output)
    if is_up == UP:
        _nudge()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
