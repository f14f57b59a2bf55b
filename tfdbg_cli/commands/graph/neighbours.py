"""``li`` and ``lo``: the inputs and the recipients of a node, as a tree if asked."""

from __future__ import annotations

import argparse
import functools
import re
from bisect import bisect_left, bisect_right

from tfdbg_cli.commands.context import DUMP_MODES, PROFILE_MODES, Context, need_graph
from tfdbg_cli.commands.graph.first_bad import first_bad_document
from tfdbg_cli.commands.graph.neighbour_table import (
    COLUMNS,
    Neighbour,
    NeighbourRows,
    NeighbourTable,
    shown_columns,
)
from tfdbg_cli.commands.graph.node_info import find_node
from tfdbg_cli.commands.graph.node_path import path_document
from tfdbg_cli.commands.json_lines import JSON_ARGUMENT, json_document
from tfdbg_cli.commands.list_command import NODE_ARGUMENT, ListCommand, complete_chosen
from tfdbg_cli.commands.registry import Argument, Command, Result, positive
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.spans import op_span
from tfdbg_cli.commands.tensors.columns import WIDE
from tfdbg_cli.commands.tensors.facts import TensorFacts
from tfdbg_cli.commands.units import node_menu
from tfdbg_cli.common.documents import (
    ChainDocument,
    Document,
    Line,
    Link,
    Span,
    TextDocument,
    line,
)
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.graph import Graph, GraphWalk, Node, Visit, node_name_of

__all__ = ["COMMANDS"]


_depth = positive("depth")

# Deeper lines are indented like those of this depth: nobody scrolls so far to the right, and the
# indents of a chain of a hundred thousand nodes would fill gigabytes.
_DEEPEST = 100


class _Tree:
    """The lines of a walk, each made when it is looked at.

    Args:
        graph: what was walked.
        walk: the visits.
        first_line: the number of the walk's first line on the screen, from 1.
        command: ``li`` or ``lo`` with the options that its links repeat.
        has_dots: whether a line says where the depth limit cut.
        op_types: whether to show them.
    """

    def __init__(
        self,
        graph: Graph,
        walk: GraphWalk,
        first_line: int,
        command: str,
        has_dots: bool,
        op_types: bool,
    ) -> None:
        self._graph = graph
        self._walk = walk
        self._first_line = first_line
        self._command = command
        self._op_types = op_types
        # A cut visit is one line, and the dots under it another.
        self._dots = [at + n for n, at in enumerate(walk.cuts, 1)] if has_dots else []
        self.count = len(walk) + len(self._dots)

    def _number(self, visit: int) -> int:
        """The line on the screen, from 1, of a visit; of the start (-1) the first one."""
        if visit < 0:
            return 1
        dots = bisect_left(self._walk.cuts, visit) if self._dots else 0
        return self._first_line + visit + dots

    def line(self, at: int) -> Line:
        """The line with this number, from 0."""
        dots = bisect_right(self._dots, at)
        visit = self._walk[at - dots]
        if dots and self._dots[dots - 1] == at:
            indent = "|  " * min(visit.depth, _DEEPEST)
            link = Link(f"{self._command} {quoted(visit.edge.node)}")
            return Line([Span(f"{indent}|- "), Span("... (deeper)", "link", link)])
        return self.visited(visit)

    def visited(self, visit: Visit) -> Line:
        """The line of a node, and of how it was come to."""
        indent = "|  " * (min(visit.depth, _DEEPEST) - 1)
        spans = [Span(f"{indent}|- ({visit.depth}) ")]
        if visit.edge.is_control:
            spans.append(Span("(Ctrl) ", "dim"))
        if self._op_types:
            spans.append(op_span(self._graph.nodes.get(visit.edge.node)))
        spans.append(self.name(visit))
        if visit.repeated is not None:
            spans += self._reference(visit)
        return line(*spans)

    def name(self, visit: Visit) -> Span:
        """A node, as a link; a damaged graph may lack one that others name."""
        is_known = visit.edge.node in self._graph
        opened = Link(f"{self._command} {quoted(visit.edge.node)}") if is_known else None
        return Span(visit.edge.label, "link" if is_known else "", opened)

    def _reference(self, visit: Visit) -> list[Span]:
        assert visit.repeated is not None
        word = "loop: see line" if visit.is_loop else "see line"
        text = f"({word} {self._number(visit.repeated)})"
        if visit.repeated < 0:
            return [Span(" "), Span(text, "dim")]
        meant = self._walk[visit.repeated]
        # The line that is meant ends in the name; other characters than these may have a meaning
        # in a regex or on a command line.
        depth, name = meant.depth, re.sub(r"[^\w/:-]", ".", meant.edge.label)
        return [Span(" "), Span(text, "dim", Link(rf"/\({depth}\) .*{name}$"))]

    def record(self, at: int) -> dict[str, object]:
        """A visit for ``--json``; ``see`` is the number of a record, from 0, or -1: the node."""
        visit = self._walk[at]
        node = self._graph.nodes.get(visit.edge.node)
        return {
            "depth": visit.depth,
            "node": visit.edge.node,
            "op_type": node.op_type if node is not None else None,
            "tensor": None if visit.edge.is_control else visit.edge.tensor,
            "control": visit.edge.is_control,
            "see": visit.repeated,
            "loop": visit.is_loop,
            "cut": visit.cut,
        }


