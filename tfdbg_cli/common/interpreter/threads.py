"""Threads of our own beside a running program, which finds none of them.

A program may wait for all threads that ``threading.enumerate`` tells, or count them. These are not
among them; what runs there must not ask for ``threading.current_thread()``, which would add it.
"""

from __future__ import annotations

import _thread
import errno
import os
import threading
from collections.abc import Callable

__all__ = ["OwnThread"]


class OwnThread:
    """A thread that the interpreter doesn't wait for at its end.

    Args:
        function: what it does.
        args: of the function.

    Raises:
        OSError: there can be no more threads.
    """

    def __init__(self, function: Callable[..., object], *args: object) -> None:
        self._has_ended = threading.Event()
        self._process = os.getpid()
        try:
            self._number = _thread.start_new_thread(self._run, (function, args))
        except RuntimeError as error:  # Python's word for it; the system's is EAGAIN
            raise OSError(errno.EAGAIN, str(error)) from None

    def _run(self, function: Callable[..., object], args: tuple[object, ...]) -> None:
        try:
            function(*args)
        finally:
            self._has_ended.set()

    def join(self, seconds: float | None = None) -> None:
        """Wait for its end; not in a forked child, which hasn't got it, nor on itself."""
        if os.getpid() == self._process and threading.get_ident() != self._number:
            self._has_ended.wait(seconds)
