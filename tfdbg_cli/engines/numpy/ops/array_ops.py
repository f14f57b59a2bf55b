"""Shapes and selections: reshape, transpose, concat, split, slices, where and their like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import Array, bool_, int32
from tfdbg_cli.engines.numpy.graph import get_default_graph
from tfdbg_cli.engines.numpy.nodes import Operation, Tensor
from tfdbg_cli.engines.numpy.ops.array_shapes import (
    concat_shape,
    expand_shape,
    given_shape,
    select_shape,
    slice_shape,
    split_shape,
    squeeze_shape,
    stack_shape,
    strided_shape,
    transpose_shape,
)
from tfdbg_cli.engines.numpy.ops.constants import as_tensor, constant
from tfdbg_cli.engines.numpy.registry import define, pure, same_shape, scalar_shape

if TYPE_CHECKING:
    from tfdbg_cli.engines.numpy.executor import RunStep

__all__ = [
    "broadcast_to",
    "concat",
    "expand_dims",
    "identity",
    "range",
    "rank",
    "reshape",
    "slice",
    "split",
    "squeeze",
    "stack",
    "stop_gradient",
    "strided_slice",
    "tile",
    "transpose",
    "unique",
    "where",
]


def _one_input(
    op_type: str,
    tensor: Any,
    name: str | None,
    attributes: Mapping[str, Any] | None = None,
    dtype: Any = None,
) -> Tensor:
    tensor = as_tensor(tensor)
    graph = get_default_graph()
    return graph.create_op(op_type, [tensor], [dtype or tensor.dtype], attributes, name).outputs[0]


def identity(input: Any, name: str | None = None) -> Tensor:
    """The same value under a name of its own."""
    return _one_input("Identity", input, name)


def stop_gradient(input: Any, name: str | None = None) -> Tensor:
    """The same value; gradients don't go through."""
    return _one_input("StopGradient", input, name)


def rank(input: Any, name: str | None = None) -> Tensor:
    """The number of dimensions, an int32 scalar."""
    tensor = as_tensor(input)
    if tensor.shape is not None:
        return constant(len(tensor.shape), name=name or "Rank")
    return _one_input("Rank", tensor, name, dtype=int32)


def range(start: Any, limit: Any = None, delta: Any = 1, name: str | None = None) -> Tensor:
    """The numbers from ``start`` (0 if only one bound is given) up to ``limit``, without it."""
    if limit is None:
        start, limit = 0, start
    graph = get_default_graph()
    with graph.name_scope(name or "range") as scope:
        limit = as_tensor(limit, name="limit")
        start = as_tensor(start, limit.dtype, "start")
        delta = as_tensor(delta, limit.dtype, "delta")
        return graph.create_op("Range", [start, limit, delta], [limit.dtype], None, scope).outputs[
            0
        ]


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """The same elements in another shape; one size may be -1: whatever is left."""
    graph = get_default_graph()
    with graph.name_scope(name or "Reshape") as scope:
        tensor = as_tensor(tensor, name="tensor")
        shape = as_tensor(_as_vector(shape), int32, "shape")
        return graph.create_op("Reshape", [tensor, shape], [tensor.dtype], name=scope).outputs[0]


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """The elements repeated along new or single dimensions."""
    graph = get_default_graph()
    with graph.name_scope(name or "BroadcastTo") as scope:
        tensor = as_tensor(input, name="input")
        shape = as_tensor(_as_vector(shape), int32, "shape")
        return graph.create_op("BroadcastTo", [tensor, shape], [tensor.dtype], name=scope).outputs[
            0
        ]


def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    """The tensor repeated ``multiples[i]`` times along each dimension."""
    graph = get_default_graph()
    with graph.name_scope(name or "Tile") as scope:
        tensor = as_tensor(input, name="input")
        multiples = as_tensor(_as_vector(multiples), int32, "multiples")
        return graph.create_op("Tile", [tensor, multiples], [tensor.dtype], name=scope).outputs[0]


def _as_vector(value: Any) -> Any:
    """An empty shape is an empty vector of integers, not of floats."""
    return np.array(value, np.int32) if isinstance(value, list | tuple) and not value else value


