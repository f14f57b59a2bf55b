"""The command service: a command line in, a Reply out. It never raises."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import traceback

from tfdbg_cli.commands.completion import complete
from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.history import History
from tfdbg_cli.commands.parsing import split_redirect, tokenize
from tfdbg_cli.commands.registry import Result
from tfdbg_cli.commands.reply import Completion, Leave, Question, Reply, Toast, UiRequest
from tfdbg_cli.documents import Document, write_text
from tfdbg_cli.errors import UserError, one_line
from tfdbg_cli.settings import Settings

__all__ = ["CommandService", "write_document"]


def write_document(document: Document, path: str) -> int:
    """Stream a Document to a file as plain text; the file is replaced whole or not at all.

    Args:
        document: what to write.
        path: where to; something that is no regular file (``/dev/stderr``, a FIFO) is written to
            directly.

    Returns:
        The number of lines.

    Raises:
        UserError: the file can't be written.
    """
    target = os.path.expanduser(path)
    temporary = ""
    try:
        if os.path.exists(target) and not stat.S_ISREG(os.stat(target).st_mode):
            with open(target, "w", encoding="utf-8") as file:
                return write_text(document, file.write)
        # Through a link, so that the file it points to is replaced and not the link.
        target = os.path.realpath(target)
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".tfdbg-")
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            count = write_text(document, file.write)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, target)
    except OSError as error:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise UserError(f"{path} can't be written: {error.strerror or error}.") from None
    return count


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
        self.title = title
        self.title_role = title_role
        self.initial_command = initial_command
        self.history = history
        self.prompt = "tfdbg> "

    def run(self, text: str, width: int = 80) -> Reply:
        """Run one command line.

        Args:
            text: what was typed; empty: nothing happens.
            width: columns that lines may fill.
        """
        command = text.strip()
        if not command:
            return Reply()
        self.context.width = max(width, 20)
        try:
            return self._run(command)
        except UserError as error:
            details: tuple[str, ...] = ()
            if error.__cause__ is not None:
                details = tuple("".join(traceback.format_exception(error.__cause__)).splitlines())
            return Reply(command, message=Toast(str(error), "error"), details=details)
        except Exception as error:
            details = tuple("".join(traceback.format_exception(error)).splitlines())
            text = f"Error in the debugger: {one_line(error)}"
            return Reply(command, message=Toast(text, "error"), details=details)

    def _run(self, command: str) -> Reply:
        if command.startswith("/"):
            return Reply(command, request=UiRequest("search", command[1:]))
        if command.startswith("@"):
            return Reply(command, request=UiRequest("scroll", command[1:].strip()))
        bare, path = split_redirect(command)
        words = tokenize(bare)
        if not words:
            raise UserError("There is no command in front of the >.")
        found = self.context.registry.get(words[0].text, self.context.mode)
        rest = words[1:]
        if [word.text for word in rest] in (["-h"], ["--help"]):
            rest = words[:1]
            found = self.context.registry.get("help", self.context.mode)
        result = found.run(self.context, found.parse(rest))
        if path is None:
            return self._reply(command, result)
        if not isinstance(result, Document):
            raise UserError(f"{found.name} has no output to write to {path}.")
        count = write_document(result, path)
        return Reply(command, message=Toast(f"{count} line(s) written to {path}", "success"))

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
        return Reply(command, message=result)

    def complete(self, text: str, cursor: int) -> Completion:
        """Complete the word before the cursor; nothing where that fails."""
        try:
            return complete(self.context, text[:cursor])
        except Exception:
            # A half-typed line is no place for an error.
            return Completion(cursor)
