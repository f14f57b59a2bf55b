"""Overflows that later ops take away: x / inf is 0, and nobody sees that the numbers are gone."""

from __future__ import annotations

import re
import weakref
from typing import NamedTuple

from tfdbg_cli.common.arrays import np
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.filters.lineage import TensorLineage, floats, has_infinite_argument, holds_others
from tfdbg_cli.filters.outcome import Outcome

__all__ = ["Absorption", "Absorptions", "compared_on_the_way"]

# What leaves the range of its dtype with large numbers; of these, what has poles as well.
_OVERFLOWING = frozenset(
    {"add", "cast", "div", "linear", "mean", "mul", "norm", "pow", "scale", "square", "sub"}
    | {"sum", "variance"}
)
_WITH_POLES = frozenset({"div", "pow"})
#: What may make finite numbers of infinite ones, and which.
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
# What gives 0 for -inf and for what should have been there: a mask goes there, however it was made.
_HARMLESS = frozenset({"exp", "exp2", "softmax"})
# Of others, comparisons and the like; and what asks something else of a tensor than its numbers.
_UNSEEN = "its output shows nothing of it"
_NO_READERS = re.compile(
    r"(?i)\w*(shape|size|rank|(zeros|ones|full|empty|rand\w*)_?like|is_?(finite|nan|(neg|pos)?inf)|numel)\w*"
    r"|new_\w+"
)
_COMPARING = re.compile(r"(?i)(less|greater)(_?(than|or|equal))*|[lg][te]")
# What nobody reads in the condition of a loop says whether it goes on.
_CONDITION = re.compile(r"(.*)/cond/.*")


class Absorption(NamedTuple):
    """An op that has made finite numbers of infinite ones.

    Attributes:
        node: it.
        words: what became of them: ``it gives 0 there``.
    """

    node: Node
    words: str


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
        numbers = (each for each in self._lineage.inputs(datum) if each.shape == ())
        if has_infinite_argument(node) or any(map(self._lineage.bad, numbers)):
            return False  # what a number times infinity is was meant: clipping to no limit, say
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
        found.sort(key=lambda each: self._order[each.name])
        for node in found:
            if numbers := self._made(node):
                return Absorption(node, f"it gives {numbers} there")
        if not found or self._lineage.once(Outcome).got_somewhere(datum):
            return None  # it is seen anyway
        return next(
            (Absorption(node, _UNSEEN) for node in found if self._reads_numbers(node)), None
        )

    def _is_clean(self, node: Node) -> bool:
        """Whether nothing bad is in a tensor that isn't in the dump."""
        dump = self._lineage.dump
        suspects = dump.suspects or ()
        return dump.lists_only_bad and not any(
            each.partition(":")[0] == node.name for each in suspects
        )

    def _made(self, node: Node) -> str:
        roles = self._lineage.roles
        if holds_others(node):
            return ""
        if node.op_type in roles.choosing:
            return _CHOICE
        return _ABSORBING.get(roles.computes(node.op_type), "")

    def _reads_numbers(self, node: Node) -> bool:
        """Whether an op reads numbers that it doesn't show."""
        is_harmless = self._lineage.roles.computes(node.op_type) in _HARMLESS
        return not (is_harmless or holds_others(node) or _NO_READERS.fullmatch(node.op_type))


def compared_on_the_way(lineage: TensorLineage, datum: Datum, other: Datum) -> Node | None:
    """The comparison of something bad on whose outcome another tensor depends; ``None``: none.

    No nan leaves a comparison, and yet it chooses a branch, or ends a loop.

    Args:
        lineage: of the dump.
        datum: something bad began in it.
        other: a tensor that was made later.
    """
    graph = lineage.graph
    if graph is None:
        return None
    found: list[Node] = []
    waiting, seen = [datum.node_name], {datum.node_name}
    while waiting:
        for edge in graph.recipients(waiting.pop(), control=False):
            node = graph.nodes[edge.node]
            made = lineage.dump.by_node(node.name)
            if node.name in seen:
                continue
            seen.add(node.name)
            if not made or any(map(lineage.bad, made)):
                waiting.append(node.name)
            elif _COMPARING.fullmatch(node.op_type):
                found.append(node)
    return next((each for each in found if _leads_to(graph, each.name, other.node_name)), None)


def _leads_to(graph: Graph, name: str, end: str) -> bool:
    waiting, seen = [name], {name}
    while waiting:
        name = waiting.pop()
        onward = [edge.node for edge in graph.recipients(name, control=False)]
        loop = _CONDITION.fullmatch(name) if not onward else None
        if loop is not None and loop[1] in graph:
            onward = [loop[1]]
        if end in onward:
            return True
        waiting += [each for each in onward if each not in seen]
        seen.update(onward)
    return False
