"""The command of a program that is debugged from another terminal: to leave it running."""

from __future__ import annotations

import argparse
from typing import NamedTuple

from tfdbg_cli.commands.context import LIVE_MODES, Context
from tfdbg_cli.commands.registry import Command, Result
from tfdbg_cli.commands.reply import Leave
from tfdbg_cli.commands.run.choices import ExitChoice, RunChoice
from tfdbg_cli.commands.run.control import RUN

__all__ = ["DETACH", "DetachChoice"]


class DetachChoice(NamedTuple):
    """What `detach` asks of the UI: to let go of the client.

    Attributes:
        choice: of the session; the stop that it leads to waits for somebody.
    """

    choice: RunChoice


def _detach(context: Context, arguments: argparse.Namespace) -> Result:
    found = RUN.run(context, arguments)
    if not isinstance(found, Leave) or found.action == RunChoice():
        return Leave(ExitChoice())
    return Leave(DetachChoice(found.action))


DETACH = Command(
    "detach",
    (),
    "run control",
    "Leave the program running, and this terminal free; attach comes back.",
    _detach,
    RUN.arguments,
    modes=LIVE_MODES,
    examples=(
        ("detach", "run without stops until somebody attaches again, as after exit --detach"),
        ("detach -f", "as run -f; at that run the program waits for somebody to attach"),
    ),
)
