"""Values that a user gives a tensor instead of the computed one."""

from __future__ import annotations

from typing import Any

import numpy as np
from tensorflow.python.framework import dtypes

from tfdbg_cli.common.errors import UserError

__all__ = ["as_override", "copied"]

#: Python's numbers, each kind of which fits into those after it.
_KINDS = "biufc"


def copied(value: Any) -> Any:
    """A value that is nobody else's; what is no array can't be changed."""
    return np.array(value) if isinstance(value, np.ndarray | np.generic) else value


def as_override(tensor: Any, value: Any) -> Any:
    """A value as an array that can stand for a tensor; a copy that nobody can write to.

    Raises:
        UserError: its dtype or shape isn't the tensor's.
    """
    if hasattr(value, "op") and hasattr(value, "value_index"):
        raise UserError(
            f"The value for {tensor.name} is itself a tensor ({value.name}).",
            "Give an array or a number.",
        )
    dtype = tensor.dtype.base_dtype
    try:
        array = _text(value) if dtype == dtypes.string else _numbers(tensor, dtype, value)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"This can't be a value of {tensor.name}: {error}") from error
    if not tensor.shape.is_compatible_with(array.shape):
        raise UserError(
            f"{tensor.name} has shape {tensor.shape}, the value has shape {array.shape}."
        )
    array.setflags(write=False)
    return array


def _text(value: Any) -> Any:
    array = np.array(value, dtype=object)
    flat = [each.encode("utf-8") if isinstance(each, str) else each for each in array.reshape(-1)]
    for each in flat:
        if not isinstance(each, bytes):
            raise TypeError(f"it holds text, not {type(each).__name__}")
    made = np.empty(len(flat), dtype=object)
    made[:] = flat
    return made.reshape(array.shape)


def _numbers(tensor: Any, dtype: Any, value: Any) -> Any:
    wanted = np.dtype(dtype.as_numpy_dtype)
    is_weak = not isinstance(value, np.ndarray | np.generic)
    given = np.asarray(value)
    if given.dtype.kind in "OSU":
        raise TypeError(f"it is {dtype.name}, not {type(value).__name__}")
    if not _fits(given.dtype, wanted, dtype, is_weak):
        what = type(value).__name__ if is_weak else given.dtype.name
        raise UserError(
            f"{tensor.name} is {dtype.name}; a value of {what} would lose too much.",
            "" if is_weak else f"Convert it: value.astype({dtype.name!r}).",
        )
    array = np.array(given, dtype=wanted)
    if wanted.kind in "iu" and not np.array_equal(array, given):
        raise OverflowError(f"{dtype.name} can't hold it")
    return array


def _fits(given: Any, wanted: Any, dtype: Any, is_weak: bool) -> bool:
    if is_weak:  # of Python's numbers the kind is what counts
        return _KINDS.index(_weak(given.kind)) <= _KINDS.index(_kind(dtype))
    if given == wanted or (dtype.is_floating and given.kind in "fV"):
        return True
    return bool(np.can_cast(given, wanted, "same_kind"))


def _weak(kind: str) -> str:
    return "i" if kind == "u" else kind


def _kind(dtype: Any) -> str:
    if dtype.is_bool:
        return "b"
    if dtype.is_complex:
        return "c"
    return "f" if dtype.is_floating else "u"
