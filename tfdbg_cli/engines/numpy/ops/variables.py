"""Variables: values that a session keeps from run to run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.engines.numpy.dtypes import Array, compatible
from tfdbg_cli.engines.numpy.executor import RunStep
from tfdbg_cli.engines.numpy.graph import control_dependencies, get_default_graph
from tfdbg_cli.engines.numpy.nodes import Operand, Operation, Tensor
from tfdbg_cli.engines.numpy.ops.array_ops import as_tensor, build, identity
from tfdbg_cli.engines.numpy.registry import Kernel, define, same_shape

__all__ = [
    "Variable",
    "assign",
    "assign_add",
    "assign_sub",
    "global_variables",
    "global_variables_initializer",
    "group",
    "trainable_variables",
]


class Variable(Operand):
    """A value that a session keeps from run to run. It has none before its initializer was run.

    Its nodes are those of TensorFlow 1: ``name`` (the variable), ``name/initial_value``,
    ``name/Assign`` and ``name/read``.

    Args:
        initial_value: a value, a tensor, or a function that makes one.
        trainable: whether optimizers change it.
        name: of the variable node.

    Attributes:
        op: the variable node.
        initializer: the operation that gives it its initial value.
    """

    def __init__(self, initial_value: Any, trainable: bool = True, name: str | None = None) -> None:
        graph = get_default_graph()
        if graph.building.loop is not None:
            raise ValueError("A variable can't be made inside a loop; make it before.")
        with control_dependencies(None), graph.name_scope(name or "Variable") as scope:
            given = initial_value() if callable(initial_value) else initial_value
            self.initial_value = as_tensor(given, name="initial_value")
            static = self.initial_value.shape
            self._ref = build("VariableV2", [], self.initial_value.dtype, {"shape": static}, scope)
            self.op = self._ref.variable = self._ref.op
            self.initializer = _update("Assign", self._ref, self.initial_value, "Assign").op
            self._read = identity(self._ref, name="read")
        self.name, self.dtype, self.shape = self._ref.name, self._ref.dtype, self._ref.shape
        self.trainable = trainable
        graph.variables.append(self)

    def value(self) -> Tensor:
        return self._read

    def read_value(self) -> Tensor:
        """A new read, e.g. one that waits for an assignment (``control_dependencies``)."""
        return identity(self._ref, name="read")

    def as_graph_element(self) -> Tensor:
        return self._ref

    def assign(self, value: Any, name: str | None = None) -> Tensor:
        """A tensor that, when computed, replaces the value and gives the new one."""
        return _update("Assign", self._ref, value, name)

    def assign_add(self, delta: Any, name: str | None = None) -> Tensor:
        """A tensor that, when computed, adds to the value and gives the new one."""
        return _update("AssignAdd", self._ref, delta, name)

    def assign_sub(self, delta: Any, name: str | None = None) -> Tensor:
        """A tensor that, when computed, subtracts from the value and gives the new one."""
        return _update("AssignSub", self._ref, delta, name)

    def __repr__(self) -> str:
        return f"<Variable {self.name!r} shape={self.shape} dtype={self.dtype}>"


def _update(op_type: str, ref: Tensor, value: Any, name: str | None) -> Tensor:
    return build(op_type, [("ref", ref, None), ("value", value, 0)], name=name)


assign, assign_add, assign_sub = Variable.assign, Variable.assign_add, Variable.assign_sub


def global_variables() -> list[Variable]:
    """Every variable of the default graph."""
    return list(get_default_graph().variables)


def trainable_variables() -> list[Variable]:
    """The variables of the default graph that optimizers change."""
    return [variable for variable in get_default_graph().variables if variable.trainable]


def group(*inputs: Any, name: str | None = None) -> Operation:
    """An operation that is done when all the given tensors and operations are."""
    with control_dependencies(inputs):
        return get_default_graph().create_op("NoOp", [], [], name=name or "group_deps")


def global_variables_initializer() -> Operation:
    """An operation that gives every variable made so far its initial value."""
    return group(*(variable.initializer for variable in global_variables()), name="init")


def _updater(compute: Callable[[Array, Array], Any]) -> Kernel:
    def kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Array:
        ref, (read, given) = op.inputs[0], inputs
        assert ref.variable is not None
        # Another thread may have written the variable since it was read as an input. What is added
        # to is what it holds now, so that no addition is lost (as with TensorFlow's resources).
        with step.state.lock:
            old = step.state.variables.get(ref.variable, read)
            value = np.asarray(compute(old, given), ref.dtype)
            if not compatible(ref.shape, value.shape):
                raise ValueError(f"A value of shape {value.shape} can't be assigned to {ref!r}")
            step.state.write(ref, value)
        return value

    return kernel


def _variable_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Any:
    nothing = InconvertibleTensorProto(f"Uninitialized variable {op.name}", initialized=False)
    return step.state.variables.get(op, nothing)


define("VariableV2", _variable_kernel, lambda op: [op.attributes["shape"]])
define("Assign", _updater(lambda old, new: new), same_shape, ref_inputs=1)
define("AssignAdd", _updater(np.add), same_shape, ref_inputs=1)
define("AssignSub", _updater(np.subtract), same_shape, ref_inputs=1)
define("NoOp", lambda step, op, inputs: ())
