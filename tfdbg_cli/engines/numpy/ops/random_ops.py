"""Random tensors, drawn from the session's stream in the order in which their nodes run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import Array, DType, Shape, as_dtype, float32, int32
from tfdbg_cli.engines.numpy.graph import get_default_graph
from tfdbg_cli.engines.numpy.nodes import Operation, Tensor
from tfdbg_cli.engines.numpy.ops.constants import as_tensor, constant_value
from tfdbg_cli.engines.numpy.ops.math_ops import add, multiply, subtract
from tfdbg_cli.engines.numpy.registry import define, no_gradient

if TYPE_CHECKING:
    from tfdbg_cli.engines.numpy.executor import RunStep

__all__ = ["random_normal", "random_uniform", "set_random_seed", "truncated_normal"]


def set_random_seed(seed: int) -> None:
    """The seed of sessions on the default graph that are not given one of their own."""
    get_default_graph().seed = seed


def _draw(op_type: str, shape: Any, dtype: DType, seed: int | None) -> Tensor:
    if isinstance(shape, list | tuple):
        shape = np.array(shape, np.int32)
    dims = as_tensor(shape, int32, "shape")
    attributes = {} if seed is None else {"seed": seed}
    return get_default_graph().create_op(op_type, [dims], [dtype], attributes).outputs[0]


def _normal(
    op_type: str,
    shape: Any,
    mean: Any,
    stddev: Any,
    dtype: Any,
    seed: int | None,
    name: str,
) -> Tensor:
    graph = get_default_graph()
    wanted = as_dtype(dtype)
    with graph.name_scope(name) as scope:
        mean = as_tensor(mean, wanted, "mean")
        stddev = as_tensor(stddev, wanted, "stddev")
        drawn = _draw(op_type, shape, wanted, seed)
        return add(multiply(drawn, stddev, name="mul"), mean, name=scope)


def random_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Normally distributed numbers.

    Args:
        shape: of the tensor.
        mean: of the distribution.
        stddev: its standard deviation.
        dtype: a floating type.
        seed: for a stream of this node's own; default: the session's stream.
        name: of the node.
    """
    return _normal(
        "RandomStandardNormal", shape, mean, stddev, dtype, seed, name or "random_normal"
    )


def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """As `random_normal`, but nothing beyond two standard deviations: such draws are repeated."""
    return _normal("TruncatedNormal", shape, mean, stddev, dtype, seed, name or "truncated_normal")


def random_uniform(
    shape: Any,
    minval: Any = 0.0,
    maxval: Any = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Numbers evenly distributed from ``minval`` up to ``maxval``, without it."""
    graph = get_default_graph()
    wanted = as_dtype(dtype)
    with graph.name_scope(name or "random_uniform") as scope:
        low = as_tensor(minval, wanted, "min")
        high = as_tensor(maxval, wanted, "max")
        drawn = _draw("RandomUniform", shape, wanted, seed)
        spread = multiply(drawn, subtract(high, low, name="sub"), name="mul")
        return add(spread, low, name=scope)


def _kernel(draw: Callable[[np.random.Generator, tuple[int, ...]], Array]) -> Any:
    def kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Array:
        return draw(step.state.random_stream(op), tuple(int(size) for size in inputs[0]))

    return kernel


def _truncated(stream: np.random.Generator, shape: tuple[int, ...]) -> Array:
    drawn = stream.standard_normal(shape)
    while (outside := np.abs(drawn) > 2).any():
        drawn = np.asarray(drawn)
        drawn[outside] = stream.standard_normal(int(outside.sum()))
    return np.asarray(drawn)


def _drawn_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    known = constant_value(inputs[0])
    return [None if known is None else tuple(int(size) for size in known)]


define(
    "RandomStandardNormal",
    _kernel(lambda stream, shape: np.asarray(stream.standard_normal(shape))),
    _drawn_shape,
)
define(
    "RandomUniform", _kernel(lambda stream, shape: np.asarray(stream.random(shape))), _drawn_shape
)
define("TruncatedNormal", _kernel(_truncated), _drawn_shape)
no_gradient("RandomStandardNormal", "RandomUniform", "TruncatedNormal")
