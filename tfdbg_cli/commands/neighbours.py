"""``li`` and ``lo``: the inputs and the recipients of a node, as a tree if asked."""

from __future__ import annotations

import argparse

from tfdbg_cli.commands import completers
from tfdbg_cli.commands.context import DUMP_MODES, Context
from tfdbg_cli.commands.node_info import need_graph
from tfdbg_cli.commands.parsing import quoted
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.commands.units import node_menu
from tfdbg_cli.documents import ChainDocument, LazyDocument, Line, Link, Span, TextDocument, line
from tfdbg_cli.dumps.graph import node_name_of

__all__ = ["COMMANDS"]


def _depth(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


_depth.__name__ = "depth (1 or more)"


def _list(context: Context, arguments: argparse.Namespace, *, outputs: bool) -> Result:
    dump = context.need_dump()
    graph = need_graph(dump)
    name = graph.node(node_name_of(arguments.node_name)).name
    recursive = arguments.recursive or arguments.depth is not None
    limit = arguments.depth or int(context.settings.get("graph_recursion_depth"))
    depth = limit if recursive else 1
    visits = list(graph.walk(name, outputs=outputs, control=arguments.control, depth=depth))
    short = "lo" if outputs else "li"

    # A cut node is one line, and "..." under it another where the walk was to go on.
    rows: list[tuple[int, bool]] = []
    for number, visit in enumerate(visits):
        rows.append((number, False))
        if visit.cut and recursive:
            rows.append((number, True))

    def row(at: int) -> Line:
        number, is_dots = rows[at]
        visit = visits[number]
        indent = "|  " * (visit.depth - 1)
        if is_dots:
            return Line([Span(indent + "|  |- ..."), Span(" (deeper: -d)", "dim")])
        node = graph.nodes.get(visit.edge.node)
        spans = [Span(f"{indent}|- ({visit.depth}) ")]
        if visit.edge.is_control:
            spans.append(Span("(Ctrl) ", "dim"))
        if arguments.op_type:
            spans.append(Span(f"[{node.op_type if node else '?'}] ", "op_type"))
        link = Link(f"{short} -c -r {quoted(visit.edge.node)}")
        # A damaged graph may lack a node that others name.
        spans.append(Span(visit.edge.node, *(("link", link) if node is not None else ())))
        if visit.repeated:
            spans.append(Span(" (see above)", "dim"))
        return Line(spans)

    what = "Recipients of" if outputs else "Inputs to"
    notes = []
    if recursive:
        notes.append(f"Depth limit = {limit}")
    if arguments.control:
        notes.append("control " + ("recipients" if outputs else "inputs") + " included")
    note = f" ({', '.join(notes)})" if notes else ""
    head = [line(f"{what} node ", (f'"{name}"', "bold"), f"{note}:")]
    if not visits:
        head.append(line("  [None]"))
    legend = [line(), line("Legend:"), line("  (d): recursion depth = d.")]
    if arguments.control:
        legend.append(line(f"  (Ctrl): Control {'recipient' if outputs else 'input'}."))
    if arguments.op_type:
        legend.append(line(f"  [Op]: {'Recipient' if outputs else 'Input'} node has op type Op."))
    if any(visit.repeated for visit in visits):
        legend.append(line("  (see above): its own neighbours are listed further up."))
    return ChainDocument(
        [TextDocument(head), LazyDocument(len(rows), row), TextDocument(legend)],
        menu=node_menu(dump, name, "list_outputs" if outputs else "list_inputs"),
    )


def _inputs(context: Context, arguments: argparse.Namespace) -> Result:
    return _list(context, arguments, outputs=False)


def _outputs(context: Context, arguments: argparse.Namespace) -> Result:
    return _list(context, arguments, outputs=True)


_ARGUMENTS = (
    Argument(("node_name",), "a node or one of its tensors", "NODE", complete=completers.nodes),
    Argument(("-c", "--control"), "control edges too"),
    Argument(
        ("-d", "--depth"),
        "as a tree, so deep; with -r alone: config graph_recursion_depth",
        "N",
        kind=_depth,
    ),
    Argument(("-r", "--recursive"), "as a tree, each node expanded once"),
    Argument(("-t", "--op_type"), "show the op types"),
)

LIST_INPUTS = Command(
    "list_inputs",
    ("li",),
    "graph",
    "List the inputs of a node.",
    _inputs,
    _ARGUMENTS,
    modes=DUMP_MODES,
    examples=(
        ("li hidden/Relu", "its direct inputs"),
        ("li -r -t cross_entropy/Log", "what it was computed from, with op types"),
        ("li -c -r -d 5 train/Adam", "control inputs too, five levels deep"),
    ),
)

LIST_OUTPUTS = Command(
    "list_outputs",
    ("lo",),
    "graph",
    "List the recipients of a node's outputs.",
    _outputs,
    _ARGUMENTS,
    modes=DUMP_MODES,
    examples=(("lo Softmax", "who uses it"), ("lo -r Softmax", "and who uses those")),
)

COMMANDS = (LIST_INPUTS, LIST_OUTPUTS)
