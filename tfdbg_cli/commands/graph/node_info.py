"""``ni``: one node: its op, device, neighbours, attributes, dumps and creation stack."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from tfdbg_cli.commands.context import DUMP_MODES, Context, need_graph
from tfdbg_cli.commands.graph.node_origin import (
    call_lines,
    gradient_lines,
    origin_lines,
    stack_heading,
    stack_label,
)
from tfdbg_cli.commands.json_lines import JSON_ARGUMENT, json_document
from tfdbg_cli.commands.list_command import NODE_ARGUMENT
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.spans import node_span, op_span, source_span
from tfdbg_cli.commands.tensors.facts import TensorFacts
from tfdbg_cli.commands.tensors.program_names import resolve_program_name
from tfdbg_cli.commands.units import device_text, has_debug_ops, node_menu, watch_name
from tfdbg_cli.common.documents import Line, TextDocument, line
from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.common.files import near_path
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.graph import Edge, Graph, Node, node_name_of
from tfdbg_cli.dumps.sources import Frame, Sources, is_debugger_path, is_library_path
from tfdbg_cli.dumps.tfdbg_dir.runtime_names import fused_types, user_names

__all__ = ["COMMANDS", "find_node"]


def find_node(context: Context, graph: Graph, name: str) -> Node:
    """A node by its name or that of a tensor of it, the program's or the runtime's.

    TensorFlow's runtime renames nodes when it feeds, copies, fuses or rewrites them.

    Raises:
        UserError: there is none; the hint offers close names, or the node that it was fused into.
    """
    plain = node_name_of(resolve_program_name(context, name))
    if plain not in graph:
        for candidate in user_names(plain):
            if candidate in graph:
                return graph.nodes[candidate]
    try:
        return graph.node(plain)
    except UserError as error:
        fused = _fused_near(graph, plain)
        if not fused:
            own = did_you_mean(plain, context.run_info.outputs)
            raise UserError(error.message, own or error.hint) from None
        text = f"The runtime may have fused or folded it: see {', '.join(fused)}."
        raise UserError(error.message, text) from None


def _fused_near(graph: Graph, name: str, limit: int = 3) -> list[str]:
    """The nodes made of several, in the innermost scope of a name that has any."""
    scope = name
    while "/" in scope:
        scope = scope.rpartition("/")[0]
        found = [
            node.name
            for node in graph.nodes.values()
            if node.name.startswith(f"{scope}/") and fused_types(node)
        ]
        if found:
            return found[:limit]
    return []


def _neighbours(dump: Dump, graph: Graph, edges: list[Edge], what: str) -> list[Line]:
    """The edges of one direction; where the framework has no control edges, no word of them."""
    data = [edge for edge in edges if not edge.is_control]
    control = [edge for edge in edges if edge.is_control]
    lines = [line()]
    has_both = bool(control) or has_debug_ops(dump.run_info())
    margin = " " * (6 if has_both else 4)
    if has_both:
        lines.append(line(f"  {len(data)} {what}(s) + {len(control)} control {what}(s):"))

    def rows(group: list[Edge], head: str) -> Iterable[Line]:
        if not group and has_both:
            return
        yield line(margin[2:], f"{len(group)} {head}(s):")
        for edge in group:
            node = graph.nodes.get(edge.node)
            name = node_span(graph, edge.node, edge.label)
            yield line(margin, op_span(node), name)

    lines += rows(data, what)
    if has_both:
        lines += rows(control, f"control {what}")
    return lines


def _attributes(node: Node) -> list[Line]:
    lines = [line(), line(("Node attributes:", "heading"))]
    for key, value in node.attributes.items():
        lines.append(line("  ", (f"{key}:", "bold")))
        lines += [line(f"    {text}") for text in str(value).splitlines()]
    return lines if len(lines) > 2 else [*lines, line("  (None)")]


def _dumps(dump: Dump, name: str) -> list[Line]:
    data, facts = dump.by_node(name), TensorFacts(dump)
    lines = [line(), line((f"{len(data)} dumped tensor(s):", "heading"))]
    if not data:
        lines.append(line("  ", (dump.why_absent(name), "dim")))
    devices = {datum.device_name for datum in data}
    for datum in data:
        op = watch_name(dump, datum).removeprefix(f"{datum.tensor_name}")
        parts = [f"Slot {datum.output_slot}", op.removeprefix(":")]
        text = " @ ".join(filter(None, [*parts, f"{facts.milliseconds(datum):.3f} ms"]))
        if len(devices) > 1:
            text += f" @ {device_text(dump, datum.device_name)}"
        number = facts.number(datum)
        flag = "" if number is None else f" -n {number}"
        lines.append(line("  ", (text, "link", f"pt {quoted(datum.tensor_name)}{flag}")))
    return lines


def _frame_lines(depth: int, frame: Frame, sources: Sources) -> list[Line]:
    text = sources.text(frame)
    unknown = "(unknown: compiled from a string)" if frame.file.startswith("<") else "(unknown)"
    where = source_span(sources, frame.file, frame.line, str(frame.line))
    return [
        line(f"{depth}: ", (near_path(frame.file), "bold")),
        line("  Line:     ", where),
        line(f"  Function: {frame.function}"),
        line("  Text:     ", (text, "source") if text else (unknown, "dim")),
    ]


def _own_line(dump: Dump, node: Node) -> list[Line]:
    """The innermost line of the user's own, for the head of the screen."""
    frames = reversed(node.frames or ())
    frame = next((frame for frame in frames if not is_library_path(frame.file)), None)
    if frame is None:
        return []
    sources = dump.sources()
    text = sources.text(frame)
    place = f"{PurePath(frame.file).name}:{frame.line}"
    where = source_span(sources, frame.file, frame.line, place, "bold")
    made = line(f"  {stack_label(node)}: ", where, f" in {frame.function}")
    return [made, line("    ", (text.strip(), "source"))] if text else [made]


