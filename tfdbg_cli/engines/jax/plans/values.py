"""Arrays of JAX as the debugger keeps them."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np

from tfdbg_cli.common.program_signals import pass_on
from tfdbg_cli.dumps.dump import Datum, InconvertibleTensorProto

__all__ = ["as_array", "chosen", "datum_of", "is_floating", "is_key"]


def is_key(value: Any) -> bool:
    """Whether it is made of random keys with a type of their own."""
    return _is_of(getattr(value, "dtype", None), jax.dtypes.extended)


def is_floating(value: Any) -> bool:
    """Whether it can hold a nan."""
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return isinstance(value, float | complex)
    return _is_of(dtype, np.inexact)


@functools.lru_cache(maxsize=256)  # it is asked of all that each call returns
def _is_of(dtype: Any, kind: Any) -> bool:
    return dtype is not None and bool(jax.numpy.issubdtype(dtype, kind))


def as_array(value: Any) -> Any:
    """The elements; of keys what they are made of."""
    try:
        return np.asarray(jax.random.key_data(value) if is_key(value) else value)
    except Exception as error:  # tokens, deleted or remote arrays
        pass_on(error)
        return InconvertibleTensorProto(f"it can't be read: {error}")


def chosen(goes: Any, new: Any, old: Any) -> Any:
    """Of a batch the new ones where they go on, and the old ones elsewhere."""
    return jax.numpy.where(goes.reshape(goes.shape + (1,) * (new.ndim - goes.ndim)), new, old)


def datum_of(name: str, slot: int, value: Any, time: int) -> Datum:
    """What a dump has of an array; it is read when somebody looks."""
    dtype = getattr(value, "dtype", None)
    if is_key(value) or dtype is None:
        note = f"of {dtype}" if dtype is not None else ""
        return Datum(name, slot, functools.partial(as_array, value), timestamp=time, note=note)
    return Datum(
        name,
        slot,
        functools.partial(as_array, value),
        timestamp=time,
        device_name=_device(value),
        dtype=np.dtype(dtype).name,
        shape=tuple(value.shape),
        nbytes=int(value.size) * np.dtype(dtype).itemsize,
    )


def _device(value: Any) -> str:
    devices = getattr(value, "devices", None)
    try:
        found = devices() if callable(devices) else ()
    except Exception:
        return ""
    if len(found) != 1:
        return f"{len(found)} devices" if found else ""
    return str(next(iter(found)))
