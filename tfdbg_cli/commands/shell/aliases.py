"""``alias``: commands of the user's own, made of others."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.commands.reply import Candidate, Toast
from tfdbg_cli.commands.shell.parsing import tokenize
from tfdbg_cli.common.documents import TextDocument, line
from tfdbg_cli.common.errors import UserError, did_you_mean

__all__ = ["COMMANDS", "expand_alias"]

_NAME = re.compile(r"[A-Za-z_][\w-]*\Z")
_PLACE = re.compile(r"%([1-9*])")


def expand_alias(aliases: Mapping[str, str], command: str) -> str | None:
    """The command line that an alias stands for.

    ``%1`` to ``%9`` are the words behind the alias, ``%*`` all of them; where the alias has none of
    these, the words are appended.

    Returns:
        ``None`` where the command begins with no alias.

    Raises:
        UserError: a word is missing.
    """
    name = command.split(None, 1)[0]
    text = aliases.get(name)
    if text is None:
        return None
    rest = command[len(name) :].strip()
    if not _PLACE.search(text):
        return f"{text} {rest}".strip()
    words = [rest[word.start : word.stop] for word in tokenize(rest)]

    def filled(match: re.Match[str]) -> str:
        if match[1] == "*":
            return rest
        number = int(match[1])
        if number > len(words):
            raise UserError(f"The alias {name} needs {number} word(s) after it: {text}")
        return words[number - 1]

    return _PLACE.sub(filled, text)


def _alias(context: Context, arguments: argparse.Namespace) -> Result:
    aliases = context.settings.aliases
    name, _, text = arguments.text.partition(" ")
    name, equals, glued = name.partition("=")
    text = (f"{glued} {text}" if equals else text.strip().removeprefix("=")).strip()
    if not name:
        lines = [line((f"{len(aliases)} alias(es):", "bold"))]
        lines += [line("  ", (key, "bold"), f" = {aliases[key]}") for key in sorted(aliases)]
        lines += [line(), line(("alias NAME = COMMANDS makes one, unalias NAME removes it", "dim"))]
        return TextDocument(lines, title="aliases")
    if not text:
        if name not in aliases:
            raise UserError(f'There is no alias "{name}".', did_you_mean(name, aliases))
        return Toast(f"{name} = {aliases[name]}")
    words = tokenize(text)
    if len(words) == 1 and words[0].is_quoted:
        text = words[0].text
    if not _NAME.match(name):
        raise UserError(f'"{name}" is not a name for an alias.', "Use letters, digits, _ and -.")
    taken = context.registry.lookup(name, context.mode)
    if taken is not None:
        raise UserError(f'"{name}" is a command ({taken.name}), so it can\'t be an alias.')
    context.settings.set_alias(name, text, keeps=context.is_typed)
    return Toast(f"{name} = {text}", "success")


def _unalias(context: Context, arguments: argparse.Namespace) -> Result:
    aliases = context.settings.aliases
    if arguments.name not in aliases:
        raise UserError(
            f'There is no alias "{arguments.name}".', did_you_mean(arguments.name, aliases)
        )
    context.settings.set_alias(arguments.name, "", keeps=context.is_typed)
    return Toast(f"{arguments.name} is not an alias any more", "success")


def _names(context: Context, typed: str) -> Iterable[Candidate]:
    """The user's aliases."""
    aliases = context.settings.aliases
    return [Candidate(name, aliases[name]) for name in sorted(aliases) if name.startswith(typed)]


ALIAS = Command(
    "alias",
    (),
    "scripts",
    "Show your own commands, or make one from others. Aliases typed at a prompt are kept.",
    _alias,
    (
        Argument(
            ("text",),
            "the alias and its commands, to the end of the line; %1 to %9 are the words "
            "after the alias, %* all of them",
            "[NAME [= COMMANDS]]",
            nargs="?",
            complete=_names,
        ),
    ),
    examples=(
        ("alias big = lt -s dump_size -r", "then big -n hidden lists the largest of a scope"),
        (
            "alias bad = lt -f has_inf_or_nan; li --to-first-bad %1",
            "several commands, and a word as an argument",
        ),
        ("alias", "all of them"),
    ),
    is_raw=True,
)

UNALIAS = Command(
    "unalias",
    (),
    "scripts",
    "Remove an alias.",
    _unalias,
    (Argument(("name",), "the alias", "NAME", complete=_names),),
    examples=(("unalias big", "remove it"),),
)

COMMANDS = (ALIAS, UNALIAS)
