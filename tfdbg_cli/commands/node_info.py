"""``ni``: one node: its op, device, neighbours, attributes, dumps and creation stack."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from tfdbg_cli.commands import completers
from tfdbg_cli.commands.context import DUMP_MODES, Context
from tfdbg_cli.commands.parsing import quoted
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.commands.units import node_menu
from tfdbg_cli.documents import Line, TextDocument, line
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.graph import Edge, Graph, node_name_of
from tfdbg_cli.dumps.sources import Frame, Sources, is_debugger_path, is_library_path
from tfdbg_cli.errors import UserError

__all__ = ["COMMANDS", "need_graph"]


def need_graph(dump: Dump) -> Graph:
    """The dump's graph.

    Raises:
        UserError: it holds none.
    """
    graph = dump.graph()
    if graph is None:
        raise UserError(
            "This dump holds no graph, so nothing is known of its nodes.",
            "lt and pt work without it.",
        )
    return graph


def _neighbours(graph: Graph, edges: list[Edge], what: str) -> list[Line]:
    data = [edge for edge in edges if not edge.is_control]
    control = [edge for edge in edges if edge.is_control]
    lines = [line(), line(f"  {len(data)} {what}(s) + {len(control)} control {what}(s):")]

    def rows(group: list[Edge], head: str) -> Iterable[Line]:
        if not group:
            return
        yield line(f"    {len(group)} {head}(s):")
        for edge in group:
            node = graph.nodes.get(edge.node)
            if node is None:  # a damaged graph
                yield line("      ", ("[?] ", "op_type"), edge.node)
                continue
            link = f"ni -a -d -t {quoted(edge.node)}"
            yield line("      ", (f"[{node.op_type}] ", "op_type"), (edge.node, "link", link))

    lines += rows(data, what)
    lines += rows(control, f"control {what}")
    return lines


def _attributes(graph: Graph, name: str) -> list[Line]:
    lines = [line(), line(("Node attributes:", "heading"))]
    for key, value in graph.node(name).attributes.items():
        lines.append(line("  ", (f"{key}:", "bold")))
        lines += [line(f"    {text}") for text in str(value).splitlines()]
    return lines if len(lines) > 2 else [*lines, line("  (None)")]


def _dumps(dump: Dump, name: str) -> list[Line]:
    data, t0 = dump.by_node(name), dump.t0()
    lines = [line(), line((f"{len(data)} dumped tensor(s):", "heading"))]
    for datum in data:
        when = (datum.timestamp - t0) / 1000
        text = f"Slot {datum.output_slot} @ {datum.debug_op} @ {when:.3f} ms"
        number = f" -n {datum.execution}" if len(dump.by_tensor(datum.tensor_name)) > 1 else ""
        lines.append(line("  ", (text, "link", f"pt {quoted(datum.tensor_name)}{number}")))
    return lines


def _frame_lines(depth: int, frame: Frame, sources: Sources) -> list[Line]:
    text = frame.text or sources.line(frame.file, frame.line)
    has_source = sources.lines(frame.file) is not None
    link = f"ps {quoted(frame.file)} -b {frame.line}"
    where = (str(frame.line), "link", link) if has_source else (str(frame.line), "")
    return [
        line(f"{depth}: ", (frame.file, "bold")),
        line("  Line:     ", where),
        line(f"  Function: {frame.function}"),
        line("  Text:     ", (text or "(unknown)", "source" if text else "dim")),
    ]


def _traceback(dump: Dump, graph: Graph, name: str) -> list[Line]:
    lines = [line(), line(("Traceback of node construction:", "heading"))]
    frames = graph.node(name).frames
    if not frames:
        return [*lines, line(("  (Unavailable: nobody recorded where this node was made)", "dim"))]
    shown = [f for f in frames if not is_library_path(f.file)] or list(frames)
    hidden = sum(1 for f in frames if not is_debugger_path(f.file)) - len(shown)
    for depth, frame in enumerate(shown):
        lines += _frame_lines(depth, frame, dump.sources())
    if hidden > 0:
        lines.append(line((f"({hidden} frame(s) inside libraries left out)", "dim")))
    return lines


def _node_info(context: Context, arguments: argparse.Namespace) -> Result:
    dump = context.need_dump()
    graph = need_graph(dump)
    name = node_name_of(arguments.node_name)
    node = graph.node(name)
    lines = [
        line("Node ", (name, "bold")),
        line(),
        line("  Op: ", (node.op_type, "op_type")),
        line(f"  Device: {node.device or '(unknown)'}"),
        *_neighbours(graph, graph.inputs(name), "input"),
        *_neighbours(graph, graph.recipients(name), "recipient"),
    ]
    if arguments.attributes:
        lines += _attributes(graph, name)
    if arguments.dumps:
        lines += _dumps(dump, name)
    if arguments.traceback:
        lines += _traceback(dump, graph, name)
    return TextDocument(lines, menu=node_menu(dump, name, "node_info"))


NODE_INFO = Command(
    "node_info",
    ("ni",),
    "graph",
    "Show a node: its op, device, inputs, recipients, and where it was made.",
    _node_info,
    (
        Argument(("node_name",), "a node or one of its tensors", "NODE", complete=completers.nodes),
        Argument(("-a", "--attributes"), "its attributes"),
        Argument(("-d", "--dumps"), "its dumped tensors"),
        Argument(("-t", "--traceback"), "the Python lines that made it"),
    ),
    modes=DUMP_MODES,
    examples=(
        ("ni hidden/Relu", "op type, device and neighbours"),
        ("ni -t cross_entropy/Log", "the line of your program that made the node"),
        ("ni -a -d -t hidden/Relu:0", "everything"),
    ),
)

COMMANDS = (NODE_INFO,)
