"""The explicit list of the built-in commands, in the order of the help."""

from __future__ import annotations

from collections.abc import Iterable

from tfdbg_cli.commands.registry import Command, CommandRegistry

__all__ = ["make_registry"]

# Modules, and the names and aliases of their commands: one is imported when a name of its is used.
_HOMES = (
    ("run.control", "run r"),
    ("run.run_info", "run_info ri"),
    ("run.error_screen", "error err"),
    ("run.control", "invoke_stepper s exit quit q"),
    ("run.post_mortem", "traceback tb pdb"),
    (
        "stepper.moves",
        "where w list_sorted_nodes lsn step st s cont ct until unt break b delete del exit quit q",
    ),
    ("stepper.overrides", "inject_value inject override_value override restore diff"),
    ("tensors.list_tensors", "list_tensors lt"),
    ("tensors.select", "select"),
    ("tensors.print_tensor", "print_tensor pt"),
    ("tensors.print_feed", "print_feed pf"),
    ("tensors.evaluate", "eval ev"),
    ("precision.command", "precision"),
    ("compare.command", "compare"),
    ("graph.node_info", "node_info ni"),
    ("graph.neighbours", "list_inputs li list_outputs lo"),
    ("graph.draw", "graph g"),
    ("graph.why", "why"),
    ("graph.fix", "fix"),
    ("place", "here frame"),
    ("report.report", "report"),
    ("series.follow", "track plot"),
    ("series.growth", "growth"),
    ("preview", "preview"),
    ("source.print_source", "list_source ls print_source ps"),
    ("profile.list_profile", "list_profile lp"),
    ("profile.print_source", "print_source ps"),
    ("shell.scripts", "history hist source save record"),
    ("shell.aliases", "alias unalias"),
    ("shell.general", "help h config cfg version ver mouse m prev next link links"),
    ("shell.caught", "errors"),
)


def make_registry(more: Iterable[Command] = ()) -> CommandRegistry:
    """A registry of the built-in commands and those of installed packages.

    Args:
        more: commands of one kind of stop, between them.
    """
    homes = [(f"{__package__}.{module}", names) for module, names in _HOMES]
    return CommandRegistry(homes, more)
