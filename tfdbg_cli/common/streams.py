"""stdin, stdout and stderr as they were when the debugger started, with handles of our own.

A program may put other objects in the place of ``sys.stdout`` (``redirect_stdout``), or another
file on descriptor 1 (``dup2``), for as long as it likes: what it catches is its own output, and a
person who is asked for a command is to see the question.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import stat
import sys
import traceback
import weakref
from typing import Any, TextIO

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.printable import printable

__all__ = [
    "OwnDescriptor",
    "Streams",
    "TextSink",
    "high_copy",
    "in_kernel",
    "is_terminal",
    "is_unread",
    "tell",
    "tell_failure",
]

# Where descriptors of our own begin: a program may count on the low ones.
_FIRST = 100


class OwnDescriptor:
    """A descriptor of our own for what a descriptor of the process leads to.

    Args:
        number: the descriptor of the process.
    """

    def __init__(self, number: int) -> None:
        self._number = high_copy(number)
        self._what = _identity(self._number)
        if hasattr(os, "register_at_fork"):
            _OWN.add(self)

    @property
    def number(self) -> int:
        """The descriptor; -1: there is none, or the program has closed it with all others."""
        # It may have been given away again, to a file of the program's.
        is_ours = self._what is not None and _identity(self._number) == self._what
        return self._number if is_ours else -1

    @property
    def is_terminal(self) -> bool:
        """Whether it leads to a terminal."""
        number = self.number
        return is_terminal(number)

    def leads_where(self, number: int) -> bool:
        """Whether a descriptor of the process leads there still."""
        return self._what is not None and _identity(number) == self._what

    def close(self) -> None:
        """It is needed no more."""
        number, self._what = self.number, None
        if number >= 0:
            os.close(number)

    def __del__(self) -> None:
        with contextlib.suppress(TypeError):  # at the interpreter's end, when modules are gone
            self.close()


def high_copy(number: int) -> int:
    """Another descriptor for the same, above those that a program counts on; -1: there is none."""
    try:
        import fcntl

        return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _FIRST)
    except (ImportError, OSError):  # no such system; few descriptors, or none of this number
        with contextlib.suppress(OSError):
            return os.dup(number)
    return -1


def _identity(number: int) -> tuple[int, int, int] | None:
    try:
        found = os.fstat(number)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_rdev


#: In a forked child what is no terminal is let go: whoever reads the other end of a pipe waits for
#: its end, and not for that of a daemon.
_OWN: weakref.WeakSet[OwnDescriptor] = weakref.WeakSet()


def _after_fork() -> None:
    for own in list(_OWN):
        if not own.is_terminal:
            own.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class TextSink:
    """Writes text to a stream in order with what the program prints there.

    A reader that went away (``| head``) silences the sink and nothing else. Text for a real file
    goes past the stream's buffer, so that none of ours is left in it to fail at the program's next
    print; it goes there also when the program has the stream lead elsewhere.

    Args:
        stream: the program's stdout or stderr as it is now; ``None``: there is none.
        is_for_messages: what can't be written here can't be told of anywhere.

    Attributes:
        broken: nothing can be written any more.
        is_full: that is for want of room; nobody has closed it.
    """

    def __init__(self, stream: TextIO | None, *, is_for_messages: bool = False) -> None:
        self.stream = stream
        self._is_for_messages = is_for_messages
        self.broken = self.is_full = False
        self._own: OwnDescriptor | None = None
        # Only a real text file: the streams of notebooks have a fileno that isn't theirs.
        if os.name != "nt" and isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(OSError, ValueError):
                self._own = OwnDescriptor(stream.fileno())

    @property
    def is_terminal(self) -> bool:
        """Whether a person reads what is written."""
        if self._own is not None and self._own.number >= 0:
            return self._own.is_terminal
        return is_terminal(self.stream)

    def flush(self) -> None:
        """Have written what the program has written to the stream, if it goes where ours goes."""
        stream = self.stream
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or none
            if stream is not None and (self._own is None or self._own.leads_where(stream.fileno())):
                stream.flush()

    def write(self, text: str) -> None:
        """Write text, after everything that was written to the stream before."""
        if self.broken or not text or self.stream is None:
            return
        self.flush()
        number = self._own.number if self._own is not None else -1
        try:
            if number < 0:
                self.stream.write(text)
                self.stream.flush()
            else:
                encoding = self.stream.encoding or "utf-8"
                _write_bytes(number, text.encode(encoding, "replace"))
        except (OSError, ValueError, AttributeError, TypeError) as error:
            # A closed pipe, a full disk, no stream at all: nobody reads us.
            self.broken = True
            if isinstance(error, OSError) and error.errno in _NO_SPACE:
                self.is_full = True
                if not self._is_for_messages:
                    tell(f"the debugger's output can't be written any more: {error.strerror}.")


def _write_bytes(number: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(number, view) :]
        except BlockingIOError:
            select.select([], [number], [])


class Streams:
    """The three of them, as they are now.

    Args:
        stdin: another one in the place of the process's.

    Attributes:
        stdin: the object that the process reads.
        out: for what is asked for.
        err: for messages.
    """

    def __init__(self, stdin: TextIO | None = None) -> None:
        self.stdin = sys.stdin if stdin is None else stdin
        self.out, self.err = TextSink(sys.stdout), TextSink(sys.stderr, is_for_messages=True)
        self._stdout = sys.stdout
        self._terminal = OwnDescriptor(0), OwnDescriptor(1)
        self._was_typed = stdin is None and is_terminal(self.stdin)

    def take_messages(self) -> None:
        """What is `tell`-ed goes here from now on."""
        _CURRENT[:] = [weakref.ref(self)]

    @property
    def terminal(self) -> tuple[int, int]:
        """Descriptors for what a terminal's keys are read from, and what it shows."""
        keys, screen = (own.number for own in self._terminal)
        return keys if keys >= 0 else 0, screen if screen >= 0 else 1

    @property
    def is_redirected(self) -> bool:
        """Whether the program's input or output leads elsewhere now."""
        if sys.stdin is not self.stdin or sys.stdout is not self._stdout:
            return True
        return not all(own.leads_where(number) for number, own in enumerate(self._terminal))

    @property
    def asks_a_person(self) -> bool:
        """Whether a person types what is read."""
        return self._has_keys or is_terminal(self.stdin)

    @property
    def _has_keys(self) -> bool:
        return self._was_typed and self._terminal[0].is_terminal

    def readline(self) -> str:
        """The next line; empty: there will be no more.

        Raises:
            OSError, ValueError: it is closed, or no text.
        """
        keys = self._terminal[0]
        if self._has_keys and (self.stdin.closed or not keys.leads_where(0)):
            return os.read(keys.number, 1 << 16).decode("utf-8", "replace")  # terminals give lines
        return self.stdin.readline() if self.stdin is not None else ""


