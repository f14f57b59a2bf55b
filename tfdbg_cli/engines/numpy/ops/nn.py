"""Neural network ops: activations, softmax, and cross entropy computed stably."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import Array, Shape, merge_shapes
from tfdbg_cli.engines.numpy.graph import get_default_graph
from tfdbg_cli.engines.numpy.nodes import Operation, Tensor
from tfdbg_cli.engines.numpy.ops.array_ops import as_tensor, node, reshape
from tfdbg_cli.engines.numpy.ops.math_ops import multiply, negative, reduce_sum, subtract, unary
from tfdbg_cli.engines.numpy.registry import Gradients, define, gradient, pure, same_shape

__all__ = ["relu", "softmax", "softmax_cross_entropy_with_logits_v2"]


def softmax_cross_entropy_with_logits_v2(
    labels: Any = None, logits: Any = None, name: str | None = None
) -> Tensor:
    """``-sum(labels * log_softmax(logits))`` over the last dimension, finite for finite logits.

    Both have shape ``(n, classes)``. The node's second output is the gradient by the logits.
    """
    graph = get_default_graph()
    with graph.name_scope(name or "softmax_cross_entropy_with_logits") as scope:
        logits = as_tensor(logits, name="logits")
        labels = as_tensor(labels, logits.dtype, "labels")
        op = graph.create_op(
            "SoftmaxCrossEntropyWithLogits", [logits, labels], [logits.dtype] * 2, name=scope
        )
    return op.outputs[0]


def _shifted(logits: Array) -> Array:
    return np.asarray(logits - np.max(logits, axis=-1, keepdims=True, initial=-np.inf))


def _softmax(logits: Array) -> Array:
    powers = np.exp(_shifted(logits))
    return np.asarray(powers / np.sum(powers, axis=-1, keepdims=True))


def _log_softmax(logits: Array) -> Array:
    shifted = _shifted(logits)
    return np.asarray(shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True)))


def _cross_entropy(logits: Array, labels: Array) -> list[Array]:
    if logits.shape != labels.shape or logits.ndim != 2:
        raise ValueError("Logits and labels must be matrices of one shape")
    loss = -np.sum(labels * _log_softmax(logits), axis=-1)
    return [np.asarray(loss), np.asarray(_softmax(logits) - labels)]


def _cross_entropy_shape(op: Operation) -> list[Shape]:
    both = merge_shapes(op.inputs[0].shape, op.inputs[1].shape)
    return [None if both is None else both[:1], both]


relu = unary("Relu", lambda x: np.maximum(x, x.dtype.type(0)), "``max(x, 0)``; NaN stays NaN.")
softmax = unary("Softmax", _softmax, "``exp(x) / sum(exp(x))`` over the last dimension, stable.")
log_softmax = unary("LogSoftmax", _log_softmax, "The logarithm of `softmax`, as stable.")
define("ReluGrad", pure(lambda grad, features: grad * (features > 0)), same_shape)
define("SoftmaxCrossEntropyWithLogits", pure(_cross_entropy), _cross_entropy_shape)

gradient("Relu")(lambda op, grad: [node("ReluGrad", [grad, op.outputs[0]])])


@gradient("Softmax")
def _by_softmax(op: Operation, grad: Tensor) -> Gradients:
    result = op.outputs[0]
    along = reduce_sum(multiply(grad, result, name="mul"), -1, keepdims=True)
    return [multiply(subtract(grad, along, name="sub"), result, name="mul")]


@gradient("SoftmaxCrossEntropyWithLogits")
def _by_cross_entropy(op: Operation, by_loss: Tensor, by_backprop: Tensor | None) -> Gradients:
    if by_backprop is not None:
        raise LookupError(f"SoftmaxCrossEntropyWithLogits has no second gradient (node {op.name}).")
    grad = reshape(by_loss, [-1, 1])
    by_labels = multiply(grad, negative(log_softmax(op.inputs[0])), name="mul")
    return [multiply(grad, op.outputs[1], name="mul"), by_labels]
