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
    concat,
    expand_dims,
    reshape,
    slice,
    split,
    squeeze,
    transpose,
    where,
)
from tfdbg_cli.engines.numpy.ops.constants import (
    constant,
    constant_value,
    ones_like,
    shape,
    size,
    zeros_like,
)
from tfdbg_cli.engines.numpy.ops.math_ops import (
    add,
    cast,
    cos,
    divide,
    equal,
    exp,
    floordiv,
    greater,
    greater_equal,
    less_equal,
    log,
    matmul,
    maximum,
    multiply,
    negative,
    pow,
    reciprocal,
    sign,
    sin,
    square,
    subtract,
)
from tfdbg_cli.engines.numpy.ops.nn import log_softmax
from tfdbg_cli.engines.numpy.ops.reductions import reduce_sum
from tfdbg_cli.engines.numpy.registry import gradient, no_gradient

__all__: list[str] = []

Gradients: TypeAlias = "list[Tensor | None]"


def _unary(op_type: str, rule: Callable[[Operation, Tensor], Tensor]) -> None:
    gradient(op_type)(lambda op, grad: [rule(op, grad)])


_unary("Identity", lambda op, grad: grad)
_unary("CheckNumerics", lambda op, grad: grad)
_unary("Neg", lambda op, grad: negative(grad))
_unary("Exp", lambda op, grad: multiply(grad, op.outputs[0], name="mul"))
_unary("Log", lambda op, grad: multiply(grad, reciprocal(op.inputs[0]), name="mul"))
_unary("Log1p", lambda op, grad: multiply(grad, reciprocal(add(op.inputs[0], 1)), name="mul"))
_unary("Sqrt", lambda op, grad: divide(multiply(grad, 0.5), op.outputs[0]))
_unary("Square", lambda op, grad: multiply(grad, multiply(op.inputs[0], 2)))
_unary("Abs", lambda op, grad: multiply(grad, sign(op.inputs[0])))
_unary("Sin", lambda op, grad: multiply(grad, cos(op.inputs[0])))
_unary("Cos", lambda op, grad: multiply(grad, negative(sin(op.inputs[0]))))
_unary("Tanh", lambda op, grad: multiply(grad, subtract(1, square(op.outputs[0]))))
_unary(
    "Sigmoid",
    lambda op, grad: multiply(grad, multiply(op.outputs[0], subtract(1, op.outputs[0]))),
)
_unary("Reciprocal", lambda op, grad: multiply(negative(grad), square(op.outputs[0])))
_unary("Sign", lambda op, grad: zeros_like(grad))
_unary("Floor", lambda op, grad: zeros_like(grad))


no_gradient(
    "All",
    "Any",
    "ArgMax",
    "ArgMin",
    "BroadcastGradientArgs",
    "Equal",
    "FloorDiv",
    "Greater",
    "GreaterEqual",
    "IsFinite",
    "IsInf",
    "IsNan",
    "Less",
    "LessEqual",
    "LogicalAnd",
    "LogicalNot",
    "LogicalOr",
    "NotEqual",
    "OnesLike",
    "Range",
    "Rank",
    "Shape",
    "Size",
    "StopGradient",
    "ZerosLike",
)


def _broadcast(op: Operation, by_x: Tensor, by_y: Tensor) -> Gradients:
    """Sum the gradients of a broadcasting op over the dimensions its inputs were repeated in."""
    x, y = op.inputs
    if x is y or (is_fully_known(x.shape) and x.shape == y.shape):
        return [by_x, by_y]
    shapes = [shape(x), shape(y)]
    repeated = (
        get_default_graph().create_op("BroadcastGradientArgs", shapes, [int32, int32]).outputs
    )
    return [
        reshape(reduce_sum(grad, axes), target)
        for grad, axes, target in zip((by_x, by_y), repeated, shapes, strict=True)
    ]


@gradient("AddV2")
def _add(op: Operation, grad: Tensor) -> Gradients:
    return _broadcast(op, grad, grad)


@gradient("Sub")
def _subtract(op: Operation, grad: Tensor) -> Gradients:
    return _broadcast(op, grad, negative(grad))


@gradient("Mul")
def _multiply(op: Operation, grad: Tensor) -> Gradients:
    x, y = op.inputs
    return _broadcast(op, multiply(grad, y), multiply(x, grad))


@gradient("RealDiv")
def _divide(op: Operation, grad: Tensor) -> Gradients:
    x, y = op.inputs
    by_y = multiply(grad, divide(divide(negative(x), y, name="RealDiv"), y, name="RealDiv"))
    return _broadcast(op, divide(grad, y, name="RealDiv"), by_y)


@gradient("FloorMod")
def _mod(op: Operation, grad: Tensor) -> Gradients:
    x, y = op.inputs
    return _broadcast(op, grad, multiply(grad, negative(floordiv(x, y))))


