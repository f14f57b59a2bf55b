"""Element types that NumPy can hold, and values as the dump keeps them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from tensorflow.python.framework import dtypes, tensor_util

__all__ = ["Constant", "apart", "base_dtype_name", "holdable", "owned", "plain"]

_OPAQUE = frozenset({dtypes.resource, dtypes.variant})


def base_dtype_name(dtype: Any) -> str:
    """The name of an element type as the dump shows it, without ``_ref``."""
    return str(dtype.base_dtype.name)


@functools.cache
def holdable(dtype: Any) -> bool:
    """Whether a NumPy array can hold the elements: all but handles and variants."""
    base = dtype.base_dtype
    if base in _OPAQUE:
        return False
    try:
        return base.as_numpy_dtype is not None
    except (KeyError, TypeError, AttributeError):
        return False


def plain(value: Any) -> Any:
    """A fetched value as an ndarray.

    Strings come as object arrays of bytes; the one-field structured arrays that some versions
    give for quantized types become the integers inside.
    """
    if isinstance(value, np.ndarray):
        array = value
    elif isinstance(value, bytes | str):
        array = np.array(value, dtype=object)
    else:
        array = np.asarray(value)
    if array.dtype.names is not None and len(array.dtype.names) == 1:
        array = array[array.dtype.names[0]]
    return array


def owned(value: Any) -> Any:
    """As `plain`, in memory that nobody else holds: the program may write into its own arrays."""
    array = plain(value)
    return array.copy() if array is value or array.base is not None else array


def apart(value: Any) -> Any:
    """A fetched value in memory that isn't the runtime's: a callable gives what variables hold."""
    if isinstance(value, np.ndarray) and not value.flags.owndata:
        return value.copy()
    return value


class Constant:
    """The value of a Const operation, decoded once and only when somebody looks."""

    __slots__ = ("_op", "_value")

    def __init__(self, op: Any) -> None:
        self._op = op
        self._value: Any = None

    def __call__(self) -> Any:
        """The value, a read-only array."""
        if self._value is None:
            array = plain(tensor_util.MakeNdarray(self._op.get_attr("value")))
            array.flags.writeable = False
            self._value = array
        return self._value
