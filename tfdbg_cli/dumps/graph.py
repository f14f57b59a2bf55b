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
    """One line of a walk: see `Graph.walk`."""

    depth: int
    edge: Edge
    repeated: bool
    cut: bool


class Graph:
    """The nodes of one run, over all devices.

    Args:
        nodes: the nodes, or a function that makes them on first use (a live graph of a hundred
            thousand nodes costs nothing until somebody looks).
    """

    def __init__(self, nodes: Iterable[Node] | Callable[[], Iterable[Node]]) -> None:
        self._source = nodes
        self._nodes: dict[str, Node] | None = None
        self._recipients: dict[str, list[Edge]] | None = None

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
        if self._recipients is None:
            table: dict[str, list[Edge]] = {}
            for node in self.nodes.values():
                for tensor in node.inputs:
                    table.setdefault(node_name_of(tensor), []).append(
                        Edge(node.name, tensor, False)
                    )
                for source in node.control_inputs:
                    table.setdefault(source, []).append(Edge(node.name, source, True))
            self._recipients = table
        edges = self._recipients.get(self.node(name).name, [])
        return [edge for edge in edges if control or not edge.is_control]

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
            Visits in display order. ``repeated``: the node was expanded above, so its own
            neighbours are not repeated here. ``cut``: it has neighbours beyond the depth limit.
        """

        def step(of: str) -> list[Edge]:
            if of not in self.nodes:
                return []
            edges = self.recipients(of, control) if outputs else self.inputs(of, control)
            once: dict[tuple[str, bool], Edge] = {}
            for edge in edges:
                once.setdefault((edge.node, edge.is_control), edge)
            return list(once.values())

        start = self.node(name).name
        expanded = {start}
        stack: list[Iterator[Edge]] = [iter(step(start))]
        while stack:
            edge = next(stack[-1], None)
            if edge is None:
                stack.pop()
                continue
            level = len(stack)
            if edge.node in expanded:
                yield Visit(level, edge, bool(step(edge.node)), False)
                continue
            below = step(edge.node)
            if below and level >= depth:
                yield Visit(level, edge, False, True)
                continue
            yield Visit(level, edge, False, False)
            if below:
                expanded.add(edge.node)
                stack.append(iter(below))

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
        begin, end = self.node(source).name, self.node(target).name
        parent: dict[str, str] = {end: end}
        queue = deque([end])
        while queue:
            at = queue.popleft()
            if at == begin:
                found = [at]
                while found[-1] != end:
                    found.append(parent[found[-1]])
                return found
            for edge in self.inputs(at, control):
                if edge.node not in parent and edge.node in self.nodes:
                    parent[edge.node] = at
                    queue.append(edge.node)
        return None
