"""The forward pass of a run as a part of its graph."""

from __future__ import annotations

from collections.abc import Collection

from tfdbg_cli.dumps.graph import Graph, Node, node_name_of
from tfdbg_cli.filters.causes.patterns import later_phase

__all__ = ["ForwardPass", "in_order"]


class ForwardPass:
    """The nodes of a graph but for gradients, and what they lead to: updates.

    Args:
        graph: of the run.

    Attributes:
        nodes: each behind what it reads.
        later: the names of the others.
    """

    def __init__(self, graph: Graph) -> None:
        self.later: set[str] = set()
        self.nodes: list[Node] = []
        self._read: set[str] = set()
        for node in in_order(graph.nodes.values()):
            sources = {node_name_of(each) for each in node.inputs}
            if later_phase(graph.nodes, node.name) or sources & self.later:
                self.later.add(node.name)
            else:
                self.nodes.append(node)
                self._read.update(node.inputs)
        self._readers = {node_name_of(each) for each in self._read}

    def is_read(self, tensor: str) -> bool:
        """Whether an op of the forward pass reads a tensor."""
        return tensor in self._read

    def counts(self, tensor: str) -> bool:
        """Whether a tensor is what its op is there for.

        The mean that a layer norm gives besides its result isn't: only the gradient reads it, and
        kernels keep it in float32.
        """
        name = node_name_of(tensor)
        return name in self.later or tensor in self._read or name not in self._readers


def in_order(nodes: Collection[Node]) -> list[Node]:
    """Each behind what it reads; else in their own order. Those of circles are left out."""
    known = {each.name: each for each in nodes}
    waiting = {
        each.name: {name for name in map(node_name_of, each.inputs) if name in known} - {each.name}
        for each in nodes
    }
    readers: dict[str, list[str]] = {}
    for name, sources in waiting.items():
        for source in sources:
            readers.setdefault(source, []).append(name)
    ready = [name for name, sources in waiting.items() if not sources]
    found = []
    for name in ready:  # it grows
        found.append(known[name])
        for reader in readers.get(name, ()):
            waiting[reader].discard(name)
            if not waiting[reader]:
                ready.append(reader)
    return found
