"""``ls`` and ``ps``: the source files that made nodes, and a file with its nodes at each line."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace

from tfdbg_cli.commands.context import DUMP_MODES, TENSOR_MODES, Context, compile_regex, need_graph
from tfdbg_cli.commands.graph.node_info import find_node
from tfdbg_cli.commands.graph.phases import PHASES, Phase, phases_of
from tfdbg_cli.commands.json_lines import JSON_ARGUMENT, json_document
from tfdbg_cli.commands.list_command import (
    ListCommand,
    order_arguments,
    pattern_argument,
)
from tfdbg_cli.commands.registry import Argument, Command, Result, positive
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.source.index import (
    NO_STACKS,
    SourceFile,
    resolve_source,
    source_files,
)
from tfdbg_cli.commands.source.listing import FileView, SourceListing
from tfdbg_cli.commands.source.syntax import syntax_of
from tfdbg_cli.commands.table import LazyTable
from tfdbg_cli.common.documents import (
    ChainDocument,
    Document,
    Line,
    Link,
    MenuItem,
    Span,
    TextDocument,
    line,
)
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.files import near_path
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.elements import node_name_of
from tfdbg_cli.dumps.sources import is_library_path, own_frame
from tfdbg_cli.filters.causes.ops import node_of_line

__all__ = ["COMMANDS"]

_NOTHING = "[No source file information.]"


class _Counts:
    """How many tensors and dumps the nodes of a file have."""

    def __init__(self, dump: Dump) -> None:
        self._dumps: dict[str, int] = {}
        self._tensors: dict[str, int] = {}
        for datum in dump.data():
            self._dumps[datum.node_name] = self._dumps.get(datum.node_name, 0) + 1
        for name in dump.tensor_names():
            node = node_name_of(name)
            self._tensors[node] = self._tensors.get(node, 0) + 1
        self._phases = phases_of(dump, dump.node_names())
        found = set(self._phases.values())
        #: The phases of the run, where there are several.
        self.phases = [phase for phase in PHASES if phase in found]

    def of(self, entry: SourceFile) -> tuple[int, int]:
        """Tensors and dumps."""
        tensors = sum(self._tensors.get(name, 0) for name in entry.nodes)
        return tensors, sum(self._dumps.get(name, 0) for name in entry.nodes)

    def of_column(self, entry: SourceFile, column: str) -> str | int:
        """What a column says of a file."""
        if column == "path":
            return entry.path
        if column == "nodes":
            return len(entry.nodes)
        phase = next((phase for phase in self.phases if phase.name == column), None)
        if phase is not None:
            return self.of_phase(entry, phase)
        return self.of(entry)[column == "dumps"]

    def of_phase(self, entry: SourceFile, phase: Phase) -> int:
        """Nodes of one phase."""
        return sum(self._phases.get(name) is phase for name in entry.nodes)


#: The columns of the list; which of the last ones there are depends on the run.
_COLUMNS = ("path", "nodes", "tensors", "dumps", *(phase.name for phase in PHASES))


def _table(
    dump: Dump, files: list[SourceFile], counts: _Counts, role: str, arguments: argparse.Namespace
) -> Document:
    if not files:
        return TextDocument([line(("  [No files.]", "dim"))])
    phases = counts.phases
    # Where there are phases each tensor has one dump.
    ends = {phase.name: f"#({phase.name})" for phase in phases} or {"dumps": "#(tensor dumps)"}
    heads = {"path": "Source file path", "nodes": "#(nodes)", "tensors": "#(tensors)", **ends}
    options = {"-p": arguments.path_filter, "-n": arguments.node_name_filter}
    written = ListCommand.of(
        "ls", options, arguments, heads, "path", sorts=tuple(heads), filters={"path": "-p"}
    )
    columns = {key: (head, -len(head)) for key, head in heads.items()}
    columns["path"] = heads["path"], max(len(entry.path) for entry in files)

    def cells(at: int) -> dict[str, list[Span]]:
        entry = files[at]
        has_source = dump.sources().lines(entry.path) is not None
        link = Link(f"ps {quoted(entry.path)} -b {entry.first_line}") if has_source else None
        made = {key: [Span(str(counts.of_column(entry, key)))] for key in heads}
        made["path"] = [Span(entry.path, role if link is None else (role or "link"), link)]
        return made

    return LazyTable(len(files), written, columns, cells)


def _sorted(
    files: list[SourceFile], counts: _Counts, arguments: argparse.Namespace
) -> list[SourceFile]:
    """The files in the order that is asked for; without any in that of their nodes."""
    key = arguments.sort_by
    if key == "path" and not arguments.reverse:
        return files
    return sorted(files, key=lambda e: counts.of_column(e, key), reverse=arguments.reverse)


def _filtered(
    dump: Dump, arguments: argparse.Namespace, notes: list[Line]
) -> dict[str, SourceFile]:
    """The files that pass the filters, with the nodes that do; what was filtered by is noted."""
    files = source_files(dump)
    if arguments.path_filter:
        pattern = compile_regex(arguments.path_filter, "-p")
        files = {path: entry for path, entry in files.items() if pattern.search(path)}
        notes.append(line(f'File path regex filter: "{arguments.path_filter}"'))
    if arguments.node_name_filter:
        pattern = compile_regex(arguments.node_name_filter, "-n")
        names = {name for entry in files.values() for name in entry.nodes}
        wanted = {name for name in names if pattern.search(name)}
        notes.append(line(f'Node name regex filter: "{arguments.node_name_filter}"'))
        passing = {
            path: replace(entry, nodes=[name for name in entry.nodes if name in wanted])
            for path, entry in files.items()
        }
        files = {path: entry for path, entry in passing.items() if entry.nodes}
    return files


def _list_source(context: Context, arguments: argparse.Namespace) -> Result:
    dump = context.need_dump()
    head = [line(("List of source files that created nodes in this run", "bold"))]
    files = _filtered(dump, arguments, head)
    counts = _Counts(dump)
    listed = _sorted(list(files.values()), counts, arguments)
    own = [entry for entry in listed if not is_library_path(entry.path)]
    library = [entry for entry in listed if is_library_path(entry.path)]
    if arguments.json:
        entries = [*own, *library]

        def item(at: int) -> dict[str, object]:
            entry = entries[at]
            tensors, dumps = counts.of(entry)
            return {
                "path": entry.path,
                "nodes": len(entry.nodes),
                "tensors": tensors,
                "dumps": dumps,
                **{each.name: counts.of_phase(entry, each) for each in counts.phases},
                "first_line": entry.first_line,
                "library": at >= len(own),
                "text_known": dump.sources().lines(entry.path) is not None,
            }

        return json_document(len(entries), item)
    if not files:
        why = [] if source_files(dump) else [line((NO_STACKS, "dim"))]
        return TextDocument([*head, line(), line(_NOTHING), *why])
    return ChainDocument(
        [
            TextDocument([*head, line(), line(("Your file(s):", "heading"))]),
            _table(dump, own, counts, "", arguments),
            TextDocument([line(), line(("Library file(s):", "heading"))]),
            _table(dump, library, counts, "dim", arguments),
        ]
    )


def _text_of(dump: Dump, path: str, entry: SourceFile | None) -> tuple[dict[int, str], list[Line]]:
    """Line number -> text, and what must be said of it.

    Of a file that nobody can read only the lines that made nodes are there, with the text that
    their frames kept.
    """
    sources = dump.sources()
    lines = sources.lines(path)
    if lines is not None:
        note = sources.note(path)
        # A form feed moves a printer's paper; on a screen it would be a control character.
        text = {at: item.replace("\f", " ") for at, item in enumerate(lines, 1)}
        return text, [line((f"({note})", "warning"))] if note else []
    graph, text = need_graph(dump), {}
    assert entry is not None  # resolve_source found it
    for number, names in sorted(entry.lines.items()):
        frames = graph.nodes[names[0]].frames or ()
        texts = (f.text for f in frames if f.file == path and f.line == number)
        text[number] = next(texts, "") or "(unknown)"
    note = "the text of this file isn't known here: these are its lines that made nodes"
    return text, [line((f"({note})", "warning"))]


def _print_source(context: Context, arguments: argparse.Namespace) -> Result:
    dump = context.need_dump()
    files = source_files(dump)
    asked = arguments.source_file_path
    graph = dump.graph()
    if not asked or (graph is not None and node_name_of(asked) in graph):
        asked, begin = _line_of(context, dump, asked)
        if arguments.line_begin == 1:
            arguments.line_begin = begin
    path = resolve_source(dump, files, asked)
    entry = files.get(path)
    text, notes = _text_of(dump, path, entry)
    if arguments.json:
        return _records(dump, path, entry, text, arguments)
    shown = FileView(
        path,
        arguments.tensors,
        arguments.max_elements_per_line,
        arguments.fold or bool(arguments.open),
        _line_numbers(arguments.open),
    )
    sources = dump.sources()
    syntax = syntax_of(sources, path) if sources.lines(path) is not None else None
    listing = SourceListing(dump, shown, entry, text, syntax)
    initial = 0
    if arguments.line_begin > 1 and arguments.line_begin in text:
        initial = len(notes) + listing.place(arguments.line_begin)
    parts: list[Document] = [TextDocument(notes), listing]
    if entry is None:
        return ChainDocument(parts, title=f"source: {near_path(path)}", initial_line=initial)
    parts.append(TextDocument([line(), *listing.legend()]))
    other = shown.command(is_folded=not shown.is_folded, limit=FileView.limit)
    fold = MenuItem("unfold" if shown.is_folded else "fold", other)
    tensors = MenuItem("tensors", shown.command(tensors=True), enabled=not shown.tensors)
    nodes = MenuItem("nodes", shown.command(tensors=False), enabled=shown.tensors)
    menu = (fold, nodes, tensors, MenuItem("list_source", "ls"))
    document = ChainDocument(parts, f"source: {near_path(path)}", menu, initial_line=initial)
    document.steps, document.kind = "bad line", "source"
    return document


def _records(
    dump: Dump,
    path: str,
    entry: SourceFile | None,
    text: Mapping[int, str],
    arguments: argparse.Namespace,
) -> Document:
    """The lines from ``-b`` on for ``--json``, each with the first nodes that it made."""
    numbers = [number for number in sorted(text) if number >= arguments.line_begin]
    made = entry.lines if entry is not None else {}
    note = dump.sources().note(path) or ""

    def record(at: int) -> dict[str, object]:
        if not at:
            return {"file": path, "lines": max(text, default=0), "note": note}
        number = numbers[at - 1]
        names = made.get(number, [])
        few = names[: arguments.max_elements_per_line]
        return {"line": number, "text": text[number], "nodes": few, "count": len(names)}

    return json_document(1 + len(numbers), record)


def _line_of(context: Context, dump: Dump, name: str) -> tuple[str, int]:
    """File and line of a node; without a name of that of the current place."""
    node = find_node(context, need_graph(dump), context.here("FILE", name).name)
    context.look_at(node.name)
    frame = own_frame(node_of_line(need_graph(dump), node).frames or ())
    if frame is None:
        raise UserError(f'No line of the program is known for "{node.name}".', "ls lists files.")
    return frame.file, frame.line


def _line_numbers(text: str) -> frozenset[int]:
    """The lines of ``--open``.

    Raises:
        UserError: they are none.
    """
    try:
        return frozenset(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise UserError(f'--open: "{text}" is not a line number.', "Write --open 12,40.") from None


_count = positive("number")

LIST_SOURCE = Command(
    "list_source",
    ("ls",),
    "source",
    "List the source files that created nodes.",
    _list_source,
    (
        pattern_argument(
            ("-p", "--path_filter"), "only files whose path matches", completers.source_files
        ),
        pattern_argument(("-n", "--node_name_filter"), "count only nodes whose name matches"),
        *order_arguments(_COLUMNS, "path"),
        JSON_ARGUMENT,
    ),
    modes=DUMP_MODES,
    examples=(
        ("ls", "your files first, then the library's"),
        ("ls -p model", "by any part of the path"),
        ("ls -s tensors -r", "files with the most tensors first"),
        ("ls -n ^hidden/", "only files that made the nodes of a scope"),
        ("ls -n ^gradients/", "PyTorch: the files of the forward ops that have gradients"),
    ),
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
            "path, or its last part; a tensor or node: its line; none: that of the current place",
            "FILE",
            nargs="?",
            complete=completers.source_files,
        ),
        Argument(("-t", "--tensors"), "name the dumped tensors instead of the nodes"),
        Argument(
            ("-m", "--max_elements_per_line"),
            "number of names below a line, for each phase",
            "N",
            default=10,
            kind=_count,
        ),
        Argument(("--fold",), "only the number of names below each line, as a link"),
        Argument(
            ("--open",),
            "with --fold: lines whose names are shown, separated by commas",
            "N",
            default="",
        ),
        Argument(("-b", "--line_begin"), "scroll to this line", "N", default=1, kind=_count),
        JSON_ARGUMENT,
    ),
    modes=TENSOR_MODES,
    examples=(
        ("ps debug_mnist.py", "the file with its nodes"),
        ("ps -t -b 40 train.py", "with its tensors, line 40 on top"),
        ("ps train.py --fold", "only the lines, with the number of ops of each"),
    ),
    details="* marks lines with a node that this run computed, - lines with other nodes. "
    "After a training step of PyTorch the marks are F (forward), B (backward) and O "
    "(optimizer), and the names are grouped in the same way: gradients are at the "
    "line of their forward op. A mark in the colour of nan or inf means that an op "
    "of the line made some; after the line is a link to the first such op. On the "
    "page, ]b and [b go to the next and the previous bad line, z folds and unfolds "
    "the names.\n\n"
    "With Pygments installed the text has syntax colours. It is the text that ran; "
    "if the file was edited before the debugger read it, a note says so.",
)

COMMANDS = (LIST_SOURCE, PRINT_SOURCE)
