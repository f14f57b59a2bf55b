"""Stops as commands and UIs see them, over whatever dump."""

from __future__ import annotations

import functools

from tfdbg_cli.commands.builtin import make_registry
from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.service import CommandService
from tfdbg_cli.commands.shell.history import History
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.dumps.dump import Dump, RunInfo
from tfdbg_cli.filters.registry import FilterRegistry

__all__ = ["stop_over"]

#: Made once: it looks for plug-ins in all that is installed.
_registry = functools.cache(make_registry)


def stop_over(
    dump: Dump | None,
    mode: str = "run-end",
    *,
    info: RunInfo | None = None,
    settings: Settings | None = None,
    width: int = 80,
    title: str = "run-end",
    title_role: str = "end",
    initial_command: str = "",
) -> CommandService:
    """A stop at which commands run as a user types them.

    Args:
        dump: of its run.
        mode: the kind of stop.
        info: of its run; default: what the dump says.
        settings: default: no file.
        width: of the screen.
        title, title_role, initial_command: of the stop.
    """
    known = info or (dump.run_info() if dump is not None else None) or RunInfo()
    own = settings or Settings(None)
    context = Context(mode, _registry(), FilterRegistry(), own, known, dump, width=width)
    return CommandService(
        context,
        title=title,
        title_role=title_role,
        initial_command=initial_command,
        history=History(None),
    )
