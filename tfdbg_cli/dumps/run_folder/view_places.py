"""Where the elements of a view are in the tensor that it is a view of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dtypes import DType, decode
from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.dumps.elements import node_name_of

__all__ = ["ViewPlaces", "view_in"]

# A view of a view of a view: nobody makes more.
_DEEPEST = 1000


class ViewPlaces:
    """Finds the places of the views of one dump, by the memory that values share.

    Args:
        dump: one whose values may share memory.
    """

    def __init__(self, dump: Dump) -> None:
        self._dump = dump
        self._graph = dump.graph()
        self._numbers = {id(datum): number for number, datum in enumerate(dump.data())}
        self._last: tuple[Datum, Any] | None = None

    def place(self, datum: Datum) -> dict[str, Any] | None:
        """The place of a view.

        Returns:
            ``of``, the position in `Dump.data` of the tensor that it is a view of; ``offset`` and
            ``strides``, in bytes, in its elements row by row. ``None``: they share no memory, or
            the tensor isn't there.
        """
        base = self._base(datum)
        if base is None:
            return None
        try:
            if self._last is None or self._last[0] is not base:
                self._last = base, self._dump.value(base)
            whole, part = self._last[1], self._dump.value(datum)
        except DumpError:
            return None
        if not isinstance(whole, np.ndarray) or not isinstance(part, np.ndarray):
            return None
        offset = _offset(whole, part)
        if offset is None:
            return None
        return {"of": self._numbers[id(base)], "offset": offset, "strides": list(part.strides)}

    def _base(self, datum: Datum) -> Datum | None:
        """The tensor with a value of its own that a view is a view of."""
        name = datum.node_name
        for _ in range(_DEEPEST):
            node = self._graph.nodes.get(name) if self._graph is not None else None
            if node is None or not node.inputs:
                return None
            found = self._dump.by_tensor(node.inputs[0])
            if found and not found[0].is_view:
                return found[0]
            name = node_name_of(node.inputs[0])
        return None


def _offset(whole: np.ndarray[Any, Any], part: np.ndarray[Any, Any]) -> int | None:
    """The byte at which a part begins in a whole; ``None``: it lies elsewhere."""
    if not whole.flags.c_contiguous or any(stride < 0 for stride in part.strides):
        return None
    if not part.size:
        return 0
    offset = part.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    end = offset + _extent(part.shape, part.strides, part.itemsize)
    return int(offset) if offset >= 0 and end <= whole.nbytes else None


def _extent(shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> int:
    return size + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))


def view_in(
    data: memoryview, record: Mapping[str, Any], shape: tuple[int, ...], dtype: DType
) -> np.ndarray[Any, Any]:
    """The view at a place of `ViewPlaces`.

    Args:
        data: the elements of the tensor that it is a view of.
        record: its place.
        shape, dtype: of the view.

    Raises:
        ValueError: there is no such place in the data.
    """
    offset = int(record["offset"])
    strides = tuple(int(stride) for stride in record["strides"])
    if not all(shape):
        return decode(np.empty(shape, dtype.raw), dtype)
    if len(strides) != len(shape) or offset < 0 or any(stride < 0 for stride in strides):
        raise ValueError("a view lies outside of its tensor")
    raw = np.dtype(dtype.raw)
    extent = _extent(shape, strides, raw.itemsize)
    if offset + extent > len(data):
        raise ValueError("a view lies outside of its tensor")
    if dtype.is_native:
        return np.ndarray(shape, raw, data, offset, strides)
    if any(stride % raw.itemsize for stride in strides):
        raise ValueError("a view lies between elements")
    # It may have far more elements than there are, and only these are decoded.
    there = decode(np.frombuffer(data[offset : offset + extent], raw), dtype)
    wide = tuple(stride // raw.itemsize * there.itemsize for stride in strides)
    return np.ndarray(shape, there.dtype, there, 0, wide)
