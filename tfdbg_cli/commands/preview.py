"""``preview``: what a pane beside a list shows of one of its rows."""

from __future__ import annotations

import argparse
import contextlib

from tfdbg_cli.commands.context import DUMP_MODES, Context, need_graph
from tfdbg_cli.commands.graph.node_info import find_node
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.shell.parsing import quoted, split_words
from tfdbg_cli.commands.units import bytes_text
from tfdbg_cli.common.documents import ChainDocument, Document, Line, MenuItem, TextDocument, line
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.sources import own_frame
from tfdbg_cli.filters.causes.ops import node_of_line

__all__ = ["COMMANDS", "KINDS", "preview_command", "row_subject"]

#: What can be shown of a row.
KINDS = ("value", "source", "graph")

# More bytes are not read because somebody has come by.
_LARGEST = 64 << 20

# The commands whose links say what a row is about.
_OF_TENSORS = frozenset({"pt", "print_tensor"})
_OF_NODES = frozenset({"ni", "node_info", "li", "list_inputs", "lo", "list_outputs", "graph"})


def preview_command(kind: str, row: Line) -> str:
    """The command line that shows something of what a row is about; empty: it is about nothing.

    Args:
        kind: one of `KINDS`.
        row: its links tell.
    """
    name, number = row_subject(row)
    end = f" -n {number}" if number and kind == "value" else ""
    return f"preview {quoted(name)} --kind {kind}{end}" if name else ""


def row_subject(row: Line) -> tuple[str, str]:
    """The tensor or node that a row is about, and which of its dumps; empty: it is about none."""
    for span in row.spans:
        words = split_words(span.link.command) if span.link is not None else []
        if not words or words[0] not in _OF_TENSORS | _OF_NODES:
            continue
        names = [word for word in words[1:] if not word.startswith("-")]
        if words[0] in _OF_TENSORS and names:
            number = words[words.index("-n") + 1 :][:1] if "-n" in words else []
            return names[0], "".join(number)
        if names:
            return names[-1], ""
    return "", ""


def _preview(context: Context, arguments: argparse.Namespace) -> Result:
    if arguments.kind == "value":
        command = f"pt {quoted(arguments.name)}"
        command += f" -n {arguments.number}" if arguments.number is not None else ""
        found = _too_large(context, arguments.name, command) or _shown(context, command)
    elif arguments.kind == "source":
        command = _source(context, arguments.name)
        found = _shown(context, command)
    else:
        command, found = _graph(context, arguments.name)
    found.menu = (MenuItem(command, command),)
    return found


def _shown(context: Context, text: str) -> Document:
    """What a command shows."""
    command, arguments = context.registry.parsed(text, context.mode)
    found = command.run(context, arguments)
    if not isinstance(found, Document):
        raise UserError(f"{command.name} shows nothing here.")
    return found


def _too_large(context: Context, name: str, command: str) -> Document | None:
    """Instead of a value that would take long to read: how large it is."""
    dump = context.need_dump()
    data = dump.by_tensor(name) or dump.by_node(name)
    size = 0
    with contextlib.suppress(Exception):  # a damaged one: pt says so
        size = max((datum.nbytes for datum in data), default=0)
    if size <= _LARGEST:
        return None
    return TextDocument([line((f"{bytes_text(size, 'B')}: ", "dim"), (command, "link", command))])


def _source(context: Context, name: str) -> str:
    """The command that shows the line that made a node, or called its forward op."""
    dump = context.need_dump()
    graph = need_graph(dump)
    node = find_node(context, graph, name)
    frame = own_frame(node_of_line(graph, node).frames or ())
    if frame is None:
        raise UserError("No line was recorded for this node.")
    return f"ps {quoted(frame.file)} -b {frame.line}"


def _graph(context: Context, name: str) -> tuple[str, Document]:
    """Its neighbours: drawn, or its inputs and its recipients."""
    node = quoted(find_node(context, need_graph(context.need_dump()), name).name)
    if context.registry.lookup("graph", context.mode) is not None:
        return f"graph {node}", _shown(context, f"graph {node}")
    command = f"li -t {node}"
    parts = [_shown(context, command), TextDocument([line()]), _shown(context, f"lo -t {node}")]
    return command, ChainDocument(parts)


COMMANDS = (
    Command(
        "preview",
        (),
        "tensors",
        "Show a tensor's value, source line or neighbours, as in the pane beside a list.",
        _preview,
        (
            Argument(("name",), "a tensor or a node", "NAME", complete=completers.tensors),
            Argument(("-k", "--kind"), "what to show", "KIND", default="value", choices=KINDS),
            Argument(("-n", "--number"), "which of several dumps, from 0", "K", kind=int),
        ),
        modes=DUMP_MODES,
        examples=(
            ("preview hidden/Relu:0", "its value, if it can be read quickly"),
            ("preview hidden/Relu --kind source", "the line that made it"),
            ("preview hidden/Relu -k graph", "its inputs and its readers"),
        ),
        details="config set pane value (or source, graph, off) shows it beside every list of "
        "the full screen, from 100 columns on; F6 changes it. A value of more than "
        "64 MB is not read for it.",
    ),
)
