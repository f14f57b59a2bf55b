"""Options of the command line: those of several parsers, and what they need of each other."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NoReturn

from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.comparing.options import TERMS

if TYPE_CHECKING:
    from tfdbg_cli.sessions.debugger.gate import GateOptions
    from tfdbg_cli.sessions.debugger.precision_gate import PrecisionOptions

__all__ = [
    "WRONG_USE",
    "OptionParser",
    "add_terms",
    "add_ui_options",
    "check_names",
    "check_options",
    "check_post_mortem",
    "check_remote",
    "check_terms",
    "check_theme",
]

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


def check_names(options: argparse.Namespace) -> None:
    """Names that only other modules know; these are imported when a name has to be checked.

    Raises:
        UserError: there is no such engine or theme.
    """
    if options.engine is not None:
        from tfdbg_cli.engines.registry import entries

        names = [entry.name for entry in entries()]
        if options.engine not in names:
            raise UserError(
                f'there is no engine named "{options.engine}".',
                did_you_mean(options.engine, names) or f"There are {', '.join(names)}.",
            )
    check_theme(options.theme)


def check_options(
    options: argparse.Namespace, wants_program: bool
) -> GateOptions | PrecisionOptions | None:
    """What ``--check`` or ``--precision`` asks for; ``None``: nothing.

    Raises:
        UserError: options that don't fit together.
    """
    if options.precision is not None:
        return _check_precision(options, wants_program)
    for name in ("every", "keep", "output"):
        if getattr(options, f"precision_{name}") not in (None, 1):
            raise UserError(f"--precision-{name} needs --precision.")
    if options.check is None:
        given = [
            name
            for name, value in (
                ("--check-only", options.check_only),
                ("--after", options.after),
                ("--check-output", options.check_output),
                ("--check-format", options.check_format != "text"),
            )
            if value
        ]
        if given:
            raise UserError(f"{given[0]} needs --check.")
        return None
    if not wants_program:
        raise UserError("--check is about the runs of a program.")
    if options.command or options.listen is not None:
        raise UserError("--check asks nobody and takes no commands: leave out -c and --listen.")
    if options.check_format != "text" and options.check_output is None:
        raise UserError("--check-format says what --check-output FILE gets.")
    from tfdbg_cli.sessions.debugger.gate import GateOptions

    # Without a name, `Gate` says which to give; an option is none.
    names = [] if options.check.startswith("-") else options.check.split(",")
    return GateOptions(
        tuple(filter(None, (name.strip() for name in names))),
        after=options.after,
        goes_on=options.check_only,
        format=options.check_format,
        output=options.check_output,
    )


def _check_precision(options: argparse.Namespace, wants_program: bool) -> PrecisionOptions:
    if not wants_program:
        raise UserError("--precision is about the runs of a program.")
    if options.check is not None:
        raise UserError("--precision and --check answer the same stops: leave one out.")
    if options.command or options.listen is not None or options.post_mortem:
        raise UserError(
            "--precision asks nobody and takes no commands: leave out -c, --listen, --post-mortem."
        )
    from tfdbg_cli.sessions.debugger.precision_gate import PrecisionOptions

    return PrecisionOptions(
        options.precision,
        every=options.precision_every,
        keep=options.precision_keep,
        output=options.precision_output,
    )


def check_post_mortem(options: argparse.Namespace, wants_program: bool, is_alone: bool) -> None:
    """Whether the other options fit ``--post-mortem``.

    Raises:
        UserError: they don't.
    """
    if not wants_program:
        raise UserError("--post-mortem needs a program.")
    if options.check is not None or options.listen is not None:
        raise UserError("--post-mortem stops after the program: leave out --check and --listen.")
    if not is_alone:
        raise UserError("--post-mortem is for programs of one process.", "Try --check, or --log.")


def check_remote(options: argparse.Namespace, wants_program: bool) -> None:
    """Whether the options about other terminals fit together.

    Raises:
        UserError: they don't.
    """
    if options.listen is None:
        if options.no_wait:
            raise UserError("--no-wait needs --listen.")
        return
    if not wants_program and options.dump_dir is None:
        raise UserError("--listen needs a program or a dump to attach to.")
    if not wants_program and options.no_wait:
        raise UserError("A dump waits for whoever attaches: leave out --no-wait.")
    if options.batch:
        raise UserError(
            "--batch asks nobody, and --listen waits for somebody.",
            "With --no-wait the program runs on until somebody attaches.",
        )


def check_terms(options: argparse.Namespace) -> None:
    """Refuse what is said of a comparison that nobody has asked for."""
    for term in TERMS:
        is_given = getattr(options, term.name.lstrip("-")) != term.default
        if is_given and options.against is None:
            raise UserError(f"{term.name} is about --against.")
