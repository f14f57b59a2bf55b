"""Which source files made nodes, and on which of their lines."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from tfdbg_cli.commands.context import need_graph
from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.sources import is_debugger_path, is_library_path

__all__ = ["NO_STACKS", "SourceFile", "resolve_source", "source_files", "user_files"]

#: Said where nothing is known of any node.
NO_STACKS = (
    "This dump holds no creation stacks, so no source line is known for its nodes "
    "(TensorFlow's dump directories have none; run folders of tfdbg_cli keep them)."
)


@dataclass
class SourceFile:
    """What a graph says of one source file.

    Attributes:
        path: as the frames name it.
        first_line: the first line that made a node.
        nodes: the nodes whose creation stack passes through the file, in graph order.
        lines: line number -> the nodes whose creation stack passes through the line.
    """

    path: str
    first_line: int
    nodes: list[str] = field(default_factory=list)
    lines: dict[int, list[str]] = field(default_factory=dict)


# A graph never changes, so what its frames say is gathered once.
_known: WeakKeyDictionary[Graph, dict[str, SourceFile]] = WeakKeyDictionary()


def source_files(dump: Dump) -> dict[str, SourceFile]:
    """Path -> what is known of the file, in the order in which files made their first node.

    Files of the debugger itself are left out. Not to be changed by the caller.

    Raises:
        UserError: the dump holds no graph.
    """
    graph = need_graph(dump)
    found = _known.get(graph)
    if found is None:
        found = _known[graph] = _gather(graph)
    return found


def _gather(graph: Graph) -> dict[str, SourceFile]:
    found: dict[str, SourceFile] = {}
    skipped: dict[str, bool] = {}
    for node in graph.nodes.values():
        places = dict.fromkeys((frame.file, frame.line) for frame in node.frames or ())
        for path, number in places:
            if path not in skipped:
                skipped[path] = is_debugger_path(path)
            if skipped[path]:
                continue
            entry = found.get(path)
            if entry is None:
                entry = found[path] = SourceFile(path, number)
            if not entry.nodes or entry.nodes[-1] != node.name:
                entry.nodes.append(node.name)
            entry.first_line = min(entry.first_line, number)
            entry.lines.setdefault(number, []).append(node.name)
    return found


def user_files(dump: Dump) -> list[str]:
    """The files of the user's own that made nodes; empty where the dump has no graph."""
    if dump.graph() is None:
        return []
    return [path for path in source_files(dump) if not is_library_path(path)]


def resolve_source(dump: Dump, files: dict[str, SourceFile], path: str) -> str:
    """The file that a path, or the end of a path, means.

    Args:
        dump: whose sources are looked at for files that made no node.
        files: see `source_files`.
        path: as the user wrote it.

    Raises:
        UserError: nothing or several files are meant.
    """
    absolute = os.path.abspath(os.path.expanduser(path))
    for candidate in (path, absolute):
        if candidate in files:
            return candidate
    wanted = "/" + path.replace("\\", "/").removeprefix("./")
    ends = [known for known in files if known.replace("\\", "/").endswith(wanted)]
    if len(ends) > 1:
        own = [known for known in ends if not is_library_path(known)]
        ends = own if len(own) == 1 else ends
    if len(ends) == 1:
        return ends[0]
    if ends:
        raise UserError(f'"{path}" could be {", ".join(sorted(ends)[:4])}.')
    if dump.sources().lines(absolute) is not None:
        return absolute
    if not files:
        raise UserError(NO_STACKS)
    raise UserError(
        f'No source file "{path}" made a node in this run, and it can\'t be read.',
        did_you_mean(os.path.basename(path), [os.path.basename(p) for p in user_files(dump)])
        or "ls lists the files.",
    )