@gradient("Pow")
def _pow(op: Operation, grad: Tensor) -> Gradients:
    x, y = op.inputs
    # log(x) counts only where x > 0; elsewhere x ** y doesn't change smoothly with y.
    positive = greater(x, 0)
    logarithm = where(positive, log(where(positive, x, ones_like(x))), zeros_like(x))
    by_x = multiply(multiply(grad, y), pow(x, subtract(y, 1)))
    return _broadcast(op, by_x, multiply(multiply(grad, op.outputs[0]), logarithm))


def _extreme(op: Operation, grad: Tensor, chooses_x: Callable[..., Tensor]) -> Gradients:
    x, y = op.inputs
    chosen = chooses_x(x, y)
    zeros = zeros_like(grad)
    return _broadcast(op, where(chosen, grad, zeros), where(chosen, zeros, grad))


@gradient("Maximum")
def _maximum(op: Operation, grad: Tensor) -> Gradients:
    return _extreme(op, grad, greater_equal)


@gradient("Minimum")
def _minimum(op: Operation, grad: Tensor) -> Gradients:
    return _extreme(op, grad, less_equal)


@gradient("Select")
def _select(op: Operation, grad: Tensor) -> Gradients:
    condition, x, y = op.inputs
    zeros = zeros_like(grad)
    results: Gradients = [None]
    for source, part in (
        (x, where(condition, grad, zeros)),
        (y, where(condition, zeros, grad)),
    ):
        results.append(_unbroadcast(part, source))
    return results


def _unbroadcast(grad: Tensor, source: Tensor) -> Tensor:
    """Sum a gradient down to the shape of the input that was broadcast to it."""
    if is_fully_known(source.shape) and source.shape == grad.shape:
        return grad
    shapes = [shape(source), shape(grad)]
    graph = get_default_graph()
    axes = graph.create_op("BroadcastGradientArgs", shapes, [int32, int32]).outputs[0]
    return reshape(reduce_sum(grad, axes), shapes[0])


@gradient("BroadcastTo")
def _broadcast_to(op: Operation, grad: Tensor) -> Gradients:
    return [_unbroadcast(grad, op.inputs[0]), None]


@gradient("Cast")
def _cast(op: Operation, grad: Tensor) -> Gradients:
    source = op.inputs[0].dtype
    return [cast(grad, source) if is_differentiable(source) else None]


@gradient("AddN")
def _add_n(op: Operation, grad: Tensor) -> Gradients:
    return [grad] * len(op.inputs)


@gradient("MatMul")
def _matmul(op: Operation, grad: Tensor) -> Gradients:
    a, b = op.inputs
    flip_a, flip_b = op.attributes["transpose_a"], op.attributes["transpose_b"]
    if flip_a:
        by_a = matmul(b, grad, transpose_a=flip_b, transpose_b=True)
    else:
        by_a = matmul(grad, b, transpose_b=not flip_b)
    if flip_b:
        by_b = matmul(grad, a, transpose_a=True, transpose_b=flip_a)
    else:
        by_b = matmul(a, grad, transpose_a=not flip_a)
    return [by_a, by_b]


@gradient("Fill")
def _fill(op: Operation, grad: Tensor) -> Gradients:
    return [None, reduce_sum(grad)]


@gradient("Reshape", "ExpandDims", "Squeeze")
def _reshape(op: Operation, grad: Tensor) -> Gradients:
    return [reshape(grad, shape(op.inputs[0])), *[None] * (len(op.inputs) - 1)]


@gradient("Transpose")
def _transpose(op: Operation, grad: Tensor) -> Gradients:
    if len(op.inputs) == 1:
        return [transpose(grad)]
    perm = constant_value(op.inputs[1])
    if perm is None:
        raise LookupError(f"Transpose has a gradient only for a constant order (node {op.name}).")
    return [transpose(grad, [int(at) for at in np.argsort(perm)]), None]


@gradient("Tile")
def _tile(op: Operation, grad: Tensor) -> Gradients:
    source, multiples = op.inputs
    times = constant_value(multiples)
    if times is None or source.shape is None:
        raise LookupError(f"Tile has a gradient only for constant multiples (node {op.name}).")
    # Cut each dimension in (repetition, place) and add up the repetitions.
    sizes = split(shape(source), len(times))
    parts: list[Tensor] = []
    for count, extent in zip(times, sizes, strict=True):
        parts += [constant([int(count)]), extent]
    folded = reshape(grad, concat(parts, 0))
    return [reduce_sum(folded, [2 * at for at in range(len(times))]), None]


