"""Values that a user gives a tensor instead of the computed one."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.numpy.dtypes import (
    Array,
    DType,
    compatible,
    dtype_name,
    is_differentiable,
    to_array,
)
from tfdbg_cli.engines.numpy.nodes import Operand, Tensor

__all__ = ["as_override"]


def as_override(tensor: Tensor, value: Any) -> Array:
    """A value as an array that can stand for a tensor; a copy that nobody can write to.

    Raises:
        UserError: its dtype or shape isn't the tensor's.
    """
    if isinstance(value, Operand):
        raise UserError(
            f"The value for {tensor.name} is itself a tensor ({value.as_graph_element().name}).",
            "Give an array or a number.",
        )
    dtype = tensor.dtype
    try:
        # Of Python's numbers the kind is what counts, of arrays the dtype.
        given = value.dtype if isinstance(value, np.ndarray | np.generic) else None
        kind = np.asarray(value).dtype if given is None else given
        if not _fits(kind, dtype, is_weak=given is None):
            is_array = given is not None and dtype.kind != "O"
            raise UserError(
                f"{tensor.name} is {dtype_name(dtype)}; a value of {dtype_name(kind)} can't be "
                "made one without loss.",
                f"Convert it yourself: value.astype({dtype_name(dtype)!r})." if is_array else "",
            )
        array = to_array(value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"This can't be a value of {tensor.name}: {error}") from error
    if not compatible(tensor.shape, array.shape):
        raise UserError(
            f"{tensor.name} has shape {tensor.shape}, the value has shape {array.shape}."
        )
    array.setflags(write=False)
    return array


def _fits(given: DType, wanted: DType, is_weak: bool) -> bool:
    if wanted.kind == "O" or given.kind in "SUO":
        return wanted.kind == "O" and given.kind in "SUO"
    if is_weak:
        return _rank(given) <= _rank(wanted)
    if is_differentiable(given) and is_differentiable(wanted):
        return True
    return bool(np.can_cast(given, wanted, "same_kind"))


def _rank(dtype: DType) -> int:
    """Of the kinds of numbers; each takes those of a lower rank."""
    kind = "f" if is_differentiable(dtype) else dtype.kind
    return {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}.get(kind, 4)
