"""Arrays of JAX as the debugger keeps them."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Collection
from typing import Any

import jax
import numpy as np

from tfdbg_cli.common.interpreter.program_signals import contained, pass_on
from tfdbg_cli.dumps.dump import Datum, InconvertibleTensorProto
from tfdbg_cli.engines.jax.private import array_of_ref, is_plain_array, is_ref

__all__ = [
    "as_array",
    "chosen",
    "datum_of",
    "distance",
    "is_floating",
    "is_key",
    "is_spread",
    "size_of",
]


def is_key(value: Any) -> bool:
    """Whether it is made of random keys with a type of their own."""
    return _is_of(getattr(value, "dtype", None), jax.dtypes.extended)


def size_of(value: Any) -> int:
    """The bytes of an array; 0 for keys: not every JAX knows their size, and they are small."""
    return 0 if is_key(value) else int(getattr(value, "nbytes", 0) or 0)


def is_floating(value: Any) -> bool:
    """Whether it can hold a nan."""
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return isinstance(value, float | complex)
    return _is_of(dtype, np.inexact)


@functools.lru_cache(maxsize=256)  # it is asked of all that each call returns
def _is_of(dtype: Any, kind: Any) -> bool:
    return dtype is not None and bool(jax.numpy.issubdtype(dtype, kind))


def is_spread(value: Any) -> bool:
    """Whether some of it is with other processes only."""
    if not (is_plain_array(value) or isinstance(value, jax.Array)):
        return False
    return not value.is_fully_addressable and not value.is_fully_replicated


class _OwnPart:
    """What this process has of an array: a block, with what is between its shards left out.

    Where they are no block, it is the first of them.
    """

    def __init__(self, value: jax.Array) -> None:
        # Copies on several devices count once.
        shards = {str(each.index): each for each in value.addressable_shards}
        self._shards = list(shards.values())
        self._cuts = self._find_cuts(value.shape)
        if math.prod(map(len, self._cuts)) != len(self._shards):
            del self._shards[1:]
            self._cuts = self._find_cuts(value.shape)
        sizes = [[end - begin for begin, end in cuts] for cuts in self._cuts]
        self.shape = tuple(map(sum, sizes))
        self._begins = [
            dict(zip(cuts, itertools.accumulate(each, initial=0), strict=False))
            for cuts, each in zip(self._cuts, sizes, strict=True)
        ]
        places = ", ".join("+".join(f"{b}:{e}" for b, e in cuts) for cuts in self._cuts)
        self.note = f"[{places}] of {list(value.shape)}; other processes have the rest"

    def _find_cuts(self, shape: tuple[int, ...]) -> list[list[tuple[int, int]]]:
        return [
            sorted({part.indices(size)[:2] for part in parts})
            for size, parts in zip(
                shape, zip(*(each.index for each in self._shards), strict=True), strict=True
            )
        ]

    def read(self) -> np.ndarray[Any, Any]:
        """The elements."""
        parts = [_elements(each.data) for each in self._shards]
        made = np.empty((*self.shape, *parts[0].shape[len(self.shape) :]), parts[0].dtype)
        for shard, part in zip(self._shards, parts, strict=True):
            place = []
            for at, index in enumerate(shard.index):
                begin = self._begins[at][
                    next(cut for cut in self._cuts[at] if cut[0] == (index.start or 0))
                ]
                place.append(slice(begin, begin + part.shape[at]))
            made[(*place,)] = part
        return made


def _elements(value: Any) -> np.ndarray[Any, Any]:
    is_of_keys = not is_plain_array(value) and is_key(value)
    return np.asarray(jax.random.key_data(value) if is_of_keys else value)


def as_array(value: Any) -> Any:
    """The elements, those that this process has; of keys what they are made of."""
    try:
        if is_ref(value):
            value = array_of_ref(value)
        if is_spread(value):
            return _OwnPart(value).read()
        return _elements(value)
    except Exception as error:  # tokens, deleted or remote arrays
        pass_on(error)
        return InconvertibleTensorProto(f"it can't be read: {error}")


def chosen(goes: Any, new: Any, old: Any) -> Any:
    """Of a batch the new ones where they go on, and the old ones elsewhere."""
    return jax.numpy.where(goes.reshape(goes.shape + (1,) * (new.ndim - goes.ndim)), new, old)


def datum_of(
    name: str,
    slot: int,
    value: Any,
    time: int,
    note: Callable[[Any], str] | None = None,
    read: Callable[[], Any] | None = None,
) -> Datum:
    """What a dump has of an array; it is read when somebody looks.

    Args:
        name, slot: of the tensor.
        value: the array.
        time: at which it was made.
        note: what there is to say of its elements.
        read: gives them; ``None``: the array is held.
    """
    read = read or functools.partial(as_array, value)
    dtype = getattr(value, "dtype", None)
    if is_key(value) or dtype is None:
        text = f"of {dtype}" if dtype is not None else ""
        return Datum(name, slot, read, timestamp=time, note=text)
    shape = tuple(getattr(value, "shape", ()))  # numbers of Python that have a dtype have none
    said: str | Callable[[], str] = (lambda: note(read())) if note is not None else ""
    if is_spread(value):
        part = _OwnPart(value)
        shape, said = part.shape, part.note
    return Datum(
        name,
        slot,
        read,
        timestamp=time,
        device_name=_device(value),
        dtype=np.dtype(dtype).name,
        shape=shape,
        nbytes=math.prod(shape) * np.dtype(dtype).itemsize,
        note=said,
    )


def _device(value: Any) -> str:
    devices = getattr(value, "devices", None)
    found: Collection[Any] = ()
    with contained:
        found = devices() if callable(devices) else ()
    if len(found) != 1:
        return f"{len(found)} devices" if found else ""
    return str(next(iter(found)))


def distance(value: Any, again: Any) -> float:
    """How far two arrays are apart, as a part of the largest number in one of them."""
    if not is_floating(value):
        return 0.0
    one, other = (as_array(each) for each in (value, again))
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return 0.0
    if one.shape != other.shape:  # other parts of it are here
        return 0.0
    if one.tobytes() == other.tobytes() or not one.size:
        return 0.0
    wide = np.complex128 if one.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        one, other = one.astype(wide), other.astype(wide)
        both = np.isfinite(one) & np.isfinite(other)
        if not np.array_equal(np.isfinite(one), np.isfinite(other)):
            return float("inf")
        if not both.any():
            return 0.0
        largest = np.abs(one[both]).max()
        return float(np.abs(one[both] - other[both]).max() / (largest or 1.0))
