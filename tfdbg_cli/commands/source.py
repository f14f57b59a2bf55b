"""``ls`` and ``ps``: the source files that made nodes, and a file with its nodes at each line."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from tfdbg_cli.commands import completers
from tfdbg_cli.commands.context import DUMP_MODES, Context, compile_regex
from tfdbg_cli.commands.node_info import need_graph
from tfdbg_cli.commands.parsing import quoted
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.documents import LazyDocument, Line, Link, Span, TextDocument, line
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.sources import is_debugger_path, is_library_path
from tfdbg_cli.errors import UserError, did_you_mean

__all__ = ["COMMANDS", "user_files"]


def _table(dump: Dump, files: list[_File], role: str) -> Iterable[Line]:
    if not files:
        yield line(("  [No files.]", "dim"))
        return
    width = max(len("Source file path"), *(len(entry.path) for entry in files))
    head = f"{'Source file path':<{width}}  {'#(nodes)':>8}  {'#(tensors)':>10}  #(tensor dumps)"
    yield line((head, "heading"))
    for entry in files:
        data = [datum for name in entry.nodes for datum in dump.by_node(name)]
        tensors = len({datum.tensor_name for datum in data})
        has_source = dump.sources().lines(entry.path) is not None
        link = Link(f"ps {quoted(entry.path)} -b {entry.first_line}") if has_source else None
        yield Line(
            [
                Span(entry.path, role if link is None else (role or "link"), link),
                Span(" " * (width - len(entry.path))),
                Span(f"  {len(entry.nodes):>8}  {tensors:>10}  {len(data):>14}"),
            ]
        )


def _list_source(context: Context, arguments: argparse.Namespace) -> Result:
    dump = context.need_dump()
    lines = [line(("List of source files that created nodes in this run", "bold"))]
    files = _files(dump)
    if arguments.path_filter:
        pattern = compile_regex(arguments.path_filter, "-p")
        files = {path: entry for path, entry in files.items() if pattern.search(path)}
        lines.append(line(f'File path regex filter: "{arguments.path_filter}"'))
    if arguments.node_name_filter:
        pattern = compile_regex(arguments.node_name_filter, "-n")
        for entry in files.values():
            entry.nodes = [name for name in entry.nodes if pattern.search(name)]
        files = {path: entry for path, entry in files.items() if entry.nodes}
        lines.append(line(f'Node name regex filter: "{arguments.node_name_filter}"'))
    lines.append(line())
    if not files:
        return TextDocument([*lines, line("[No source file information.]")])
    own = [entry for entry in files.values() if not is_library_path(entry.path)]
    library = [entry for entry in files.values() if is_library_path(entry.path)]
    lines += [line(("Your file(s):", "heading")), *_table(dump, own, ""), line()]
    lines += [line(("Library file(s):", "heading")), *_table(dump, library, "dim")]
    return TextDocument(lines)


def _print_source(context: Context, arguments: argparse.Namespace) -> Result:
    dump = context.need_dump()
    files = _files(dump)
    path = _resolve(dump, files, arguments.source_file_path)
    text = dump.sources().lines(path)
    if text is None:
        raise UserError(f"The text of {path} isn't known: the file can't be read here.")
    nodes = files[path].nodes if path in files else []
    elements = _elements(dump, path, nodes, arguments.tensors)
    limit = arguments.max_elements_per_line
    # (line number, index of the element on it); -1 is the source line, `limit` the omission.
    rows: list[tuple[int, int]] = []
    initial = 0
    for number in range(1, len(text) + 1):
        if number == arguments.line_begin:
            initial = len(rows)
        rows.append((number, -1))
        rows += [(number, index) for index in range(min(len(elements.get(number, ())), limit))]
        if len(elements.get(number, ())) > limit:
            rows.append((number, limit))
    width = len(f"L{len(text)}")

    def row(at: int) -> Line:
        number, index = rows[at]
        if index < 0:
            role = "source" if number in elements else ""
            return line((f"{f'L{number}':<{width}}  ", "dim"), (text[number - 1], role))
        names = elements[number]
        indent = " " * (width + 4)
        if index == limit:
            more = f"ps {quoted(path)} -b {number} -m {limit + 5}"
            more += " -t" if arguments.tensors else ""
            left = len(names) - limit
            return line(
                indent,
                (f"(... Omitted {left} of {len(names)} op(s) ...) ", "dim"),
                ("+5", "link", more),
            )
        name = names[index]
        if arguments.tensors:
            return line(indent, (name, "link", f"pt {quoted(name)}"))
        role = "link" if dump.by_node(name) else "info"
        return line(indent, (name, role, f"ni -a -d -t {quoted(name)}"))

    return LazyDocument(len(rows), row, title=f"source: {path}", initial_line=initial)


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


_count.__name__ = "number (1 or more)"

LIST_SOURCE = Command(
    "list_source",
    ("ls",),
    "source",
    "List the source files that created nodes.",
    _list_source,
    (
        Argument(("-p", "--path_filter"), "only files whose path matches", "REGEX", default=""),
        Argument(
            ("-n", "--node_name_filter"), "count only nodes whose name matches", "REGEX", default=""
        ),
    ),
    modes=DUMP_MODES,
    examples=(("ls", "your files first, then the library's"), ("ls -p model", "by path")),
)

PRINT_SOURCE = Command(
    "print_source",
    ("ps",),
    "source",
    "Show a source file with the nodes that each line created.",
    _print_source,
    (
        Argument(
            ("source_file_path",),
            "path, or its last part",
            "FILE",
            complete=completers.source_files,
        ),
        Argument(("-t", "--tensors"), "name the dumped tensors instead of the nodes"),
        Argument(
            ("-m", "--max_elements_per_line"),
            "how many names under a line",
            "N",
            default=10,
            kind=_count,
        ),
        Argument(("-b", "--line_begin"), "scroll to this line", "N", default=1, kind=_count),
    ),
    modes=DUMP_MODES,
    examples=(("ps debug_mnist.py", "the file with its nodes"), ("ps -t -b 40 train.py", "")),
)

COMMANDS = (LIST_SOURCE, PRINT_SOURCE)
