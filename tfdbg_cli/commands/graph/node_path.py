"""``li --path A B``: how one node leads to another, through which tensors, and how those are."""

from __future__ import annotations

from typing import Any

from tfdbg_cli.commands.json_lines import json_document
from tfdbg_cli.commands.registry import Result
from tfdbg_cli.commands.spans import node_span, op_span
from tfdbg_cli.commands.tensors.facts import TensorFacts
from tfdbg_cli.commands.tensors.health import TensorHealth
from tfdbg_cli.commands.units import node_menu
from tfdbg_cli.common.documents import (
    ChainDocument,
    LazyDocument,
    Line,
    Span,
    TextDocument,
    line,
)
from tfdbg_cli.dumps.ancestry import Ancestry
from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.dumps.graph import Edge, Graph, Node

__all__ = ["path_document"]


def path_document(
    dump: Dump, graph: Graph, first: Node, second: Node, control: bool, as_json: bool
) -> Result:
    """A shortest path between two nodes, in the direction in which there is one.

    Args:
        dump: its tensors on the path are read, when their lines are looked at.
        graph: the dump's.
        first, second: from the one to the other, or else back.
        control: control edges count as much as data; otherwise only where data alone don't lead
            from one to the other.
        as_json: one object a node.
    """
    found = _find(graph, first.name, second.name, control)
    if found is None:
        if as_json:
            return json_document(0, lambda at: {})
        text = f'No path leads from "{first.name}" to "{second.name}", nor the other way.'
        return TextDocument([line(text)], menu=node_menu(dump, second.name, ""))
    start, edges = found
    path = _Path(dump, graph, start, edges)
    if as_json:
        return json_document(len(edges) + 1, path.record)
    end = path.nodes[-1]
    head = [
        line("Path from ", (f'"{start}"', "bold"), " to ", (f'"{end}"', "bold"), f": {path.size}")
    ]
    if start != first.name:
        text = f'(against the order asked: nothing leads from "{first.name}" to "{second.name}")'
        head.append(line((text, "info")))
    if not control and any(edge.is_control for edge in edges):
        head.append(line(("(through control edges: no data flows all the way)", "info")))
    return ChainDocument(
        [TextDocument(head), LazyDocument(path.count, path.line)], menu=node_menu(dump, end, "")
    )


def _find(graph: Graph, first: str, second: str, control: bool) -> tuple[str, list[Edge]] | None:
    for with_control in (True,) if control else (False, True):
        for source, target in ((first, second), (second, first)):
            edges = graph.path_edges(source, target, with_control)
            if edges is not None:
                return source, edges
    return None


class _Path:
    """The lines of a path; the tensors are read one by one as their lines are made."""

    def __init__(self, dump: Dump, graph: Graph, start: str, edges: list[Edge]) -> None:
        self._dump = dump
        self._graph = graph
        self._edges = edges
        self._health = TensorHealth(TensorFacts(dump))
        self.nodes = [start, *(edge.node for edge in edges)]
        self._walked: list[Datum | None] | None = None
        results = dump.by_node(self.nodes[-1])
        self._results = list(dict.fromkeys(datum.tensor_name for datum in results))

    @property
    def count(self) -> int:
        """How many lines: a node and the tensor to the next one in turn, then the last's own."""
        return 2 * len(self._edges) + 1 + len(self._results)

    @property
    def size(self) -> str:
        """How long it is, in words."""
        return f"{len(self._edges)} step(s)"

    def line(self, at: int) -> Line:
        """The line with this number, from 0."""
        result = at - 2 * len(self._edges) - 1
        if result >= 0:
            return line("       ", *self._words(self._results[result]))
        if at % 2:
            edge = self._edges[at // 2]
            if edge.is_control:
                return line("    |  ", ("(Ctrl) waits for it", "dim"))
            return line("    |  ", *self._words(edge.tensor, self._walk()[at // 2]))
        name = self.nodes[at // 2]
        return line("  ", op_span(self._graph.nodes[name]), node_span(self._graph, name))

    def _walk(self) -> list[Datum | None]:
        """The dumps on the path that led to the first bad dump of its end, else to the first."""
        if self._walked is None:
            data = self._dump.by_node(self.nodes[-1])
            self._walked = [None] * len(self._edges)
            if data:
                end = self._health.first_bad(data) or data[0]
                ancestry = Ancestry(self._dump, self._graph, self._health.is_bad)
                self._walked = ancestry.along(self._edges, end)
        return self._walked

    def _words(self, tensor: str, walked: Datum | None = None) -> list[Span]:
        data = self._dump.by_tensor(tensor)
        if not data:
            return [Span(f"{tensor}  "), Span("(not dumped)", "dim")]
        bad = self._health.first_bad(data)
        shown = walked or bad or data[0]
        spans = [self._health.name(shown), Span("  "), *self._health.words(shown)]
        if len(data) > 1 and bad is None:
            spans.append(Span(f", as all {len(data)} dumps", "dim"))
        return spans

    def record(self, at: int) -> dict[str, Any]:
        """A node for ``--json``, with the tensor through which it leads to the next one.

        ``dumped`` and ``bad`` are about that tensor; without one, about all of the node's.
        """
        name = self.nodes[at]
        edge = self._edges[at] if at < len(self._edges) else None
        is_data = edge is not None and not edge.is_control
        tensor = edge.tensor if edge is not None and is_data else None
        data = self._dump.by_tensor(tensor) if tensor is not None else self._dump.by_node(name)
        return {
            "node": name,
            "op_type": self._graph.nodes[name].op_type,
            "tensor": tensor,
            "control": edge is not None and edge.is_control,
            "dumped": bool(data),
            "bad": self._health.first_bad(data) is not None if data else None,
        }
