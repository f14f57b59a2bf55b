"""``graph``: a node and what is around it, drawn."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from tfdbg_cli.commands.context import DUMP_MODES, PROFILE_MODES, Context, need_graph
from tfdbg_cli.commands.graph.drawing.boxes import GraphDocument
from tfdbg_cli.commands.graph.drawing.neighbourhood import Neighbourhood, around
from tfdbg_cli.commands.graph.drawing.picture import GraphPicture
from tfdbg_cli.commands.graph.drawing.state import States
from tfdbg_cli.commands.graph.drawing.svg import svg_of
from tfdbg_cli.commands.graph.node_info import find_node
from tfdbg_cli.commands.json_lines import JSON_ARGUMENT, json_document
from tfdbg_cli.commands.list_command import NODE_ARGUMENT
from tfdbg_cli.commands.registry import Argument, Command, Result, positive
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.tensors.facts import TensorFacts
from tfdbg_cli.commands.tensors.health import TensorHealth
from tfdbg_cli.commands.units import node_menu
from tfdbg_cli.common.documents import ChainDocument, Line, TextDocument, line
from tfdbg_cli.dumps.dump import Dump

__all__ = ["COMMANDS", "picture_of"]

_DEPTH = 2


def picture_of(dump: Dump, found: Neighbourhood, *, has_tensors: bool = True) -> GraphPicture:
    """A picture of a part of a dump's graph, with the health of its tensors."""
    health = TensorHealth(TensorFacts(dump)) if has_tensors else None
    return GraphPicture(found, dump, States(dump, health), has_tensors=has_tensors)


def _graph(context: Context, arguments: argparse.Namespace) -> Result:
    dump = context.need_dump()
    graph = need_graph(dump)
    node = find_node(context, graph, context.here("NODE", arguments.node_name).name)
    context.look_at(node.name)
    depth = arguments.depth or _DEPTH
    has_tensors = context.mode not in PROFILE_MODES
    health = TensorHealth(TensorFacts(dump))

    def is_known_bad(name: str) -> bool:
        found = (health.facts.measurements.peek(each, numbers=False) for each in dump.by_node(name))
        return any(each and each.health is not None and each.health.bad for each in found)

    found = around(graph, node.name, depth, control=arguments.control, matters=is_known_bad)
    if arguments.json:
        known = health if has_tensors else None
        return json_document(len(found.vertices), lambda at: _record(dump, found, known, at))
    picture = picture_of(dump, found, has_tensors=has_tensors)
    what = f"  depth {depth}: inputs above, recipients below"
    head = TextDocument([line(("Around ", "dim"), (node.name, "bold"), (what, "dim"))])
    legend = TextDocument([line(), *_legend(arguments, node.name, found, has_tensors)])
    document = ChainDocument(
        [head, GraphDocument(picture), legend],
        title=f"graph: {node.name}",
        menu=node_menu(dump, node.name, "graph"),
    )
    document.initial_element = (found.centre,) if found.centre is not None else None
    document.files = {".svg": lambda: svg_of(picture).encode()}
    return document


def _record(
    dump: Dump, found: Neighbourhood, health: TensorHealth | None, at: int
) -> Mapping[str, Any]:
    """A node of the picture for ``--json``, or a word on those that are left out."""
    vertex = found.vertices[at]
    if not vertex.is_node:
        return {"node": None, "left_out": vertex.name, "inputs": _wires(found, at)}
    data = dump.by_node(vertex.name) if health is not None else []
    counted = [health.of(datum) for datum in data] if health is not None else []
    bad = [each.bad for each in counted if each is not None]
    return {
        "node": vertex.name,
        "op_type": vertex.op_type,
        "asked": at == found.centre,
        "bad": sum(bad) if bad else None,
        "inputs": _wires(found, at),
    }


def _wires(found: Neighbourhood, at: int) -> list[dict[str, Any]]:
    return [
        {
            "tensor": wire.tensor,
            "from": found.vertices[wire.source].name,
            "control": wire.is_control,
        }
        for wire in found.wires
        if at in wire.sinks
    ]


def _legend(
    arguments: argparse.Namespace, node: str, found: Neighbourhood, has_tensors: bool
) -> list[Line]:
    lines = []
    if has_tensors:
        lines.append(
            line(
                ("✓", "success"),
                " clean  ",
                ("✗ ━", "nan"),
                " nan or inf  ○ not dumped  … being counted",
            )
        )
    if any(wire.is_control for wire in found.wires):
        lines.append(line("┄ control edge"))
    if found.is_cut:
        depth = (arguments.depth or _DEPTH) + 1
        control = " -c" * arguments.control
        command = f"graph {quoted(node)} -d {depth}{control}"
        lines.append(line("There is more beyond: ", (command, "link", command)))
    return lines


COMMANDS = (
    Command(
        "graph",
        ("g",),
        "graph",
        "Draw a node with its inputs and its recipients.",
        _graph,
        (
            NODE_ARGUMENT,
            Argument(
                ("-d", "--depth"),
                f"up to this many edges away; default: {_DEPTH}",
                "N",
                kind=positive("depth"),
            ),
            Argument(("-c", "--control"), "also control edges"),
            JSON_ARGUMENT,
        ),
        modes=DUMP_MODES,
        examples=(
            ("graph cross_entropy/Log", "its inputs above it, its recipients below"),
            ("graph -d 4 loss", "up to four edges away"),
            ("graph loss > loss.svg", "the same as a picture for a browser"),
        ),
        details="Boxes are nodes, wires are tensors. A bad tensor has a heavy line, with ✗ "
        "at the node that made it. Arrow keys go from node to node, Enter shows its "
        "node_info; a click on an op type draws the graph around that node. A wire "
        "that goes back up (a loop) has its arrow at its upper end. If there are "
        "many inputs or recipients, some are drawn, known bad ones first.",
    ),
)
