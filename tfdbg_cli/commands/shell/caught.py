"""``errors``: what the debugger caught in its own work, and told nobody."""

from __future__ import annotations

import argparse

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.registry import Command, Result
from tfdbg_cli.commands.wrapping import Prose, columns_of
from tfdbg_cli.common.caught import caught
from tfdbg_cli.common.documents import line

__all__ = ["COMMANDS"]


def _errors(context: Context, arguments: argparse.Namespace) -> Result:
    lines = [line(("Errors that the debugger caught in its own work, the newest last:", "bold"))]
    for each in caught():
        times = f" ({each.times} times)" if each.times > 1 else ""
        places = dict.fromkeys((f"caught at {each.caught_at}", f"raised at {each.raised_at}"))
        lines += [line((each.error, "warning"), times), *(line(f"    {at}") for at in places)]
    return Prose(lines if len(lines) > 1 else [line("None.")], columns_of(context), 4, "errors")


ERRORS = Command(
    "errors",
    (),
    "general",
    "Show the errors that the debugger caught in its own work.",
    _errors,
    examples=(("errors", "for a bug report"),),
    details="The last 200 different errors, each with the places where it was caught and raised. "
    "The program and its results never see them: if a value can't be read, for example, it has no "
    "statistics, and the run goes on. --log FILE writes them into the line of the next stop.",
)

COMMANDS = (ERRORS,)
