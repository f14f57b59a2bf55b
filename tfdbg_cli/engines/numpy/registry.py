"""The one table of op types: how each is computed, what shape it gives, how it is derived."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tfdbg_cli.engines.numpy.dtypes import Shape

if TYPE_CHECKING:
    from tfdbg_cli.engines.numpy.executor import RunStep
    from tfdbg_cli.engines.numpy.nodes import Operation, Tensor

__all__ = ["OPS", "Gradients", "Kernel", "OpDef", "define", "gradient", "pure", "same_shape"]

#: ``kernel(step, op, inputs)``: the output, or a sequence of them for an op with several.
Kernel: TypeAlias = "Callable[[RunStep, Operation, list[Any]], Any]"

#: One gradient, or ``None``, for each input of an op.
Gradients: TypeAlias = "Sequence[Tensor | None]"


class OpDef(NamedTuple):
    """One op type.

    Attributes:
        kernel: computes it. It never changes its inputs; it may return them or views of them.
        shape: ``shape(op)``, the static shape of each output; without it they are unknown.
        ref_inputs: how many of the first inputs are variables that it changes. An op that has such
            inputs gives the first of them.
        gradient: ``gradient(op, *of_outputs)`` makes the gradient nodes; without it there is none.
            The gradient of an output that nothing depends on is ``None``; an op with one output is
            never asked for that.
    """

    kernel: Kernel
    shape: Callable[[Operation], Sequence[Shape]] | None = None
    ref_inputs: int = 0
    gradient: Callable[..., Gradients] | None = None


#: Op type -> definition.
OPS: dict[str, OpDef] = {}


def define(op_type: str, *arguments: Any, **options: Any) -> None:
    """Add an op type to the table; the arguments are those of `OpDef`."""
    OPS[op_type] = OpDef(*arguments, **options)


def gradient(op_type: str) -> Callable[[Callable[..., Gradients]], None]:
    """Decorate the function that makes the gradient nodes of an op type."""

    def add(rule: Callable[..., Gradients]) -> None:
        OPS[op_type] = OPS[op_type]._replace(gradient=rule)

    return add


def pure(function: Callable[..., Any]) -> Kernel:
    """A kernel from a function of the input arrays alone."""
    return lambda step, op, inputs: function(*inputs)


def same_shape(op: Operation) -> list[Shape]:
    """The shape function of ops whose output is shaped like their first input."""
    return [op.inputs[0].shape]
