"""Which nodes and edges a small picture of a graph shows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.dumps.elements import tensor_name_of
from tfdbg_cli.dumps.graph import Edge, Graph

__all__ = ["MOST_NODES", "Neighbourhood", "Vertex", "Wire", "around", "between"]

#: A picture of more nodes is none.
MOST_NODES = 40

# So many of a node's inputs, or of its recipients, are shown; a word tells how many more there are.
_MOST_NEAR = 6
# Among so many is looked for those that are known to be bad.
_MOST_RANKED = 10_000


@dataclass(frozen=True)
class Vertex:
    """A node of the picture, or a word about those that are left out.

    Attributes:
        name: of the node; of a word, its text.
        op_type: of the node; empty where unknown.
        command: what leads there.
        is_node: whether it is one.
        is_loop: whether the node reads its own output.
    """

    name: str
    op_type: str = ""
    command: str = ""
    is_node: bool = True
    is_loop: bool = False


@dataclass(frozen=True)
class Wire:
    """All edges of the picture that carry one tensor, or that wait for one node.

    Attributes:
        source: the number of the vertex that it comes from.
        tensor: ``node:slot``; empty: nothing but an order, or a word.
        sinks: the numbers of those that it leads to.
        is_control: it carries nothing.
    """

    source: int
    tensor: str
    sinks: tuple[int, ...]
    is_control: bool = False


@dataclass
class Neighbourhood:
    """What a picture shows.

    Attributes:
        vertices: nodes and words.
        wires: between them.
        centre: the number of the vertex that it is about; ``None``: there is no such one.
        is_cut: whether there is more of the graph at its edge.
    """

    vertices: list[Vertex] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)
    centre: int | None = None
    is_cut: bool = False


def around(
    graph: Graph,
    name: str,
    depth: int,
    *,
    control: bool = False,
    matters: Callable[[str], bool] = lambda node: False,
) -> Neighbourhood:
    """A node, what it was computed from, and what was computed from it.

    Args:
        graph: whose node.
        name: the node.
        depth: how many edges far.
        control: along control edges too.
        matters: of a node: whether it is to be shown before others, where there are many.
    """
    found = _Found(graph, control, matters)
    found.chosen[name] = None
    is_cut = False
    for outputs in (False, True):
        level = [name]
        for _ in range(depth):
            level = found.grow(level, outputs)
        is_cut |= any(found.near(each, outputs) for each in level)
    return found.drawn(name, is_cut=is_cut)


def between(graph: Graph, names: Iterable[str], centre: str) -> Neighbourhood:
    """Some nodes of a graph, as many as a picture holds, with the edges between them."""
    found = _Found(graph, False, lambda node: False)
    found.chosen |= dict.fromkeys(islice((name for name in names if name in graph), MOST_NODES))
    return found.drawn(centre)


class _Found:
    """The nodes of a picture, in the order in which they were come by."""

    def __init__(self, graph: Graph, control: bool, matters: Callable[[str], bool]) -> None:
        self._graph = graph
        self._control = control
        self._matters = matters
        self.chosen: dict[str, None] = {}
        self._more: dict[tuple[str, bool], None] = {}

    def near(self, name: str, outputs: bool) -> list[str]:
        """The inputs or recipients of a node that aren't in the picture, each once."""
        return [each for each in self._neighbours(name, outputs) if each not in self.chosen]

    def _neighbours(self, name: str, outputs: bool) -> list[str]:
        edges = self._graph.recipients if outputs else self._graph.inputs
        found = dict.fromkeys(edge.node for edge in edges(name, self._control))
        return [each for each in found if each in self._graph]

    def grow(self, level: Sequence[str], outputs: bool) -> list[str]:
        """Take the neighbours of some nodes into the picture; gives those that are new."""
        grown: list[str] = []
        waiting = deque(level)
        while waiting:
            name = waiting.popleft()
            near = self.near(name, outputs)
            room = min(_MOST_NEAR, max(MOST_NODES - len(self.chosen), 0))
            if len(near) > room:
                ranked = sorted(near[:_MOST_RANKED], key=lambda each: not self._matters(each))
                self._more[name, outputs] = None
                near = ranked[:room]
            self.chosen |= dict.fromkeys(near)
            grown += near
        return grown

    def drawn(self, centre: str, *, is_cut: bool = False) -> Neighbourhood:
        """The picture."""
        numbers = {name: at for at, name in enumerate(self.chosen)}
        nodes = self._graph.nodes
        vertices = []
        sinks: dict[tuple[str, str, bool], dict[int, None]] = {}
        for name, at in numbers.items():
            edges = self._graph.inputs(name, self._control)
            is_loop = any(edge.node == name for edge in edges)
            command = f"ni -a -d -t {quoted(name)}"
            vertices.append(Vertex(name, nodes[name].op_type, command, is_loop=is_loop))
            for edge in edges:
                if edge.node in numbers and edge.node != name:
                    sinks.setdefault(_key(edge), {})[at] = None
        wires = [
            Wire(numbers[node], tensor, tuple(found), is_control)
            for (node, tensor, is_control), found in sinks.items()
        ]
        for name, outputs in self._more:
            count = len(self.near(name, outputs))
            if not count:  # those that were left out have come in by another way
                continue
            word, at = len(vertices), numbers[name]
            command = f"{'lo' if outputs else 'li'} {'-c ' * self._control}{quoted(name)}"
            vertices.append(Vertex(f"and {count:,} more", "", command, is_node=False))
            ends = (at, word) if outputs else (word, at)
            wires.append(Wire(ends[0], "", (ends[1],)))
        return Neighbourhood(vertices, wires, numbers.get(centre), is_cut)


def _key(edge: Edge) -> tuple[str, str, bool]:
    if edge.is_control:
        return edge.node, "", True
    return edge.node, tensor_name_of(edge.tensor), False
