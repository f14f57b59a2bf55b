"""The options that the debugger and its `attach` have in common."""

from __future__ import annotations

import argparse
from typing import NoReturn

from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.comparing.options import TERMS

__all__ = ["WRONG_USE", "OptionParser", "add_terms", "add_ui_options", "check_theme"]

#: Exit status after a wrong command line.
WRONG_USE = 2

# As tfdbg_cli.ui.choose has them; importing it would slow --help down.
_UIS = ("auto", "screen", "line", "readline", "plain")


class OptionParser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Print the line and leave."""
        self.exit(WRONG_USE, f"{self.prog}: {message} ({self.prog} --help lists the options)\n")


def add_ui_options(parser: argparse._ActionsContainer) -> list[argparse.Action]:
    """Add what a person may say of the terminal and of commands."""
    add = parser.add_argument
    return [
        add(
            *("-c", "--command"),
            action="append",
            default=[],
            metavar="CMD",
            help="run this debugger command; repeatable: each stop takes commands from the "
            "queue until one lets the program go on. -c - reads further commands from "
            "stdin, which otherwise belongs to the program",
        ),
        add(
            "--batch",
            action="store_true",
            help="never ask, and leave stdin to the program; after the last command the "
            "program runs on",
        ),
        add("--ui", choices=_UIS, default="auto", help="interface (default: %(default)s)"),
        add("--no-color", action="store_true", help="no colours; NO_COLOR does the same"),
        add("--no-mouse", action="store_true", help="leave the mouse to the terminal"),
        add("--theme", metavar="NAME", help="colours of the screen"),
    ]


def add_terms(parser: argparse._ActionsContainer) -> list[argparse.Action]:
    """Add what may be said of how runs are compared."""
    return [
        parser.add_argument(
            each.name, metavar=each.metavar, help=each.help, type=each.kind, default=each.default
        )
        for each in TERMS
    ]


def check_theme(name: str | None) -> None:
    """Whether there is a theme of that name; ``None`` is fine.

    Raises:
        UserError: there is none.
    """
    if name is None:
        return
    from tfdbg_cli.common.settings import FIELDS

    themes = next(field.choices for field in FIELDS if field.name == "theme")
    if name not in themes:
        raise UserError(
            f'there is no theme named "{name}".',
            did_you_mean(name, themes) or f"There are {', '.join(themes)}.",
        )
