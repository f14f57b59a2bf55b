"""Links of the terminal's own (OSC 8) on lines of source: a click opens the file there.

See "Hyperlinks (a.k.a. HTML-like anchors) in terminal emulators",
https://gist.github.com/egmontkob/eb114294efbcd5adb1944c9f3cb5feda
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from urllib.parse import quote

from tfdbg_cli.commands.shell.parsing import tokenize
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.lines import Link

__all__ = ["LINK_END", "address_of", "link_start", "style_of"]

#: Ends a link.
LINK_END = "\x1b]8;;\x1b\\"

# Of each style, what a file and a line are made of. Only a few know what a line is.
_FORMATS = {
    "file": "file://{host}{path}",
    "kitty": "file://{host}{path}#{line}",
    "vscode": "vscode://file{path}:{line}",
}
# TERM_PROGRAM, or how TERM begins -> the style.
_PROGRAMS = {"vscode": "vscode", "iTerm.app": "file", "WezTerm": "file", "ghostty": "file"}
_TERMS = {"xterm-kitty": "kitty", "foot": "file", "alacritty": "file", "xterm-ghostty": "file"}
# Gnome's and its relatives': older ones crash.
_VTE = 5000


def style_of(wanted: str, environ: Mapping[str, str] | None = None) -> str:
    """How links are written; empty: not at all.

    Args:
        wanted: the setting ``hyperlinks``.
        environ: of the process; ``auto`` goes by it, and links only where they are known to work.
    """
    given = os.environ if environ is None else environ
    term = given.get("TERM", "")
    if wanted == "off" or term in {"", "dumb", "unknown"}:
        return ""
    if wanted != "auto":
        return wanted
    if given.get("NO_HYPERLINK") or given.get("FORCE_HYPERLINK") == "0":
        return ""
    if given.get("TMUX") or term.startswith(("screen", "tmux")):
        return ""  # what is around it isn't known, and old ones print it
    if program := _PROGRAMS.get(given.get("TERM_PROGRAM", "")):
        return program
    if style := next((style for name, style in _TERMS.items() if term.startswith(name)), ""):
        return style
    version = given.get("VTE_VERSION", "")
    is_known = (version.isdecimal() and int(version) >= _VTE) or bool(given.get("WT_SESSION"))
    return "file" if is_known else ""


def link_start(link: Link | None, style: str) -> str:
    """What begins a link to where a command of the debugger's leads; empty: that is not a line.

    Args:
        link: of a span.
        style: as `style_of` gives it.
    """
    address = address_of(link.command, style) if link is not None else ""
    return f"\x1b]8;;{address}\x1b\\" if address else ""


def address_of(command: str, style: str) -> str:
    """Where a link to a line of source leads; empty: the command shows none.

    Args:
        command: of the debugger's.
        style: as `style_of` gives it.
    """
    place = _place(command) if style else None
    if place is None:
        return ""
    path, line = place
    return _FORMATS[style].format(host=quote(socket.gethostname()), path=quote(path), line=line)


def _place(command: str) -> tuple[str, int] | None:
    """File and line that ``ps FILE -b LINE`` shows, if the file is on this machine."""
    if not command.startswith("ps "):
        return None
    try:
        words = [word.text for word in tokenize(command)]
    except UserError:
        return None
    if len(words) != 4 or words[2] != "-b" or not words[3].isdecimal():
        return None
    path = words[1]
    return (path, int(words[3])) if os.path.isabs(path) and os.path.isfile(path) else None
