"""Which call of an op in one run is which in another, by what it computes from and not by its name.

Frameworks tell the second ``tanh`` of a program from the first by a number in its name. Where one
program has a ``tanh`` more, all names behind it are one further: ``tanh_2`` of one run is
``tanh_3`` of the other.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tfdbg_cli.dumps.graph import Node, node_name_of

__all__ = ["CallIds", "TensorMaker", "renumbered"]

# The depths at which calls are told apart.
_LEVELS = 4
_NUMBER = re.compile(r"(?:(?<=/)|_)(\d+)(?![^/_])")
# What a pair is worth besides the depths at which its calls are the same; all that have the same
# names together are worth less than that: names decide where nothing else does.
_SAME_SHAPE, _SAME_NAMES = 0.5, 0.4
# So many pairs are weighed in a comparison, a second or two; beyond it names decide.
_MOST_WEIGHED = 1 << 20

_Nodes = Mapping[str, Node]


class TensorMaker(NamedTuple):
    """A node that has made tensors, and the shape of the first of them."""

    node: Node
    shape: tuple[int, ...] | None


class _Call(NamedTuple):
    """A node, and what tells it from others: its ids as `CallIds` has them, the lowest first."""

    name: str
    shape: tuple[int, ...] | None
    ids: tuple[int, ...]

    @property
    def call(self) -> tuple[object, ...]:
        """All but the name."""
        return self[1:]


class CallIds:
    """Tells calls by op types: their own, those of what they were computed from, and so on.

    Two calls have the same id of a depth if all that they were computed from by so many ops is of
    the same op types, in the same places. Names don't count, and a graph is all that it takes: run
    folders of every version have one.

    Args:
        named: op types that are told by their names besides: a program names its parameters.
    """

    def __init__(self, named: frozenset[str] = frozenset()) -> None:
        self._named = named
        self._numbers: dict[tuple[object, ...], int] = {}

    def of(self, nodes: _Nodes) -> dict[str, tuple[int, ...]]:
        """The ids of each node of a graph, of the lowest depth first."""
        found: dict[str, tuple[int, ...]]
        found = {
            name: (
                self._number(node.op_type),
                self._number(
                    *(node.op_type, len(node.inputs)),
                    _NUMBER.sub("", name) if node.op_type in self._named else "",
                ),
            )
            for name, node in nodes.items()
        }
        for _ in range(_LEVELS - 1):
            last = {name: ids[-1] for name, ids in found.items()}
            for name, node in nodes.items():
                given = (last.get(node_name_of(each)) for each in node.inputs)
                found[name] += (self._number(last[name], *given),)
        return found

    def _number(self, *parts: object) -> int:
        return self._numbers.setdefault(parts, len(self._numbers))


def renumbered(
    one: Iterable[TensorMaker],
    other: Iterable[TensorMaker],
    graphs: tuple[_Nodes, _Nodes],
    named: frozenset[str] = frozenset(),
) -> dict[str, str]:
    """The counterparts of nodes whose names were given by counting, and say something else.

    Args:
        one, other: all that has made tensors in the two runs.
        graphs: all nodes of both.
        named: as `CallIds` takes it.

    Returns:
        Name -> the other name; empty for a node that the other run hasn't got. What is not in it
        has the same name in both.
    """
    one, other = list(one), list(other)
    if _are_alike(one, other):  # the same program
        return {}
    families, others = _families(one), _families(other)
    doubtful = [
        (members, others.get(family, ()))
        for family, members in families.items()
        if max(len(members), len(others.get(family, ()))) > 1
        and not _are_alike(members, others.get(family, ()))
    ]
    if not doubtful:
        return {}
    ids = CallIds(named)
    calls, other_calls = map(ids.of, graphs)
    found: dict[str, str] = {}
    left = _MOST_WEIGHED
    for members, theirs in doubtful:
        ones = [_Call(each.node.name, each.shape, calls[each.node.name]) for each in members]
        twos = [_Call(each.node.name, each.shape, other_calls[each.node.name]) for each in theirs]
        pairs, ones, twos = _same_ends(ones, twos)
        left -= len(ones) * len(twos)
        if left < 0:
            break
        found.update({each.node.name: "" for each in members})
        found.update(pairs)
        found.update(_best(ones, twos))
    return {name: to for name, to in found.items() if name != to}


def _families(made: Iterable[TensorMaker]) -> dict[str, list[TensorMaker]]:
    """Those whose names differ in numbers only, in the order of these."""
    found: dict[str, list[TensorMaker]] = defaultdict(list)
    for each in made:
        found[_NUMBER.sub("", each.node.name)].append(each)
    for members in found.values():
        members.sort(key=lambda each: [*map(int, _NUMBER.findall(each.node.name))])
    return found


def _are_alike(members: Sequence[TensorMaker], others: Sequence[TensorMaker]) -> bool:
    return len(members) == len(others) and all(
        (a.node.name, a.node.op_type, a.node.inputs) == (b.node.name, b.node.op_type, b.node.inputs)
        for a, b in zip(members, others, strict=True)
    )


def _same_ends(
    ones: list[_Call], others: list[_Call]
) -> tuple[dict[str, str], list[_Call], list[_Call]]:
    """The pairs at the beginning and at the end whose calls are the same, and what is between."""
    fewer = min(len(ones), len(others))
    begin = 0
    while begin < fewer and ones[begin] == others[begin]:
        begin += 1
    end = 0
    while end < fewer - begin and ones[-1 - end].call == others[-1 - end].call:
        end += 1
    stops = len(ones) - end, len(others) - end
    same = [*zip(ones[:begin], others[:begin], strict=True)]
    same += zip(ones[stops[0] :], others[stops[1] :], strict=True)
    pairs = {one.name: other.name for one, other in same}
    return pairs, ones[begin : stops[0]], others[begin : stops[1]]


def _best(ones: Sequence[_Call], others: Sequence[_Call]) -> dict[str, str]:
    """The pairs that are worth most together, in the order of both.

    As sequences are aligned: S. B. Needleman, C. D. Wunsch, "A general method applicable to the
    search for similarities in the amino acid sequence of two proteins" (1970), gaps cost nothing.
    """
    same_name = _SAME_NAMES / max(len(ones), 1)

    def worth(first: _Call, second: _Call) -> float:
        bonus = same_name * (first.name == second.name)
        if first.ids[0] != second.ids[0]:  # another op
            return bonus or -1
        depth = sum(a == b for a, b in zip(first.ids, second.ids, strict=True))
        return depth + _SAME_SHAPE * (first.shape == second.shape) + bonus

    sums = [[0.0] * (len(others) + 1)]
    for first in ones:
        above, row = sums[-1], [0.0]
        for at, second in enumerate(others):
            row.append(max(above[at] + worth(first, second), above[at + 1], row[at]))
        sums.append(row)
    found: dict[str, str] = {}
    at, to = len(ones), len(others)
    while at and to:
        if sums[at][to] == sums[at - 1][to]:
            at -= 1
        elif sums[at][to] == sums[at][to - 1]:
            to -= 1
        else:
            at, to = at - 1, to - 1
            found[ones[at].name] = others[to].name
    return found
