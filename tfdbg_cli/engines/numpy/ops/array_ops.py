"""Shapes and selections: reshape, transpose, stack, slice, where and their like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import (
    Array,
    Shape,
    bool_,
    broadcast_shapes,
    int32,
    merge_shapes,
)
from tfdbg_cli.engines.numpy.graph import get_default_graph
from tfdbg_cli.engines.numpy.nodes import Tensor
from tfdbg_cli.engines.numpy.ops.constants import as_tensor, as_vector, build, constant_value
from tfdbg_cli.engines.numpy.registry import define, pure, same_shape

__all__ = ["identity", "reshape", "slice", "stack", "transpose", "unique", "where"]


def identity(input: Any, name: str | None = None) -> Tensor:
    """The same value under a name of its own."""
    tensor = as_tensor(input)
    return get_default_graph().create_op("Identity", [tensor], [tensor.dtype], name=name).outputs[0]


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """The same elements in another shape; one size may be -1: whatever is left."""
    inputs = [("tensor", tensor, None), ("shape", as_vector(shape), int32)]
    return build("Reshape", inputs, name=name)


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """The elements repeated along new or single dimensions."""
    return build("BroadcastTo", [("input", input, None), ("shape", shape, int32)], name=name)


def transpose(a: Any, perm: Sequence[int] | None = None, name: str | None = None) -> Tensor:
    """The dimensions in another order; reversed if none is given."""
    graph = get_default_graph()
    with graph.name_scope(name or "transpose") as scope:
        tensor = as_tensor(a, name="a")
        inputs = [tensor]
        if perm is None and tensor.shape is not None:
            perm = list(range(len(tensor.shape)))[::-1]
        if perm is not None:
            inputs.append(as_tensor(np.array(perm, np.int32), int32, "perm"))
        return graph.create_op("Transpose", inputs, [tensor.dtype], name=scope).outputs[0]


def expand_dims(input: Tensor, axis: int) -> Tensor:
    """A dimension of size 1 put in at ``axis``."""
    graph = get_default_graph()
    return graph.create_op("ExpandDims", [input], [input.dtype], {"axis": axis}).outputs[0]


def stack(values: Sequence[Any], axis: int = 0, name: str | None = None) -> Tensor:
    """Tensors of one shape as one tensor with a new dimension at ``axis``."""
    symbolic = [item for item in values if isinstance(item, Tensor)]
    dtype = symbolic[0].dtype if symbolic else None
    inputs = [(f"values_{at}", item, dtype) for at, item in enumerate(values)]
    return build("Pack", inputs, attributes={"axis": axis}, name=name or "stack")


def unique(x: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The distinct elements of a vector in the order of their first appearance.

    Returns:
        ``(y, idx)`` with ``x[i] == y[idx[i]]``; both are outputs of one node.
    """
    tensor = as_tensor(x)
    op = get_default_graph().create_op("Unique", [tensor], [tensor.dtype, int32], name=name)
    return op.outputs[0], op.outputs[1]


def slice(input: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """The block of shape ``size`` (-1: to the end) that begins at ``begin``."""
    return build(
        "Slice", [("input", input, None), ("begin", begin, int32), ("size", size, int32)], name=name
    )


def where(condition: Any, x: Any, y: Any, name: str | None = None) -> Tensor:
    """``x`` where the condition holds, else ``y``; with broadcasting."""
    inputs = [("condition", condition, bool_), ("x", x, None), ("y", y, 1)]
    return build("Select", inputs, 1, name=name)


def _unique(value: Array) -> list[Array]:
    if value.ndim != 1:
        raise ValueError(f"A vector is needed, not {value.ndim} dimensions")
    values, first, inverse = np.unique(value, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return [values[order], place[inverse]]


def _slice(value: Array, begin: Array, size: Array) -> Array:
    if not len(begin) == len(size) == value.ndim:
        raise ValueError("begin and size need one number for each dimension")
    made = []
    for start, count, whole in zip(begin, size, value.shape, strict=True):
        stop = whole if count < 0 else start + count
        if not 0 <= start <= stop <= whole:
            raise ValueError(f"[{start}:{stop}] is not within a dimension of size {whole}")
        made.append(np.s_[int(start) : int(stop)])
    part: Array = value[tuple(made)]
    return part


def _broadcast_args(one: Array, other: Array) -> list[Array]:
    """For two shapes: the dimensions along which each is repeated to reach their common shape."""
    rank = max(len(one), len(other))
    found = []
    padded = [np.concatenate([np.ones(rank - len(s), np.int32), s]) for s in (one, other)]
    common = np.where(padded[0] == 1, padded[1], padded[0])
    for source, size in zip((one, other), padded, strict=True):
        missing = np.arange(rank) < rank - len(source)
        found.append(np.flatnonzero(missing | ((size == 1) & (common != 1))).astype(np.int32))
    return found


def _given_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    """The shape that the second input says, as far as it is a constant."""
    wanted = constant_value(inputs[1])
    if wanted is None:
        known = inputs[1].shape
        return [None if known is None or known[0] is None else (None,) * known[0]]
    return [tuple(None if size < 0 else int(size) for size in wanted)]


def _transpose_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    source = inputs[0].shape
    perm = constant_value(inputs[1]) if len(inputs) > 1 else None
    if source is None or perm is None:
        return [None]
    if sorted(perm) != list(range(len(source))):
        raise ValueError(f"{list(perm)} is no order of the dimensions of shape {source}.")
    return [tuple(source[axis] for axis in perm)]


def _axis_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    """The common shape of the inputs with a new dimension: 1, or how many inputs there are."""
    source = inputs[0].shape
    for tensor in inputs[1:]:
        source = merge_shapes(source, tensor.shape)
    if source is None:
        return [None]
    axis = attributes["axis"]
    at = axis + len(source) + 1 if axis < 0 else axis
    return [(*source[:at], len(inputs), *source[at:])]


def _slice_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    size = constant_value(inputs[2])
    return [None if size is None else tuple(None if at < 0 else int(at) for at in size)]


define("Identity", lambda step, op, inputs: inputs[0], same_shape)
define("Reshape", pure(lambda value, shape: value.reshape(tuple(shape))), _given_shape)
define("BroadcastTo", pure(lambda value, shape: np.broadcast_to(value, tuple(shape))), _given_shape)
define("Transpose", pure(np.transpose), _transpose_shape)
define(
    "ExpandDims",
    lambda step, op, inputs: np.expand_dims(inputs[0], op.attributes["axis"]),
    _axis_shape,
)
define("Pack", lambda step, op, inputs: np.stack(inputs, op.attributes["axis"]), _axis_shape)
define("Unique", pure(_unique), lambda inputs, attributes: [(None,), inputs[0].shape])
define("Slice", pure(_slice), _slice_shape)
define(
    "Select",
    pure(np.where),
    lambda inputs, attributes: [broadcast_shapes([tensor.shape for tensor in inputs])],
)
define("BroadcastGradientArgs", pure(_broadcast_args), lambda inputs, attributes: [(None,)] * 2)
