"""Optimizers: gradient descent and Adam, with the node names of TensorFlow 1."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import is_differentiable
from tfdbg_cli.engines.numpy.gradients import gradients
from tfdbg_cli.engines.numpy.graph import control_dependencies, get_default_graph
from tfdbg_cli.engines.numpy.nodes import Operation, Tensor
from tfdbg_cli.engines.numpy.ops.constants import as_tensor, zeros
from tfdbg_cli.engines.numpy.ops.math_ops import multiply
from tfdbg_cli.engines.numpy.ops.variables import Variable, group, trainable_variables
from tfdbg_cli.engines.numpy.registry import define, same_shape

if TYPE_CHECKING:
    from tfdbg_cli.engines.numpy.executor import RunStep, VariableRef

__all__ = ["AdamOptimizer", "GradientDescentOptimizer", "Optimizer"]

GradientsAndVariables = list[tuple[Tensor | None, Variable]]


class Optimizer(ABC):
    """Makes the nodes that move variables down a gradient.

    Args:
        name: of the operation that does it.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def minimize(
        self,
        loss: Tensor,
        global_step: Variable | None = None,
        var_list: Iterable[Variable] | None = None,
        name: str | None = None,
    ) -> Operation:
        """An operation that changes the variables so that the loss becomes smaller.

        Args:
            loss: a scalar.
            global_step: a variable that is counted up.
            var_list: the variables; default: all trainable ones.
            name: of the operation; default: the optimizer's.

        Raises:
            ValueError: the loss depends on none of the variables.
        """
        return self.apply_gradients(self.compute_gradients(loss, var_list), global_step, name)

    def compute_gradients(
        self, loss: Tensor, var_list: Iterable[Variable] | None = None
    ) -> GradientsAndVariables:
        """The gradient of the loss by each variable, ``None`` where there is none."""
        variables = list(trainable_variables() if var_list is None else var_list)
        variables = [variable for variable in variables if is_differentiable(variable.dtype)]
        if not variables:
            raise ValueError("There are no variables to optimize.")
        return list(zip(gradients(loss, variables), variables, strict=True))

    def apply_gradients(
        self,
        grads_and_vars: GradientsAndVariables,
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Operation:
        """An operation that changes the variables by gradients that were computed.

        Raises:
            ValueError: there is no gradient for any variable.
        """
        pairs = [(grad, variable) for grad, variable in grads_and_vars if grad is not None]
        if not pairs:
            names = ", ".join(variable.name for _, variable in grads_and_vars)
            raise ValueError(f"There is no gradient for any variable ({names}).")
        graph = get_default_graph()
        with control_dependencies(None):
            self._create_slots([variable for _, variable in pairs])
        with graph.name_scope(name or self._name) as scope:
            self._prepare()
            updates: list[Any] = []
            for grad, variable in pairs:
                with graph.name_scope("update_" + variable.op.name):
                    updates.append(self._apply(grad, variable))
            updates += self._finish(updates)
            if global_step is None:
                return group(*updates, name=scope)
            with control_dependencies([group(*updates, name="update")]):
                return global_step.assign_add(1, name=scope).op

    @abstractmethod
    def _create_slots(self, variables: list[Variable]) -> None:
        """Make the optimizer's own variables."""

    @abstractmethod
    def _prepare(self) -> None:
        """Make tensors of the optimizer's numbers."""

    @abstractmethod
    def _apply(self, grad: Tensor, variable: Variable) -> Tensor:
        """Make the node that changes one variable."""

    def _finish(self, updates: list[Any]) -> list[Any]:
        """Make what comes after all updates."""
        return []


class GradientDescentOptimizer(Optimizer):
    """``variable -= learning_rate * gradient``.

    Args:
        learning_rate: a number or a scalar tensor.
        name: of the operation.
    """

    def __init__(self, learning_rate: Any, name: str = "GradientDescent") -> None:
        super().__init__(name)
        self._learning_rate = learning_rate

    def _create_slots(self, variables: list[Variable]) -> None:
        pass

    def _prepare(self) -> None:
        self._rate = as_tensor(self._learning_rate, name="learning_rate")

    def _apply(self, grad: Tensor, variable: Variable) -> Tensor:
        ref = variable.as_graph_element()
        graph = get_default_graph()
        return graph.create_op(
            "ApplyGradientDescent", [ref, self._rate, grad], [ref.dtype]
        ).outputs[0]


class AdamOptimizer(Optimizer):
    """Adam (Kingma and Ba, 2015), in TensorFlow's form.

    At step t: ``m += (g - m) * (1 - beta1)``, ``v += (g * g - v) * (1 - beta2)``,
    ``variable -= learning_rate * sqrt(1 - beta2**t) / (1 - beta1**t) * m / (sqrt(v) + epsilon)``.

    Args:
        learning_rate: a number or a scalar tensor.
        beta1: decay of the mean gradient ``m``.
        beta2: decay of the mean square ``v``.
        epsilon: keeps the division finite.
        name: of the operation.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        name: str = "Adam",
    ) -> None:
        super().__init__(name)
        self._numbers = {
            "learning_rate": learning_rate,
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
        }
        self._powers: list[Variable] = []
        self._slots: dict[Variable, tuple[Variable, Variable]] = {}

    def _create_slots(self, variables: list[Variable]) -> None:
        graph = get_default_graph()
        if not self._powers:
            first = min(variables, key=lambda variable: variable.name)
            for which in ("beta1", "beta2"):
                value = np.asarray(self._numbers[which], first.dtype)
                self._powers.append(Variable(value, trainable=False, name=f"{which}_power"))
        for variable in variables:
            if variable not in self._slots:
                with graph.name_scope(None):
                    first_slot, second_slot = (self._slot(variable) for _ in range(2))
                self._slots[variable] = first_slot, second_slot

    def _slot(self, variable: Variable) -> Variable:
        shape = variable.shape
        if shape is None or None in shape:
            raise ValueError(f"Adam needs the shape of {variable.name}, which is {shape}.")
        sizes = [size or 0 for size in shape]
        return Variable(
            lambda: zeros(sizes, variable.dtype, name="Initializer/zeros"),
            trainable=False,
            name=f"{variable.op.name}/{self._name}",
        )

    def _prepare(self) -> None:
        self._tensors = [as_tensor(value, name=name) for name, value in self._numbers.items()]

    def _apply(self, grad: Tensor, variable: Variable) -> Tensor:
        refs = [item.as_graph_element() for item in (variable, *self._slots[variable])]
        powers = [power.value() for power in self._powers]
        graph = get_default_graph()
        return graph.create_op(
            "ApplyAdam", [*refs, *powers, *self._tensors, grad], [variable.dtype]
        ).outputs[0]

    def _finish(self, updates: list[Any]) -> list[Any]:
        _, beta1, beta2, _ = self._tensors
        made = []
        with control_dependencies(updates):
            grown = [
                multiply(power.value(), beta, name="mul")
                for power, beta in zip(self._powers, (beta1, beta2), strict=True)
            ]
        for power, value in zip(self._powers, grown, strict=True):
            made.append(power.assign(value))
        return made


def _descend_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> VariableRef:
    ref: VariableRef = inputs[0]
    rate, grad = inputs[1:]
    value = ref.read(op)
    if value.shape != grad.shape:
        raise ValueError(f"The gradient has shape {grad.shape}, the variable {value.shape}")
    return ref.write(np.asarray(value - rate * grad, value.dtype))


def _adam_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> VariableRef:
    ref: VariableRef = inputs[0]
    m_ref, v_ref, beta1_power, beta2_power, rate, beta1, beta2, epsilon, grad = inputs[1:]
    value, m, v = (item.read(op) for item in (ref, m_ref, v_ref))
    if value.shape != grad.shape:
        raise ValueError(f"The gradient has shape {grad.shape}, the variable {value.shape}")
    rate = rate * np.sqrt(1 - beta2_power) / (1 - beta1_power)
    m = m + (grad - m) * (1 - beta1)
    v = v + (grad * grad - v) * (1 - beta2)
    m_ref.write(np.asarray(m, value.dtype))
    v_ref.write(np.asarray(v, value.dtype))
    return ref.write(np.asarray(value - rate * m / (np.sqrt(v) + epsilon), value.dtype))


define("ApplyGradientDescent", _descend_kernel, same_shape, ref_inputs=1)
define("ApplyAdam", _adam_kernel, same_shape, ref_inputs=3)