def _list(context: Context, arguments: argparse.Namespace, *, outputs: bool) -> Result:
    dump = context.need_dump()
    graph = need_graph(dump)
    if not outputs and arguments.to_first_bad:
        if arguments.path:
            raise UserError("--path and --to-first-bad can't be combined.", "Give one of them.")
        if context.mode in PROFILE_MODES:
            raise UserError("This run was timed, so it has no tensors.", "run keeps them.")
        return first_bad_document(context, graph, arguments.node_name, arguments.json)
    target = find_node(context, graph, context.here("NODE", arguments.node_name).name)
    context.look_at(target.name)
    if arguments.path:
        source = find_node(context, graph, arguments.path)
        return path_document(dump, graph, source, target, arguments.control, arguments.json)
    return _neighbours(context, arguments, graph, target, outputs)


def _neighbours(
    context: Context, arguments: argparse.Namespace, graph: Graph, node: Node, outputs: bool
) -> Result:
    name = node.name
    recursive = arguments.recursive or arguments.depth is not None
    limit = arguments.depth or int(context.settings.get("graph_recursion_depth"))
    depth = limit if recursive else 1
    start = _sender(graph, node) if outputs else name
    walk = graph.walk(start, outputs=outputs, control=arguments.control, depth=depth)
    what = "Recipients of" if outputs else "Inputs to"
    notes = []
    if recursive:
        notes.append(f"Depth limit = {limit}")
    if arguments.control:
        notes.append("control " + ("recipients" if outputs else "inputs") + " included")
    note = f" ({', '.join(notes)})" if notes else ""
    head = [line(f"{what} node ", (f'"{name}"', "bold"), f"{note}:")]
    if start != name:
        copy = f'(it is a copy of "{start}" on another device: its recipients are listed there)'
        head.append(line((copy, "info")))
    if not len(walk):
        head.append(line("  [None]"))
    command = f"{'lo' if outputs else 'li'} -c -r" + (" -t" if arguments.op_type else "")
    is_table = bool(arguments.columns or arguments.sort_by or arguments.reverse)
    first = len(head) + 1 + is_table
    has_types = arguments.op_type and not is_table  # it has a column for them
    tree = _Tree(graph, walk, first, command, recursive and not is_table, has_types)
    if arguments.json:
        return json_document(len(walk), tree.record)
    written = _written(context, arguments, name, outputs)
    listed: Document = NeighbourRows(tree.count, tree.line, written)
    if is_table:
        listed = _table(context, graph, walk, tree, written)
    one = "recipient" if outputs else "input"
    legend = [line(), line("Legend:"), line("  (d): recursion depth = d.")]
    if is_table and not recursive:
        legend = []
    if arguments.control and legend:
        legend.append(line(f"  (Ctrl): Control {one}."))
    if has_types:
        legend.append(line(f"  [Op]: {one.capitalize()} node has op type Op."))
    if walk.has_repeated and legend:
        legend.append(line(f"  (see line n): its own {one}s are listed below line n."))
    if len(walk.cuts) and recursive:
        legend.append(line("  ...: there is more beyond the depth limit."))
    menu = node_menu(context.need_dump(), name, "list_outputs" if outputs else "list_inputs")
    return ChainDocument([TextDocument(head), listed, TextDocument(legend)], menu=menu)


def _written(
    context: Context, arguments: argparse.Namespace, name: str, outputs: bool
) -> ListCommand:
    """The table as a command line."""
    is_tree = arguments.recursive or arguments.depth is not None
    if is_tree and (arguments.sort_by or arguments.reverse):
        raise UserError("A tree can't be sorted.", "Leave out -r and -d to sort the list.")
    return ListCommand(
        f"{'lo' if outputs else 'li'} {quoted(name)}",
        {"-d": str(arguments.depth or "")},
        ("-c",) * arguments.control + ("-r",) * arguments.recursive,
        shown=shown_columns(
            arguments.columns,
            context.width,
            has_control=arguments.control,
            has_tensors=bool(context.need_dump().data()),
        ),
        chosen=arguments.columns,
        sort_by=arguments.sort_by or ("name" if arguments.reverse else ""),
        reverse=arguments.reverse,
        sorts=() if is_tree else COLUMNS,
        turned="--reverse",
    )


