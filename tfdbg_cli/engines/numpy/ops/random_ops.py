"""Random tensors, drawn from the session's stream in the order in which their nodes run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import Array, DType, as_dtype, float32, int32
from tfdbg_cli.engines.numpy.graph import get_default_graph
from tfdbg_cli.engines.numpy.nodes import Operation, Tensor
from tfdbg_cli.engines.numpy.ops.array_ops import as_tensor, node, none, told_shape
from tfdbg_cli.engines.numpy.ops.math_ops import add, multiply, subtract
from tfdbg_cli.engines.numpy.registry import define

if TYPE_CHECKING:
    from tfdbg_cli.engines.numpy.executor import RunStep

__all__ = ["random_uniform", "set_random_seed", "truncated_normal"]


def set_random_seed(seed: int) -> None:
    """The seed of sessions on the default graph that are not given one of their own."""
    get_default_graph().seed = seed


def truncated_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = float32, name: str | None = None
) -> Tensor:
    """Normally distributed numbers within two standard deviations."""
    wanted = as_dtype(dtype)
    with get_default_graph().name_scope(name or "truncated_normal") as scope:
        mean = as_tensor(mean, wanted, "mean")
        stddev = as_tensor(stddev, wanted, "stddev")
        drawn = _draw("TruncatedNormal", shape, wanted)
        return add(multiply(drawn, stddev, name="mul"), mean, name=scope)


def random_uniform(
    shape: Any, minval: Any = 0.0, maxval: Any = 1.0, dtype: Any = float32, name: str | None = None
) -> Tensor:
    """Numbers evenly distributed from ``minval`` up to ``maxval``, without it."""
    wanted = as_dtype(dtype)
    with get_default_graph().name_scope(name or "random_uniform") as scope:
        low = as_tensor(minval, wanted, "min")
        high = as_tensor(maxval, wanted, "max")
        drawn = _draw("RandomUniform", shape, wanted)
        spread = multiply(drawn, subtract(high, low, name="sub"), name="mul")
        return add(spread, low, name=scope)


def _draw(op_type: str, shape: Any, dtype: DType) -> Tensor:
    return node(op_type, [as_tensor(shape, int32, "shape")], dtype)


def _truncated(stream: np.random.Generator, shape: tuple[int, ...]) -> Array:
    drawn = np.asarray(stream.standard_normal(shape))
    while (outside := np.abs(drawn) > 2).any():
        drawn[outside] = stream.standard_normal(int(outside.sum()))
    return drawn


def _define(op_type: str, draw: Callable[[np.random.Generator, tuple[int, ...]], Any]) -> None:
    def kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Any:
        return draw(step.state.stream, tuple(int(size) for size in inputs[0]))

    define(op_type, kernel, lambda op: [told_shape(op.inputs[0])], gradient=none)


_define("TruncatedNormal", _truncated)
_define("RandomUniform", lambda stream, shape: stream.random(shape))
