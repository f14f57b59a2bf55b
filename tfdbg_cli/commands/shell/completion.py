"""Completion of a command line from what the registry says of its arguments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.registry import Argument, Command
from tfdbg_cli.commands.reply import Candidate, Completion
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.shell.parsing import Word, last_command, open_quote, split_command, tokenize
from tfdbg_cli.common.errors import UserError

__all__ = ["complete"]


def _last_word(text: str) -> tuple[list[Word], int, str]:
    """The words before the one being typed, where it starts, and what it is so far."""
    at = open_quote(text)
    if at >= 0 and text[at] != "`":
        # The quote stays, what is inside is completed.
        return tokenize(text[:at]), at + 1, text[at + 1 :]
    words = tokenize(text if at < 0 else text[: at + 1])
    if not words or (at < 0 and text[-1:].isspace()):
        return words, len(text), ""
    last = words.pop()
    return words, last.start, text[last.start :]


def _options(command: Command, typed: str) -> Iterable[Candidate]:
    for argument in command.arguments:
        if argument.is_option:
            for flag in argument.flags:
                if flag.startswith(typed):
                    yield Candidate(flag, argument.summary)


def _argument_at(command: Command, words: list[Word]) -> Argument | None:
    """The argument whose value comes behind these words."""
    by_flag = {flag: a for a in command.arguments if a.is_option for flag in a.flags}
    positionals = [argument for argument in command.arguments if not argument.is_option]
    place, pending = 0, None
    for word in words:
        if pending is not None:
            pending = None
        elif word.text in by_flag and not word.is_quoted:
            argument = by_flag[word.text]
            pending = argument if argument.takes_value else None
        else:
            place += 1
    if pending is not None:
        return pending
    if place < len(positionals):
        return positionals[place]
    if positionals and positionals[-1].nargs in ("+", "*"):
        return positionals[-1]
    return None


def complete(context: Context, text: str) -> Completion:
    """Candidates for the last word of ``text``, in the last of its commands."""
    command = last_command(text)
    if command.startswith(("!", "#")):
        return Completion(len(text))
    found = _complete_command(context, command)
    return replace(found, start=len(text) - len(command) + found.start)


def _complete_command(context: Context, text: str) -> Completion:
    words, start, typed = _last_word(text)
    found = _complete(context, words, start, typed)
    if not text[:start].endswith(("'", '"')):
        return found
    if any(text[start - 1] in _unquoted(item.text) for item in found.candidates):
        # Another quote is needed around what has this one.
        return replace(found, start=start - 1)
    # The quote that is open already is not repeated.
    bare = [Candidate(_unquoted(item.text), item.summary) for item in found.candidates]
    return Completion(start, bare)


def _unquoted(text: str) -> str:
    words = tokenize(text)
    return words[0].text if len(words) == 1 and words[0].is_quoted else text


def _complete(context: Context, words: list[Word], start: int, typed: str) -> Completion:
    if not words:
        return Completion(start, list(completers.commands(context, typed)))
    if words[-1].text in (">", ">>"):
        return Completion(start, list(completers.files(context, typed)))
    if any(word.text == "|" for word in words):
        return Completion(start)
    alias = context.settings.aliases.get(words[0].text)
    if alias is not None:
        words = [*tokenize(split_command(alias)[0]), *words[1:]]
    try:
        command = context.registry.get(words[0].text, context.mode)
    except (UserError, IndexError):
        return Completion(start)
    if typed.startswith("-"):
        return Completion(start, list(_options(command, typed)))
    argument = _argument_at(command, words[1:])
    if argument is None:
        return Completion(start, list(_options(command, typed)))
    if argument.choices:
        about = argument.summary
        found = [
            Candidate(choice, about) for choice in argument.choices if choice.startswith(typed)
        ]
        return Completion(start, found)
    if argument.complete is None:
        return Completion(start)
    return Completion(start, list(argument.complete(context, typed)))
