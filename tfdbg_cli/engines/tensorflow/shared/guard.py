"""What each thread is in the middle of, as far as the patched sessions have to know."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = [
    "Interception",
    "aside",
    "await_run",
    "awaited",
    "bypass",
    "bypassed",
    "done",
    "entered",
    "hand_over",
    "intercept",
    "interceptions",
    "note_done",
    "runner",
]


@dataclass(frozen=True, eq=False)
class Interception:
    """A run that a monitored session will ask of its own session, and what to do with it.

    Attributes:
        fetches: the object that the user asked for.
        run: called instead, as ``run(session, plain, fetches, feed_dict, options, metadata)``
            where ``plain`` is the framework's own ``run``.
        session: whose run it is, or a wrapper of it; ``None``: any session's. A run that is given
            up before it begins leaves its interception, which another session mustn't meet.
    """

    fetches: Any
    run: Callable[..., Any]
    session: Any = None

    def matches(self, session: Any, fetches: Any) -> bool:
        """Whether a run's fetches are the monitored session's, hooks' fetches and all."""
        if not isinstance(fetches, dict) or fetches.get("caller", self) is not self.fetches:
            return False
        expected = self.session
        while expected is not None and expected is not session:
            expected = getattr(expected, "session", None)
        return self.session is None or expected is session


class _SessionCall(NamedTuple):
    session: Any
    plain: Callable[..., Any]
    method: str


class _State(threading.local):
    def __init__(self) -> None:
        self.depth = 0
        self.done = 0
        self.awaited: list[Any] = []
        self.runners: list[_SessionCall] = []
        self.interceptions: list[Interception] = []


_STATE = _State()


def bypassed() -> bool:
    """Whether runs on this thread are the debugger's own or housekeeping within them."""
    return _STATE.depth > 0


@contextmanager
def bypass() -> Iterator[None]:
    """Runs within go straight through."""
    _STATE.depth += 1
    try:
        yield
    finally:
        _STATE.depth -= 1


@contextmanager
def entered(session: Any, plain: Callable[..., Any], method: str = "run") -> Iterator[None]:
    """A patched method of ``session`` was called; ``plain`` is what it was before."""
    _STATE.runners.append(_SessionCall(session, plain, method))
    try:
        yield
    finally:
        _STATE.runners.pop()


def runner(session: Any, method: str = "run") -> Callable[..., Any]:
    """The framework's method of a session: the one behind the patch it was entered through."""
    run: Callable[..., Any] = getattr(session, method)
    for door in _STATE.runners:
        if door.session is session and door.method == method:
            run = door.plain
    return run


def note_done() -> None:
    """The runtime has done its work for a run, or for a part of one."""
    _STATE.done += 1


def done() -> int:
    """How often the runtime has done its work on this thread, where the doors were open."""
    return _STATE.done


def await_run(extras: Any) -> None:
    """Something is to be asked of the runtime besides, by the run of this thread that begins."""
    _STATE.awaited.append(extras)


def awaited() -> list[Any]:
    """What `await_run` has got; it is awaited no more."""
    found, _STATE.awaited = _STATE.awaited, []
    return found


@contextmanager
def aside() -> Iterator[None]:
    """A run is made within, maybe in the middle of another one: what that awaits isn't for it."""
    before = awaited()
    try:
        yield
    finally:
        _STATE.awaited = before


def intercept(interception: Interception) -> Callable[[], None]:
    """From now on runs of this thread that match are handed over; returns what ends it."""
    stack = _STATE.interceptions
    stack.append(interception)

    def withdraw() -> None:
        if interception in stack:
            stack.remove(interception)

    return withdraw


def interceptions(session: Any, fetches: Any) -> list[Interception]:
    """Those that wait for these fetches of a session, the outermost first."""
    return [each for each in _STATE.interceptions if each.matches(session, fetches)]


def hand_over(
    interception: Interception, session: Any, plain: Callable[..., Any], *arguments: Any
) -> Any:
    """Let an interception have a run; runs that this makes with the same fetches are not for it."""
    stack = _STATE.interceptions
    place = stack.index(interception)
    del stack[place]
    try:
        return interception.run(session, plain, *arguments)
    finally:
        stack.insert(place, interception)
