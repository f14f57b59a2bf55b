"""What Python's operators mean on tensors and variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfdbg_cli.engines.numpy.nodes import Operand, Tensor
from tfdbg_cli.engines.numpy.ops import math_ops

__all__: list[str] = []

_ARITHMETIC = {
    "add": math_ops.add,
    "sub": math_ops.subtract,
    "mul": math_ops.multiply,
    "truediv": math_ops.divide,
    "floordiv": math_ops.floordiv,
    "mod": math_ops.mod,
    "pow": math_ops.pow,
    "matmul": math_ops.matmul,
}
_OTHERS = {
    "lt": math_ops.less,
    "le": math_ops.less_equal,
    "gt": math_ops.greater,
    "ge": math_ops.greater_equal,
    "neg": math_ops.negative,
}


def _reflected(function: Callable[..., Tensor], name: str) -> Callable[[Any, Any], Tensor]:
    return lambda self, other: function(other, self, name=name)


def _named(function: Callable[..., Tensor], name: str) -> Callable[[Any, Any], Tensor]:
    return lambda self, other: function(self, other, name=name)


for _name, _function in _ARITHMETIC.items():
    setattr(Operand, f"__{_name}__", _named(_function, _name))
    setattr(Operand, f"__r{_name}__", _reflected(_function, _name))
for _name, _function in _OTHERS.items():
    setattr(Operand, f"__{_name}__", _function)
