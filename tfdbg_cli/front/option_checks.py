"""What options of the command line need of each other."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.comparing.options import TERMS
from tfdbg_cli.front.options import check_theme

if TYPE_CHECKING:
    from tfdbg_cli.sessions.debugger.gate import GateOptions
    from tfdbg_cli.sessions.debugger.precision_gate import PrecisionOptions

__all__ = ["check_names", "check_options", "check_post_mortem", "check_remote", "check_terms"]


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
