"""Nodes and edges of one run's graph, and walks over them. Every walk is iterative."""

from __future__ import annotations

import functools
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.common.interpreter.garbage import collector_paused
from tfdbg_cli.dumps.elements import node_name_of, parse_tensor_name, slot_of
from tfdbg_cli.dumps.graph_walk import Edge, GraphWalk, Visit
from tfdbg_cli.dumps.sources import Frame

__all__ = [
    "CARRY",
    "COLLECTED",
    "Edge",
    "Graph",
    "GraphWalk",
    "Node",
    "Visit",
    "node_name_of",
    "parse_tensor_name",
    "slot_of",
]

#: Types of nodes at the border of a loop's body: what an iteration gets, from outside the loop or
#: from the iteration before; and what becomes of what all iterations have made, which isn't dumped.
CARRY, COLLECTED = "Carry", "_Collected"


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
        self._has_control = False  # known once the consumers are

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

    def _consumers_of(self, name: str) -> Sequence[str]:
        return self._table.get(name, ())

    @functools.cached_property
    def _table(self) -> dict[str, list[str]]:
        """Node -> the nodes that consume its outputs, once per edge; ``^``: they only wait."""
        table: defaultdict[str, list[str]] = defaultdict(list)
        with collector_paused():
            for node in self.nodes.values():
                for tensor in node.inputs:
                    table[node_name_of(tensor)].append(node.name)
                for source in node.control_inputs:
                    table[source].append(f"^{node.name}")
                    self._has_control = True
        return dict(table)

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
            return GraphWalk(start, self._onwards(control), depth, self._edge_out)
        return GraphWalk(start, self._backwards(control), depth, _edge_in)

    # The steps of a walk are the names that the graph holds anyway: hundreds of thousands of edges
    # as objects would keep Python's garbage collector busy for longer than the walk takes.

    def _onwards(self, control: bool) -> Callable[[str], Sequence[str]]:
        table = self._table
        if control or not self._has_control:
            return lambda name: table.get(name, ())
        return lambda name: [item for item in table.get(name, ()) if item[:1] != "^"]

    def _backwards(self, control: bool) -> Callable[[str], Sequence[str]]:
        nodes = self.nodes

        def step(name: str) -> Sequence[str]:
            node = nodes.get(name)
            if node is None:
                return ()
            if not control or not node.control_inputs:
                return node.inputs
            return [*node.inputs, *(f"^{source}" for source in node.control_inputs)]

        return step

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
        nodes, step = self.nodes, self._backwards(control)
        # Node -> the next one towards the target, and what leads there.
        onwards: dict[str, tuple[str, str]] = {end: ("", "")}
        queue = deque([end])
        with collector_paused():
            while queue and begin not in onwards:
                at = queue.popleft()
                for item in step(at):
                    source = node_name_of(item)
                    if source not in onwards and source in nodes:
                        onwards[source] = at, item
                        queue.append(source)
        if begin not in onwards:
            return None
        found = []
        at = begin
        while at != end:
            at, item = onwards[at]
            found.append(_edge_in(at, item)._replace(node=at))
        return found
