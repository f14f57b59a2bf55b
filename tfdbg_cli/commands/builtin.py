"""The explicit list of the built-in commands, in the order of the help."""

from __future__ import annotations

from tfdbg_cli.commands import place, preview
from tfdbg_cli.commands.compare import command as compare
from tfdbg_cli.commands.graph import draw, fix, neighbours, node_info, why
from tfdbg_cli.commands.precision import command as precision
from tfdbg_cli.commands.profile import list_profile as profile
from tfdbg_cli.commands.profile import print_source as profile_source
from tfdbg_cli.commands.registry import Command, CommandRegistry
from tfdbg_cli.commands.report import report
from tfdbg_cli.commands.run import control as run
from tfdbg_cli.commands.run import post_mortem
from tfdbg_cli.commands.series import follow, growth
from tfdbg_cli.commands.shell import aliases, caught, general, scripts
from tfdbg_cli.commands.source import print_source as source
from tfdbg_cli.commands.stepper import moves as stepper
from tfdbg_cli.commands.stepper import overrides
from tfdbg_cli.commands.tensors import evaluate, list_tensors, print_feed, print_tensor, select

__all__ = ["BUILTIN", "make_registry"]

BUILTIN: tuple[Command, ...] = (
    *run.COMMANDS,
    *post_mortem.COMMANDS,
    *stepper.COMMANDS,
    *overrides.COMMANDS,
    *list_tensors.COMMANDS,
    *select.COMMANDS,
    *print_tensor.COMMANDS,
    *print_feed.COMMANDS,
    *evaluate.COMMANDS,
    *precision.COMMANDS,
    *compare.COMMANDS,
    *node_info.COMMANDS,
    *neighbours.COMMANDS,
    *draw.COMMANDS,
    *why.COMMANDS,
    *fix.COMMANDS,
    *place.COMMANDS,
    *report.COMMANDS,
    *follow.COMMANDS,
    *growth.COMMANDS,
    *preview.COMMANDS,
    *source.COMMANDS,
    *profile.COMMANDS,
    *profile_source.COMMANDS,
    *scripts.COMMANDS,
    *aliases.COMMANDS,
    *general.COMMANDS,
    *caught.COMMANDS,
)


def make_registry() -> CommandRegistry:
    """A registry of the built-in commands and those of installed packages."""
    return CommandRegistry(list(BUILTIN))
