"""Errors as they would be if nobody debugged."""

from __future__ import annotations

import os
import re

import tfdbg_cli
from tfdbg_cli.dumps.sources import show_program_only
from tfdbg_cli.engines.jax.private import set_message

__all__ = ["show_errors_program_only"]

# A frame of ours in the text of an error, which has the stack of what was called back.
_PACKAGE = os.path.dirname(os.path.abspath(tfdbg_cli.__file__)) + os.sep
_OWN_FRAME = re.compile(
    r'(?:  File "<frozen runpy>", line \d+, in .*\n)*'
    rf'  File "{re.escape(_PACKAGE)}[^"]*", '
    r"line \d+, in .*\n(?:    .*\n)*"
)


def show_errors_program_only(error: BaseException) -> None:
    """Take our frames out of the traceback of an error, and out of its text."""
    show_program_only(error)
    text = error.args[0] if error.args else None
    if isinstance(text, str) and _OWN_FRAME.search(text):
        set_message(error, _OWN_FRAME.sub("", text))
