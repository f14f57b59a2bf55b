"""What a client may do: look; and by ``--allow`` run code, write files, start other programs."""

from __future__ import annotations

import os
import re
from argparse import Namespace
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from tfdbg_cli.commands.registry import Command, CommandRegistry
from tfdbg_cli.commands.shell.parsing import Word, split_command, split_output, tokenize
from tfdbg_cli.common.errors import UserError

__all__ = ["NEEDS", "NONE_HERE", "RIGHTS", "Rights"]

#: The words of ``--allow``, and what each lets a client do.
RIGHTS = {
    "eval": "run Python expressions and programs, and change a program's results",
    "write": "write files",
    "start": "start programs outside the root, with any interpreter and environment",
}

# A slice that is no Python expression.
_SLICE = re.compile(r"(?:[\s\d:,.+-]|\[|\]|newaxis)*")

_Need = Callable[[Namespace], str]


def _looks(arguments: Namespace) -> str:
    return ""


def _eval(arguments: Namespace) -> str:
    return "eval"


def _write(arguments: Namespace) -> str:
    return "write"


def _value(arguments: Namespace) -> str:
    """A value: its slice may be an expression, and it may be saved."""
    name = getattr(arguments, "tensor_name", None) or getattr(arguments, "feed_name", None) or ""
    at = name.find("[")
    if at >= 0 and not _SLICE.fullmatch(name[at:]):
        return "eval"
    return "write" if arguments.write_path else ""


def _when(name: str, right: str) -> _Need:
    return lambda arguments: right if getattr(arguments, name) else ""


def _config(arguments: Namespace) -> str:
    return "write" if arguments.keep or arguments.words[:1] == ["save"] else ""


def _fix(arguments: Namespace) -> str:
    return "eval" if arguments.go else "write" if arguments.apply else ""


def _plot(arguments: Namespace) -> str:
    return "write" if arguments.save or arguments.tensorboard else ""


def _track(arguments: Namespace) -> str:
    """Loss and norms are followed by the engine; anything else is an expression."""
    return "" if " ".join(arguments.expression) in ("", "loss") else "eval"


#: Command -> the right that it needs, by its arguments; one that isn't here needs eval.
NEEDS: dict[str, _Need] = {
    **dict.fromkeys(
        (
            *("run", "run_info", "error", "traceback", "where", "list_sorted_nodes", "step"),
            *(
                "break",
                "cont",
                "until",
                "delete",
                "restore",
                "diff",
                "invoke_stepper",
                "runs",
                "use",
            ),
            *("list_tensors", "select", "compare", "node_info", "list_inputs", "list_outputs"),
            *("graph", "why", "here", "growth", "preview", "list_source", "print_source"),
            *("list_profile", "history", "help", "version", "errors"),
        ),
        _looks,
    ),
    **dict.fromkeys(("print_tensor", "print_feed"), _value),
    **dict.fromkeys(("eval", "inject_value", "source", "pdb", "alias", "unalias"), _eval),
    **dict.fromkeys(("report", "save", "record"), _write),
    "config": _config,
    "precision": _when("keep", "write"),
    "fix": _fix,
    "plot": _plot,
    "track": _track,
}

#: What a client has tools for, or has no screen for.
NONE_HERE = {
    "exit": "The tool stop ends a session.",
    "detach": "The tool stop ends a session.",
    **dict.fromkeys(("mouse", "prev", "next", "link"), "There is no screen here."),
}


class Rights:
    """What the clients of a server may do.

    Args:
        allowed: words of `RIGHTS`.
        root: the folder whose programs may be started, and whose files may be read.
    """

    def __init__(self, allowed: Collection[str], root: Path) -> None:
        self.allowed = frozenset(allowed)
        self.root = root.resolve()

    def need(self, right: str, what: str) -> None:
        """Refuse what needs a right that wasn't given.

        Raises:
            UserError: it wasn't.
        """
        if right and right not in self.allowed:
            raise UserError(
                f"{what} isn't allowed: this server lets its clients look.",
                f"Who starts it may allow it: tfdbg mcp --allow {right} ({RIGHTS[right]}).",
            )

    def check_start(self, script: Path, cwd: Path, *, is_plain: bool) -> None:
        """Whether a program may be started.

        Args:
            script: what is run.
            cwd: where.
            is_plain: by this interpreter, in this environment.

        Raises:
            UserError: it may not.
        """
        for path in (script, cwd):
            if not path.resolve().is_relative_to(self.root):
                self.need("start", f"Starting a program outside {self.root}")
        if not is_plain:
            self.need("start", "Choosing the interpreter or the environment of a program")

    def check(self, text: str, registry: CommandRegistry) -> None:
        """Whether a command line may be run, with all the commands that it holds.

        Args:
            text: the command line.
            registry: the commands that it may mean.

        Raises:
            UserError: it may not, or can't be parsed.
        """
        for command in _commands(text):
            bare, output = split_output(command)
            if output is not None:
                is_file = output.kind != "|"
                what = f"Sending output to {'a file' if is_file else 'a program'} ({output.kind})"
                self.need("write" if is_file else "eval", what)
            words = tokenize(bare)
            if not words:
                continue
            name = words[0].text
            found = list(registry.named(name))
            if (
                not found and NEEDS.get(name) is not _looks
            ):  # an alias of the user's, an event of the history, a key of a screen
                self.need("eval", f"What {name} stands for")
            if [word.text for word in words[1:]] in (["-h"], ["--help"]):
                continue
            for each in found:
                self._check_one(each, words[1:])

    def _check_one(self, command: Command, words: Sequence[Word]) -> None:
        if command.name in NONE_HERE:
            raise UserError(f"{command.name} isn't for programs.", NONE_HERE[command.name])
        try:
            arguments = Namespace() if command.is_raw else command.parse(words)
        except UserError:
            return  # the program says so; two commands may share a name at different stops
        self.need(NEEDS.get(command.name, _eval)(arguments), command.name)
        path = getattr(arguments, "source_file_path", "") or ""
        if path and not path.endswith(".py"):
            file = Path(os.path.abspath(os.path.expanduser(path)))
            if file.exists() and not file.resolve().is_relative_to(self.root):
                self.need("eval", f"Reading {path}, no Python source and outside {self.root},")


def _commands(text: str) -> Iterator[str]:
    """The commands of a line; one whose argument is the rest of it is refused with all of it."""
    while text:
        command, text = split_command(text)
        if command:
            yield command
