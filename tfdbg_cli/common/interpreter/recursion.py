"""The recursion limit of the program, for which frames of ours between its own don't count.

Where frames of ours stand between two of the program's, the limit is higher by as many for as long.
While we are at work it is higher by as much as that takes: we don't stop a program that is close
to its limit. What it reads and sets is its own number all the while.
"""

from __future__ import annotations

import operator
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, ClassVar

__all__ = ["ROOM", "Passage", "depth", "lift", "limit_now", "spare"]

#: How many frames our work takes, at most.
ROOM = 400
# How much more a call from C counts than one from Python.
_IN_C = 2 if sys.version_info < (3, 12) else 0

_get: Callable[[], int] = sys.getrecursionlimit
#: The limit as the interpreter has it, lifted or not.
limit_now = _get
_set: Callable[[int], None] = sys.setrecursionlimit
_lock = threading.RLock()
_lifted = 0  # by how much the limit is higher than the program's
_put = 0  # the limit that was set here last
_spare = 0  # how much of that is for frames that come and go without a word


def lift(count: int, free: int | None = None) -> bool:
    """Let the limit be higher than the program's by so much more, or (below 0) by less.

    Args:
        count: by how much.
        free: nothing is done unless the program's own limit leaves room for so many frames more;
            ``None``: whatever it leaves.

    Returns:
        Whether it was done.
    """
    global _lifted, _put
    with _lock:
        current = _get()
        if free is not None:
            try:
                _set(max(current - _spare - free, 1))
            except RecursionError:
                return False
        if current != _put:  # somebody who knew nothing of this has set it
            current += _lifted
        _lifted += count
        try:
            _set(current + count)
        except RecursionError:  # the stack is deeper: by frames that are about to return
            pass
        _put = _get()
        if not _lifted:
            _leave()
        elif _lifted == count:
            _enter()
    return True


def spare(count: int) -> None:
    """Likewise, for frames of ours at the very end of the stack that don't lift it themselves."""
    global _spare
    _spare += count
    lift(count)


def depth() -> int:
    """How deep the stack of the caller is, as the interpreter counts it for the limit."""
    try:
        _set(1)
    except RecursionError as error:
        return _told(error) - 1
    raise RuntimeError("the interpreter doesn't tell")


def _told(error: RecursionError) -> int:
    """The depth that the limit is too low for."""
    return int(str(error).partition(" depth ")[2].partition(":")[0])  # a pattern takes longer


class Passage:
    """Work of ours in which the program goes on for a while.

    Args:
        plain: what the program has called, and goes on in.
        is_called_in_c: whether the function that makes this stands for one that is called in C.
    """

    #: How many frames there are besides those between entering this and going on.
    more: ClassVar[int] = 0

    def __init__(self, plain: Callable[..., Any], *, is_called_in_c: bool = False) -> None:
        self._plain = plain
        self._depth = self.count = 0
        self._more = self.more + (_IN_C if is_called_in_c else 0)

    def __enter__(self) -> Callable[..., Any]:
        self._depth = depth()
        lift(ROOM)
        return self._go_on

    def __exit__(self, *error: object) -> None:
        lift(-ROOM)

    def _go_on(self, *args: Any, **kwargs: Any) -> Any:
        self.count = depth() - self._depth + self._more
        lift(self.count - ROOM)
        try:
            return self._plain(*args, **kwargs)
        finally:
            lift(ROOM - self.count)


def _calibrate() -> None:
    """The interpreter counts calls in C as well until Python 3.11."""

    def here() -> int:
        return depth()

    def through() -> int:
        with passage as go_on:
            deep: int = go_on()
            return deep

    passage = Passage(here)
    Passage.more = through() - here() - passage.count


# What the program finds in `sys` meanwhile.


def _getrecursionlimit() -> int:
    with _lock:
        current = _get()
        return current - _lifted if current == _put else current


def _setrecursionlimit(limit: int, /) -> None:
    global _put
    with _lock:
        number = operator.index(limit)
        try:
            _set(number + _lifted if number > 0 else number)
        except RecursionError as error:
            text, deep = str(error), _told(error)
            text = text.replace(str(deep), str(deep - _lifted - 1))
            raise RecursionError(text.replace(str(number + _lifted), str(number))) from None
        _put = _get()


_OWN = {"getrecursionlimit": _getrecursionlimit, "setrecursionlimit": _setrecursionlimit}
_PLAIN = {"getrecursionlimit": _get, "setrecursionlimit": _set}
for _name, _function in _OWN.items():
    _function.__name__ = _function.__qualname__ = _name
    _function.__module__ = "sys"
    _function.__doc__ = _PLAIN[_name].__doc__


def _enter() -> None:
    for name, plain in _PLAIN.items():
        if getattr(sys, name) is plain:
            setattr(sys, name, _OWN[name])


def _leave() -> None:
    for name, own in _OWN.items():
        if getattr(sys, name) is own:
            setattr(sys, name, _PLAIN[name])


def _forget() -> None:
    """In a forked child: nobody else has the lock."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

_calibrate()
