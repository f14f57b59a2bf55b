"""The stop after a program that has ended with an error: its traceback, and Python's debugger."""

from __future__ import annotations

import argparse
import re
import traceback

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.registry import Command, Result
from tfdbg_cli.commands.reply import UiRequest
from tfdbg_cli.commands.spans import source_span
from tfdbg_cli.common.documents import Line, MenuItem, TextDocument, line

__all__ = ["COMMANDS"]

_FRAME = re.compile(r'(.*File ")(.+)(", line )(\d+)(.*)')
_MODES = frozenset({"post-mortem"})


def _traceback(context: Context, arguments: argparse.Namespace) -> Result:
    error: BaseException = context.extra["uncaught"]
    lines = [line((text, "warning")) for text in context.extra.pop("notes", ())]
    lines += [line("The program ended with an uncaught error."), line()]
    for text in "".join(traceback.format_exception(error)).splitlines():
        lines.append(_frame(context, text))
    lines += [line(), *_ways(context)]
    title = f"The program has ended: {type(error).__name__}"
    menu = [
        MenuItem("pdb", "pdb"),
        MenuItem("list_tensors", "lt", enabled=context.dump is not None),
        MenuItem("run_info", "run_info"),
    ]
    return TextDocument(lines, title=title, title_role="error", menu=menu)


def _frame(context: Context, text: str) -> Line:
    """A line of a traceback; one that names a line of a file leads there."""
    found = _FRAME.fullmatch(text)
    if found is None:
        return line(text)
    before, file, between, number, rest = found.groups()
    sources = context.dump.sources() if context.dump is not None else None
    return line(before, source_span(sources, file, number, f"{file}{between}{number}"), rest)


def _ways(context: Context) -> list[Line]:
    """What to look at next."""
    ways = [("pdb", "Python's debugger at that line; q returns")]
    if context.dump is None:
        return [_way(*ways[0]), line(), line("No run was recorded before that.")]
    ways.append(("lt", "the tensors of the last run"))
    if context.run_info.error is not None:
        ways.append(("error", "the op that failed, and its inputs"))
    ways.append(("why", "where a nan or an infinity began, if there is one"))
    return [_way(*each) for each in ways]


def _way(command: str, text: str) -> Line:
    return line("  ", (command, "link", command), " " * (7 - len(command)), text)


def _pdb(context: Context, arguments: argparse.Namespace) -> Result:
    return UiRequest("pdb")


COMMANDS = (
    Command(
        "traceback",
        ("tb",),
        "run control",
        "Show the error that ended the program, and the lines that led to it.",
        _traceback,
        modes=_MODES,
        examples=(("tb", "the traceback as python prints it"),),
    ),
    Command(
        "pdb",
        (),
        "run control",
        "Open Python's debugger at the line that raised the program's error.",
        _pdb,
        modes=_MODES,
        examples=(("pdb", "p x, up, down, ll; q returns to this prompt"),),
    ),
)
