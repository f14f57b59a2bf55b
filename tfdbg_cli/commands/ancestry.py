"""The way back from a bad tensor, through bad tensors only, to where nan or inf began."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.dumps.elements import node_name_of
from tfdbg_cli.dumps.graph import Graph

__all__ = ["Ancestry", "Origin", "Step"]

# Of all inputs of these only one has a value: the one that was computed last.
_MERGES = frozenset({"Merge", "RefMerge", "_XlaMerge"})
# Their results come from the body of a function, whose nodes stand under their own name.
_CALLS = frozenset(
    {
        "Case",
        "If",
        "PartitionedCall",
        "StatefulPartitionedCall",
        "StatelessCase",
        "StatelessIf",
        "StatelessWhile",
        "SymbolicGradient",
        "While",
    }
)
# A node that wasn't dumped is passed through so often, seen from different moments of a loop.
_MOST_PASSES = 64


class Step(NamedTuple):
    """One place on the way back: a dumped tensor, or a node that wasn't dumped.

    Attributes:
        node: the node's name.
        datum: its bad tensor; ``None``: it was passed through.
    """

    node: str
    datum: Datum | None


@dataclass
class Origin:
    """A bad tensor none of whose inputs was bad.

    Attributes:
        chain: the way to it, from the tensor that was asked for (first) to the origin (last).
        clean: the tensors it was computed from, none of them bad.
        unknown: the inputs of which nothing was dumped, nor of what they were computed from.
    """

    chain: list[Step]
    clean: list[Datum] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


class _Found(NamedTuple):
    """What a tensor was computed from: dumped tensors, each with the nodes passed to get there."""

    data: list[tuple[Datum, tuple[str, ...]]]
    unknown: list[str]


class Ancestry:
    """Walks back through the bad tensors of a dump.

    A tensor counts as an input as it was when its consumer was computed: its last dump that is not
    later. So a loop is walked back iteration by iteration.

    Args:
        dump: whose tensors.
        graph: the dump's.
        is_bad: whether a tensor holds nan or inf; asked of inputs of bad tensors only.
    """

    def __init__(self, dump: Dump, graph: Graph, is_bad: Callable[[Datum], bool]) -> None:
        self._dump = dump
        self._graph = graph
        self._is_bad = is_bad
        self._order = {id(datum): at for at, datum in enumerate(dump.data())}
        self._passes: dict[str, int] = {}
        self._names: list[str] | None = None

    def origins(self, start: Datum | str) -> list[Origin]:
        """Where a bad tensor comes from, nearest first.

        Args:
            start: a bad tensor, or a node that wasn't dumped.
        """
        first: Step = Step(start, None) if isinstance(start, str) else Step(start.node_name, start)
        came: dict[int, tuple[int, tuple[str, ...]] | None] = {}
        known: dict[int, Datum] = {}
        queue: deque[Datum] = deque()
        found: list[Origin] = []
        if first.datum is None:
            for datum, passed in self._sources(first.node, len(self._order)).data:
                if id(datum) not in came and self._is_bad(datum):
                    came[id(datum)] = (0, (first.node, *passed))
                    known[id(datum)] = datum
                    queue.append(datum)
        else:
            came[id(first.datum)] = None
            known[id(first.datum)] = first.datum
            queue.append(first.datum)
        while queue:
            datum = queue.popleft()
            sources = self._sources(datum.node_name, self._order[id(datum)], datum)
            bad = [(each, passed) for each, passed in sources.data if self._is_bad(each)]
            for each, passed in bad:
                if id(each) not in came:
                    came[id(each)] = (id(datum), passed)
                    known[id(each)] = each
                    queue.append(each)
            if not bad:
                clean = list({id(each): each for each, _ in sources.data}.values())
                found.append(Origin(_chain(datum, came, known), clean, sources.unknown))
        return found

    def _sources(self, node: str, moment: int, consumer: Datum | None = None) -> _Found:
        """The dumped tensors that a node was computed from, through nodes that weren't dumped."""
        data: list[tuple[Datum, tuple[str, ...]]] = []
        unknown: list[str] = []
        seen = {node}
        waiting: deque[tuple[str, tuple[str, ...]]] = deque([(node, ())])
        while waiting:
            at, passed = waiting.popleft()
            inputs, missing = self._inputs(at, moment, consumer)
            data += [(datum, passed) for datum in inputs]
            for tensor in missing:
                name = node_name_of(tensor)
                if name in seen:
                    continue
                seen.add(name)
                if name not in self._graph or not self._goes_on(name):
                    unknown.append(tensor)
                    continue
                self._passes[name] = self._passes.get(name, 0) + 1
                if self._passes[name] <= _MOST_PASSES:
                    waiting.append((name, (*passed, name)))
        return _Found(data, unknown)

    def _goes_on(self, name: str) -> bool:
        return bool(self._graph.nodes[name].inputs) or next(self._body(name), None) is not None

    def _inputs(
        self, name: str, moment: int, consumer: Datum | None
    ) -> tuple[list[Datum], list[str]]:
        """The input tensors of a node as they were at a moment, and those without a dump."""
        node = self._graph.nodes.get(name)
        if node is None:
            return [], []
        found, missing = [], []
        for tensor in dict.fromkeys(node.inputs):
            data = self._dump.by_tensor(tensor)
            if not data:
                missing.append(tensor)
                continue
            datum = self._last(data, moment, consumer)
            if datum is not None:
                found.append(datum)
        if node.op_type in _MERGES and found:
            found = [max(found, key=lambda datum: self._order[id(datum)])]
            missing = []
        if node.op_type in _CALLS:
            inside = [self._last(self._dump.by_node(n), moment, consumer) for n in self._body(name)]
            bad = [datum for datum in inside if datum is not None and self._is_bad(datum)]
            if bad:  # what came out is what was computed last
                found.append(max(bad, key=lambda datum: self._order[id(datum)]))
        return found, missing

    def _last(self, data: list[Datum], moment: int, consumer: Datum | None) -> Datum | None:
        """The last dump before a moment; one with the time of the consumer is not later."""
        at = bisect_left(data, moment, key=lambda datum: self._order[id(datum)])
        if at:
            return data[at - 1]
        if consumer is not None and data[0].timestamp == consumer.timestamp:
            return data[0] if data[0] is not consumer else None
        return None

    def _body(self, name: str) -> Iterator[str]:
        """The dumped nodes of the functions that a node calls."""
        if self._graph.nodes[name].op_type not in _CALLS:
            return
        if self._names is None:
            self._names = sorted({datum.node_name for datum in self._dump.data()})
        prefix = f"{name}/"
        for at in range(bisect_left(self._names, prefix), len(self._names)):
            if not self._names[at].startswith(prefix):
                return
            yield self._names[at]


def _chain(
    origin: Datum,
    came: dict[int, tuple[int, tuple[str, ...]] | None],
    known: dict[int, Datum],
) -> list[Step]:
    chain = [Step(origin.node_name, origin)]
    at = came[id(origin)]
    while at is not None:
        before, passed = at
        chain += [Step(name, None) for name in reversed(passed)]
        if before not in known:  # the start, which wasn't dumped
            break
        chain.append(Step(known[before].node_name, known[before]))
        at = came[before]
    chain.reverse()
    return chain
