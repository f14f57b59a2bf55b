"""Optimizers: gradient descent and Adam, with the node names of TensorFlow 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import Array, is_differentiable, is_fully_known
from tfdbg_cli.engines.numpy.gradients import gradients
from tfdbg_cli.engines.numpy.graph import control_dependencies, get_default_graph
from tfdbg_cli.engines.numpy.nodes import Operation, Tensor
from tfdbg_cli.engines.numpy.ops.constants import as_tensor, zeros
from tfdbg_cli.engines.numpy.ops.math_ops import multiply
from tfdbg_cli.engines.numpy.ops.variables import Variable, group, trainable_variables
from tfdbg_cli.engines.numpy.registry import define, same_shape

if TYPE_CHECKING:
    from tfdbg_cli.engines.numpy.executor import RunStep, VariableRef

__all__ = ["AdamOptimizer", "GradientDescentOptimizer"]


class Optimizer:
    """Makes the nodes that move variables down a gradient.

    Args:
        name: of the operation that does it.
        numbers: what it calculates with, by name: numbers or scalar tensors.
    """

    #: The op type that changes a variable.
    op_type = ""

    def __init__(self, name: str, **numbers: Any) -> None:
        self._name = name
        self._numbers = numbers

    def minimize(self, loss: Tensor, name: str | None = None) -> Operation:
        """An operation that changes the trainable variables so that the loss becomes smaller.

        Raises:
            ValueError: the loss, a scalar, depends on none of the variables.
        """
        variables = [each for each in trainable_variables() if is_differentiable(each.dtype)]
        if not variables:
            raise ValueError("There are no variables to optimize.")
        found = zip(gradients(loss, variables), variables, strict=True)
        pairs = [(grad, variable) for grad, variable in found if grad is not None]
        if not pairs:
            names = ", ".join(variable.name for variable in variables)
            raise ValueError(f"There is no gradient for any variable ({names}).")
        graph = get_default_graph()
        with control_dependencies(None):
            slots = self._make_slots([variable for _, variable in pairs])
        with graph.name_scope(name or self._name) as scope:
            tensors = [as_tensor(value, name=key) for key, value in self._numbers.items()]
            updates = []
            for (grad, variable), given in zip(pairs, slots, strict=True):
                with graph.name_scope("update_" + variable.op.name):
                    inputs = [variable.as_graph_element(), *given, *tensors, grad]
                    op = graph.create_op(self.op_type, inputs, [variable.dtype])
                    updates.append(op.outputs[0])
            return group(*updates, *self._finish(updates, tensors), name=scope)

    def _make_slots(self, variables: list[Variable]) -> list[list[Tensor]]:
        """Make the optimizer's own variables: what the op gets besides, for each variable."""
        return [[] for _ in variables]

    def _finish(self, updates: list[Tensor], numbers: list[Tensor]) -> list[Tensor]:
        """Make what comes after all updates."""
        return []


class GradientDescentOptimizer(Optimizer):
    """``variable -= learning_rate * gradient``; the rate is a number or a scalar tensor."""

    op_type = "ApplyGradientDescent"

    def __init__(self, learning_rate: Any) -> None:
        super().__init__("GradientDescent", learning_rate=learning_rate)


class AdamOptimizer(Optimizer):
    """Adam (Kingma and Ba, 2015), in TensorFlow's form.

    At step t: ``m += (g - m) * (1 - beta1)``, ``v += (g * g - v) * (1 - beta2)``,
    ``variable -= learning_rate * sqrt(1 - beta2**t) / (1 - beta1**t) * m / (sqrt(v) + epsilon)``.
    """

    op_type = "ApplyAdam"

    def __init__(self, learning_rate: Any = 0.001) -> None:
        super().__init__("Adam", learning_rate=learning_rate, beta1=0.9, beta2=0.999, epsilon=1e-8)
        self._powers: list[Variable] = []

    def _make_slots(self, variables: list[Variable]) -> list[list[Tensor]]:
        first = min(variables, key=lambda variable: variable.name)
        self._powers = [
            Variable(
                np.asarray(self._numbers[which], first.dtype),
                trainable=False,
                name=f"{which}_power",
            )
            for which in ("beta1", "beta2")
        ]
        powers = [power.value() for power in self._powers]
        with get_default_graph().name_scope(None):
            return [
                [*(self._slot(each).as_graph_element() for _ in range(2)), *powers]
                for each in variables
            ]

    def _slot(self, variable: Variable) -> Variable:
        if not is_fully_known(variable.shape):
            raise ValueError(f"Adam needs the shape of {variable.name}, it is {variable.shape}.")
        return Variable(
            lambda: zeros(variable.shape, variable.dtype, name="Initializer/zeros"),  # type: ignore[arg-type]
            trainable=False,
            name=f"{variable.op.name}/{self._name}",
        )

    def _finish(self, updates: list[Tensor], numbers: list[Tensor]) -> list[Tensor]:
        _, beta1, beta2, _ = numbers
        with control_dependencies(updates):
            grown = [
                multiply(power.value(), beta, name="mul")
                for power, beta in zip(self._powers, (beta1, beta2), strict=True)
            ]
        return [power.assign(value) for power, value in zip(self._powers, grown, strict=True)]


def _checked(op: Operation, ref: VariableRef, grad: Array) -> Array:
    value = ref.read(op)
    if value.shape != grad.shape:
        raise ValueError(f"The gradient has shape {grad.shape}, the variable {value.shape}")
    return value


def _descend_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> VariableRef:
    ref, rate, grad = inputs
    value = _checked(op, ref, grad)
    written: VariableRef = ref.write(np.asarray(value - rate * grad, value.dtype))
    return written


def _adam_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> VariableRef:
    ref, m_ref, v_ref, beta1_power, beta2_power, rate, beta1, beta2, epsilon, grad = inputs
    value, m, v = _checked(op, ref, grad), m_ref.read(op), v_ref.read(op)
    rate = rate * np.sqrt(1 - beta2_power) / (1 - beta1_power)
    m = m + (grad - m) * (1 - beta1)
    v = v + (grad * grad - v) * (1 - beta2)
    m_ref.write(np.asarray(m, value.dtype))
    v_ref.write(np.asarray(v, value.dtype))
    moved = value - rate * m / (np.sqrt(v) + epsilon)
    written: VariableRef = ref.write(np.asarray(moved, value.dtype))
    return written


define("ApplyGradientDescent", _descend_kernel, same_shape, ref_inputs=1)
define("ApplyAdam", _adam_kernel, same_shape, ref_inputs=3)
