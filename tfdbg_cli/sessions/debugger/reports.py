"""The reports of ``--report FILE.html``: one at each stop that something has led to."""

from __future__ import annotations

import os

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.report.report import write_report
from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.common.streams import tell

__all__ = ["Reports"]


class Reports:
    """Writes a report at each stop of ``run -f`` and at each run that fails.

    The first is ``FILE.html``, the next ones are ``FILE-2.html``, ``FILE-3.html``: none replaces
    another one of the same program.

    Args:
        path: of the first one.

    Raises:
        UserError: there is no such folder.
    """

    def __init__(self, path: str) -> None:
        # The program may change its folder.
        self._path = os.path.abspath(os.path.expanduser(path))
        self._count = 0
        folder = os.path.dirname(self._path)
        if not os.path.isdir(folder):
            raise UserError(f"--report {path}: there is no folder {folder}.")
        if os.path.isdir(self._path):
            raise UserError(f"--report {path}: it is a folder.", "Name a file in it.")

    def write(self, context: Context, first_command: str) -> None:
        """Write the report of a stop; what goes wrong is told in a line and forgotten.

        Args:
            context: of the stop.
            first_command: that of its first screen.
        """
        self._count += 1
        stem, suffix = os.path.splitext(self._path)
        path = self._path if self._count == 1 else f"{stem}-{self._count}{suffix}"
        try:
            write_report(context, path, exclude=_excluded(context, first_command))
            tell(f"report written to {path}")
        except Exception as error:
            pass_on(error)
            why = error.message if isinstance(error, UserError) else one_line(error)
            tell(f"the report of this stop can't be written: {why}")


def _excluded(context: Context, command: str) -> str:
    """The regex of ``-fenn`` in the command of a first screen; empty: it has none."""
    _, parsed = context.registry.parsed(command, context.mode)
    return getattr(parsed, "filter_exclude_node_names", None) or ""
