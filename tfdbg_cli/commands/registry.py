"""Commands as data: names, arguments, help and the function that makes the Document."""

from __future__ import annotations

import argparse
import functools
import importlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from tfdbg_cli.commands.context import ALL_MODES, LIVE_MODES, STEPPER_MODES, Context
from tfdbg_cli.commands.reply import Candidate, Leave, Question, Script, Toast, UiRequest
from tfdbg_cli.commands.shell.parsing import Word, tokenize
from tfdbg_cli.common.documents import Document
from tfdbg_cli.common.errors import UserError, did_you_mean, one_line
from tfdbg_cli.common.packages import entry_points

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["Argument", "Command", "CommandRegistry", "Completer", "Result", "positive"]

# In front of a word that argparse would take for an option.
_NO_OPTION = "\N{SYMBOL FOR NULL}"
# What is less than nothing: -np.inf, -`x:0`, -(1 + 2), -2*np.pi.
_NEGATIVE = re.compile(r"-(np\.|[\d.`(])")

#: What a command may return.
Result = Document | Leave | UiRequest | Question | Script | Toast

#: Candidates for the word that is being typed.
Completer = Callable[[Context, str], Iterable[Candidate]]


def positive(what: str) -> Callable[[str], int]:
    """The kind of an argument that is a whole number from 1 on.

    Args:
        what: it is, for the message about one that isn't.
    """

    def read(text: str) -> int:
        value = int(text)
        if value < 1:
            raise ValueError
        return value

    read.__name__ = f"{what} (1 or more)"
    return read


@dataclass(frozen=True)
class Argument:
    """One argument of a command.

    Attributes:
        flags: ``("-n", "--number")``, or one name for a positional.
        summary: one line of help.
        metavar: how its value is shown; empty: the argument is a switch.
        default: when it isn't given.
        kind: from text to value (raises ValueError); e.g. ``int``.
        nargs: as argparse's, for positionals.
        complete: candidates for its value.
        choices: the only values allowed.
        implied: of an option: its value where it is given without one.
    """

    flags: tuple[str, ...]
    summary: str
    metavar: str = ""
    default: Any = None
    kind: Callable[[str], Any] | None = None
    nargs: str | None = None
    complete: Completer | None = None
    choices: tuple[str, ...] = ()
    implied: str = ""

    @property
    def is_option(self) -> bool:
        """Whether it starts with a dash."""
        return self.flags[0].startswith("-")

    @property
    def takes_value(self) -> bool:
        """Whether a value follows it."""
        return not self.is_option or bool(self.metavar)


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        name: long name.
        aliases: short names.
        group: the heading it stands under in the help.
        summary: one line.
        run: makes the result from the context and the parsed arguments.
        arguments: in the order of the help.
        modes: at which stops it exists.
        examples: ``(command line, what it does)``.
        details: more help, paragraphs.
        is_raw: the rest of the line, quotes, ``;`` and ``>`` included, is its one argument
            ``text``.
    """

    name: str
    aliases: tuple[str, ...]
    group: str
    summary: str
    run: Callable[[Context, argparse.Namespace], Result]
    arguments: tuple[Argument, ...] = ()
    modes: frozenset[str] = ALL_MODES
    examples: tuple[tuple[str, str], ...] = ()
    details: str = ""
    is_raw: bool = False

    def parse(self, words: Sequence[Word]) -> argparse.Namespace:
        """Parse the words behind the command's name.

        A word in quotes is never an option, nor is a negative expression.

        Raises:
            UserError: they don't fit; the message says what is wrong.
        """
        texts = [
            _NO_OPTION + word.text
            if word.text.startswith("-") and (word.is_quoted or _NEGATIVE.match(word.text))
            else word.text
            for word in words
        ]
        return self._parser().parse_intermixed_args(texts)

    def _parser(self) -> _Parser:
        parser = _Parser(self)
        for argument in self.arguments:
            options: dict[str, Any] = {"default": argument.default}
            if argument.is_option and not argument.metavar:
                options = {"action": "store_true"}
            else:
                options["type"] = _reader(argument.kind or str)
                if argument.choices:
                    options["choices"] = argument.choices
                if argument.nargs:
                    options["nargs"] = argument.nargs
                if argument.implied:
                    options |= {"nargs": "?", "const": argument.implied}
                options["metavar"] = argument.metavar or argument.flags[0]
            made = parser.add_argument(*argument.flags, **options)
            # What a signal's handler raises amid `parse_intermixed_args` would be lost in its
            # `finally`, which takes it for granted that these are there.
            vars(made).update(save_nargs=made.nargs, save_default=made.default)
        return parser

    @property
    def names(self) -> tuple[str, ...]:
        """What it is called by: its name, and its short ones."""
        return self.name, *self.aliases

    @property
    def needs_argument(self) -> bool:
        """Whether it can't be run by its name alone."""
        return any(not a.is_option and a.nargs not in ("?", "*") for a in self.arguments)

    @property
    def usage(self) -> str:
        """The command with its arguments, on one line."""
        parts = [self.name]
        for argument in self.arguments:
            if argument.is_option:
                value = f" {argument.metavar}" if argument.metavar else ""
                value = f" [{argument.metavar}]" if argument.implied else value
                parts.append(f"[{argument.flags[0]}{value}]")
            else:
                shown = argument.metavar or argument.flags[0]
                optional = argument.nargs in ("?", "*")
                parts.append(f"[{shown}]" if optional else shown)
        return " ".join(parts)


