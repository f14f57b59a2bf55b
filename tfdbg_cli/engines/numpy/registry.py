"""The one table of op types: how each is computed, what shape it gives, how it is derived."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from tfdbg_cli.engines.numpy.dtypes import Array, Shape

if TYPE_CHECKING:
    from tfdbg_cli.engines.numpy.executor import RunStep
    from tfdbg_cli.engines.numpy.nodes import Operation, Tensor

__all__ = ["OPS", "Kernel", "OpDef", "define", "gradient", "pure", "same_shape", "scalar_shape"]

#: ``kernel(step, op, inputs)``: the output, or a sequence of them for an op with several.
Kernel: TypeAlias = "Callable[[RunStep, Operation, list[Any]], Any]"

#: ``shape(inputs, attributes)``: the static shape of each output.
ShapeFunction: TypeAlias = "Callable[[Sequence[Tensor], Mapping[str, Any]], Sequence[Shape]]"

#: ``rule(op, *output_gradients)``: one gradient (or ``None``) for each input. The gradient of an
#: output that nothing depends on is ``None``; an op with one output is never asked for that.
Gradient: TypeAlias = "Callable[..., Sequence[Tensor | None]]"


@dataclass(frozen=True)
class OpDef:
    """One op type.

    Attributes:
        kernel: computes it. It never changes its inputs; it may return them or views of them.
        shape: infers static shapes; without it they are unknown.
        ref_inputs: how many of the first inputs the kernel gets as variables, not as values.
        has_effects: the kernel does what nobody can undo: it calls a function of the program's.
        gradient: makes the gradient nodes; without it there is none.
    """

    kernel: Kernel
    shape: ShapeFunction | None = None
    ref_inputs: int = 0
    has_effects: bool = False
    gradient: Gradient | None = None


#: Op type -> definition.
OPS: dict[str, OpDef] = {}


def define(
    op_type: str, kernel: Kernel, shape: ShapeFunction | None = None, **options: Any
) -> None:
    """Add an op type to the table; the options are those of `OpDef`."""
    OPS[op_type] = OpDef(kernel, shape, **options)


def gradient(*op_types: str) -> Callable[[Gradient], Gradient]:
    """Decorate the function that makes the gradient nodes of some op types."""

    def add(rule: Gradient) -> Gradient:
        for op_type in op_types:
            OPS[op_type] = replace(OPS[op_type], gradient=rule)
        return rule

    return add


def pure(function: Callable[..., Array | Sequence[Array]]) -> Kernel:
    """A kernel from a function of the input arrays alone."""
    return lambda step, op, inputs: function(*inputs)


def same_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    """The shape function of ops whose output is shaped like their first input."""
    return [inputs[0].shape]


def scalar_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    """The shape function of ops that give a scalar."""
    return [()]
