"""Nodes and edges of one run's graph, and walks over them. Every walk is iterative."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from tfdbg_cli.dumps.sources import Frame
from tfdbg_cli.errors import UserError, did_you_mean

__all__ = ["Edge", "Graph", "Node", "Visit", "node_name_of", "parse_tensor_name", "slot_of"]


def parse_tensor_name(name: str) -> tuple[str, int | None]:
    """Split ``a/b:1`` into ``("a/b", 1)``; ``a/b`` gives ``("a/b", None)``."""
    node, colon, slot = name.rpartition(":")
    if colon and slot.isdecimal() and node:
        return node, int(slot)
    return name, None


def node_name_of(name: str) -> str:
    """The node of a tensor or node name; a leading ``^`` (control input) is dropped."""
    return parse_tensor_name(name.removeprefix("^"))[0]


def slot_of(name: str) -> int:
    """The output slot of a tensor name, 0 where none is written."""
    return parse_tensor_name(name)[1] or 0


class Node:
    """One operation of the graph.

    Args:
        name: unique in its graph.
        op_type: e.g. ``MatMul``.
        inputs: tensor names, always with their slot (``a:0``).
        control_inputs: node names.
        device: device name, empty where unknown.
        attributes: name -> text, or a function that makes them when somebody asks.
        frames: creation stack, outermost first, or a function that makes it; ``None``: unknown.
    """

    __slots__ = ("_attributes", "_frames", "control_inputs", "device", "inputs", "name", "op_type")

    def __init__(
        self,
        name: str,
        op_type: str,
        inputs: Iterable[str] = (),
        control_inputs: Iterable[str] = (),
        device: str = "",
        attributes: Mapping[str, str] | Callable[[], Mapping[str, str]] | None = None,
        frames: Iterable[Frame] | Callable[[], Iterable[Frame] | None] | None = None,
    ) -> None:
        self.name = name
        self.op_type = op_type
        self.inputs = tuple(inputs)
        self.control_inputs = tuple(control_inputs)
        self.device = device
        self._attributes = attributes
        self._frames = frames

    @property
    def attributes(self) -> Mapping[str, str]:
        """Attribute name -> value as text."""
        if callable(self._attributes):
            self._attributes = self._attributes()
        return self._attributes or {}

    @property
    def frames(self) -> tuple[Frame, ...] | None:
        """The stack that made the node, outermost frame first, or ``None`` where unknown."""
        frames = self._frames
        if callable(frames):
            frames = frames()
        if frames is not None and not isinstance(frames, tuple):
            frames = tuple(frames)
        self._frames = frames
        return frames

    def __repr__(self) -> str:
        return f"Node({self.name!r}, {self.op_type!r})"


class Edge(NamedTuple):
    """One step from a node: to which node, through which tensor, and whether it is control."""

    node: str
    tensor: str
    is_control: bool


class Visit(NamedTuple):
    """One line of a walk: see `Graph.walk`.

    Attributes:
        depth: 1 for the neighbours of the node that was asked for.
        edge: the step that leads here.
        repeated: the number of the visit (from 0) below which the node's own neighbours stand;
            -1: they stand below the start; ``None``: they weren't met before.
        is_loop: that visit is on the way from the start to this one.
        cut: it has neighbours beyond the depth limit.
    """

    depth: int
    edge: Edge
    repeated: int | None
    is_loop: bool
    cut: bool


class _Outgoing:
    """The edges out of a node."""

    __slots__ = ("edges", "has_data")

    def __init__(self) -> None:
        self.edges: list[Edge] = []
        self.has_data = False


class Graph:
    """The nodes of one run, over all devices.

    Args:
        nodes: the nodes, or a function that makes them on first use (a live graph of a hundred
            thousand nodes costs nothing until somebody looks).
    """

    def __init__(self, nodes: Iterable[Node] | Callable[[], Iterable[Node]]) -> None:
        self._source = nodes
        self._nodes: dict[str, Node] | None = None
        self._outgoing: dict[str, _Outgoing] | None = None

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Name -> node."""
        if self._nodes is None:
            made = self._source() if callable(self._source) else self._source
            self._nodes = {node.name: node for node in made}
        return self._nodes

    def __contains__(self, name: object) -> bool:
        return name in self.nodes

    def __len__(self) -> int:
        return len(self.nodes)

    def node(self, name: str) -> Node:
        """A node by node or tensor name.

        Raises:
            UserError: there is none; the hint offers close names.
        """
        plain = node_name_of(name)
        found = self.nodes.get(plain)
        if found is None:
            raise UserError(
                f'There is no node named "{plain}" in the graph.',
                did_you_mean(plain, self.nodes),
            )
        return found

    def inputs(self, name: str, control: bool = True) -> list[Edge]:
        """The edges into a node: data inputs first, then control inputs if asked."""
        node = self.node(name)
        edges = [Edge(node_name_of(tensor), tensor, False) for tensor in node.inputs]
        if control:
            edges.extend(Edge(source, source, True) for source in node.control_inputs)
        return edges

    def recipients(self, name: str, control: bool = True) -> list[Edge]:
        """The edges out of a node, in the order of the graph; `Edge.tensor` is the one consumed."""
        found = self._edges_out().get(self.node(name).name)
        if found is None:
            return []
        return [edge for edge in found.edges if control or not edge.is_control]

    def _edges_out(self) -> dict[str, _Outgoing]:
        if self._outgoing is None:
            table: dict[str, _Outgoing] = {}
            for node in self.nodes.values():
                for tensor in node.inputs:
                    out = table.setdefault(node_name_of(tensor), _Outgoing())
                    out.edges.append(Edge(node.name, tensor, False))
                    out.has_data = True
                for source in node.control_inputs:
                    out = table.setdefault(source, _Outgoing())
                    out.edges.append(Edge(node.name, source, True))
            self._outgoing = table
        return self._outgoing

    def has_neighbours(self, name: str, *, outputs: bool = False, control: bool = False) -> bool:
        """Whether there is any edge out of a node (or into it); no list is made."""
        if outputs:
            found = self._edges_out().get(name)
            return found is not None and (control or found.has_data)
        node = self.nodes.get(name)
        return node is not None and bool(node.inputs or (control and node.control_inputs))

    def neighbours(self, name: str, *, outputs: bool = False, control: bool = False) -> list[Edge]:
        """One edge to each recipient of a node (or each input), data and control apart."""
        if name not in self.nodes:
            return []
        edges = self.recipients(name, control) if outputs else self.inputs(name, control)
        once: dict[tuple[str, bool], Edge] = {}
        for edge in edges:
            once.setdefault((edge.node, edge.is_control), edge)
        return list(once.values())

    def walk(
        self, name: str, *, outputs: bool = False, control: bool = False, depth: int = 1
    ) -> Iterator[Visit]:
        """Inputs (or recipients) of a node as an indented tree, each node expanded once.

        Args:
            name: where to start; it is not part of the result.
            outputs: follow recipients instead of inputs.
            control: follow control edges too.
            depth: how many levels.

        Yields:
            Visits in display order; as many as there are edges at most.
        """
        start = self.node(name).name
        expanded = {start: -1}
        path = {start}
        names = [start]
        stack = [iter(self.neighbours(start, outputs=outputs, control=control))]
        number = -1
        while stack:
            edge = next(stack[-1], None)
            if edge is None:
                stack.pop()
                path.discard(names.pop())
                continue
            number += 1
            level, node = len(stack), edge.node
            if not self.has_neighbours(node, outputs=outputs, control=control):
                yield Visit(level, edge, None, False, False)
            elif node in expanded:
                yield Visit(level, edge, expanded[node], node in path, False)
            elif level >= depth:
                yield Visit(level, edge, None, False, True)
            else:
                yield Visit(level, edge, None, False, False)
                expanded[node] = number
                path.add(node)
                names.append(node)
                stack.append(iter(self.neighbours(node, outputs=outputs, control=control)))

    def ancestors(self, name: str, control: bool = True) -> list[str]:
        """Every node that a node depends on, nearest first; each once."""
        start = self.node(name).name
        seen = {start}
        queue = deque([start])
        found: list[str] = []
        while queue:
            for edge in self.inputs(queue.popleft(), control):
                if edge.node not in seen and edge.node in self.nodes:
                    seen.add(edge.node)
                    found.append(edge.node)
                    queue.append(edge.node)
        return found

    def path(self, source: str, target: str, control: bool = True) -> list[str] | None:
        """A shortest path of node names from ``source`` to ``target``, or ``None``."""
        edges = self.path_edges(source, target, control)
        if edges is None:
            return None
        return [self.node(source).name, *(edge.node for edge in edges)]

    def path_edges(self, source: str, target: str, control: bool = True) -> list[Edge] | None:
        """The edges of a shortest path from ``source`` to ``target``; ``None``: there is none.

        Among equally short ones the path of the inputs that come first is taken. Each edge leads
        to the next node; the last one to ``target``.
        """
        begin, end = self.node(source).name, self.node(target).name
        # Node -> the edge that leads from it towards the target.
        onwards: dict[str, Edge | None] = {end: None}
        queue = deque([end])
        while queue and begin not in onwards:
            at = queue.popleft()
            for edge in self.inputs(at, control):
                if edge.node not in onwards and edge.node in self.nodes:
                    onwards[edge.node] = edge._replace(node=at)
                    queue.append(edge.node)
        if begin not in onwards:
            return None
        found = []
        step = onwards[begin]
        while step is not None:
            found.append(step)
            step = onwards[step.node]
        return found
