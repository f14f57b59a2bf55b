"""Shapes and selections: reshape, transpose, where and their like."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import Array, Shape, bool_, broadcast_shapes, int32
from tfdbg_cli.engines.numpy.graph import get_default_graph
from tfdbg_cli.engines.numpy.nodes import Operation, Tensor
from tfdbg_cli.engines.numpy.ops.constants import (
    as_tensor,
    as_vector,
    build,
    constant_value,
    shape,
)
from tfdbg_cli.engines.numpy.registry import Gradients, define, gradient, pure, same_shape

__all__ = ["identity", "reshape", "transpose", "unique", "where"]


def identity(input: Any, name: str | None = None) -> Tensor:
    """The same value under a name of its own."""
    tensor = as_tensor(input)
    return get_default_graph().create_op("Identity", [tensor], [tensor.dtype], name=name).outputs[0]


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """The same elements in another shape; one size may be -1: whatever is left."""
    inputs = [("tensor", tensor, None), ("shape", as_vector(shape), int32)]
    return build("Reshape", inputs, name=name)


def broadcast_to(input: Any, shape: Any) -> Tensor:
    """The elements repeated along new or single dimensions."""
    return build("BroadcastTo", [("input", input, None), ("shape", shape, int32)])


def transpose(a: Any, name: str | None = None) -> Tensor:
    """The dimensions in reversed order; their number must be known."""
    graph = get_default_graph()
    with graph.name_scope(name or "transpose") as scope:
        tensor = as_tensor(a, name="a")
        if tensor.shape is None:
            raise ValueError(f"Nothing is known of the shape of {tensor.name}.")
        perm = as_tensor(np.arange(len(tensor.shape), dtype=np.int32)[::-1], name="perm")
        return graph.create_op("Transpose", [tensor, perm], [tensor.dtype], name=scope).outputs[0]


def unique(x: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The distinct elements of a vector in the order of their first appearance.

    Returns:
        ``(y, idx)`` with ``x[i] == y[idx[i]]``; both are outputs of one node.
    """
    tensor = as_tensor(x)
    op = get_default_graph().create_op("Unique", [tensor], [tensor.dtype, int32], name=name)
    return op.outputs[0], op.outputs[1]


def where(condition: Any, x: Any, y: Any, name: str | None = None) -> Tensor:
    """``x`` where the condition holds, else ``y``; with broadcasting."""
    inputs = [("condition", condition, bool_), ("x", x, None), ("y", y, 1)]
    return build("Select", inputs, 1, name=name)


def broadcast_shape(op: Operation) -> list[Shape]:
    """The shape function of ops whose inputs are broadcast."""
    return [broadcast_shapes([tensor.shape for tensor in op.inputs])]


def _unique(value: Array) -> list[Array]:
    if value.ndim != 1:
        raise ValueError(f"A vector is needed, not {value.ndim} dimensions")
    values, first, inverse = np.unique(value, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return [values[order], np.argsort(order)[inverse]]


def _given_shape(op: Operation) -> list[Shape]:
    """The shape that the second input says, as far as it is a constant."""
    wanted = constant_value(op.inputs[1])
    if wanted is None:
        known = op.inputs[1].shape
        return [None if known is None or known[0] is None else (None,) * known[0]]
    return [tuple(None if size < 0 else int(size) for size in wanted)]


def _reversed_shape(op: Operation) -> list[Shape]:
    source = op.inputs[0].shape
    return [None if source is None else source[::-1]]


define("Identity", lambda step, op, inputs: inputs[0], same_shape)
define("Reshape", pure(lambda value, shape: value.reshape(tuple(shape))), _given_shape)
define("BroadcastTo", pure(lambda value, shape: np.broadcast_to(value, tuple(shape))), _given_shape)
define("Transpose", pure(np.transpose), _reversed_shape)
define("Unique", pure(_unique), lambda op: [(None,), op.inputs[0].shape])
define("Select", pure(np.where), broadcast_shape)


gradient("Identity")(lambda op, grad: [grad])
gradient("Transpose")(lambda op, grad: [transpose(grad), None])


@gradient("Reshape")
def _reshape(op: Operation, grad: Tensor) -> Gradients:
    return [reshape(grad, shape(op.inputs[0])), None]
