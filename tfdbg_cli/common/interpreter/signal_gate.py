"""Lets the program's signal handlers run between two pieces of the debugger's work, never amid one.

What a handler raises in the middle of our work would leave a state of ours in the program (a mode
that is on, gradients that are off), or be lost in what catches failures of ours, in a weak
reference's callback. So a gate stands before each handler and asks where a signal has come in; for
all that the program can see, its handlers are its own.
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, TypeVar

__all__ = ["STAND_IN", "add_helpers", "at_a_stop", "install", "uninterrupted"]

#: The name of functions of ours that seem to be at a place of the program's.
STAND_IN = "<tfdbg_cli>"

F = TypeVar("F", bound=Callable[..., Any])

# Seconds after which a handler runs wherever we are: somebody wants to end the program.
_LONGEST = 2.0

_OURS = os.path.join(os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")), "")
# Where context managers begin and end: of whoever has called them.
_helpers = {contextlib.contextmanager.__code__.co_filename}
# Whatever is raised in these is lost.
_LOST = frozenset(
    kind.__init__.__code__.co_filename for kind in (weakref.WeakKeyDictionary, weakref.WeakSet)
)
# The names of Python's own module, also those that aren't for everybody.
_NAMES = vars(signal)
_work: set[CodeType] = set()
_stops: set[CodeType] = set()


def uninterrupted(function: F) -> F:
    """A function in the midst of which no handler of the program's runs."""
    _work.add(function.__code__)
    return function


def at_a_stop(function: F) -> F:
    """A function that waits for a person: handlers run at any time in all that it calls."""
    _stops.add(function.__code__)
    return function


def add_helpers(*files: str) -> None:
    """Files whose functions begin and end what their caller asks for, as `contextlib`'s do."""
    _helpers.update(files)


def install() -> None:
    """Put a gate before each handler that the program has, and will have."""
    if threading.current_thread() is not threading.main_thread() or _is_installed():
        return  # only that thread may say what handles a signal
    if not {"_enum_to_int", "_int_to_enum", "_signal"} <= _NAMES.keys():
        return  # another Python: its handlers run at any time
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    # `signal.signal` and `signal.getsignal` bring each handler through these: they stay as they
    # are, also where a module has imported them by name.
    _NAMES.update(
        _enum_to_int=_ArgumentConverter(_NAMES["_enum_to_int"]),
        _int_to_enum=_ResultConverter(_NAMES["_int_to_enum"]),
    )
    for number, handler in handlers.items():
        if callable(handler):
            signal.signal(number, handler)


def _is_installed() -> bool:
    return isinstance(_NAMES.get("_enum_to_int"), _ArgumentConverter)


class _ArgumentConverter:
    """What `signal.signal` does to what the program gives."""

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        self._convert = convert

    def __call__(self, value: Any) -> Any:
        return _Gate(value) if callable(value) else self._convert(value)


class _ResultConverter:
    """What `signal.signal` and `signal.getsignal` do to what the program gets."""

    def __init__(self, convert: Callable[..., Any]) -> None:
        self._convert = convert

    def __call__(self, value: Any, *kind: Any) -> Any:
        return value.handler if isinstance(value, _Gate) else self._convert(value, *kind)


class _Gate:
    """Stands before the handler of a signal.

    Attributes:
        handler: the program's own.
    """

    def __init__(self, handler: Callable[[int, FrameType | None], Any]) -> None:
        self.handler = handler
        self._since: float | None = None
        self._number: int | None = None

    # What the property gives is called by the interpreter itself: no traceback of what a handler
    # raises has a frame of ours.
    @property
    def __call__(self) -> Callable[..., Any]:
        if self._waits(sys._getframe().f_back):
            assert self._number is not None
            return {_Again(self._number): None}.get  # does nothing, and is gone then
        self._since = None
        return self.handler

    def _waits(self, frame: FrameType | None) -> bool:
        if not _is_amid_work(frame):
            return False
        if self._number is None:
            get, numbers = _NAMES["_signal"].getsignal, range(1, signal.NSIG)
            self._number = next((number for number in numbers if get(number) is self), None)
        if self._number is None:
            return False  # the program has just put another in its place
        now = time.monotonic()
        if self._since is None:
            self._since = now
        return now - self._since < _LONGEST and not _is_waking()


class _Again(int):
    """Lets a signal come in once more when this is gone: the interpreter looks at its next call.

    No line of Python runs after that here, or the signal would be looked at here again.
    """

    __slots__ = ()
    # Gives ``partial(interrupt_main, self)``, which is then called.
    __del__ = property(functools.partial(functools.partial, _thread.interrupt_main))


def _is_amid_work(frame: FrameType | None) -> bool:
    if frame is None or frame.f_code.co_filename in _LOST:
        return frame is not None
    whose: FrameType | None = frame
    while whose is not None and whose.f_code.co_filename in _helpers:
        whose = whose.f_back
    code = whose.f_code if whose is not None else None
    is_ours = code is not None and (code.co_filename.startswith(_OURS) or code.co_name == STAND_IN)
    if is_ours and whose is not frame:
        return True  # a context of ours begins or ends
    while whose is not None:
        if whose.f_code in _work:
            return True
        if whose.f_code in _stops:
            return False
        whose = whose.f_back
    return is_ours


def _is_waking() -> bool:
    """Whether each signal that comes in is also written to a descriptor: only once, then."""
    descriptor = signal.set_wakeup_fd(-1)
    if descriptor != -1:
        signal.set_wakeup_fd(descriptor)
    return descriptor != -1
