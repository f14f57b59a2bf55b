"""Which UI to use: by name, or by what the terminal can do."""

from __future__ import annotations

import os
import sys

from tfdbg_cli.common.settings import Settings
from tfdbg_cli.common.streams import Streams, in_kernel, is_terminal
from tfdbg_cli.ui.base import UserInterface

__all__ = ["KINDS", "make_ui"]

#: What ``--ui`` takes.
KINDS = ("auto", "screen", "line", "readline", "plain")


def _screen_obstacle(streams: Streams) -> str:
    """Why the full screen can't be used here; empty: it can."""
    if sys.platform == "win32":
        return "the full screen needs a POSIX terminal"
    if obstacle := _line_obstacle(streams):
        return obstacle
    if _is_dumb():
        return f'a terminal of type "{os.environ.get("TERM", "")}" can\'t be drawn on'
    return ""


def _is_dumb() -> bool:
    return os.environ.get("TERM", "") in {"", "dumb", "unknown"}


def _line_obstacle(streams: Streams) -> str:
    """Why the line UI can't be used here; empty: it can."""
    for fd, name in zip(streams.terminal, ("stdin", "stdout"), strict=True):
        if not is_terminal(fd):
            return f"{name} is no terminal"
    return ""


def _resolve(kind: str, batch: bool, streams: Streams) -> str:
    """A kind that works here, with a note on stderr where it isn't the one that was asked for."""
    if kind == "auto":
        if not batch and in_kernel():
            return "notebook"
        if batch or _line_obstacle(streams):
            return "plain"
        if _is_dumb():
            return "readline"  # the line UI, too, moves the cursor
        return "line" if _screen_obstacle(streams) else "screen"
    if kind == "screen" and (obstacle := _screen_obstacle(streams)):
        fallback = "plain" if _line_obstacle(streams) else "line"
        streams.err.write(f"tfdbg: no full screen: {obstacle}; using --ui {fallback}.\n")
        return fallback
    if kind in {"line", "readline"} and (obstacle := _line_obstacle(streams)):
        streams.err.write(f"tfdbg: no {kind} UI: {obstacle}; using --ui plain.\n")
        return "plain"
    return kind


def make_ui(
    kind: str,
    settings: Settings,
    *,
    color: bool = True,
    mouse: bool | None = None,
    theme: str | None = None,
    batch: bool = False,
    streams: Streams | None = None,
) -> UserInterface:
    """Make a UI. urwid and prompt_toolkit are imported only for the UI that needs them.

    Args:
        kind: one of `KINDS`. ``auto``: the notebook's in a Jupyter kernel, plain in batch and
            without terminals, line on a terminal that can't be drawn on, else screen. A kind that
            can't work here falls back, with a note on stderr.
        settings: theme and mouse mode, obeyed now and when they change.
        color: False: no colours, whatever the theme.
        mouse: whether the screen takes the mouse; ``None``: as the settings say.
        theme: a theme for this session; ``None``: as the settings say.
        batch: nobody is there to ask.
        streams: those of the process; default: as they are now.
    """
    if kind not in KINDS:
        raise ValueError(f'there is no UI called "{kind}"; there are {", ".join(KINDS)}')
    streams = streams or Streams()
    kind = _resolve(kind, batch, streams)
    if theme is not None:
        settings.override("theme", theme)
    if mouse is not None:
        settings.override("mouse_mode", mouse)
    if kind == "screen":
        from tfdbg_cli.ui.screen import ScreenUI

        return ScreenUI(settings, color=color, streams=streams)
    if kind == "line":
        from tfdbg_cli.ui.line import LineUI

        return LineUI(settings, color=color, streams=streams)
    if kind == "readline":
        from tfdbg_cli.ui.readline_ui import ReadlineUI

        return ReadlineUI(streams)
    if kind == "notebook":
        from tfdbg_cli.ui.notebook import NotebookUI

        return NotebookUI()
    from tfdbg_cli.ui.plain import PlainUI

    return PlainUI(streams=streams)
