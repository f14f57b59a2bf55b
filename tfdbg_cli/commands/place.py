"""The current place of a stop: the tensor or node that was last looked at, which commands mean."""

from __future__ import annotations

import argparse

from tfdbg_cli.commands.context import DUMP_MODES, Context, Place, need_graph
from tfdbg_cli.commands.graph.node_info import find_node
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.spans import op_span
from tfdbg_cli.commands.tensors.facts import TensorFacts
from tfdbg_cli.commands.tensors.health import TensorHealth
from tfdbg_cli.commands.tensors.program_names import resolve_program_name
from tfdbg_cli.commands.units import node_menu
from tfdbg_cli.common.documents import TextDocument, line
from tfdbg_cli.common.files import near_path
from tfdbg_cli.dumps.elements import parse_execution, parse_tensor_name
from tfdbg_cli.dumps.sources import own_frame

__all__ = ["COMMANDS"]


def _here(context: Context, arguments: argparse.Namespace) -> Result:
    dump = context.need_dump()
    graph = need_graph(dump)
    if arguments.name:
        asked, number = parse_execution(arguments.name)
        node = find_node(context, graph, asked)
        slot = parse_tensor_name(resolve_program_name(context, asked))[1]
        context.place = Place(node.name if slot is None else f"{node.name}:{slot}", number)
    name, number = context.here("NAME")
    node = find_node(context, graph, name)
    health = TensorHealth(TensorFacts(dump))
    slot = parse_tensor_name(name)[1]
    data = dump.by_node(node.name) if slot is None else dump.by_tensor(name)
    if number is not None:
        data = data[number : number + 1]
    lines = [line(op_span(node), (node.name, "bold"))]
    lines += [line("  ", health.name(datum), "  ", *health.words(datum)) for datum in data[-5:]]
    frame = own_frame(node.frames or ())
    if frame is not None:
        command = f"ps {quoted(frame.file)} -b {frame.line}"
        lines.append(line("  ", (f"{near_path(frame.file)}:{frame.line}", "link", command)))
        lines.append(line("  > ", (dump.sources().text(frame), "bold")))
    return TextDocument(lines, menu=node_menu(dump, node.name, ""))


COMMANDS = (
    Command(
        "here",
        ("frame",),
        "graph",
        "Show the current place, or go to a tensor or node.",
        _here,
        (
            Argument(
                ("name",),
                "a tensor or a node",
                "NAME",
                nargs="?",
                complete=completers.tensors,
            ),
        ),
        modes=DUMP_MODES,
        examples=(
            ("here", "the current place: its op, its tensor, its line"),
            ("here hidden/Relu:0", "from now on pt, ni, li, lo, ps, graph and why mean this one"),
        ),
        details="The current place is what was last looked at: the tensor of the verdict, then the "
        "tensor or node of the last command or link. The prompt shows it. Without a name, pt, ni, "
        "li, lo, ps, graph and why mean the current place, and in an expression _ is its tensor.",
    ),
)
