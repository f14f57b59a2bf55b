"""The command service: a command line in, a Reply out. It never raises."""

from __future__ import annotations

import os
import traceback
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.registry import Command, Result
from tfdbg_cli.commands.reply import (
    CommandInfo,
    Completion,
    Leave,
    Question,
    Reply,
    Script,
    Toast,
    UiRequest,
)
from tfdbg_cli.commands.shell.aliases import expand_alias
from tfdbg_cli.commands.shell.completion import complete
from tfdbg_cli.commands.shell.history import History
from tfdbg_cli.commands.shell.output import (
    append_document,
    pipe_document,
    write_document,
    write_file,
)
from tfdbg_cli.commands.shell.parsing import OutputTarget, split_command, split_output, tokenize
from tfdbg_cli.commands.shell.printed_names import as_meant
from tfdbg_cli.commands.units import bytes_text
from tfdbg_cli.common.caught import keep
from tfdbg_cli.common.documents import Document
from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.common.printable import printable
from tfdbg_cli.common.settings import Settings

__all__ = ["CommandService"]

# Columns of what isn't for a screen: as many as where there is no terminal.
_PRINTED_WIDTH = 80
# The end of a name is what tells it from others.
_PROMPT_WIDTH = 24


class CommandService:
    """One stop's commands; fulfils `tfdbg_cli.commands.reply.Service`.

    Args:
        context: what the commands see.
        title: of the stop.
        title_role: ``start``, ``end``, ``error`` or ``offline``.
        initial_command: of the first screen.
        history: what was typed.
    """

    def __init__(
        self,
        context: Context,
        *,
        title: str,
        title_role: str,
        initial_command: str,
        history: History,
    ) -> None:
        self.context = context
        self.settings: Settings = context.settings
        self.title = printable(title)
        self.title_role = title_role
        self.initial_command = initial_command
        self.history = context.history = history

    def run(self, text: str, width: int = 80) -> Reply:
        """Run the first command of a command line; `Reply.rest` holds the others.

        Args:
            text: what was typed; empty, or a comment: nothing happens.
            width: columns that lines may fill.
        """
        reply = self._answer(text, width)
        self.history.done(reply.failed)
        return reply

    def _answer(self, text: str, width: int) -> Reply:
        command, rest = text.strip(), ""
        self.context.width = max(width, 20)
        try:
            command = self.history.expand(command)
            command, rest = self._first_command(command)
            if not command:
                return Reply(rest=(rest,) if rest else ())
            reply = self._run(command)
            return replace(reply, rest=(*reply.rest, rest)) if rest else reply
        except UserError as error:
            details: tuple[str, ...] = ()
            if error.__cause__ is not None:
                details = tuple("".join(traceback.format_exception(error.__cause__)).splitlines())
            return Reply(
                command, message=Toast(str(error) + _not_run(rest), "error"), details=details
            )
        except Exception as error:
            keep(error)
            details = tuple("".join(traceback.format_exception(error)).splitlines())
            text = f"Error in the debugger: {one_line(error)}" + _not_run(rest)
            return Reply(command, message=Toast(text, "error"), details=details)

    def _first_command(self, text: str) -> tuple[str, str]:
        """The first command of a line, and the rest of the line."""
        # Their argument is the rest of the line: it may hold anything.
        if text.startswith(("/", "&")) or self._is_raw(text):
            return text, ""
        return split_command(text)

    def _is_raw(self, text: str) -> bool:
        found = self.context.registry.lookup(text.split(None, 1)[0] if text else "", self._mode)
        return found is not None and found.is_raw

    @property
    def prompt(self) -> str:
        """The current place, where there is one."""
        name, number = self.context.place
        if not name:
            return "tfdbg> "
        if len(name) > _PROMPT_WIDTH:
            name = f"…{name[1 - _PROMPT_WIDTH :]}"
        return printable(f"{name}{'' if number is None else f' (#{number})'} › ")

    @property
    def _mode(self) -> str:
        return self.context.mode

    def _run(self, command: str) -> Reply:
        self.context.refresh()
        if command.startswith("/"):
            return Reply(command, request=UiRequest("search", command[1:]))
        if command.startswith("&"):
            return Reply(command, request=UiRequest("filter", command[1:]))
        if command.startswith("@"):
            return Reply(command, request=UiRequest("scroll", command[1:].strip()))
        is_command = (
            self.context.registry.lookup(command.split(maxsplit=1)[0], self._mode) is not None
        )
        expanded = expand_alias(self.settings.aliases, command) if not is_command else None
        if expanded is not None:
            return Reply(command, rest=(expanded,))
        if self._is_raw(command):
            name, _, text = command.partition(" ")
            if text.strip() in ("-h", "--help"):
                return self._run(f"help {name}")
            found = self.context.registry.get(name, self._mode)
            return self._reply(command, found.run(self.context, Namespace(text=text.strip())))
        bare, output = split_output(command)
        words = tokenize(bare)
        if not words:
            raise UserError(f"There is no command before the {output.kind if output else ''}.")
        found = self.context.registry.get(words[0].text, self._mode)
        rest = as_meant(self.context, words[1:])
        if [word.text for word in rest] in (["-h"], ["--help"]):
            rest = words[:1]
            found = self.context.registry.get("help", self._mode)
        arguments = found.parse(rest)
        if output is None:
            return self._reply(command, found.run(self.context, arguments))
        # What a file or a program gets is the same whatever window it was asked for in.
        was_printed = self.context.is_printed
        self.context.width, self.context.is_printed = _PRINTED_WIDTH, True
        try:
            return self._redirect(command, found, found.run(self.context, arguments), output)
        finally:
            self.context.is_printed = was_printed

    @staticmethod
    def _redirect(command: str, found: Command, result: Result, output: OutputTarget) -> Reply:
        """Send what a command returned where the line says."""
        if not isinstance(result, Document):
            raise UserError(f"{found.name} has no output for {output.kind} {output.target}.")
        result = result.printed or result
        if output.kind == "|":
            shown, said = pipe_document(result, output.target)
            if not shown.line_count:
                text = f"{output.target}: no output {said}".rstrip()
                return Reply(command, message=Toast(text))
            return Reply(command, document=shown)
        if output.kind == ">":
            suffix = os.path.splitext(output.target)[1].lower()
            if suffix in result.files:
                count = write_file(result.files[suffix], output.target)
                text = f"{bytes_text(count, 'B')} written to {output.target}"
                return Reply(command, message=Toast(text, "success"))
        if output.kind == ">>":
            count, what = append_document(result, output.target), "appended"
        else:
            count, what = write_document(result, output.target), "written"
        text = f"{count} line(s) {what} to {output.target}"
        return Reply(command, message=Toast(text, "success"))

    @staticmethod
    def _reply(command: str, result: Result) -> Reply:
        if isinstance(result, Document):
            return Reply(command, document=result)
        if isinstance(result, Leave):
            return Reply(command, leave=result)
        if isinstance(result, UiRequest):
            return Reply(command, request=result)
        if isinstance(result, Question):
            return Reply(command, question=result)
        if isinstance(result, Script):
            return Reply(command, rest=result.commands, message=result.message)
        return Reply(command, message=result)

    def commands(self) -> Sequence[CommandInfo]:
        """The commands of this stop, in the order of the help."""
        return [
            CommandInfo(c.name, c.aliases, c.summary, c.needs_argument)
            for c in self.context.registry.available(self.context.mode)
        ]

    def complete(self, text: str, cursor: int) -> Completion:
        """Complete the word before the cursor; nothing where that fails."""
        with contained:
            # A half-typed line is no place for an error.
            return complete(self.context, text[:cursor])
        return Completion(cursor)


def _not_run(rest: str) -> str:
    return f" Not run: {rest}" if rest else ""
