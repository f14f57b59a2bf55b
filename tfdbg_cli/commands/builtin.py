"""The explicit list of the built-in commands, in the order of the help."""

from __future__ import annotations

from tfdbg_cli.commands import (
    aliases,
    evaluate,
    general,
    list_tensors,
    neighbours,
    node_info,
    overrides,
    print_feed,
    print_tensor,
    profile,
    profile_source,
    run,
    scripts,
    source,
    stepper,
)
from tfdbg_cli.commands.registry import Command, CommandRegistry

__all__ = ["BUILTIN", "make_registry"]

BUILTIN: tuple[Command, ...] = (
    *run.COMMANDS,
    *stepper.COMMANDS,
    *overrides.COMMANDS,
    *list_tensors.COMMANDS,
    *print_tensor.COMMANDS,
    *print_feed.COMMANDS,
    *evaluate.COMMANDS,
    *node_info.COMMANDS,
    *neighbours.COMMANDS,
    *source.COMMANDS,
    *profile.COMMANDS,
    *profile_source.COMMANDS,
    *scripts.COMMANDS,
    *aliases.COMMANDS,
    *general.COMMANDS,
)


def make_registry() -> CommandRegistry:
    """A registry of the built-in commands and those of installed packages."""
    return CommandRegistry(list(BUILTIN))
