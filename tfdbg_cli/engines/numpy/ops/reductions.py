"""Sums, means, extremes and positions of extremes over some or all dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import Array, DType, Shape, as_dtype, bool_, int32, int64
from tfdbg_cli.engines.numpy.graph import get_default_graph
from tfdbg_cli.engines.numpy.nodes import Operation, Tensor
from tfdbg_cli.engines.numpy.ops.array_ops import range as range_
from tfdbg_cli.engines.numpy.ops.array_ops import rank
from tfdbg_cli.engines.numpy.ops.constants import as_tensor, constant, constant_value
from tfdbg_cli.engines.numpy.registry import define, no_gradient, pure, same_shape

__all__ = [
    "argmax",
    "argmin",
    "reduce_all",
    "reduce_any",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
]


def reduction_axes(tensor: Tensor, axis: Any, name: str | None = None) -> Tensor:
    """The dimensions to reduce as an int32 tensor: those given, else all."""
    if axis is not None:
        if isinstance(axis, list | tuple):
            axis = np.array(axis, np.int32)
        return as_tensor(axis, int32, name or "reduction_indices")
    if tensor.shape is not None:
        return constant(np.arange(len(tensor.shape), dtype=np.int32))
    return range_(0, rank(tensor))


def _reduction(
    op_type: str, compute: Callable[..., Any], summary: str, dtype: DType | None = None
) -> Callable[..., Tensor]:
    """Define a reduction and return the function that adds it to a graph."""

    def build(
        input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
    ) -> Tensor:
        graph = get_default_graph()
        tensor = as_tensor(input_tensor)
        # As in TensorFlow: the axes of a full reduction are a node beside it, others one below.
        beside = reduction_axes(tensor, None) if axis is None else None
        with graph.name_scope(name or op_type) as scope:
            axes = beside if beside is not None else reduction_axes(tensor, axis)
            return graph.create_op(
                op_type, [tensor, axes], [dtype or tensor.dtype], {"keep_dims": keepdims}, scope
            ).outputs[0]

    def kernel(step: Any, op: Operation, inputs: list[Any]) -> Any:
        axes = tuple(int(at) for at in np.ravel(inputs[1]))
        return compute(inputs[0], axes, op.attributes["keep_dims"])

    define(op_type, kernel, _reduced_shape)
    build.__doc__ = (
        f"{summary}\n\nArgs:\n    input_tensor: a tensor, or what becomes one.\n"
        "    axis: dimension or dimensions to reduce; ``None``: all.\n"
        "    keepdims: keep them with size 1.\n    name: of the node."
    )
    return build


def _sum(value: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    return np.sum(value, axis=axes, keepdims=keepdims, dtype=value.dtype)


def _prod(value: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    return np.prod(value, axis=axes, keepdims=keepdims, dtype=value.dtype)


def _mean(value: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    total = np.asarray(_sum(value, axes, keepdims))
    count = np.prod([value.shape[at] for at in axes], dtype=np.int64)
    divide = np.floor_divide if value.dtype.kind in "iu" else np.true_divide
    return divide(total, count.astype(value.dtype))


def _max(value: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    return np.max(value, axis=axes, keepdims=keepdims, initial=_limit(value.dtype, -1))


def _min(value: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    return np.min(value, axis=axes, keepdims=keepdims, initial=_limit(value.dtype, 1))


def _all(value: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    return np.all(value, axis=axes, keepdims=keepdims)


def _any(value: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    return np.any(value, axis=axes, keepdims=keepdims)


def _limit(dtype: DType, sign: int) -> Any:
    """The largest (or smallest) value of a type: the extreme of nothing."""
    if dtype.kind in "iu":
        return np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min
    return dtype.type(sign * np.inf)


def _kept(shape: Array, axes: Array) -> Array:
    """A shape with size 1 in the dimensions that are reduced."""
    made = np.array(shape)
    made[np.ravel(axes)] = 1
    return made


def _reduced_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    source, axes = inputs[0].shape, constant_value(inputs[1])
    if source is None or axes is None:
        return [None if source is None or not attributes["keep_dims"] else (None,) * len(source)]
    count = len(source)
    for at in np.ravel(axes):
        if not -count <= at < count:
            raise ValueError(f"There is no dimension {at} in shape {source}.")
    gone = {int(at) % count for at in np.ravel(axes)}
    if attributes["keep_dims"]:
        return [tuple(1 if at in gone else size for at, size in enumerate(source))]
    return [tuple(size for at, size in enumerate(source) if at not in gone)]


reduce_sum = _reduction("Sum", _sum, "The sum.")
reduce_mean = _reduction("Mean", _mean, "The mean; NaN of no elements.")
reduce_prod = _reduction("Prod", _prod, "The product.")
reduce_max = _reduction("Max", _max, "The largest element.")
reduce_min = _reduction("Min", _min, "The smallest element.")
reduce_all = _reduction("All", _all, "Whether all are true.", bool_)
reduce_any = _reduction("Any", _any, "Whether any is true.", bool_)


def _position(op_type: str, compute: Callable[..., Any], summary: str) -> Callable[..., Tensor]:
    """Define an op for the position of an extreme and return its function."""

    def build(
        input: Any, axis: int = 0, output_type: Any = int64, name: str | None = None
    ) -> Tensor:
        graph = get_default_graph()
        with graph.name_scope(name or op_type) as scope:
            tensor = as_tensor(input, name="input")
            at = as_tensor(axis, int32, "dimension")
            return graph.create_op(
                op_type, [tensor, at], [as_dtype(output_type)], None, scope
            ).outputs[0]

    def kernel(step: Any, op: Operation, inputs: list[Any]) -> Any:
        return compute(inputs[0], axis=int(inputs[1]))

    define(op_type, kernel, _position_shape)
    build.__doc__ = (
        f"{summary}\n\nArgs:\n    input: a tensor, or what becomes one.\n"
        "    axis: the dimension to search.\n    output_type: int64 or int32.\n"
        "    name: of the node."
    )
    return build


def _position_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    return _reduced_shape(inputs, {"keep_dims": False})


argmax = _position("ArgMax", np.argmax, "The index of the largest element (the first of equals).")
argmin = _position("ArgMin", np.argmin, "The index of the smallest element (the first of equals).")
define("ReducedShape", pure(_kept), same_shape)
no_gradient("ReducedShape")

for _name in __all__:
    globals()[_name].__name__ = globals()[_name].__qualname__ = _name
