"""The errors that are shown to a person as one line: what went wrong, and what to do about it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, TracebackType

from tfdbg_cli.common.printable import cut, printable

__all__ = [
    "DumpError",
    "UserError",
    "compile_regex",
    "did_you_mean",
    "message_of",
    "one_line",
    "related",
    "with_frames",
]


class UserError(Exception):
    """A mistake that the user can mend: a wrong name, option, slice, file.

    Args:
        message: the cause, one sentence, no traceback.
        hint: the fix, if there is one to offer; shown after the message.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message


class DumpError(UserError):
    """A part of a dump is missing, damaged or not what its name promises."""


# Nobody mistypes a longer name by a letter or two.
_LONGEST_NAME = 400


def did_you_mean(name: str, candidates: Iterable[str], limit: int = 3) -> str:
    """Names close to a mistyped one, as a sentence.

    Args:
        name: what the user wrote.
        candidates: the names that exist; at most the first 20,000 are compared.
        limit: how many to offer.

    Returns:
        ``"Did you mean a/b, a/c?"``, or an empty string when nothing is close. A candidate that
        contains the name counts as close, then one with the same last part: ``b/log:0`` for
        ``a/Log:0``, and for ``a/Log``.
    """
    if len(name) > _LONGEST_NAME:
        return ""
    names: list[str] = []
    for candidate in candidates:
        names.append(candidate)
        if len(names) >= 20_000:
            break
    lowered = name.lower()
    close = [c for c in names if lowered and lowered in c.lower()]
    close.sort(key=len)
    last = lowered.rpartition("/")[2]
    if last and len(close) < limit:
        elsewhere = [c for c in names if last in _last_parts(c, with_slot=":" in last)]
        elsewhere = difflib.get_close_matches(name, elsewhere[:500], n=limit, cutoff=0.0)
        close += [match for match in elsewhere if match not in close]
    if len(close) < limit:
        # difflib is quadratic in the length: a few thousand candidates are enough for a hint.
        for match in difflib.get_close_matches(name, names[:5_000], n=limit, cutoff=0.6):
            if match not in close:
                close.append(match)
    if not close:
        return ""
    return f"Did you mean {', '.join(close[:limit])}?"


def compile_regex(text: str, what: str = "") -> re.Pattern[str]:
    """A regex of the user's, searched anywhere in a name.

    Args:
        text: the pattern.
        what: the option it came from, for the message.

    Raises:
        UserError: it is malformed.
    """
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        option = f"{what}: " if what else ""
        raise UserError(f'{option}"{text}" is not a regular expression: {error}.') from None


def message_of(error: BaseException) -> str:
    """What an exception says of itself; an exception of the program's may fail even at that."""
    try:
        return str(error)
    except Exception:
        return "<exception str() failed>"  # as in python's tracebacks


def _last_parts(name: str, *, with_slot: bool) -> tuple[str, ...]:
    """What stands behind the last slash of a name, and the same without its slot."""
    last = name.rpartition("/")[2].lower()
    return (last,) if with_slot else (last, last.partition(":")[0])


def one_line(error: BaseException, limit: int = 300) -> str:
    """An exception as one line, ``Type: message``, cut at ``limit`` characters.

    A `UserError` is its message: that is for people.
    """
    text = printable(" ".join(message_of(error).split()))
    name = type(error).__name__
    if not (text and isinstance(error, UserError)):
        text = f"{name}: {text}" if text else name
    return cut(text, limit)


def related(error: BaseException) -> Iterator[BaseException]:
    """An exception, its causes and contexts and the members of groups, each once."""
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        pending += [current.__cause__, current.__context__]
        if isinstance(current, BaseExceptionGroup):
            pending += current.exceptions


def with_frames(
    traceback: TracebackType | None, keep: Callable[[FrameType], bool]
) -> TracebackType | None:
    """A traceback without the frames that aren't to be kept.

    Args:
        traceback: its outermost entry; it isn't changed.
        keep: whether a frame is.
    """
    kept: list[TracebackType] = []
    while traceback is not None:
        if keep(traceback.tb_frame):
            kept.append(traceback)
        traceback = traceback.tb_next
    made: TracebackType | None = None
    for each in reversed(kept):
        made = TracebackType(made, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return made
