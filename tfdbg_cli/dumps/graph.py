"""Nodes and edges of one run's graph, and walks over them. Every walk is iterative."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.dumps.elements import node_name_of, parse_tensor_name, slot_of
from tfdbg_cli.dumps.graph_walk import Edge, GraphWalk, Visit
from tfdbg_cli.dumps.sources import Frame

__all__ = [
    "Edge",
    "Graph",
    "GraphWalk",
    "Node",
    "Visit",
    "node_name_of",
    "parse_tensor_name",
    "slot_of",
]


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
        returns: for a node that calls functions: per output the tensors of the bodies (and of the
            caller) that it may hand on, empty names where unknown. They become inputs as well.
    """

    __slots__ = (
        "_attributes",
        "_frames",
        "control_inputs",
        "device",
        "inputs",
        "name",
        "op_type",
        "returns",
    )

    def __init__(
        self,
        name: str,
        op_type: str,
        inputs: Iterable[str] = (),
        control_inputs: Iterable[str] = (),
        device: str = "",
        attributes: Mapping[str, str] | Callable[[], Mapping[str, str]] | None = None,
        frames: Iterable[Frame] | Callable[[], Iterable[Frame] | None] | None = None,
        *,
        returns: Sequence[Sequence[str]] = (),
    ) -> None:
        self.name = name
        self.op_type = op_type
        self.inputs = tuple(inputs)
        self.returns = tuple(tuple(tensors) for tensors in returns)
        if self.returns:
            handed = (tensor for tensors in self.returns for tensor in tensors if tensor)
            known = set(self.inputs)
            self.inputs += tuple(each for each in dict.fromkeys(handed) if each not in known)
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


def _edge_in(name: str, item: str) -> Edge:
    node = node_name_of(item)
    return Edge(node, node if item.startswith("^") else item, item.startswith("^"))


class Graph:
    """The nodes of one run, over all devices.

    Args:
        nodes: the nodes, or a function that makes them on first use (a live graph of a hundred
            thousand nodes costs nothing until somebody looks).
    """

    def __init__(self, nodes: Iterable[Node] | Callable[[], Iterable[Node]]) -> None:
        self._source = nodes
        self._nodes: dict[str, Node] | None = None
        # Node -> the nodes that consume its outputs, once per edge; ^ before those that only wait.
        self._consumers: dict[str, list[str]] | None = None

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
        node = self.nodes.get(name) or self.node(name)
        edges = [Edge(node_name_of(tensor), tensor, False) for tensor in node.inputs]
        if control:
            edges.extend(Edge(source, source, True) for source in node.control_inputs)
        return edges

    def recipients(self, name: str, control: bool = True) -> list[Edge]:
        """The edges out of a node, in the order of the graph; `Edge.tensor` is the one consumed."""
        plain = self.node(name).name
        edges: list[Edge] = []
        for item in dict.fromkeys(self._consumers_of(plain)):
            if not item.startswith("^"):
                tensors = self.nodes[item].inputs
                edges.extend(
                    Edge(item, tensor, False) for tensor in tensors if node_name_of(tensor) == plain
                )
            elif control:
                edges.append(Edge(item[1:], plain, True))
        return edges

    def has_recipients(self, name: str) -> bool:
        """Whether any node consumes an output of a node, or waits for it."""
        return bool(self._consumers_of(name))

    def _consumers_of(self, name: str) -> list[str]:
        if self._consumers is None:
            table: dict[str, list[str]] = {}
            for node in self.nodes.values():
                for tensor in node.inputs:
                    table.setdefault(node_name_of(tensor), []).append(node.name)
                for source in node.control_inputs:
                    table.setdefault(source, []).append(f"^{node.name}")
            self._consumers = table
        return self._consumers.get(name, [])

    def walk(
        self, name: str, *, outputs: bool = False, control: bool = False, depth: int = 1
    ) -> GraphWalk:
        """Inputs (or recipients) of a node as an indented tree, each node expanded once.

        Args:
            name: where to start; it is not part of the result.
            outputs: follow recipients instead of inputs.
            control: follow control edges too.
            depth: how many levels.

        Returns:
            The visits in display order, as many as there are edges at most.
        """
        start = self.node(name).name
        if outputs:
            return GraphWalk(start, lambda of: self._onwards(of, control), depth, self._edge_out)
        return GraphWalk(start, lambda of: self._backwards(of, control), depth, _edge_in)

    # The steps of a walk are the names that the graph holds anyway: hundreds of thousands of edges
    # as objects would keep Python's garbage collector busy for longer than the walk takes.

    def _onwards(self, name: str, control: bool) -> Sequence[str]:
        found = self._consumers_of(name)
        return found if control else [item for item in found if not item.startswith("^")]

    def _backwards(self, name: str, control: bool) -> Sequence[str]:
        node = self.nodes.get(name)
        if node is None:
            return ()
        if not control or not node.control_inputs:
            return node.inputs
        return [*node.inputs, *(f"^{source}" for source in node.control_inputs)]

    def _edge_out(self, name: str, item: str) -> Edge:
        if item.startswith("^"):
            return Edge(item[1:], name, True)
        tensors = self.nodes[item].inputs
        return Edge(item, next(t for t in tensors if node_name_of(t) == name), False)

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
