"""A session is a script: ``history``, ``source``, ``save`` and ``record``."""

from __future__ import annotations

import argparse
from pathlib import Path

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.registry import Argument, Command, Result, positive
from tfdbg_cli.commands.reply import Script, Toast
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.shell.history import History
from tfdbg_cli.commands.shell.output import write_document
from tfdbg_cli.common.documents import LazyDocument, Line, TextDocument, line
from tfdbg_cli.common.errors import UserError

__all__ = ["COMMANDS"]

_HEAD = "# Commands of tfdbg_cli; play them with: source FILE"


def _history_of(context: Context) -> History:
    if context.history is None:
        raise UserError("This stop keeps no history.")
    return context.history


_count = positive("number")


def _history(context: Context, arguments: argparse.Namespace) -> Result:
    items = list(_history_of(context).items)
    first = max(len(items) - arguments.count, 0) if arguments.count else 0
    width = len(str(len(items)))

    def row(at: int) -> Line:
        number = first + at
        text = items[number]
        return line((f"{number + 1:>{width}}  ", "dim"), (text, "link", text))

    shown = LazyDocument(len(items) - first, row, title="history")
    shown.initial_line = max(shown.line_count - 1, 0)
    return shown if items else TextDocument([line(("Nothing was typed yet.", "dim"))])


def _source(context: Context, arguments: argparse.Namespace) -> Result:
    path = Path(arguments.path).expanduser()
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror or error}.") from None
    except ValueError:
        raise UserError(f"{path} is not a text file of commands.") from None
    if context.history is not None:
        context.history.is_typed = False  # nobody typed what is in it
    commands = [row.strip() for row in text.splitlines()]
    return Script(tuple(row for row in commands if row and not row.startswith("#")))


def _save(context: Context, arguments: argparse.Namespace) -> Result:
    typed = _history_of(context).session
    count = write_document(TextDocument([_HEAD, *typed]), arguments.path) - 1
    return Toast(f"{count} command(s) written to {arguments.path}", "success")


def _record(context: Context, arguments: argparse.Namespace) -> Result:
    history = _history_of(context)
    if arguments.path is None:
        where = history.recorder
        return Toast(f"Recording to {where}" if where else "Nothing is recorded.")
    if arguments.path == "off":
        history.recorder = None
        return Toast("Recording is off.")
    write_document(TextDocument([_HEAD]), arguments.path)
    history.recorder = Path(arguments.path).expanduser().resolve()
    return Toast(f"Recording to {history.recorder}; record off ends it.", "success")


HISTORY = Command(
    "history",
    ("hist",),
    "scripts",
    "List the typed commands; !12 runs number 12 again.",
    _history,
    (Argument(("count",), "only the last N", "N", nargs="?", kind=_count),),
    examples=(("history", "all of them"), ("history 20", "the last twenty")),
    details=(
        "!! runs the last command again, !12 the one with this number, !-2 the last but "
        "one,\n"
        "!lt the last one that begins with lt, !?Relu the last one that contains Relu.\n"
        "Further words are appended: !lt -r"
    ),
)

SOURCE = Command(
    "source",
    (),
    "scripts",
    "Run the commands of a file, one per line, until one fails; # begins a comment.",
    _source,
    (Argument(("path",), "the file", "FILE", complete=completers.files),),
    examples=(("source first_nan.tfdbg", "after a run, the next command runs at the next stop"),),
)

SAVE = Command(
    "save",
    (),
    "scripts",
    "Write this session's commands to a file, for source.",
    _save,
    (Argument(("path",), "the file; it is replaced", "FILE", complete=completers.files),),
    examples=(("save first_nan.tfdbg", "a session is a script"),),
)

RECORD = Command(
    "record",
    (),
    "scripts",
    "Write every command to a file as it is typed, from now on.",
    _record,
    (
        Argument(
            ("path",),
            "the file, which is replaced; off ends the recording; none: show the file",
            "FILE | off",
            nargs="?",
            complete=completers.files,
        ),
    ),
    examples=(("record session.tfdbg", "begin"), ("record off", "end")),
)

COMMANDS = (HISTORY, SOURCE, SAVE, RECORD)
