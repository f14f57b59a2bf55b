"""Errors that the program's own code has raised in the course of a run, for the error screen."""

from __future__ import annotations

import sys

from tfdbg_cli.common.errors import message_of
from tfdbg_cli.dumps.dump import RunError
from tfdbg_cli.dumps.sources import own_place

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
    file, line = own_place(error, sys._getframe(1))
    if message is None:
        message = message_of(error)
    return RunError(type(error).__name__, message, "", file, line, is_late=True)
