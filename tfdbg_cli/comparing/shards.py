"""The parts that several ranks have of a tensor, joined, beside a run that was not shared out."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod
from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.dumps.datum import Datum
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.joined import JoinedDatum, JoinedDump, part_of
from tfdbg_cli.dumps.run_info import RunInfo
from tfdbg_cli.dumps.shard_place import ShardPlace, is_complete, joined
from tfdbg_cli.dumps.sources import Sources

__all__ = ["WholeDump", "side_by_side"]

#: Which tensor of a rank: node, slot, debug op, execution.
_Key = tuple[str, int, str, int]


def side_by_side(first: Dump, second: Dump) -> tuple[Dump, Dump]:
    """Two runs as they can be compared: one of several ranks is joined beside one of a process."""
    if isinstance(first, JoinedDump) and not isinstance(second, JoinedDump):
        return WholeDump(first, second), second
    if isinstance(second, JoinedDump) and not isinstance(first, JoinedDump):
        return first, WholeDump(second, first)
    return first, second


class WholeDump(Dump):
    """A run of several ranks as one of a single process.

    A tensor goes by the name that it has on each rank. Where its parts say where they belong
    (`ShardPlace`), that decides. Else, where its parts have the shape of its
    counterpart in all dimensions but one, and add up to it in that one, they stand side by side
    there (tensor parallelism, FSDP's parameters, a batch that was shared out). Parts of its very
    shape are the tensor, or what has to be added up yet: they are, where the sum is nearer to
    the counterpart than the first rank's part. Others aren't joined: the first rank's is shown.

    Args:
        parts: of all ranks.
        like: the run of the single process.
    """

    def __init__(self, parts: JoinedDump, like: Dump) -> None:
        super().__init__()
        self._parts, self._like = parts, like
        self._first = next(iter(parts.parts.values()))
        self.warnings = list(parts.warnings)

    def _make_data(self) -> Sequence[Datum]:
        like = {_key(datum): datum for datum in self._like.data()}
        found: dict[_Key, dict[int, Datum]] = {}
        for datum in self._parts.data():
            rank, name = part_of(datum.node_name)
            inner = datum.datum if isinstance(datum, JoinedDatum) else datum
            key = name, datum.output_slot, datum.debug_op, inner.execution
            found.setdefault(key, {})[rank or 0] = datum
        return [
            self._whole(key, [data[rank] for rank in sorted(data)], like.get(key))
            for key, data in found.items()
        ]

    def _whole(self, key: _Key, parts: Sequence[Datum], like: Datum | None) -> Datum:
        one = parts[0]
        places = [ShardPlace.read(part.note) for part in parts]
        if is_complete(places):
            return self._placed(key, parts, [place for place in places if place is not None])
        shapes = [part.shape for part in parts]
        whole = like.shape if like is not None else one.shape
        axis = _axis(shapes, whole)
        is_whole = all(shape == whole for shape in shapes)
        load = functools.partial(self._joined, parts, like, axis, is_whole)
        note = f"the parts of {len(parts)} ranks, side by side in dimension {axis}"
        return Datum(
            key[0],
            key[1],
            load,
            debug_op=key[2],
            timestamp=one.timestamp,
            dtype=one.dtype,
            shape=whole if axis is not None else one.shape,
            nbytes=sum(part.nbytes for part in parts) if axis is not None else one.nbytes,
            is_view=one.is_view,
            note=note if axis is not None else "",
        )

    def _placed(self, key: _Key, parts: Sequence[Datum], places: Sequence[ShardPlace]) -> Datum:
        one, place = parts[0], places[0]
        by_place = dict(reversed([*zip((each.at for each in places), parts, strict=True)]))
        size = prod(one.shape or ())
        return Datum(
            key[0],
            key[1],
            lambda: joined({at: part.get_tensor() for at, part in by_place.items()}, place),
            debug_op=key[2],
            timestamp=one.timestamp,
            dtype=one.dtype,
            shape=place.shape,
            nbytes=one.nbytes * prod(place.shape) // size if size else 0,
            is_view=one.is_view,
            note=f"the parts of {len(parts)} ranks, placed {', '.join(place.ways)}",
        )

    def _joined(
        self, parts: Sequence[Datum], like: Datum | None, axis: int | None, is_whole: bool
    ) -> Any:
        first = parts[0].get_tensor()
        if axis is not None:
            return np.concatenate([first, *(part.get_tensor() for part in parts[1:])], axis)
        is_number = isinstance(first, np.ndarray | np.generic) and first.dtype.kind in "fcV"
        if like is None or not is_whole or len(parts) < 2 or not is_number:
            return first
        with np.errstate(all="ignore"):
            total = sum((part.get_tensor() for part in parts[1:]), first)
            wanted = self._like.value(like)
            near, nearer = (np.abs(value - wanted).max(initial=0) for value in (first, total))
        return total if nearer < near else first

    def graph(self) -> Graph | None:
        """That of the first rank."""
        return self._first.graph()

    def sources(self) -> Sources:
        """Those of all ranks."""
        return self._parts.sources()

    def run_info(self) -> RunInfo | None:
        """As the first rank tells it."""
        return self._first.run_info()

    def op_type(self, node_name: str) -> str:
        return self._first.op_type(node_name) or next(
            filter(None, (part.op_type(node_name) for part in self._parts.parts.values())), ""
        )

    def close(self) -> None:
        """Close those of all ranks."""
        self._parts.close()


def _key(datum: Datum) -> _Key:
    return datum.node_name, datum.output_slot, datum.debug_op, datum.execution


def _axis(shapes: Sequence[tuple[int, ...] | None], whole: tuple[int, ...] | None) -> int | None:
    """In which dimension the parts stand side by side; ``None``: in none."""
    if whole is None or len(shapes) < 2 or any(shape is None for shape in shapes):
        return None
    known = [shape for shape in shapes if shape is not None]
    if any(len(shape) != len(whole) for shape in known):
        return None
    apart = [
        axis for axis in range(len(whole)) if any(shape[axis] != whole[axis] for shape in known)
    ]
    if len(apart) != 1 or sum(shape[apart[0]] for shape in known) != whole[apart[0]]:
        return None
    return apart[0]
