"""What Python's operators mean on tensors and variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfdbg_cli.engines.numpy.nodes import Operand, Tensor
from tfdbg_cli.engines.numpy.ops import math_ops
from tfdbg_cli.engines.numpy.ops.array_ops import strided_slice

__all__ = ["OPERATORS"]


def _plain(build: Callable[..., Tensor], name: str) -> Callable[[Any, Any], Tensor]:
    return lambda self, other: build(self, other, name=name)


def _reflected(build: Callable[..., Tensor], name: str) -> Callable[[Any, Any], Tensor]:
    return lambda self, other: build(other, self, name=name)


_ARITHMETIC = {
    "add": (math_ops.add, "add"),
    "sub": (math_ops.subtract, "sub"),
    "mul": (math_ops.multiply, "mul"),
    "truediv": (math_ops.divide, "truediv"),
    "floordiv": (math_ops.floordiv, "floordiv"),
    "mod": (math_ops.mod, "mod"),
    "pow": (math_ops.pow, "pow"),
    "matmul": (math_ops.matmul, "matmul"),
    "and": (math_ops.logical_and, "and"),
    "or": (math_ops.logical_or, "or"),
}

#: Special method -> what it does.
OPERATORS: dict[str, Callable[..., Any]] = {
    **{f"__{key}__": _plain(*entry) for key, entry in _ARITHMETIC.items()},
    **{f"__r{key}__": _reflected(*entry) for key, entry in _ARITHMETIC.items()},
    "__lt__": _plain(math_ops.less, "Less"),
    "__le__": _plain(math_ops.less_equal, "LessEqual"),
    "__gt__": _plain(math_ops.greater, "Greater"),
    "__ge__": _plain(math_ops.greater_equal, "GreaterEqual"),
    "__neg__": math_ops.negative,
    "__abs__": math_ops.abs,
    "__invert__": math_ops.logical_not,
    "__getitem__": strided_slice,
}

for _name, _function in OPERATORS.items():
    setattr(Operand, _name, _function)
