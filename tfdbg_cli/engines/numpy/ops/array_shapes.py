"""The static shapes of array ops: what is known of their results before a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import Shape, broadcast_shapes, is_fully_known, merge_shapes
from tfdbg_cli.engines.numpy.nodes import Tensor
from tfdbg_cli.engines.numpy.ops.constants import constant_value

__all__ = [
    "concat_shape",
    "expand_shape",
    "given_shape",
    "select_shape",
    "slice_shape",
    "split_shape",
    "squeeze_shape",
    "stack_shape",
    "strided_shape",
    "transpose_shape",
]


def given_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    """The shape that the second input says, as far as it is a constant."""
    wanted = constant_value(inputs[1])
    if wanted is None:
        known = inputs[1].shape
        return [None if known is None or known[0] is None else (None,) * known[0]]
    made: list[int | None] = [None if size < 0 else int(size) for size in wanted]
    source = inputs[0].shape
    if made.count(None) == 1 and is_fully_known(source):
        rest = int(np.prod([size for size in made if size is not None]))
        total = int(np.prod(source))  # type: ignore[arg-type]
        made[made.index(None)] = total // rest if rest else None
    return [tuple(made)]


def transpose_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    """The shape of `transpose`."""
    source = inputs[0].shape
    perm = constant_value(inputs[1]) if len(inputs) > 1 else None
    if source is None or perm is None:
        return [None]
    if sorted(perm) != list(np.arange(len(source))):
        raise ValueError(f"{list(perm)} is no order of the dimensions of shape {source}.")
    return [tuple(source[axis] for axis in perm)]


def expand_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    """The shape of `expand_dims`."""
    source = inputs[0].shape
    if source is None:
        return [None]
    axis = attributes["axis"]
    at = axis + len(source) + 1 if axis < 0 else axis
    return [(*source[:at], 1, *source[at:])]


def squeeze_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    """The shape of `squeeze`."""
    source, axes = inputs[0].shape, attributes["squeeze_dims"]
    if source is None or (axes is None and None in source):
        return [None]
    if axes is None:
        return [tuple(size for size in source if size != 1)]
    gone = {axis % len(source) for axis in axes}
    return [tuple(size for at, size in enumerate(source) if at not in gone)]


def stack_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    """The shape of `stack`."""
    source = inputs[0].shape
    for tensor in inputs[1:]:
        source = merge_shapes(source, tensor.shape)
    if source is None:
        return [None]
    axis = attributes["axis"]
    at = axis + len(source) + 1 if axis < 0 else axis
    return [(*source[:at], len(inputs), *source[at:])]


def concat_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    """The shape of `concat`, whose last input is the axis."""
    axis = constant_value(inputs[-1])
    shapes = [tensor.shape for tensor in inputs[:-1]]
    if axis is None or any(shape is None for shape in shapes):
        return [None]
    known = [shape for shape in shapes if shape is not None]
    at = int(axis) % len(known[0]) if known[0] else 0
    result: Shape = None
    total: int | None = 0
    for shape in known:
        result = merge_shapes(result, (*shape[:at], None, *shape[at + 1 :]))
        size = shape[at] if shape else None
        total = None if total is None or size is None else total + size
    assert result is not None
    return [(*result[:at], total, *result[at + 1 :])]


def split_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    """The shapes of the parts of `split`, whose first input is the axis."""
    axis, source = constant_value(inputs[0]), inputs[1].shape
    count, sizes = attributes["num_split"], attributes["size_splits"]
    if source is None or axis is None:
        return [None] * count
    at = int(axis) % len(source)
    size = source[at]
    if sizes is None and size is not None and size % count:
        raise ValueError(f"A dimension of size {size} can't be cut into {count} equal parts.")
    parts = sizes or [None if size is None else size // count] * count
    return [(*source[:at], part, *source[at + 1 :]) for part in parts]


def slice_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    """The shape of `slice`."""
    size = constant_value(inputs[2])
    return [None if size is None else tuple(None if at < 0 else int(at) for at in size)]


def strided_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    """The shape of `strided_slice`."""
    source = inputs[0].shape
    if source is None or not is_fully_known(source):
        return [None]
    try:
        # A view of one element has every shape and takes no memory.
        return [np.broadcast_to(0, source)[attributes["index"]].shape]  # type: ignore[arg-type]
    except IndexError as error:
        raise ValueError(f"{str(error).rstrip('.')}.") from None


def select_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    """The shape of `where`."""
    return [broadcast_shapes([tensor.shape for tensor in inputs])]