def in_kernel() -> bool:
    """Whether this process is a Jupyter kernel that shows what is printed."""
    return "ipykernel" in sys.modules and type(sys.stdout).__module__.startswith("ipykernel")


def is_terminal(stream: Any) -> bool:
    """Whether a descriptor, or a stream, is one; what the program puts there may not know."""
    try:
        return os.isatty(stream) if isinstance(stream, int) else bool(stream.isatty())
    except (AttributeError, ValueError, OSError):
        return False


def is_unread(number: int) -> bool:
    """Whether there is more in a file or a pipe than was read of it."""
    with contextlib.suppress(ImportError, OSError):
        found = os.fstat(number)
        if stat.S_ISREG(found.st_mode):
            return os.lseek(number, 0, os.SEEK_CUR) < found.st_size
        if stat.S_ISFIFO(found.st_mode):
            import fcntl
            import termios

            size = bytearray(4)
            fcntl.ioctl(number, termios.FIONREAD, size)
            return any(size)
    return False


_CURRENT: list[weakref.ref[Streams]] = []


def tell_failure(error: Exception) -> None:
    """Say what went wrong with us, and that the program goes on."""
    # Where the system refuses something, where we were doesn't help anybody.
    is_refused = isinstance(error, OSError | MemoryError)
    trace = "" if is_refused else "".join(traceback.format_exception(error))
    tell(f"the debugger failed: {one_line(error)}; the program goes on without it.", trace)


def tell(text: str, details: str = "") -> None:
    """A line from the debugger on the stderr that it was started with, or the one of now.

    Args:
        text: the line.
        details: what goes before it, whole lines.
    """
    current = _CURRENT[0]() if _CURRENT else None
    sink = current.err if current is not None else TextSink(sys.stderr, is_for_messages=True)
    before = "\n".join(map(printable, details.split("\n")))
    sink.write(f"{before}tfdbg: {printable(' '.join(text.split()))}\n")
