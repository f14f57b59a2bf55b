"""Overflows that later ops take away: x / inf is 0, and nobody sees that the numbers are gone."""

from __future__ import annotations

import weakref
from typing import NamedTuple

from tfdbg_cli.common.arrays import np
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.filters.lineage import TensorLineage, floats, holds_others

__all__ = ["Absorption", "Absorptions"]

# What leaves the range of its dtype with large numbers; of these, what has poles as well.
_OVERFLOWING = frozenset(
    {"add", "cast", "div", "linear", "mean", "mul", "norm", "pow", "square", "sub", "sum"}
    | {"variance"}
)
_WITH_POLES = frozenset({"div", "pow"})
#: What may make finite numbers of infinite ones, and which. Not exp and softmax: to them -inf is a
#: mask, however it was made.
_ABSORBING = {
    "clip": "its limit",
    "max": "the larger number",
    "div": "0",
    "pow": "0",
    "reciprocal": "0",
    "relu": "0",
    "rsqrt": "0",
    "sigmoid": "0 or 1",
    "tanh": "1 or -1",
}
_CHOICE = "what it takes instead"


class Absorption(NamedTuple):
    """An op that has made finite numbers of infinite ones.

    Attributes:
        node: it.
        made: what it gives in their place, in words.
    """

    node: Node
    made: str


class Absorptions:
    """What became of overflows.

    Args:
        lineage: of the dump. `TensorLineage.once` keeps the one of it.
    """

    def __init__(self, lineage: TensorLineage) -> None:
        self._lineage: TensorLineage = weakref.proxy(lineage)
        self._order: dict[str, int] = {}
        self._known: dict[int, Absorption | None] = {}

    def by(self, datum: Datum) -> Absorption | None:
        """The first op that absorbs an overflow; ``None``: there is none, or it is no overflow.

        Args:
            datum: of the dump; something bad came out of clean inputs in it.
        """
        if id(datum) not in self._known:
            graph = self._lineage.graph
            is_one = graph is not None and self._is_overflow(datum)
            self._known[id(datum)] = self._find(graph, datum) if graph and is_one else None
        return self._known[id(datum)]

    def _is_overflow(self, datum: Datum) -> bool:
        """Whether finite numbers have left the range of the dtype."""
        bad, node = self._lineage.bad(datum), self._lineage.node(datum)
        if bad is None or bad.nan or node is None:
            return False
        computed = self._lineage.roles.computes(node.op_type)
        if computed not in _WITH_POLES:
            return computed in _OVERFLOWING
        # A division by 0 is meant to be infinite, be it that nobody chooses it.
        made = floats(datum)
        at = 1 if computed == "div" else 0
        given = self._lineage.as_given(datum, node.inputs[at]) if len(node.inputs) > at else None
        values = floats(given) if given is not None else None
        if made is None or values is None:
            return False
        try:
            return bool(np.broadcast_to(values != 0, made.shape)[~np.isfinite(made)].all())
        except ValueError:
            return False

    def _find(self, graph: Graph, datum: Datum) -> Absorption | None:
        self._order = self._order or {name: at for at, name in enumerate(graph.nodes)}
        found: list[Node] = []
        seen: set[str] = set()
        waiting = [(datum.tensor_name, datum)]
        while waiting:
            name, source = waiting.pop()
            for edge in graph.recipients(source.node_name, control=False):
                node = graph.nodes[edge.node]
                if node.name in seen or name not in node.inputs:
                    continue
                seen.add(node.name)
                made = self._lineage.dump.by_node(node.name)
                bad = [each for each in made if self._lineage.bad(each)]
                waiting += [
                    (each.tensor_name, each)
                    for each in bad
                    if self._lineage.takes_over(each, source)
                ]
                if not bad and (made or self._is_clean(node)):
                    found.append(node)
        found = [each for each in found if self._words(each)]
        first = min(found, key=lambda each: self._order[each.name], default=None)
        return Absorption(first, self._words(first)) if first is not None else None

    def _is_clean(self, node: Node) -> bool:
        """Whether nothing bad is in a tensor that isn't in the dump."""
        dump = self._lineage.dump
        suspects = dump.suspects or ()
        return dump.lists_only_bad and not any(
            each.partition(":")[0] == node.name for each in suspects
        )

    def _words(self, node: Node) -> str:
        roles = self._lineage.roles
        if holds_others(node):
            return ""
        if node.op_type in roles.choosing:
            return _CHOICE
        return _ABSORBING.get(roles.computes(node.op_type), "")
