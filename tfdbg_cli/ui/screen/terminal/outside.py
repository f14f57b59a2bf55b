"""What leaves the screen: text for the clipboard, a page for ``$PAGER``, a line for ``$EDITOR``."""

from __future__ import annotations

import base64
import contextlib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from tfdbg_cli.common.errors import UserError

__all__ = ["CLIPBOARD_LIMIT", "clipboard_sequence", "edited", "pager_command", "to_tmux"]

#: Bytes of text: terminals drop longer ones without a word (xterm takes some 75,000 encoded).
CLIPBOARD_LIMIT = 50_000


def clipboard_sequence(text: str) -> str:
    """The escape sequence that puts a text on the clipboard of the terminal (OSC 52).

    It works over ssh, too, where the terminal allows it.

    Raises:
        UserError: the text is too long.
    """
    data = text.encode("utf-8", "replace")
    if len(data) > CLIPBOARD_LIMIT:
        raise UserError(
            f"That is {len(data)} bytes, more than terminals take on their clipboard.",
            "COMMAND > FILE writes it to a file.",
        )
    return f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"


def to_tmux(text: str) -> bool:
    """Give a text to tmux, which keeps it and passes it on to its terminal; False: no tmux here."""
    if not os.environ.get("TMUX"):
        return False
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            ["tmux", "load-buffer", "-w", "-"],
            input=text.encode("utf-8", "replace"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=2,
            check=False,
        )
        return done.returncode == 0
    return False


def pager_command() -> str:
    """The user's pager, for the shell."""
    return os.environ.get("PAGER", "").strip() or "less -S"


def edited(text: str, run: Callable[[str, Iterable[str] | None], int]) -> str:
    """A command line after the user has edited it with ``$VISUAL`` or ``$EDITOR``.

    Args:
        text: the line so far.
        run: runs a shell command on the terminal and returns its exit status.

    Returns:
        The new line; lines of the editor become commands of one line.

    Raises:
        UserError: the editor failed.
    """
    editor = (os.environ.get("VISUAL") or os.environ.get("EDITOR") or "").strip() or "vi"
    handle, name = tempfile.mkstemp(suffix=".tfdbg", prefix="command-")
    path = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        status = run(f"{editor} {shlex.quote(name)}", None)
        if status:
            raise UserError(f"{editor} ended with status {status}: the line is as it was.")
        rows = path.read_text(encoding="utf-8", errors="replace").splitlines()
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
    return "; ".join(row.strip() for row in rows if row.strip())
