"""Where two programs compute the same in other ways, and end in the same numbers.

Attention by hand has other tensors than a fused kernel has; some of them bear the same names. What
is inside such a region is of one program alone: it is compared at the region's borders.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tfdbg_cli.comparing.alignment import Pair
from tfdbg_cli.comparing.origins import Side
from tfdbg_cli.dumps.datum import Datum
from tfdbg_cli.dumps.graph import node_name_of

__all__ = ["inside"]


def inside(
    sides: tuple[Side, Side],
    apart: Sequence[Pair],
    doubted: Sequence[Pair],
    near: Iterable[Pair],
    *,
    are_results_known: bool = False,
) -> list[Pair]:
    """The pairs that are inside such regions: all that comes of them is within the bar.

    Args:
        sides: the two runs.
        apart: all pairs beyond the bar.
        doubted: those of them that may belong to such a region.
        near: those within the bar.
        are_results_known: nothing comes of a tensor that no op uses and that is no result.
    """
    near, left = list(near), list(doubted)
    behind = [
        _Behind(side, {_name(pair, at) for pair in (*near, *apart)})
        for at, side in enumerate(sides)
    ]
    near_names = [{_name(pair, at) for pair in near} for at in (0, 1)]
    while True:
        fine = [near_names[at] | {_name(pair, at) for pair in left} for at in (0, 1)]
        kept = [
            pair
            for pair in left
            if all(
                ((found := behind[at].of(_name(pair, at)).both) or are_results_known)
                and found <= fine[at]
                for at in (0, 1)
            )
        ]
        if len(kept) == len(left):
            break
        left = kept
    # Of one program in both runs, no two tensors are unlike because they lead to the same.
    others_behind = [
        {name for pair in near for name in [_name(pair, at)] if _are_other_ops(sides, pair)}
        for at in (0, 1)
    ]
    counterparts: dict[str, set[str]] = defaultdict(set)
    for pair in (*near, *apart):
        counterparts[_name(pair, 0)].add(_name(pair, 1))
    is_other = [
        _is_other(sides, behind, pair)
        or not _do_meet(behind, pair, counterparts)
        or any(
            not behind[at].of(_name(pair, at)).both.isdisjoint(others_behind[at]) for at in (0, 1)
        )
        for pair in left
    ]
    is_changed = True
    while is_changed:
        is_changed = False
        others = [
            {_name(pair, at) for pair, is_so in zip(left, is_other, strict=True) if is_so}
            for at in (0, 1)
        ]
        for number, pair in enumerate(left):
            if not is_other[number] and any(
                not others[at].isdisjoint(
                    {
                        *behind[at].of(_name(pair, at)).both,
                        *map(node_name_of, sides[at].origins(_name(pair, at)).matched),
                    }
                )
                for at in (0, 1)
            ):
                is_other[number] = is_changed = True
    return [pair for pair, is_so in zip(left, is_other, strict=True) if is_so]


def _name(pair: Pair, at: int) -> str:
    datum = pair[at]
    assert isinstance(datum, Datum)
    return datum.node_name


def _do_meet(behind: Sequence[_Behind], pair: Pair, counterparts: Mapping[str, set[str]]) -> bool:
    """Whether what comes of a pair in one run is what comes of it in the other."""
    first, second = (behind[at].of(_name(pair, at)).both for at in (0, 1))
    if not first and not second:
        return True
    return any(not counterparts.get(name, set()).isdisjoint(second) for name in first)


def _are_other_ops(sides: Sequence[Side], pair: Pair) -> bool:
    return len({side.dump.op_type(_name(pair, at)) for at, side in enumerate(sides)}) > 1


def _is_other(sides: Sequence[Side], behind: Sequence[_Behind], pair: Pair) -> bool:
    """Whether one run alone has something between a pair and what comes before or behind it.

    Whole numbers that lead to the same, such as the numbers of axes, are no other ones.
    """
    return (
        _are_other_ops(sides, pair)
        or _are_whole(pair)
        or any(
            side.origins(_name(pair, at)).alone or behind[at].of(_name(pair, at)).has_others
            for at, side in enumerate(sides)
        )
    )


def _are_whole(pair: Pair) -> bool:
    return all(datum is not None and "int" in (datum.dtype or "") for datum in pair[:2])


class _Descendants(NamedTuple):
    """What comes of a node.

    Attributes:
        both: the nearest nodes behind it that both runs have.
        has_others: whether there are, on the way, some that only this run has.
    """

    both: set[str]
    has_others: bool


class _Behind:
    """What comes of the nodes of a run.

    Args:
        side: the run.
        both: the nodes that both runs have.
    """

    def __init__(self, side: Side, both: set[str]) -> None:
        self._side, self._both = side, both
        self._users: dict[str, list[str]] = defaultdict(list)
        for name in side.nodes:
            for each in side.inputs(name):
                self._users[node_name_of(each)].append(name)
        self._alone = {node_name_of(name) for name, to in side.counterparts.items() if to == {""}}
        self._known: dict[str, _Descendants] = {}

    def of(self, start: str) -> _Descendants:
        """That of one node."""
        if start not in self._known:
            self._known[start] = self._walk(start)
        return self._known[start]

    def _walk(self, start: str) -> _Descendants:
        found: set[str] = set()
        has_others = False
        waiting, seen = [*self._users.get(start, ())], {start}
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in self._both:
                found.add(name)
                continue
            has_others |= name in self._alone and not self._side.hands_on(name)
            waiting += self._users.get(name, ())
        return _Descendants(found, has_others)
