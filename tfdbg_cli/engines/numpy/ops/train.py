"""Differentiation, and the optimizer that uses it: Adam, with the node names of TensorFlow 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import (
    Array,
    dtype_name,
    is_differentiable,
    is_fully_known,
    merge_shapes,
)
from tfdbg_cli.engines.numpy.executor import RunStep
from tfdbg_cli.engines.numpy.graph import control_dependencies, get_default_graph
from tfdbg_cli.engines.numpy.nodes import Operation, Tensor
from tfdbg_cli.engines.numpy.ops.array_ops import as_tensor, build, node, shape, zeros
from tfdbg_cli.engines.numpy.ops.math_ops import multiply
from tfdbg_cli.engines.numpy.ops.variables import Variable, group, trainable_variables
from tfdbg_cli.engines.numpy.registry import OPS, define, same_shape

__all__ = ["AdamOptimizer", "gradients"]


def gradients(y: Tensor, xs: Any) -> list[Tensor | None]:
    """The derivative of the sum of a tensor by each of ``xs``, one or several.

    The nodes for a node ``a/b`` are in the scope ``gradients/a/b_grad``.

    Returns:
        A tensor in the shape of each of ``xs``, or ``None`` where ``y`` doesn't depend on it.

    Raises:
        LookupError: there is an op without a gradient on the way; it is named.
        TypeError: ``y`` is not floating-point.
    """
    if not is_differentiable(y.dtype):
        raise TypeError(
            f"{y.name} is {dtype_name(y.dtype)}: only floating-point tensors have gradients."
        )
    # A variable is derived by as itself, so that all its reads count.
    sources = [x.as_graph_element() for x in (xs if isinstance(xs, list | tuple) else [xs])]
    with y.graph.as_default(), y.graph.name_scope("gradients") as scope:
        inputs: list[Any] = [("dims", shape(y), None), ("value", np.ones((), y.dtype), None)]
        start = build("Fill", inputs, 1, name="grad_ys_0")
        return _backpropagate(y, sources, {y: [start]}, scope)


def _between(target: Tensor, sources: list[Tensor]) -> list[Operation]:
    """The ops on a way from sources to a target, in the order of creation."""
    reached: set[Operation] = set()
    stack = [target.op]
    while stack:
        op = stack.pop()
        if op not in reached:
            reached.add(op)
            stack.extend(tensor.op for tensor in op.inputs)
    depending: dict[Operation, None] = {}
    for op in sorted(reached, key=lambda op: op.index):
        if any(tensor in sources or tensor.op in depending for tensor in op.inputs):
            depending[op] = None
    return list(depending)


def _backpropagate(
    target: Tensor, sources: list[Tensor], collected: dict[Tensor, list[Tensor]], scope: str
) -> list[Tensor | None]:
    graph = target.graph

    def total(tensor: Tensor) -> Tensor | None:
        parts = collected.get(tensor, [])
        if len(parts) > 1:
            with graph.name_scope(scope):
                parts[:] = [node("AddN", parts)]
        return parts[0] if parts else None

    for op in reversed(_between(target, sources)):
        outputs = [total(tensor) for tensor in op.outputs]
        if all(grad is None for grad in outputs):
            continue
        rule = OPS[op.type].gradient
        if rule is None:
            raise LookupError(f"The op type {op.type} has no gradient (node {op.name}).")
        # A scope that starts anew for each op: gradients/a/b_grad, and ..._1 for a second pass.
        with graph.name_scope(scope), graph.name_scope(op.name + "_grad"):
            results = rule(op, *outputs)
        for tensor, grad in zip(op.inputs, results, strict=True):
            if grad is not None and is_differentiable(tensor.dtype):
                grad.shape = merge_shapes(grad.shape, tensor.shape)
                collected.setdefault(tensor, []).append(grad)
    return [total(tensor) for tensor in sources]


class AdamOptimizer:
    """Adam (Kingma and Ba, 2015), in TensorFlow's form; the rate is a number or a scalar tensor.

    At step t: ``m += (g - m) * (1 - beta1)``, ``v += (g * g - v) * (1 - beta2)``,
    ``variable -= learning_rate * sqrt(1 - beta2**t) / (1 - beta1**t) * m / (sqrt(v) + epsilon)``.
    """

    def __init__(self, learning_rate: Any = 0.001) -> None:
        self._numbers = {"learning_rate": learning_rate, **_BETAS, "epsilon": 1e-8}

    def minimize(self, loss: Tensor, name: str | None = None) -> Operation:
        """An operation that changes the trainable variables so that the loss becomes smaller.

        Raises:
            ValueError: the loss, a scalar, depends on none of the variables.
        """
        variables = [each for each in trainable_variables() if is_differentiable(each.dtype)]
        if not variables:
            raise ValueError("There are no variables to optimize.")
        found = zip(variables, gradients(loss, variables), strict=True)
        grads = {variable: grad for variable, grad in found if grad is not None}
        if not grads:
            names = ", ".join(variable.name for variable in variables)
            raise ValueError(f"There is no gradient for any variable ({names}).")
        graph = get_default_graph()
        first = min(grads, key=lambda variable: variable.name)
        with control_dependencies(None):
            powers = [
                Variable(np.asarray(beta, first.dtype), trainable=False, name=f"{which}_power")
                for which, beta in _BETAS.items()
            ]
            with graph.name_scope(None):
                slots = [(_slot(each), _slot(each)) for each in grads]
        with graph.name_scope(name or "Adam") as scope:
            numbers = [as_tensor(value, name=key) for key, value in self._numbers.items()]
            updates = []
            for (variable, grad), held in zip(grads.items(), slots, strict=True):
                with graph.name_scope("update_" + variable.op.name):
                    refs = [each.as_graph_element() for each in (variable, *held)]
                    factors = [power.value() for power in powers]
                    updates.append(node("ApplyAdam", [*refs, *factors, *numbers, grad]))
            with control_dependencies(updates):
                grown = [
                    multiply(power.value(), beta, name="mul")
                    for power, beta in zip(powers, numbers[1:3], strict=True)
                ]
            grow = [power.assign(value) for power, value in zip(powers, grown, strict=True)]
            return group(*updates, *grow, name=scope)


_BETAS = {"beta1": 0.9, "beta2": 0.999}


def _slot(variable: Variable) -> Variable:
    """A variable of the optimizer's own."""
    if not is_fully_known(variable.shape):
        raise ValueError(f"Adam needs the shape of {variable.name}, it is {variable.shape}.")
    return Variable(
        lambda: zeros(variable.shape, variable.dtype, name="Initializer/zeros"),  # type: ignore[arg-type]
        trainable=False,
        name=f"{variable.op.name}/Adam",
    )


def _adam_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Array:
    value, m, v, beta1_power, beta2_power, rate, beta1, beta2, epsilon, grad = inputs
    if value.shape != grad.shape:
        raise ValueError(f"The gradient has shape {grad.shape}, the variable {value.shape}")
    rate = rate * np.sqrt(1 - beta2_power) / (1 - beta1_power)
    m = m + (grad - m) * (1 - beta1)
    v = v + (grad * grad - v) * (1 - beta2)
    moved = value - rate * m / (np.sqrt(v) + epsilon)
    for ref, new in zip(op.inputs[:3], (moved, m, v), strict=True):
        step.state.write(ref, np.asarray(new, value.dtype))
    return np.asarray(moved, value.dtype)


define("ApplyAdam", _adam_kernel, same_shape, ref_inputs=3)
