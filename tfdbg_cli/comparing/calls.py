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

__all__ = ["CallIds", "Made", "renumbered"]

# The depths at which calls are told apart.
_LEVELS = 4
_NUMBER = re.compile(r"(?:(?<=/)|_)(\d+)(?![^/_])")
# What a pair is worth besides the depths at which its calls are the same.
_SAME_SHAPE, _SAME_NAME = 0.5, 0.25
# So many pairs are weighed in a comparison, a second or two; beyond it names decide.
_MOST_WEIGHED = 1 << 20

_Nodes = Mapping[str, Node]


class Made(NamedTuple):
    """A node that has made tensors, and the shape of the first of them."""

    node: Node
    shape: tuple[int, ...] | None


class CallIds:
    """Tells calls by op types: their own, those of what they were computed from, and so on.

    Two calls have the same id of a depth if all that they were computed from by so many ops is of
    the same op types, in the same places. Names don't count, and a graph is all that it takes: run
    folders of every version have one.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}

    def of(self, nodes: _Nodes) -> dict[str, tuple[int, ...]]:
        """The ids of each node of a graph, of the lowest depth first."""
        found: dict[str, tuple[int, ...]]
        found = {name: (self._number(node.op_type),) for name, node in nodes.items()}
        for _ in range(_LEVELS - 1):
            last = {name: ids[-1] for name, ids in found.items()}
            for name, node in nodes.items():
                given = (last.get(node_name_of(each)) for each in node.inputs)
                found[name] += (self._number(last[name], *given),)
        return found

    def _number(self, *parts: object) -> int:
        return self._numbers.setdefault(parts, len(self._numbers))


def renumbered(
    one: Iterable[Made], other: Iterable[Made], graphs: tuple[_Nodes, _Nodes]
) -> dict[str, str]:
    """The counterparts of nodes whose names were given by counting, and say something else.

    Args:
        one, other: all that has made tensors in the two runs.
        graphs: all nodes of both.

    Returns:
        Name -> the other name; empty for a node that the other run hasn't got. What is not in it
        has the same name in both.
    """
    families, others = _families(one), _families(other)
    doubtful = [
        (members, others.get(family, ()))
        for family, members in families.items()
        if max(len(members), len(others.get(family, ()))) > 1
        and not _are_alike(members, others.get(family, ()))
    ]
    if not doubtful:
        return {}
    ids = CallIds()
    calls, other_calls = map(ids.of, graphs)
    found: dict[str, str] = {}
    left = _MOST_WEIGHED
    for members, theirs in doubtful:
        left -= len(members) * len(theirs)
        if left < 0:
            break
        found.update({each.node.name: "" for each in members})
        found.update(_best(members, theirs, calls, other_calls))
    return {name: to for name, to in found.items() if name != to}


def _families(made: Iterable[Made]) -> dict[str, list[Made]]:
    """Those whose names differ in numbers only, in the order of these."""
    found: dict[str, list[Made]] = defaultdict(list)
    for each in made:
        found[_NUMBER.sub("", each.node.name)].append(each)
    for members in found.values():
        members.sort(key=lambda each: [*map(int, _NUMBER.findall(each.node.name))])
    return found


def _are_alike(members: Sequence[Made], others: Sequence[Made]) -> bool:
    return len(members) == len(others) and all(
        (a.node.name, a.node.op_type, a.node.inputs) == (b.node.name, b.node.op_type, b.node.inputs)
        for a, b in zip(members, others, strict=True)
    )


def _best(
    ones: Sequence[Made],
    others: Sequence[Made],
    calls: Mapping[str, tuple[int, ...]],
    other_calls: Mapping[str, tuple[int, ...]],
) -> dict[str, str]:
    """The pairs that are worth most together, in the order of both.

    As sequences are aligned: S. B. Needleman, C. D. Wunsch, "A general method applicable to the
    search for similarities in the amino acid sequence of two proteins" (1970), gaps cost nothing.
    """

    def worth(first: Made, second: Made) -> float:
        name, to = first.node.name, second.node.name
        if first.node.op_type != second.node.op_type:
            return _SAME_NAME if name == to else -1
        depth = sum(a == b for a, b in zip(calls[name], other_calls[to], strict=True))
        return depth + _SAME_SHAPE * (first.shape == second.shape) + _SAME_NAME * (name == to)

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
            found[ones[at].node.name] = others[to].node.name
    return found
