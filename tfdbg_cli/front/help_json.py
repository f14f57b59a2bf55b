"""``--help-json``: what ``--help`` and ``help`` say, for other programs."""

from __future__ import annotations

import argparse
import json

from tfdbg_cli.commands.builtin import make_registry
from tfdbg_cli.commands.registry import Argument, Command
from tfdbg_cli.commands.schemas import schemas
from tfdbg_cli.common.version import __version__
from tfdbg_cli.front.command_line import USAGE

__all__ = ["help_json"]


def help_json(parser: argparse.ArgumentParser) -> str:
    """The options of the command line, the commands, and the schemas of their ``--json``.

    Args:
        parser: of the command line.
    """
    said = {
        "tfdbg": __version__,
        "usage": [text.strip() for text in USAGE.splitlines()],
        "options": [_option(action) for action in parser._actions],
        "commands": [_command(command) for command in make_registry().commands],
        **schemas(),
    }
    return json.dumps(said)


def _option(action: argparse.Action) -> dict[str, object]:
    return {
        "flags": list(action.option_strings),
        "value": action.metavar if action.nargs != 0 else None,
        "choices": None if action.choices is None else list(action.choices),
        "summary": (action.help or "").replace("%(default)s", str(action.default)),
    }


def _command(command: Command) -> dict[str, object]:
    has_json = any("--json" in each.flags for each in command.arguments)
    return {
        "name": command.name,
        "aliases": list(command.aliases),
        "group": command.group,
        "summary": command.summary,
        "stops": sorted(command.modes),
        "usage": command.usage,
        "arguments": [_argument(each) for each in command.arguments],
        "examples": [{"command": text, "what": what} for text, what in command.examples],
        "details": command.details,
        "json": {"$ref": f"#/$defs/{command.name}"} if has_json else None,
    }


def _argument(argument: Argument) -> dict[str, object]:
    return {
        "flags": list(argument.flags),
        "value": argument.metavar or None,
        "choices": list(argument.choices) or None,
        "summary": argument.summary,
    }
