"""What two tensors were computed from in their runs, and how far that is apart."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from tfdbg_cli.comparing.gaps import epsilon
from tfdbg_cli.comparing.origins import Side
from tfdbg_cli.dumps.datum import Datum
from tfdbg_cli.dumps.graph import node_name_of

__all__ = ["APART", "NEAR", "SAME", "CommonInputs", "Found", "Judgements"]

# How far the tensors of a node are apart: all the same, bit for bit; within the bar; beyond it.
SAME, NEAR, APART = range(3)


class Found(NamedTuple):
    """What is known of a pair within the bar, for what was computed from it.

    Attributes:
        datum: of the first run.
        scale, apart: as `rounding.Input` has them; the scale is 0 where nobody has asked for it.
        dtype: the coarsest in which it, or something before it, was computed.
    """

    datum: Datum
    scale: float
    apart: float
    dtype: str


class CommonInputs(NamedTuple):
    """What both runs have computed two tensors from.

    Attributes:
        is_start: nothing in the runs computes them.
        state: how far the nearest tensors that both runs have are apart.
        alone: on the way from there, what only the first, and what only the second run has.
        read: those nearest tensors, as far as they are within the bar.
        is_sure: whether all of it was kept.
        dtypes: of what only one run has on the way from there.
    """

    is_start: bool
    state: int = SAME
    alone: Sequence[Sequence[str]] = ()
    read: Sequence[Found] = ()
    is_sure: bool = True
    dtypes: Sequence[str] = ()

    @property
    def is_same(self) -> bool:
        """Whether they were computed from the same, bit for bit."""
        return not self.is_start and self.state == SAME and not any(self.alone)


class Judgements:
    """What is known of the pairs that were judged so far, which are in the order of time.

    Args:
        sides: the two runs.
    """

    def __init__(self, sides: tuple[Side, Side]) -> None:
        self._sides = sides
        self._states: dict[str, int] = {}
        self._found: dict[str, Found] = {}

    def note(self, node_name: str, state: int) -> None:
        """Note how far a tensor of a node of the first run is apart."""
        self._states[node_name] = max(self._states.get(node_name, SAME), state)

    def keep(self, found: Found) -> None:
        """Note what is known of a pair within the bar."""
        self._found[found.datum.tensor_name] = found

    def of(self, first: Datum, second: Datum) -> CommonInputs:
        """What two tensors were computed from, and how far that is apart."""
        side, other = self._sides
        node, other_node = side.nodes.get(first.node_name), other.nodes.get(second.node_name)
        if side.starts(node) and other.starts(other_node):
            return CommonInputs(True)
        mine, theirs = side.origins(first.node_name), other.origins(second.node_name)
        names = list(mine.matched)
        # What is a counterpart of one of them is it.
        reached = {each for name in names for each in side.counterparts.get(name, ())}
        more = [each for each in theirs.matched if each not in reached]
        back = [n for each in more for n in sorted(other.counterparts.get(each, ())) if n]
        known = [*names, *(each for each in back if each not in names)]
        nodes = [*map(node_name_of, known), *mine.passed]
        state = max((self._states.get(each, SAME) for each in nodes), default=SAME)
        others = [
            [each for each in one if known_there.get(each, set()).isdisjoint(two)]
            for one, two, known_there in (
                (mine.direct, theirs.direct, side.counterparts),
                (theirs.direct, mine.direct, other.counterparts),
            )
        ]
        is_alone = bool(mine.alone or theirs.alone)
        if not all(others) and not (is_alone and any(others)):
            others = []  # what one run alone lists of several outputs of a node is no proof
        read = [self._found[each] for each in known if each in self._found]
        is_sure = bool(mine.matched and theirs.matched) and not (mine.unknown or theirs.unknown)
        dtypes = {
            dtype
            for each, found in ((side, mine), (other, theirs))
            for name in found.passed
            for dtype in each.dtypes(name)
            if epsilon(dtype)
        }
        return CommonInputs(False, state, others, read, is_sure, sorted(dtypes))

    def added(self, datum: Datum) -> int:
        """How many numbers were added up for one element: as many as the inputs have for each."""
        node = self._sides[0].nodes.get(datum.node_name)
        if node is None:
            return 1
        sizes = []
        for name in node.inputs:
            data = self._sides[0].dump.by_tensor(name)
            shape = data[-1].shape if data else None
            sizes.append(prod(shape) if shape is not None else 1)
        made = prod(datum.shape or ()) or 1
        if len(sizes) < 2:
            return max(max(sizes, default=1) // made, 1)
        # A product of matrices of n x k and k x m numbers adds k for each of n x m.
        largest, second = sorted(sizes)[-2:][::-1]
        return max(int((largest * second / made) ** 0.5), largest // made, 1)
