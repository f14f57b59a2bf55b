"""Threads of our own beside a running program, which finds none of them.

A program may wait for all threads that ``threading.enumerate`` tells, or count them. These are not
among them; what runs there must not ask for ``threading.current_thread()``, which would add it.
"""

from __future__ import annotations

import _thread
import errno
import os
import sys
import threading
import warnings
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
        self._is_known, self._has_ended = threading.Event(), threading.Event()
        self._process = os.getpid()
        try:
            self._number = _thread.start_new_thread(self._run, (function, args))
            _running.add(self._number)
        except RuntimeError as error:  # Python's word for it; the system's is EAGAIN
            raise OSError(errno.EAGAIN, str(error)) from None
        finally:
            self._is_known.set()

    def _run(self, function: Callable[..., object], args: tuple[object, ...]) -> None:
        self._is_known.wait()  # the program may fork before this thread does anything
        try:
            function(*args)
        finally:
            _running.discard(threading.get_ident())
            self._has_ended.set()

    def join(self, seconds: float | None = None) -> None:
        """Wait for its end; not in a forked child, which hasn't got it, nor on itself."""
        if os.getpid() == self._process and threading.get_ident() != self._number:
            self._has_ended.wait(seconds)


# Python 3.12 counts all threads of the system when it forks, and warns where there are several.

_running: set[int] = set()


class _Unsaid:
    """What a filter of warnings looks for: the warning of a fork. The filter goes once it came.

    It isn't put there, nor taken away, by the functions of `warnings`: with them what was shown
    once is shown again. The warning comes before the hooks after a fork on some Pythons, after them
    on others.
    """

    def __init__(self) -> None:
        self._filter = ("ignore", self, DeprecationWarning, None, 0)
        self._filters: list[object] = []

    def match(self, text: str) -> bool:
        found = "multi-threaded, use of " in text
        if found:
            self.remove()
        return found

    def put(self) -> None:
        self.remove()
        if _running and _count() - len(_running) == 1:
            self._filters = warnings.filters  # type: ignore[assignment]
            self._filters.insert(0, self._filter)

    def remove(self) -> None:
        if self._filter in self._filters:
            self._filters.remove(self._filter)

    def forked(self) -> None:
        """In the child, which has one thread."""
        self.remove()
        _running.clear()


def _count() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:  # another system: those of the program that Python knows
        return threading.active_count() + len(_running)


if sys.version_info >= (3, 12) and hasattr(os, "register_at_fork"):
    _unsaid = _Unsaid()
    os.register_at_fork(before=_unsaid.put, after_in_child=_unsaid.forked)
