"""Random tensors, drawn from the session's stream in the order in which their nodes run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import Array, DType, as_dtype, float32, int32
from tfdbg_cli.engines.numpy.graph import get_default_graph
from tfdbg_cli.engines.numpy.nodes import Operation, Tensor
from tfdbg_cli.engines.numpy.ops.constants import as_tensor, as_vector, dims_shape
from tfdbg_cli.engines.numpy.ops.math_ops import add, multiply, subtract
from tfdbg_cli.engines.numpy.registry import Kernel, define

if TYPE_CHECKING:
    from tfdbg_cli.engines.numpy.executor import RunStep

__all__ = ["random_normal", "random_uniform", "set_random_seed", "truncated_normal"]


def set_random_seed(seed: int) -> None:
    """The seed of sessions on the default graph that are not given one of their own."""
    get_default_graph().seed = seed


def _draw(op_type: str, shape: Any, dtype: DType, seed: int | None) -> Tensor:
    dims = as_tensor(as_vector(shape), int32, "shape")
    attributes = {} if seed is None else {"seed": seed}
    return get_default_graph().create_op(op_type, [dims], [dtype], attributes).outputs[0]


def _normal(op_type: str, default_name: str, summary: str) -> Callable[..., Tensor]:
    def add_node(
        shape: Any,
        mean: Any = 0.0,
        stddev: Any = 1.0,
        dtype: Any = float32,
        seed: int | None = None,
        name: str | None = None,
    ) -> Tensor:
        wanted = as_dtype(dtype)
        with get_default_graph().name_scope(name or default_name) as scope:
            mean = as_tensor(mean, wanted, "mean")
            stddev = as_tensor(stddev, wanted, "stddev")
            drawn = _draw(op_type, shape, wanted, seed)
            return add(multiply(drawn, stddev, name="mul"), mean, name=scope)

    add_node.__doc__ = f"{summary} With a seed: from a stream of this node's own."
    return add_node


random_normal = _normal("RandomStandardNormal", "random_normal", "Normally distributed numbers.")
truncated_normal = _normal(
    "TruncatedNormal", "truncated_normal", "The same within two standard deviations."
)


def random_uniform(
    shape: Any,
    minval: Any = 0.0,
    maxval: Any = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Numbers evenly distributed from ``minval`` up to ``maxval``, without it."""
    wanted = as_dtype(dtype)
    with get_default_graph().name_scope(name or "random_uniform") as scope:
        low = as_tensor(minval, wanted, "min")
        high = as_tensor(maxval, wanted, "max")
        drawn = _draw("RandomUniform", shape, wanted, seed)
        spread = multiply(drawn, subtract(high, low, name="sub"), name="mul")
        return add(spread, low, name=scope)


def _truncated(stream: np.random.Generator, shape: tuple[int, ...]) -> Array:
    drawn = np.asarray(stream.standard_normal(shape))
    while (outside := np.abs(drawn) > 2).any():
        drawn[outside] = stream.standard_normal(int(outside.sum()))
    return drawn


def _kernel(draw: Callable[[np.random.Generator, tuple[int, ...]], Any]) -> Kernel:
    def kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Array:
        shape = tuple(int(size) for size in inputs[0])
        return np.asarray(draw(step.state.random_stream(op), shape))

    return kernel


#: Op type -> what is drawn from a stream.
RANDOM: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Any]] = {
    "RandomStandardNormal": lambda stream, shape: stream.standard_normal(shape),
    "RandomUniform": lambda stream, shape: stream.random(shape),
    "TruncatedNormal": _truncated,
}
for _op_type, _draw_from in RANDOM.items():
    define(_op_type, _kernel(_draw_from), dims_shape)
