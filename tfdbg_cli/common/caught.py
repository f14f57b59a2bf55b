"""The errors in the debugger's own work that were kept away from the program and the screens."""

from __future__ import annotations

import os
from collections import OrderedDict
from types import TracebackType
from typing import Any, NamedTuple

__all__ = ["CaughtError", "caught", "keep"]

_MOST = 200
_HOME = os.path.join(os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")), "")


class CaughtError(NamedTuple):
    """An error, counted for each text and place.

    Attributes:
        error: ``Type: message``.
        caught_at: ``file:line in function``.
        raised_at: likewise.
        times: how often.
        number: the last one's among all that were caught, from 1.
    """

    error: str
    caught_at: str
    raised_at: str
    times: int
    number: int


# Each operation on it is one of C's: threads of ours and of the program's come here without a lock,
# which a forked child might find locked for ever.
_kept: OrderedDict[tuple[str, str, str], tuple[int, int]] = OrderedDict()
_total = 0
_args: Any = vars(BaseException)["args"]


def keep(error: BaseException) -> None:
    """Remember an error that nobody else is told of: its words, never its frames and their values.

    Nothing of the program's is called. The ``__str__`` of an error may be the program's, and the
    ``repr`` of a tensor among its arguments would be an op.
    """
    global _total
    words = [str(each) for each in _args.__get__(error) if type(each) in {str, int, float}]
    last = first = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    key = (": ".join([type(error).__name__, *words])[:300], _place(first), _place(last))
    _total += 1
    _kept[key] = (_kept.pop(key, (0, 0))[0] + 1, _total)
    if len(_kept) > _MOST:
        _kept.popitem(last=False)


def caught(after: int = 0) -> list[CaughtError]:
    """The last 200 different errors, the newest last.

    Args:
        after: only those that have come since this number.
    """
    return [CaughtError(*key, *found) for key, found in _kept.copy().items() if found[1] > after]


def _place(at: TracebackType | None) -> str:
    if at is None:
        return ""
    code = at.tb_frame.f_code
    return f"{code.co_filename.removeprefix(_HOME)}:{at.tb_lineno} in {code.co_qualname}"