def _table(
    context: Context,
    graph: Graph,
    walk: GraphWalk,
    tree: _Tree,
    written: ListCommand,
) -> NeighbourTable:
    dump = context.need_dump()
    is_tree = not written.sorts

    def made(number: int) -> Neighbour:
        visit = walk[number]
        edge = visit.edge
        node = graph.nodes.get(edge.node)
        # What a node gets is one tensor of another one; of who gets it the first is shown.
        own = edge.is_control or node_name_of(edge.tensor) != edge.node
        data = dump.by_node(edge.node) if own else dump.by_tensor(edge.tensor)
        if own:
            data = [datum for datum in data if not datum.output_slot]
        return Neighbour(
            edge.node,
            node.op_type if node is not None else "",
            edge.is_control,
            data[-1] if data else None,
            lambda: tree.visited(visit).spans if is_tree else [tree.name(visit)],
        )

    width = max(context.width, WIDE - 1) if context.is_printed else context.width
    return NeighbourTable(
        TensorFacts(dump), made, len(walk), width, written=written, selected=context.selected
    )


def _sender(graph: Graph, node: Node) -> str:
    """The node whose recipients to list: of a received copy, the one that was sent.

    Between devices edges lead from the producer to the consumer, past the copy.
    """
    is_copy = node.op_type in ("_Recv", "_HostRecv") and len(node.inputs) == 1
    if is_copy and not graph.has_recipients(node.name):
        return node_name_of(node.inputs[0])
    return node.name


def _inputs(context: Context, arguments: argparse.Namespace) -> Result:
    return _list(context, arguments, outputs=False)


def _outputs(context: Context, arguments: argparse.Namespace) -> Result:
    return _list(context, arguments, outputs=True)


_ARGUMENTS = (
    Argument(("-c", "--control"), "also control edges"),
    Argument(
        ("-d", "--depth"),
        "as a tree of this depth; default with -r: config graph_recursion_depth",
        "N",
        kind=_depth,
    ),
    Argument(("-r", "--recursive"), "as a tree, each node expanded once"),
    Argument(("-t", "--op_type"), "show the op types"),
    Argument(
        ("-o", "--columns"),
        "as a table: columns to show, separated by commas: op_type,health",
        "COLUMNS",
        default="",
        complete=functools.partial(complete_chosen, COLUMNS),
    ),
    Argument(
        ("-s", "--sort_by"),
        "as a table, sorted by a column",
        "COLUMN",
        default="",
        choices=COLUMNS,
    ),
    Argument(("--reverse",), "in descending order"),
    Argument(
        ("--path",),
        "show a shortest path between this node and NODE, with its tensors",
        "FROM",
        complete=completers.nodes,
    ),
)
_TO_FIRST_BAD = Argument(
    ("--to-first-bad",),
    "go back from a bad tensor to where it began; without NODE: from where the verdict begins",
)
_TREE_DETAILS = (
    f"Each node is expanded once; (see line n) says where. Lines deeper than {_DEEPEST} "
    "levels are indented no further. "
)
_TABLE_DETAILS = (
    f"Columns, for -o and -s: {', '.join(COLUMNS)}. They describe the output of an input "
    "node, or the outputs of a recipient. A tree keeps its order.\n\n"
)
_PATH_DETAILS = (
    "--path A B looks for a data path from A to B, then from B to A. If there is none, or "
    "with -c, control edges count as well."
)

LIST_INPUTS = Command(
    "list_inputs",
    ("li",),
    "graph",
    "List the inputs of a node.",
    _inputs,
    (NODE_ARGUMENT, *_ARGUMENTS, _TO_FIRST_BAD, JSON_ARGUMENT),
    modes=DUMP_MODES,
    examples=(
        ("li hidden/Relu", "its direct inputs"),
        ("li -r -t cross_entropy/Log", "its inputs and their inputs in turn, with op types"),
        ("li -c -r -d 5 train/Adam", "also control inputs, five levels deep"),
        ("li loss -o op_type,health", "as a table: the health of each input"),
        ("li -r loss -o health,min,max", "the tree, with the health of each tensor"),
        ("li --path input/x loss", "the path from one to the other, and the bad tensors on it"),
        ("li --to-first-bad loss", "where the nan in the loss began"),
    ),
    details=_TREE_DETAILS + _TABLE_DETAILS + _PATH_DETAILS + "\n\n"
    "--to-first-bad goes back "
    "through bad tensors, and "
    "through nodes without a dump. "
    "In loops it uses the iteration "
    "whose value the consumer read.",
)

LIST_OUTPUTS = Command(
    "list_outputs",
    ("lo",),
    "graph",
    "List the recipients of a node's outputs.",
    _outputs,
    (NODE_ARGUMENT, *_ARGUMENTS, JSON_ARGUMENT),
    modes=DUMP_MODES,
    examples=(
        ("lo Softmax", "who uses it"),
        ("lo -r Softmax", "and who uses those"),
        ("lo x -s health --reverse", "as a table, most bad elements first"),
        ("lo --path Softmax train/Adam", "the path from one to the other"),
    ),
    details=_TREE_DETAILS + _TABLE_DETAILS + _PATH_DETAILS,
)

COMMANDS = (LIST_INPUTS, LIST_OUTPUTS)