def transpose(a: Any, perm: Sequence[int] | None = None, name: str | None = None) -> Tensor:
    """The dimensions in another order; reversed if none is given."""
    graph = get_default_graph()
    with graph.name_scope(name or "transpose") as scope:
        tensor = as_tensor(a, name="a")
        inputs = [tensor]
        if perm is None and tensor.shape is not None:
            perm = list(reversed(list(np.arange(len(tensor.shape)))))
        if perm is not None:
            inputs.append(as_tensor(np.array(perm, np.int32), int32, "perm"))
        return graph.create_op("Transpose", inputs, [tensor.dtype], name=scope).outputs[0]


def expand_dims(input: Any, axis: int, name: str | None = None) -> Tensor:
    """A dimension of size 1 put in at ``axis``."""
    return _one_input("ExpandDims", input, name, {"axis": axis})


def squeeze(input: Any, axis: Sequence[int] | None = None, name: str | None = None) -> Tensor:
    """The dimensions of size 1 left out: all, or those named."""
    axes = None if axis is None else tuple(axis) if isinstance(axis, Sequence) else (axis,)
    return _one_input("Squeeze", input, name, {"squeeze_dims": axes})


def stack(values: Sequence[Any], axis: int = 0, name: str | None = None) -> Tensor:
    """Tensors of one shape as one tensor with a new dimension at ``axis``."""
    graph = get_default_graph()
    with graph.name_scope(name or "stack") as scope:
        symbolic = [item for item in values if isinstance(item, Tensor)]
        dtype = symbolic[0].dtype if symbolic else None
        tensors = [as_tensor(item, dtype, f"values_{at}") for at, item in enumerate(values)]
        return graph.create_op("Pack", tensors, [tensors[0].dtype], {"axis": axis}, scope).outputs[
            0
        ]


def concat(values: Sequence[Any], axis: int, name: str | None = None) -> Tensor:
    """Tensors joined along an existing dimension."""
    graph = get_default_graph()
    with graph.name_scope(name or "concat") as scope:
        tensors = [as_tensor(item, name=f"values_{at}") for at, item in enumerate(values)]
        tensors = [as_tensor(item, tensors[0].dtype) for item in tensors]
        at = as_tensor(axis, int32, "axis")
        return graph.create_op(
            "ConcatV2", [*tensors, at], [tensors[0].dtype], {"N": len(tensors)}, scope
        ).outputs[0]


def split(
    value: Any, num_or_size_splits: int | Sequence[int], axis: int = 0, name: str | None = None
) -> list[Tensor]:
    """A tensor cut along a dimension.

    Args:
        value: a tensor, or what becomes one.
        num_or_size_splits: how many equal parts, or the size of each.
        axis: the dimension.
        name: of the node, whose outputs the parts are.
    """
    graph = get_default_graph()
    with graph.name_scope(name or "split") as scope:
        tensor = as_tensor(value, name="value")
        if isinstance(num_or_size_splits, int):
            sizes: Sequence[int] | None = None
            count = num_or_size_splits
        else:
            sizes = tuple(num_or_size_splits)
            count = len(sizes)
        at = as_tensor(axis, int32, "split_dim")
        op = graph.create_op(
            "Split",
            [at, tensor],
            [tensor.dtype] * count,
            {"num_split": count, "size_splits": sizes},
            scope,
        )
        return list(op.outputs)


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
    graph = get_default_graph()
    with graph.name_scope(name or "Slice") as scope:
        tensor = as_tensor(input, name="input")
        begin = as_tensor(begin, int32, "begin")
        size = as_tensor(size, int32, "size")
        return graph.create_op("Slice", [tensor, begin, size], [tensor.dtype], name=scope).outputs[
            0
        ]


def strided_slice(input: Any, index: Any, name: str | None = None) -> Tensor:
    """``input[index]`` for ints, slices, ``...`` and ``None``."""
    items = index if isinstance(index, tuple) else (index,)
    for item in items:
        if not (item is None or item is Ellipsis or isinstance(item, int | np.integer | _SLICE)):
            raise TypeError(f"Tensors are indexed with ints, slices, ... and None, not {item!r}.")
    return _one_input("StridedSlice", input, name or "strided_slice", {"index": items})