def _traceback(
    dump: Dump, graph: Graph, node: Node, with_library: bool, innermost_first: bool
) -> list[Line]:
    """The frames of the user's own code; those of libraries in a part of their own at the end.

    All frames are numbered as in the whole stack, from the outermost on.
    """
    lines = stack_heading(graph, node) or [
        line(),
        line(("Traceback of node construction:", "heading")),
    ]
    stack = [frame for frame in node.frames or () if not is_debugger_path(frame.file)]
    if not stack:
        return [*lines, line(("  (Unavailable: no stack was recorded for this node)", "dim"))]
    sources = dump.sources()
    own = [(at, frame) for at, frame in enumerate(stack) if not is_library_path(frame.file)]
    library = [(at, frame) for at, frame in enumerate(stack) if is_library_path(frame.file)]
    if innermost_first:
        own.reverse()
        library.reverse()
    for depth, frame in own:
        lines += _frame_lines(depth, frame, sources)
    for path in dict.fromkeys(frame.file for _, frame in own):
        if sources.note(path):
            lines.append(line((f"({path}: {sources.note(path)})", "warning")))
    if not own:
        lines.append(line(("  (All frames are inside libraries)", "dim")))
    if library and with_library:
        lines += [line(), line(("Frames inside libraries:", "heading"))]
        for depth, frame in library:
            lines += _frame_lines(depth, frame, sources)
    elif library:
        text = f"({len(library)} frame(s) inside libraries: ni -t -a shows them)"
        lines.append(line((text, "dim", f"ni -t -a {quoted(node.name)}")))
    return [*lines, *call_lines(dump, graph, node)]


