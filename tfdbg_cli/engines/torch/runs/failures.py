"""Errors of a program: whether they are PyTorch's, and where in the user's code they come from."""

from __future__ import annotations

import dis
from types import FrameType, TracebackType

import torch

from tfdbg_cli.dumps.sources import is_debugger_code, without_debugger

__all__ = ["is_framework_error", "with_callers"]

_PYTORCH = torch.__path__[0]
# What PyTorch's C++ code and the checks in its Python code raise; `OutOfMemoryError` and
# `NotImplementedError` are among them.
_KINDS = (RuntimeError, IndexError, ValueError, TypeError, AssertionError)


def is_framework_error(error: BaseException) -> bool:
    """Whether PyTorch itself raised an error: C++ code, or a check in its Python code."""
    if not isinstance(error, _KINDS):
        return False
    last = _last(error)
    if last is None:  # as a function of the API is left that has no frame of its own
        return True
    if last.tb_frame.f_code.co_filename.startswith(_PYTORCH):
        return True
    # A call that raised without a frame of its own went to C++; the others are statements.
    return isinstance(error, RuntimeError) and not _is_raise(last)


def with_callers(trace: TracebackType | None, frame: FrameType | None) -> TracebackType | None:
    """The traceback that an error would have had it left all frames of the program.

    Args:
        trace: its traceback so far.
        frame: where it has been caught; this one and what has called it are added.
    """
    made = without_debugger(trace)
    while frame is not None:
        if not is_debugger_code(frame.f_code):
            made = TracebackType(made, frame, frame.f_lasti, frame.f_lineno)
        frame = frame.f_back
    return made


def _last(error: BaseException) -> TracebackType | None:
    """The innermost frame that isn't ours."""
    found = None
    trace = error.__traceback__
    while trace is not None:
        if not is_debugger_code(trace.tb_frame.f_code):
            found = trace
        trace = trace.tb_next
    return found


def _is_raise(trace: TracebackType) -> bool:
    """Whether a frame is at a ``raise`` statement."""
    code = trace.tb_frame.f_code.co_code
    name = dis.opname[code[trace.tb_lasti]] if 0 <= trace.tb_lasti < len(code) else ""
    return name in ("RAISE_VARARGS", "RERAISE")
