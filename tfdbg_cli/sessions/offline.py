"""Looking at a dump after the program has gone."""

from __future__ import annotations

import argparse
from pathlib import Path

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.registry import Argument, Command, CommandRegistry, Result
from tfdbg_cli.commands.reply import Leave
from tfdbg_cli.commands.run import describe_run
from tfdbg_cli.documents import TextDocument, line
from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.open import list_runs, open_dump
from tfdbg_cli.dumps.profile import is_profile_only
from tfdbg_cli.errors import UserError
from tfdbg_cli.sessions.debugger import Debugger

__all__ = ["look"]


class _Open:
    """The token of the `runs` command: open another run of the folder."""

    def __init__(self, path: Path) -> None:
        self.path = path


def _runs_command(runs: list[Path], current: Path) -> Command:
    def run(context: Context, arguments: argparse.Namespace) -> Result:
        if arguments.number is not None:
            if not 0 <= arguments.number < len(runs):
                raise UserError(
                    f"There is no run {arguments.number}.", f"Use 0 to {len(runs) - 1}."
                )
            return Leave(_Open(runs[arguments.number]))
        lines = [line((f"{len(runs)} run(s):", "bold"))]
        for number, path in enumerate(runs):
            mark = " <- this one" if path == current else ""
            lines.append(
                line("  ", (f"runs {number}", "link", f"runs {number}"), f"  {path}{mark}")
            )
        return TextDocument(lines, title="runs")

    return Command(
        "runs",
        (),
        "run control",
        "List the runs of the dump folder, or open one.",
        run,
        (Argument(("number",), "which run to open", "K", nargs="?", kind=int),),
        modes=frozenset({"offline", "offline-profile"}),
        examples=(("runs", "all runs"), ("runs 3", "open the fourth")),
    )


def look(path: str, debugger: Debugger) -> None:
    """Show a dump directory until the user leaves.

    Args:
        path: one run's directory (the original's format or a run folder), or a folder of runs, of
            which the last one is opened.
        debugger: UI, filters and settings.

    Raises:
        UserError: there is no dump.
    """
    runs = list_runs(path)
    current = runs[-1] if runs else Path(path)
    while True:
        dump = open_dump(current)
        registry = CommandRegistry([*debugger.registry.commands])
        if len(runs) > 1:
            registry = CommandRegistry([*debugger.registry.commands, _runs_command(runs, current)])
        is_profile = is_profile_only(dump)
        context = Context(
            "offline-profile" if is_profile else "offline",
            registry,
            debugger.filters,
            debugger.settings,
            dump.run_info() or RunInfo(),
            dump,
            names=debugger.names,
        )
        action = debugger.stop(
            context,
            title=f"offline: {current} - {'profile of ' * is_profile}{describe_run(context)}",
            title_role="offline",
            initial_command="lp" if is_profile else "lt",
        )
        dump.close()
        if not isinstance(action, _Open):
            return
        current = action.path