def _reader(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    """The same function for a word that may bear the mark of `_NO_OPTION`."""

    @functools.wraps(kind, updated=())
    def read(text: str) -> Any:
        return kind(text.removeprefix(_NO_OPTION))

    return read


class _Parser(argparse.ArgumentParser):
    """argparse that raises a `UserError` instead of writing to stderr and leaving."""

    def __init__(self, command: Command) -> None:
        super().__init__(prog=command.name, add_help=False, allow_abbrev=True)
        self._command = command

    def error(self, message: str) -> NoReturn:
        command = self._command
        hint = f"Usage: {command.usage}"
        message = message.replace(_NO_OPTION, "")
        if message.endswith("expected one argument"):
            flag = message.removeprefix("argument ").partition(":")[0].split("/")[0]
            hint = f'Write {flag}=-s or {flag} "-s" for a value that begins with a dash.'
        if message.startswith("unrecognized arguments: "):
            word = message.partition(": ")[2].split()[0]
            flags = [flag for a in command.arguments if a.is_option for flag in a.flags]
            if word.startswith("-"):
                hint = did_you_mean(word, flags) or hint
                message = f"there is no option {word}"
            elif not any(not a.is_option for a in command.arguments):
                message = f'"{word}" is one word too many'
            else:
                message = f'"{word}" is one word too many; quote names with blanks'
        raise UserError(f"{command.name}: {message}.", hint)


class CommandRegistry:
    """The commands by name and alias.

    Args:
        homes: of the built-in ones, in the order of the help: a module, and which commands of its
            ``COMMANDS`` these are, by all their names. It is imported when one is asked for.
        more: commands that come after them. Those of installed packages (entry point group
            ``tfdbg_cli.commands``, each a `Command`) are the last; one that can't be imported
            becomes a command that says why.
    """

    def __init__(self, homes: Iterable[tuple[str, str]], more: Iterable[Command] = ()) -> None:
        installed = map(_installed, entry_points("tfdbg_cli.commands"))
        # By their names: the commands, or the module that has them.
        self._shelves: list[tuple[Collection[str], Command | str]] = [
            *((names.split(), module) for module, names in homes),
            *((command.names, command) for command in (*more, *installed)),
        ]

    @property
    def commands(self) -> list[Command]:
        """All, in the order of the help."""
        return [command for shelf in self._shelves for command in _taken_from(*shelf)]

    def named(self, name: str) -> Iterator[Command]:
        """The commands of a name or alias: two may share one at different stops, as ``ps`` do."""
        for names, content in self._shelves:
            if name in names:
                yield from (c for c in _taken_from(names, content) if name in c.names)

    def available(self, mode: str) -> list[Command]:
        """The commands of a stop."""
        return [command for command in self.commands if mode in command.modes]

    def get(self, name: str, mode: str) -> Command:
        """A command by name or alias.

        Raises:
            UserError: there is none, or not at this stop.
        """
        found = self.lookup(name, mode)
        if found is None:
            known = [name for command in self.available(mode) for name in command.names]
            raise UserError(
                f'There is no command "{name}".',
                did_you_mean(name, known) or "Type help for all commands.",
            )
        if mode not in found.modes:
            raise UserError(
                f"{found.name} is not available {_WHERE.get(mode, f'at {mode}')}.",
                _when(found, mode),
            )
        return found

    def parsed(self, text: str, mode: str) -> tuple[Command, argparse.Namespace]:
        """A command line without an output: the command, and its arguments.

        Raises:
            UserError: there is no such command at this stop, or its arguments are wrong.
        """
        words = tokenize(text)
        command = self.get(words[0].text, mode)
        return command, command.parse(words[1:])

    def lookup(self, name: str, mode: str) -> Command | None:
        """A command by name or alias: the one of this stop, else one of another, else ``None``."""
        first = None
        for command in self.named(name):
            if mode in command.modes:
                return command  # those behind it need not be imported
            first = first or command
        return first


_WHERE = {
    "offline": "offline",
    "profile": "after a run that was timed",
    "offline-profile": "offline after a run that was timed",
    "stepper": "in the middle of a run",
    "here": "in the middle of a run",
    "post-mortem": "after the program's end",
}
_WHEN = {
    "run-start": "It needs a run's tensors: run executes the run.",
    "run-end": "It needs op timings: run -p times the next run, if its kind can be timed.",
    "profile": "run -p keeps no tensors; run does.",
    "offline": "It needs a live program.",
    "offline-profile": "It needs tensors or a live program.",
    "here": "exit lets the program go on.",
    "post-mortem": "The program has ended.",
    "stepper": "cont goes on to the end of the run, exit leaves the stepper.",
}


def _when(command: Command, mode: str) -> str:
    """What makes a command of another stop available."""
    if command.modes == STEPPER_MODES:
        return "invoke_stepper steps through a run." if mode in LIVE_MODES else ""
    return _WHEN.get(mode, "")


def _taken_from(names: Collection[str], content: Command | str) -> Iterator[Command]:
    if isinstance(content, Command):
        yield content
    else:
        yield from (c for c in importlib.import_module(content).COMMANDS if c.name in names)


def _installed(point: EntryPoint) -> Command:
    try:
        command: Command = point.load()
    except Exception as error:
        return _missing(point.name, one_line(error))
    return command


def _missing(name: str, why: str) -> Command:
    def run(context: Context, arguments: argparse.Namespace) -> Result:
        raise UserError(f'The command "{name}" can\'t be loaded: {why}.')

    rest = Argument(("arguments",), "anything", nargs="*")
    return Command(name, (), "plug-ins", f"(not loaded: {why})", run, (rest,))
