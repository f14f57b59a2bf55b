"""What can go wrong with a trace block, and tracebacks that show the user's lines."""

from __future__ import annotations

import sys
from types import FrameType, TracebackType

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.sources import is_debugger_code

__all__ = [
    "AbsentError",
    "OutOfOrderError",
    "TraceBlockError",
    "TraceError",
    "WithBlockNotFoundError",
    "user_line",
]


class TraceError(UserError):
    """Something in a trace block asks for what the run can't give: an unknown name, a run that is
    over, a result that there is none of.
    """


class AbsentError(TraceError):
    """A run doesn't make a tensor of this name.

    Attributes:
        is_elsewhere: other runs may make it.
    """

    def __init__(self, message: str, hint: str = "", *, is_elsewhere: bool = False) -> None:
        super().__init__(message, hint)
        self.is_elsewhere = is_elsewhere


class OutOfOrderError(TraceError):
    """A block asks for a value that the run has passed; the message shows the order of nodes."""


class WithBlockNotFoundError(TraceError):
    """The source of a trace block isn't known; the message shows the lines looked at."""


class TraceBlockError(TraceError, SyntaxError):
    """A statement of a trace block would leave it: the block is refused before anything runs.

    It is a `SyntaxError` as well, so that tracebacks show the line.

    Args:
        message: what is wrong.
        hint: what to do instead.
        filename: the file of the block.
        line: the line of the statement, from 1.
        column: its column, from 0.
        text: the line's text.
    """

    def __init__(
        self, message: str, hint: str, filename: str, line: int, column: int, text: str
    ) -> None:
        super().__init__(message, hint)
        self.msg = str(self)
        self.filename, self.lineno, self.offset, self.text = filename, line, column + 1, text


def user_line() -> TracebackType | None:
    """The line of the program that is being run, as part of a traceback to be shown later."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_debugger_code(frame.f_code):
        frame = frame.f_back
    return None if frame is None else TracebackType(None, frame, frame.f_lasti, frame.f_lineno)
