"""Call stacks that cost next to nothing to keep, and the variables of frames."""

from __future__ import annotations

import bisect
import inspect
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType
from typing import Any

from tfdbg_cli.dumps.sources import Frame, is_debugger_code, is_library_path

__all__ = [
    "DEBUGGER",
    "LIBRARY",
    "USER",
    "Stack",
    "add_codes",
    "add_frames",
    "call_frame",
    "columns_at",
    "kind_of",
    "line_at",
    "take",
    "user_frame",
    "user_frames",
    "variables",
]

#: Whose code a frame runs. An engine may tell codes of its framework apart, by further numbers.
USER, LIBRARY, DEBUGGER = range(3)

# By address, as code is compared by its contents; what is in here can't have moved out.
_kinds: dict[int, tuple[CodeType, int]] = {}
_Place = tuple[int, tuple[int, int] | None]
_places: dict[int, tuple[CodeType, list[int], list[_Place]]] = {}
# A program that makes code all the time must not make these tables grow for ever.
_MOST_CODES = 50_000
# The end of a call that goes on in the next line.
_TO_THE_END = 1 << 20


_special: list[Callable[[], Iterable[tuple[CodeType | None, int]]]] = []
_expansions: list[Callable[[CodeType, int], Iterable[Frame]]] = []


def add_codes(codes: Callable[[], Iterable[tuple[CodeType | None, int]]]) -> None:
    """Let some codes of a framework be of a kind of their own.

    Args:
        codes: gives them, now and whenever the tables are made anew.
    """
    _special.append(codes)
    _kinds.clear()


def add_frames(frames: Callable[[CodeType, int], Iterable[Frame]]) -> None:
    """Let lines of generated code be shown as what they were generated from.

    Args:
        frames: of a code and one of its lines, innermost first; none: it is as it was written.
    """
    _expansions.append(frames)


def kind_of(code: CodeType) -> int:
    """Whose code it is; looked up once per code object."""
    found = _kinds.get(id(code))
    return found[1] if found is not None else _find_kind(code)


def _find_kind(code: CodeType) -> int:
    if not _kinds or len(_kinds) > _MOST_CODES:
        _kinds.clear()
        for special, kind in itertools.chain.from_iterable(codes() for codes in _special):
            if special is not None:
                _kinds[id(special)] = (special, kind)
        if id(code) in _kinds:
            return _kinds[id(code)][1]
    path = code.co_filename
    kind = LIBRARY if is_library_path(path) else USER
    if is_debugger_code(code):
        kind = DEBUGGER
    _kinds[id(code)] = (code, kind)
    return kind


class Stack:
    """The frames of a call, as code objects and positions in them.

    A tuple, as Python's garbage collector soon leaves one of such objects alone.

    Attributes:
        places: code, position (``f_lasti``), code, position, ... of the frames, innermost first.
        outer: the stack that this one continues.
        scope: of a stack that others continue: the module in whose call it is.
    """

    __slots__ = ("outer", "places", "scope")

    def __init__(self, places: tuple[Any, ...], outer: Stack | None = None) -> None:
        self.places = places
        self.outer = outer
        self.scope = ""

    def frames(self) -> tuple[Frame, ...]:
        """In words, outermost first, without the debugger's own."""
        found: list[Frame] = []
        stack: Stack | None = self
        while stack is not None:
            for code, position in stack.pairs():
                if kind_of(code) == DEBUGGER:
                    continue
                line = line_at(code, position)
                for frames in _expansions:
                    found += frames(code, line)
                columns = columns_at(code, position)
                found.append(Frame(code.co_filename, line, code.co_name, columns=columns))
            stack = stack.outer
        found.reverse()
        return tuple(found)

    def codes(self) -> tuple[CodeType, ...]:
        """The code of the frames, innermost first, without those of the outer stack."""
        return self.places[::2]

    def all_codes(self) -> Iterator[CodeType]:
        """The code of all frames, innermost first."""
        stack: Stack | None = self
        while stack is not None:
            yield from stack.places[::2]
            stack = stack.outer

    def pairs(self) -> Iterator[tuple[CodeType, int]]:
        """Code and position of the frames, innermost first, without those of the outer stack."""
        return zip(self.places[::2], self.places[1::2], strict=True)

    def user_line(self) -> str:
        """The innermost place in the user's own code, ``file:line in function``; may be empty."""
        stack: Stack | None = self
        while stack is not None:
            for code, position in stack.pairs():
                if kind_of(code) == USER:
                    return f"{code.co_filename}:{line_at(code, position)} in {code.co_name}"
            stack = stack.outer
        return ""


def line_at(code: CodeType, position: int) -> int:
    """The line of an instruction, the function's first line where it belongs to none."""
    return _place(code, position)[0]


def columns_at(code: CodeType, position: int) -> tuple[int, int] | None:
    """The columns of an instruction in its line, as `Frame` has them.

    Args:
        code: of the function.
        position: of the instruction (``f_lasti``).
    """
    return _place(code, position)[1]


def _place(code: CodeType, position: int) -> _Place:
    known = _places.get(id(code))
    if known is None:
        if len(_places) > _MOST_CODES:
            _places.clear()
        known = _places[id(code)] = (code, *_places_of(code))
    return known[2][max(bisect.bisect_right(known[1], position) - 1, 0)]


def _places_of(code: CodeType) -> tuple[list[int], list[_Place]]:
    """Where instructions begin that belong to another place than the one before, and the places."""
    starts = [0]
    places: list[_Place] = [(code.co_firstlineno, None)]
    before: tuple[int | None, ...] = ()
    for at, found in enumerate(code.co_positions()):
        if found == before:
            continue
        before = found
        line, last, first, end = found
        columns = None
        if line and first is not None and end is not None:
            columns = first, end if last == line else _TO_THE_END
        starts.append(2 * at)
        places.append((line or code.co_firstlineno, columns))
    return starts, places


def take(frame: FrameType | None, boundary: FrameType | None, outer: Stack | None) -> Stack:
    """The stack of a frame.

    Args:
        frame: the innermost.
        boundary: a frame that is known to be at the same place still.
        outer: the stack from that frame on.
    """
    places: list[Any] = []
    current = frame
    while current is not None:
        if current is boundary:
            return Stack((*places,), outer)
        places += (current.f_code, current.f_lasti)
        current = current.f_back
    return Stack((*places,))


def call_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame that isn't the debugger's."""
    while frame is not None:
        code = frame.f_code
        known = _kinds.get(id(code))
        if (known[1] if known is not None else _find_kind(code)) != DEBUGGER:
            break
        frame = frame.f_back
    return frame


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's own code, from a frame outwards."""
    while frame is not None:
        code = frame.f_code
        known = _kinds.get(id(code))
        if (known[1] if known is not None else _find_kind(code)) == USER:
            break
        frame = frame.f_back
    return frame


def user_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """The frames of the user's own code, innermost first."""
    while (frame := user_frame(frame)) is not None:
        yield frame
        frame = frame.f_back


# References to a dictionary of variables that nobody else holds: the frame's, ours, the call's.
_UNSHARED = 3


def variables(frame: FrameType) -> dict[str, Any]:
    """The variables of a frame, copied.

    Before Python 3.13 a frame keeps the dictionary that it hands out, and with it every tensor
    that was in a variable at that time. It is emptied again where nobody else has it.
    """
    held = frame.f_locals
    found = dict(held)
    is_snapshot = type(held) is dict and frame.f_code.co_flags & inspect.CO_OPTIMIZED
    if is_snapshot and sys.gettrace() is None and sys.getrefcount(held) <= _UNSHARED:
        held.clear()
    return found