def _notes(asked: str, node: Node) -> list[Line]:
    """What the runtime has made of the user's node, or of which nodes it has made this one."""
    notes = []
    if asked != node.name:
        notes.append(line((f'  ("{asked}" stands for it in the graph that ran)', "info")))
    fused = fused_types(node)
    if fused:
        text = f"  Fused by the runtime out of {sum(fused.values())} operations: "
        kinds = (f"{count} x {kind}" if count > 1 else kind for kind, count in fused.items())
        notes.append(line((text + ", ".join(kinds), "info")))
    return notes


def _device(dump: Dump, node: Node) -> list[Line]:
    """Where the node was placed, or at least where its tensors were dumped, if that is known."""
    devices = (
        [node.device]
        if node.device
        else dict.fromkeys(datum.device_name for datum in dump.by_node(node.name))
    )
    known = ", ".join(device_text(dump, each) for each in devices if each)
    if known or has_debug_ops(dump.run_info()):
        return [line(f"  Device: {known or '(unknown)'}")]
    return []


def _record(dump: Dump, graph: Graph, node: Node) -> dict[str, Any]:
    """A node for ``--json``, with the frames of the program, the innermost last."""

    def edges(found: list[Edge]) -> list[dict[str, Any]]:
        return [{"tensor": e.tensor if not e.is_control else None, "node": e.node} for e in found]

    frames = [each for each in node.frames or () if not is_library_path(each.file)]
    sources = dump.sources()
    return {
        "node": node.name,
        "op_type": node.op_type,
        "device": node.device,
        "inputs": edges(graph.inputs(node.name)),
        "recipients": edges(graph.recipients(node.name)),
        "tensors": list(dict.fromkeys(datum.tensor_name for datum in dump.by_node(node.name))),
        "frames": [
            {"file": f.file, "line": f.line, "function": f.function, "text": sources.text(f)}
            for f in frames
        ],
    }


def _node_info(context: Context, arguments: argparse.Namespace) -> Result:
    dump = context.need_dump()
    graph = need_graph(dump)
    asked = context.here("NODE", arguments.node_name).name
    node = find_node(context, graph, asked)
    context.look_at(node.name)
    name = node.name
    if arguments.json:
        record = _record(dump, graph, node)
        return json_document(1, lambda at: record)
    lines = [
        line("Node ", (name, "bold")),
        line(),
        line("  Op: ", (node.op_type, "op_type")),
        *_device(dump, node),
        *(_own_line(dump, node) if arguments.traceback else ()),
        *_notes(node_name_of(resolve_program_name(context, asked)), node),
        *origin_lines(context, graph, node),
        *_neighbours(dump, graph, graph.inputs(name), "input"),
        *_neighbours(dump, graph, graph.recipients(name), "recipient"),
        *gradient_lines(graph, node),
    ]
    if arguments.attributes:
        lines += _attributes(node)
    if arguments.dumps:
        lines += _dumps(dump, name)
    if arguments.traceback:
        innermost_first = context.settings.get("innermost_first")
        lines += _traceback(dump, graph, node, arguments.attributes, innermost_first)
    return TextDocument(lines, menu=node_menu(dump, name, "node_info"))


NODE_INFO = Command(
    "node_info",
    ("ni",),
    "graph",
    "Show a node: op, device, inputs, recipients, and the line that made it.",
    _node_info,
    (
        NODE_ARGUMENT,
        Argument(("-a", "--attributes"), "its attributes; with -t also frames in libraries"),
        Argument(("-d", "--dumps"), "its dumped tensors"),
        Argument(("-t", "--traceback"), "the Python lines that made it, your own first"),
        JSON_ARGUMENT,
    ),
    modes=DUMP_MODES,
    examples=(
        ("ni hidden/Relu", "op type, device and neighbours"),
        ("ni -t cross_entropy/Log", "the line of your program that made the node"),
        ("ni -a -d -t hidden/Relu:0", "everything"),
        ("ni -t encoder.linear1/addmm", "PyTorch: modules, API call and the lines that called it"),
    ),
)

COMMANDS = (NODE_INFO,)
