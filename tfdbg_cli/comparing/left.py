"""What a run has left within the bar is within it at the start of the next one.

An optimizer may make something large of a gradient that is 0 but for rounding. Where the step that
did so was judged, its result is not judged again by what is allowed of it alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tfdbg_cli.common.node_words import WRITES
from tfdbg_cli.comparing.alignment import Pair
from tfdbg_cli.comparing.digests import digest_in
from tfdbg_cli.comparing.gaps import Gap, epsilon
from tfdbg_cli.comparing.origins import Side
from tfdbg_cli.dumps.run_folder.digests import Digest

__all__ = ["Left"]

_LAST_BITS, _ABOUT = 1e-5, 2.0
# As many roundings of a coarser dtype as `Bars` allows.
_ROUNDINGS = 16.0


class Left:
    """The tensors that were within the bar, though not equal, over several runs."""

    def __init__(self) -> None:
        self._hashes: set[tuple[bytes, bytes]] = set()
        self._noted: dict[object, list[tuple[Digest, Digest, float]]] = defaultdict(list)
        self._step = 0.0

    def add(self, sides: Sequence[Side], pair: Pair, found: Gap, dtype: str) -> None:
        """Note a pair that is within the bar, if it may be what a variable holds from now on.

        Args:
            sides: the two runs.
            pair: the tensors.
            found: how far they are apart.
            dtype: the coarsest in which something before them was computed.
        """
        assert pair.first is not None
        self._step = max(self._step, epsilon(dtype))
        node = sides[0].nodes.get(pair.first.node_name)
        is_kept = sides[0].dump.digest(pair.first) is not None
        if is_kept or (node is not None and WRITES in node.attributes):
            digests = _digests(sides, pair)
            if digests is not None:
                self._hashes.add((digests[0].hash, digests[1].hash))
                self._noted[_sort(pair)].append((*digests, found.max_abs))

    def has(self, sides: Sequence[Side], pair: Pair, found: Gap, dtype: str) -> bool:
        """Whether a run before has left a pair so."""
        if found.is_bad or found.problem:
            return False
        digests = _digests(sides, pair)
        if digests is not None and (digests[0].hash, digests[1].hash) in self._hashes:
            return True
        # A compiled step gives the program other last bits than the steps that were compared.
        if digests is not None and any(
            found.max_abs <= _ABOUT * apart
            and _are_near(one, digests[0])
            and _are_near(two, digests[1])
            for one, two, apart in self._noted[_sort(pair)]
        ):
            return True
        # What has written it may be without a tensor: its dtype is known.
        is_coarser = self._step > epsilon(dtype)
        return is_coarser and found.max_abs <= _ROUNDINGS * self._step * found.scale


def _are_near(one: Digest, other: Digest) -> bool:
    scale = max(abs(one.least), abs(one.most))
    pairs = (one.least, other.least), (one.most, other.most), (one.mean, other.mean)
    return all(abs(a - b) <= _LAST_BITS * scale for a, b in (*pairs, (one.std, other.std)))


def _sort(pair: Pair) -> object:
    assert pair.first is not None
    return pair.first.shape, pair.first.dtype


def _digests(sides: Sequence[Side], pair: Pair) -> tuple[Digest, Digest] | None:
    assert pair.first is not None
    assert pair.second is not None
    one, other = digest_in(sides[0].dump, pair.first), digest_in(sides[1].dump, pair.second)
    return (one, other) if one and other else None