def where(condition: Any, x: Any, y: Any, name: str | None = None) -> Tensor:
    """``x`` where the condition holds, else ``y``; with broadcasting."""
    from tfdbg_cli.engines.numpy.ops.math_ops import as_pair

    graph = get_default_graph()
    with graph.name_scope(name or "Select") as scope:
        condition = as_tensor(condition, bool_, "condition")
        x, y = as_pair(x, y)
        return graph.create_op("Select", [condition, x, y], [x.dtype], name=scope).outputs[0]


_SLICE = type(np.s_[:])  # `slice` is a function of this module


def _transpose_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Array:
    return np.transpose(inputs[0], inputs[1] if len(inputs) > 1 else None)


def _split_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> list[Array]:
    axis, value = int(inputs[0]), inputs[1]
    sizes = op.attributes["size_splits"]
    if sizes is None:
        return list(np.split(value, op.attributes["num_split"], axis))
    if sum(sizes) != value.shape[axis]:
        raise ValueError(f"The sizes {sizes} don't add up to {value.shape[axis]}")
    return list(np.split(value, np.cumsum(sizes)[:-1], axis))


def _unique_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> list[Array]:
    if inputs[0].ndim != 1:
        raise ValueError(f"A vector is needed, not {inputs[0].ndim} dimensions")
    values, first, inverse = np.unique(inputs[0], return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return [values[order], place[inverse]]


def slices(begin: Array, size: Array, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """The index that ``slice(begin, size)`` stands for.

    Raises:
        ValueError: it reaches beyond the array.
    """
    if not len(begin) == len(size) == len(shape):
        raise ValueError("begin and size need one number for each dimension")
    made = []
    for start, count, whole in zip(begin, size, shape, strict=True):
        stop = whole if count < 0 else start + count
        if not 0 <= start <= stop <= whole:
            raise ValueError(f"[{start}:{stop}] is not within a dimension of size {whole}")
        made.append(np.s_[int(start) : int(stop)])
    return tuple(made)


def _slice_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Array:
    value: Array = inputs[0]
    part: Array = value[slices(inputs[1], inputs[2], value.shape)]
    return part


def _slice_grad_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Array:
    shape, begin, size, grad = inputs
    made = np.zeros(tuple(shape), grad.dtype)
    made[slices(begin, size, made.shape)] = grad
    return made


def _strided_grad_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Array:
    made = np.zeros(tuple(inputs[0]), inputs[1].dtype)
    made[op.attributes["index"]] = inputs[1]
    return made


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


define("Identity", lambda step, op, inputs: inputs[0], same_shape)
define("StopGradient", lambda step, op, inputs: inputs[0], same_shape)
define("Rank", lambda step, op, inputs: inputs[0].ndim, scalar_shape)
define("Range", pure(np.arange), lambda inputs, attributes: [(None,)])
define("Reshape", pure(lambda value, shape: value.reshape(tuple(shape))), given_shape)
define("BroadcastTo", pure(lambda value, shape: np.broadcast_to(value, tuple(shape))), given_shape)
define("Tile", pure(lambda value, multiples: np.tile(value, tuple(multiples))))
define("Transpose", _transpose_kernel, transpose_shape)
define(
    "ExpandDims",
    lambda step, op, inputs: np.expand_dims(inputs[0], op.attributes["axis"]),
    expand_shape,
)
define(
    "Squeeze",
    lambda step, op, inputs: np.squeeze(inputs[0], op.attributes["squeeze_dims"]),
    squeeze_shape,
)
define("Pack", lambda step, op, inputs: np.stack(inputs, op.attributes["axis"]), stack_shape)
define(
    "ConcatV2", lambda step, op, inputs: np.concatenate(inputs[:-1], int(inputs[-1])), concat_shape
)
define("Split", _split_kernel, split_shape)
define("Unique", _unique_kernel, lambda inputs, attributes: [(None,), inputs[0].shape])
define("Slice", _slice_kernel, slice_shape)
define("SliceGrad", _slice_grad_kernel)
define("StridedSlice", lambda step, op, inputs: inputs[0][op.attributes["index"]], strided_shape)
define("StridedSliceGrad", _strided_grad_kernel)
define("Select", pure(np.where), select_shape)
define("BroadcastGradientArgs", pure(_broadcast_args), lambda inputs, attributes: [(None,)] * 2)
