"""How each op type is derived: the nodes that lead the gradient of an output to the inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import int32, is_differentiable, is_fully_known
from tfdbg_cli.engines.numpy.graph import get_default_graph
from tfdbg_cli.engines.numpy.nodes import Operation, Tensor
from tfdbg_cli.engines.numpy.ops.array_ops import (
    broadcast_to,
    expand_dims,
    reshape,
    transpose,
)
from tfdbg_cli.engines.numpy.ops.constants import shape, size
from tfdbg_cli.engines.numpy.ops.math_ops import (
    cast,
    divide,
    floordiv,
    matmul,
    maximum,
    multiply,
    negative,
    reciprocal,
    reduce_sum,
    square,
    subtract,
)
from tfdbg_cli.engines.numpy.ops.nn import log_softmax
from tfdbg_cli.engines.numpy.ops.random_ops import RANDOM
from tfdbg_cli.engines.numpy.registry import gradient

__all__: list[str] = []

Gradients: TypeAlias = "list[Tensor | None]"


def _unary(op_type: str, rule: Callable[[Operation, Tensor], Tensor]) -> None:
    gradient(op_type)(lambda op, grad: [rule(op, grad)])


_unary("Identity", lambda op, grad: grad)
_unary("CheckNumerics", lambda op, grad: grad)
_unary("Neg", lambda op, grad: negative(grad))
_unary("Exp", lambda op, grad: multiply(grad, op.outputs[0], name="mul"))
_unary("Log", lambda op, grad: multiply(grad, reciprocal(op.inputs[0]), name="mul"))
_unary("Reciprocal", lambda op, grad: multiply(negative(grad), square(op.outputs[0])))
_unary("Sqrt", lambda op, grad: divide(multiply(grad, 0.5), op.outputs[0]))
_unary("Square", lambda op, grad: multiply(grad, multiply(op.inputs[0], 2)))
_unary("Tanh", lambda op, grad: multiply(grad, subtract(1, square(op.outputs[0]))))


@gradient("Fill", "Floor", "FloorDiv", *RANDOM)
def _none(op: Operation, grad: Tensor) -> Gradients:
    """The outputs don't change smoothly with the inputs."""
    return [None] * len(op.inputs)


def _broadcast(op: Operation, by_x: Tensor, by_y: Tensor) -> Gradients:
    """Sum the gradients of a broadcasting op over the dimensions its inputs were repeated in."""
    x, y = op.inputs
    if x is y or (is_fully_known(x.shape) and x.shape == y.shape):
        return [by_x, by_y]
    shapes, graph = [shape(x), shape(y)], get_default_graph()
    repeated = graph.create_op("BroadcastGradientArgs", shapes, [int32, int32]).outputs
    return [
        reshape(reduce_sum(grad, axes), target)
        for grad, axes, target in zip((by_x, by_y), repeated, shapes, strict=True)
    ]


gradient("AddV2")(lambda op, grad: _broadcast(op, grad, grad))
gradient("Sub")(lambda op, grad: _broadcast(op, grad, negative(grad)))


@gradient("Mul")
def _multiply(op: Operation, grad: Tensor) -> Gradients:
    x, y = op.inputs
    return _broadcast(op, multiply(grad, y), multiply(x, grad))


@gradient("RealDiv")
def _divide(op: Operation, grad: Tensor) -> Gradients:
    x, y = op.inputs
    by_y = multiply(grad, divide(divide(negative(x), y, name="RealDiv"), y, name="RealDiv"))
    return _broadcast(op, divide(grad, y, name="RealDiv"), by_y)


@gradient("Cast")
def _cast(op: Operation, grad: Tensor) -> Gradients:
    source = op.inputs[0].dtype
    return [cast(grad, source) if is_differentiable(source) else None]


gradient("AddN")(lambda op, grad: [grad] * len(op.inputs))


@gradient("MatMul")
def _matmul(op: Operation, grad: Tensor) -> Gradients:
    a, b = op.inputs
    flip_a, flip_b = op.attributes["transpose_a"], op.attributes["transpose_b"]
    by_a = matmul(b, grad, flip_b, True) if flip_a else matmul(grad, b, False, not flip_b)
    by_b = matmul(grad, a, True, flip_a) if flip_b else matmul(a, grad, not flip_a)
    return [by_a, by_b]


@gradient("Reshape", "ExpandDims")
def _reshape(op: Operation, grad: Tensor) -> Gradients:
    return [reshape(grad, shape(op.inputs[0])), *[None] * (len(op.inputs) - 1)]


@gradient("Transpose")
def _transpose(op: Operation, grad: Tensor) -> Gradients:
    if len(op.inputs) == 1:
        return [transpose(grad)]
    order = np.argsort(op.inputs[1].op.attributes["value"])
    return [transpose(grad, [int(at) for at in order]), None]


def _spread(op: Operation, tensor: Tensor) -> Tensor:
    """A tensor of a reduction's output shape, repeated to the shape of the reduction's input."""
    whole = shape(op.inputs[0])
    if not op.attributes["keep_dims"]:
        graph = get_default_graph()
        kept = graph.create_op("ReducedShape", [whole, op.inputs[1]], [int32])
        tensor = reshape(tensor, kept.outputs[0])
    return broadcast_to(tensor, whole)


gradient("Sum")(lambda op, grad: [_spread(op, grad), None])


@gradient("Mean")
def _mean(op: Operation, grad: Tensor) -> Gradients:
    # How many elements each mean is of; 1 instead of 0 if there is nothing at all.
    count = floordiv(size(op.inputs[0]), maximum(size(op.outputs[0]), 1))
    return [divide(_spread(op, grad), cast(count, grad.dtype)), None]


@gradient("Relu")
def _relu(op: Operation, grad: Tensor) -> Gradients:
    graph = get_default_graph()
    return [graph.create_op("ReluGrad", [grad, op.outputs[0]], [grad.dtype]).outputs[0]]


@gradient("Softmax")
def _softmax(op: Operation, grad: Tensor) -> Gradients:
    result = op.outputs[0]
    along = reduce_sum(multiply(grad, result, name="mul"), -1, keepdims=True)
    return [multiply(subtract(grad, along, name="sub"), result, name="mul")]


@gradient("SoftmaxCrossEntropyWithLogits")
def _cross_entropy(op: Operation, by_loss: Tensor | None, by_backprop: Any) -> Gradients:
    if by_backprop is not None or by_loss is None:
        raise LookupError(f"SoftmaxCrossEntropyWithLogits has no second gradient (node {op.name}).")
    grad = expand_dims(by_loss, -1)
    by_labels = multiply(grad, negative(log_softmax(op.inputs[0])), name="mul")
    return [multiply(grad, op.outputs[1], name="mul"), by_labels]