@gradient("Pack")
def _stack(op: Operation, grad: Tensor) -> Gradients:
    axis = op.attributes["axis"]
    parts = split(grad, len(op.inputs), axis)
    return [squeeze(part, [axis]) for part in parts]


@gradient("ConcatV2")
def _concat(op: Operation, grad: Tensor) -> Gradients:
    *sources, axis = op.inputs
    at = constant_value(axis)
    sizes = [
        None if at is None or tensor.shape is None else tensor.shape[int(at)] for tensor in sources
    ]
    if at is None or any(extent is None for extent in sizes):
        raise LookupError(
            f"ConcatV2 has a gradient only where the sizes joined are known (node {op.name})."
        )
    return [*split(grad, [int(extent or 0) for extent in sizes], int(at)), None]


@gradient("Split")
def _split(op: Operation, *grads: Tensor | None) -> Gradients:
    axis = constant_value(op.inputs[0])
    if axis is None:
        raise LookupError(f"Split has a gradient only for a constant dimension (node {op.name}).")
    parts = [
        zeros_like(output) if grad is None else grad
        for output, grad in zip(op.outputs, grads, strict=True)
    ]
    return [None, concat(parts, int(axis))]


@gradient("Slice")
def _slice(op: Operation, grad: Tensor) -> Gradients:
    source, begin, extent = op.inputs
    made = get_default_graph().create_op(
        "SliceGrad", [shape(source), begin, extent, grad], [grad.dtype], shapes=[source.shape]
    )
    return [made.outputs[0], None, None]


@gradient("StridedSlice")
def _strided_slice(op: Operation, grad: Tensor) -> Gradients:
    source = op.inputs[0]
    made = get_default_graph().create_op(
        "StridedSliceGrad",
        [shape(source), grad],
        [grad.dtype],
        {"index": op.attributes["index"]},
        shapes=[source.shape],
    )
    return [made.outputs[0]]


def _spread(op: Operation, tensor: Tensor) -> Tensor:
    """A tensor of a reduction's output shape, repeated to the shape of the reduction's input."""
    whole = shape(op.inputs[0])
    if not op.attributes["keep_dims"]:
        graph = get_default_graph()
        kept = graph.create_op("ReducedShape", [whole, op.inputs[1]], [int32])
        tensor = reshape(tensor, kept.outputs[0])
    return broadcast_to(tensor, whole)


@gradient("Sum")
def _sum(op: Operation, grad: Tensor) -> Gradients:
    return [_spread(op, grad), None]


@gradient("Mean")
def _mean(op: Operation, grad: Tensor) -> Gradients:
    # How many elements each mean is of; 1 instead of 0 if there is nothing at all.
    count = floordiv(size(op.inputs[0]), maximum(size(op.outputs[0]), 1))
    return [divide(_spread(op, grad), cast(count, grad.dtype)), None]


@gradient("Max", "Min")
def _extremes(op: Operation, grad: Tensor) -> Gradients:
    # Equal extremes share the gradient.
    chosen = cast(equal(_spread(op, op.outputs[0]), op.inputs[0]), grad.dtype)
    shared = reduce_sum(chosen, op.inputs[1], keepdims=op.attributes["keep_dims"])
    return [multiply(chosen, _spread(op, divide(grad, shared))), None]


@gradient("Relu")
def _relu(op: Operation, grad: Tensor) -> Gradients:
    graph = get_default_graph()
    return [graph.create_op("ReluGrad", [grad, op.outputs[0]], [grad.dtype]).outputs[0]]


@gradient("Softmax")
def _softmax(op: Operation, grad: Tensor) -> Gradients:
    result = op.outputs[0]
    along = reduce_sum(multiply(grad, result, name="mul"), -1, keepdims=True)
    return [multiply(subtract(grad, along, name="sub"), result, name="mul")]


@gradient("LogSoftmax")
def _log_softmax(op: Operation, grad: Tensor) -> Gradients:
    softmax = exp(op.outputs[0])
    return [subtract(grad, multiply(reduce_sum(grad, -1, keepdims=True), softmax))]


@gradient("SoftmaxCrossEntropyWithLogits")
def _cross_entropy(op: Operation, by_loss: Tensor | None, by_backprop: Any) -> Gradients:
    if by_backprop is not None or by_loss is None:
        raise LookupError(f"SoftmaxCrossEntropyWithLogits has no second gradient (node {op.name}).")
    logits = op.inputs[0]
    grad = expand_dims(by_loss, -1)
    by_labels = multiply(grad, negative(log_softmax(logits)), name="mul")
    return [multiply(grad, op.outputs[1], name="mul"), by_labels]


@gradient("SliceGrad")
def _slice_grad(op: Operation, grad: Tensor) -> Gradients:
    _, begin, extent, _ = op.inputs
    return [None, None, None, slice(grad, begin, extent)]
