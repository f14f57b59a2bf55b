"""Errors that the program's own code has raised in the course of a run, for the error screen."""

from __future__ import annotations

import sys

from tfdbg_cli.common.errors import message_of
from tfdbg_cli.dumps.dump import RunError
from tfdbg_cli.dumps.sources import is_debugger_path, is_library_path

__all__ = ["late_error"]


def late_error(error: BaseException, message: str | None = None) -> RunError | None:
    """What to tell of an error that came after the framework's work; call it where it is caught.

    Args:
        error: what was raised.
        message: its text, where that isn't its ``str``.

    Returns:
        ``None``: it is a way of ending the program or the thread, and no failure.
    """
    if not isinstance(error, Exception):
        return None
    file, line = "", 0
    frame = sys._getframe(1)
    while frame is not None and not _is_users(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is not None:
        file, line = frame.f_code.co_filename, frame.f_lineno
    trace = error.__traceback__
    while trace is not None:
        if _is_users(trace.tb_frame.f_code.co_filename):
            file, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    if message is None:
        message = message_of(error)
    return RunError(type(error).__name__, message, "", file, line, is_late=True)


def _is_users(path: str) -> bool:
    return not is_library_path(path) and not is_debugger_path(path)
