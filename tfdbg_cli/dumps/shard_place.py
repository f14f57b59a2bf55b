"""Which part of a distributed tensor a rank has: noted in words, and read again."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from tfdbg_cli.common.arrays import np

__all__ = ["ShardPlace", "is_complete", "joined"]

_NOTE = re.compile(
    r"this rank's shard of \[([\d, ]{0,200})\], placed (.+?), "
    r"at \[([\d, ]{0,200})\] of a mesh of \[([\d, ]{0,200})\]"
)
#: Split along this dimension; with another number: after the mesh's later dimensions have split it.
_SPLIT = re.compile(r"(_?)S\((\d+)(?:, \d+)?\)")
_REPLICA = "R"
_ADDED = {"P": "sum", "P(sum)": "sum", "P(avg)": "avg", "P(max)": "max", "P(min)": "min"}


class ShardPlace(NamedTuple):
    """Where a rank's part of a tensor is.

    Attributes:
        shape: of the whole.
        ways: for each dimension of the mesh what is done along it: ``S(0)`` split, ``R`` the same
            on each, ``P(sum)`` to be added up yet.
        at: the rank's place in the mesh.
        mesh: its shape.
    """

    shape: tuple[int, ...]
    ways: tuple[str, ...]
    at: tuple[int, ...]
    mesh: tuple[int, ...]

    @property
    def note(self) -> str:
        """That in words."""
        ways = ", ".join(self.ways)
        where = f"at {[*self.at]} of a mesh of {[*self.mesh]}"
        return f"this rank's shard of {[*self.shape]}, placed {ways}, {where}"

    @classmethod
    def read(cls, note: str) -> ShardPlace | None:
        """What a note says; ``None``: nothing of a place."""
        found = _NOTE.search(note)
        if found is None:
            return None
        ways = tuple(re.findall(r"[^,\s(]+(?:\([^)]*\))?", found[2]))
        shape, at, mesh = (
            tuple(int(word) for word in found[group].split(",") if word.strip())
            for group in (1, 3, 4)
        )
        return cls(shape, ways, at, mesh) if len(ways) == len(at) == len(mesh) else None


def is_complete(places: Sequence[ShardPlace | None]) -> bool:
    """Whether the parts at these places are a whole that can be put together."""
    known = [place for place in places if place is not None]
    if not known or len(known) < len(places):
        return False
    shape, ways, _, mesh = known[0]
    if any((place.shape, place.ways, place.mesh) != (shape, ways, mesh) for place in known):
        return False
    if not all(_SPLIT.fullmatch(way) or way == _REPLICA or way in _ADDED for way in ways):
        return False
    # Of replicas one is enough.
    counts = [1 if way == _REPLICA else count for way, count in zip(ways, mesh, strict=True)]
    if prod(counts) > len(known):
        return False
    needed = set(itertools.product(*map(range, counts)))
    return needed <= {place.at for place in known}


def joined(parts: Mapping[tuple[int, ...], Any], place: ShardPlace) -> Any:
    """The whole of its parts.

    Args:
        parts: place in the mesh -> array.
        place: of one of them; `is_complete` holds for all.
    """
    ways = place.ways
    # What was split last is joined first: the mesh's last dimension, but for those that say so.
    order = sorted(range(len(ways)), key=lambda axis: (not ways[axis].startswith("_"), -axis))
    left = dict(parts)
    for axis in order:
        rows: dict[tuple[int, ...], dict[int, Any]] = {}
        for at, part in left.items():
            rows.setdefault((*at[:axis], 0, *at[axis + 1 :]), {})[at[axis]] = part
        left = {at: _along(ways[axis], [row[k] for k in sorted(row)]) for at, row in rows.items()}
    return left[(0,) * len(ways)]


def _along(way: str, parts: list[Any]) -> Any:
    split = _SPLIT.fullmatch(way)
    if len(parts) < 2 or way == _REPLICA:
        return parts[0]
    if split is not None:
        return np.concatenate(parts, int(split[2]))
    how = _ADDED[way]
    with np.errstate(all="ignore"):
        if how in ("max", "min"):
            return (np.maximum if how == "max" else np.minimum).reduce(parts)
        total = sum(parts[1:], parts[0])
        return total / len(parts) if how == "avg" else total
