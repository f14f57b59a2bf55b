"""Skipping the body of a ``with`` block, whoever else traces the program."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

__all__ = ["Skip", "SkippedError", "raise_in"]


class SkippedError(BaseException):
    """Takes the place of a block's body; `Skip.disarm` knows it, nobody else ever sees it.

    It is raised at the first instruction after ``__enter__``, the one that binds what comes after
    ``as``: an error there is treated like one in the body, and no handler of the body's own is
    around it.
    """


class Skip:
    """Skips what comes next in a frame, by way of its trace function.

    Args:
        frame: the one whose ``with`` statement is being entered.
    """

    def __init__(self, frame: FrameType) -> None:
        self._frame = frame
        self._error = SkippedError("this block is run at its end")
        self._tracer: Any = None
        self._local: Any = None
        self._has_opcodes = False

    def arm(self) -> None:
        """The next instruction of the frame raises. To be called last in ``__enter__``.

        Nothing happens where tracing is off, as in the commands of a debugger: then the body runs.
        """
        frame = self._frame
        self._tracer = sys.gettrace()
        self._local, self._has_opcodes = frame.f_trace, frame.f_trace_opcodes
        # Each of the versions of Python wants another one of them to come last.
        frame.f_trace_opcodes = True
        frame.f_trace = self._trace
        frame.f_trace_opcodes = True
        sys.settrace(_ignore)

    def disarm(self, error: BaseException | None) -> bool:
        """Whoever traced before does so again. To be called first in ``__exit__``.

        Args:
            error: what ``__exit__`` was called with.

        Returns:
            Whether the body was skipped.
        """
        frame = self._frame
        frame.f_trace_opcodes = self._has_opcodes
        frame.f_trace = self._local
        sys.settrace(self._tracer)
        self._tracer = self._local = None
        self._error.__traceback__ = None  # which has this object
        return error is self._error

    def forget(self, error: BaseException) -> None:
        """Take the skipping out of the story of an error that was raised by the block."""
        seen: set[int] = set()
        while error.__context__ is not None and id(error) not in seen:
            seen.add(id(error))
            if error.__context__ is self._error:
                outer = self._error.__context__
                error.__context__ = None if outer is error else outer
                return
            error = error.__context__

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event in ("line", "opcode"):
            raise self._error
        return self._trace


def _ignore(frame: FrameType, event: str, argument: Any) -> None:
    """No frame that begins in between is traced."""


def raise_in(frame: FrameType, error: BaseException) -> bool:
    """Let the next instruction of a frame raise.

    For code that is run when an object is let go, whose own errors are raised nowhere.

    Args:
        frame: that is being run.
        error: what it raises.

    Returns:
        Whether it will: not where somebody else traces the program, who couldn't go on then.
    """
    if sys.gettrace() is not None or frame.f_trace is not None:
        return False

    def trace(frame: FrameType, event: str, argument: Any) -> None:
        frame.f_trace_opcodes = False
        raise error  # which ends the tracing

    frame.f_trace_opcodes = True
    frame.f_trace = trace
    frame.f_trace_opcodes = True
    sys.settrace(_ignore)
    return True
