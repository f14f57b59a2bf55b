"""Arithmetic, comparisons, operators, matrix products, reductions, random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import (
    Array,
    DType,
    Shape,
    as_dtype,
    bool_,
    dtype_name,
    float32,
    int32,
    int64,
    is_differentiable,
    is_fully_known,
)
from tfdbg_cli.engines.numpy.executor import RunStep
from tfdbg_cli.engines.numpy.graph import get_default_graph
from tfdbg_cli.engines.numpy.nodes import Operand, Operation, Tensor
from tfdbg_cli.engines.numpy.ops.array_ops import (
    as_tensor,
    broadcast_shape,
    build,
    constant,
    constant_value,
    node,
    none,
    reshape,
    shape,
    size,
    told_shape,
)
from tfdbg_cli.engines.numpy.registry import Gradients, define, gradient, pure, same_shape

__all__ = [
    "add",
    "argmax",
    "cast",
    "check_numerics",
    "divide",
    "equal",
    "floordiv",
    "greater",
    "less",
    "log",
    "matmul",
    "multiply",
    "negative",
    "random_uniform",
    "reduce_mean",
    "reduce_sum",
    "set_random_seed",
    "square",
    "subtract",
    "truncated_normal",
]


def unary(op_type: str, compute: Callable[[Array], Array], summary: str) -> Callable[..., Tensor]:
    """Define an elementwise op of one input and return the function that adds it to a graph."""

    def add_node(x: Any, name: str | None = None) -> Tensor:
        return build(op_type, [("x", x, None)], name=name)

    define(op_type, pure(compute), same_shape)
    add_node.__doc__ = summary
    return add_node


negative = unary("Neg", np.negative, "``-x``.")
reciprocal = unary("Reciprocal", np.reciprocal, "``1 / x``.")
log = unary("Log", np.log, "Natural logarithm.")
square = unary("Square", np.square, "``x * x``.")


def _binary(
    op_type: str,
    compute: Callable[[Array, Array], Array],
    summary: str,
    default_name: str | None = None,
    dtype: DType | int = 0,
) -> Callable[..., Tensor]:
    """Define an elementwise op of two inputs, with broadcasting, and return its function."""

    def add_node(x: Any, y: Any, name: str | None = None) -> Tensor:
        inputs: list[Any] = [("x", x, None), ("y", y, 0)]
        if not isinstance(x, Operand) and isinstance(y, Operand):
            y = y.value()  # a Python value takes the type of the other one
            inputs = [("x", x, y.dtype), ("y", y, None)]
        return build(op_type, inputs, dtype, name=name or default_name)

    define(op_type, pure(compute), broadcast_shape)
    add_node.__doc__ = f"{summary} With broadcasting."
    return add_node


def _divide(x: Array, y: Array) -> Array:
    if x.dtype.kind not in "iub":
        return np.asarray(np.true_divide(x, y))
    raise TypeError(f"{dtype_name(x.dtype)} can't be divided exactly; use floordiv() or cast()")


def _floordiv(x: Array, y: Array) -> Array:
    if y.dtype.kind in "iu" and not np.all(y):  # NumPy would give 0
        raise ZeroDivisionError("Integer division by zero")
    return np.asarray(np.floor_divide(x, y))


add = _binary("AddV2", np.add, "``x + y``.", "Add")
subtract = _binary("Sub", np.subtract, "``x - y``.")
multiply = _binary("Mul", np.multiply, "``x * y``.")
divide = _binary("RealDiv", _divide, "``x / y``.", "truediv")
floordiv = _binary("FloorDiv", _floordiv, "``x // y``.", "floordiv")
maximum = _binary("Maximum", np.maximum, "The larger one.")
equal = _binary("Equal", np.equal, "``x == y``.", dtype=bool_)
greater = _binary("Greater", np.greater, "``x > y``.", dtype=bool_)
less = _binary("Less", np.less, "``x < y``.", dtype=bool_)


def cast(x: Any, dtype: Any, name: str | None = None) -> Tensor:
    """A tensor in another element type; itself if it has that type already."""
    tensor, wanted = as_tensor(x, name="x"), as_dtype(dtype)
    if tensor.dtype == wanted:
        return tensor
    return build("Cast", [("x", tensor, None)], wanted, {"DstT": wanted}, name)


def check_numerics(tensor: Any, message: str, name: str | None = None) -> Tensor:
    """The tensor itself; the run fails with ``message`` if an element is NaN or infinite."""
    return build("CheckNumerics", [("tensor", tensor, None)], 0, {"message": message}, name)


def _check_numerics_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Array:
    value: Array = inputs[0]
    found = [word for word, test in (("NaN", np.isnan), ("Inf", np.isinf)) if test(value).any()]
    if found:
        raise ValueError(f"{op.attributes['message']}: the tensor has {' and '.join(found)} values")
    return value


def matmul(
    a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, name: str | None = None
) -> Tensor:
    """The product of two matrices, each transposed before if that is asked for."""
    flags = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    return build("MatMul", [("a", a, None), ("b", b, 0)], 0, flags, name)


def _matmul_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Array:
    _product_shape(op, inputs[0].shape, inputs[1].shape)
    a, b = (
        value.T if flag else value
        for value, flag in zip(inputs, op.attributes.values(), strict=True)
    )
    return np.asarray(a @ b)


def _product_shape(op: Operation, *shapes: Shape) -> list[Shape]:
    if any(shape is not None and len(shape) != 2 for shape in shapes):
        raise ValueError(f"Matrices are needed, the inputs have shapes {shapes[0]} and {shapes[1]}")
    (rows, inner), (other, columns) = (
        (shape or (None, None))[:: -1 if flag else 1]
        for shape, flag in zip(shapes, op.attributes.values(), strict=True)
    )
    if inner is not None and other is not None and inner != other:
        raise ValueError(f"Matrix sizes don't fit: {inner} columns times {other} rows")
    return [(rows, columns)]


def _reduction(
    op_type: str, compute: Callable[[Array, tuple[int, ...], bool], Any], summary: str
) -> Callable[..., Tensor]:
    """Define a reduction and return the function that adds it to a graph."""

    def add_node(
        input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
    ) -> Tensor:
        tensor = as_tensor(input_tensor)
        inputs: list[Any] = [("input_tensor", tensor, None)]
        if axis is not None:
            inputs.append(("reduction_indices", axis, int32))
        elif tensor.shape is not None:
            # As in TensorFlow: the axes of a full reduction are a node beside it, others one below.
            axes = constant(np.arange(len(tensor.shape), dtype=np.int32))
            inputs.append(("reduction_indices", axes, int32))
        return build(op_type, inputs, 0, {"keep_dims": keepdims}, name)

    def kernel(step: Any, op: Operation, inputs: list[Any]) -> Any:
        return compute(inputs[0], _axes(inputs[0].ndim, *inputs[1:]), op.attributes["keep_dims"])

    define(op_type, kernel, _reduced_shape)
    add_node.__doc__ = f"{summary} Over some dimensions or all; kept with size 1 if asked for."
    return add_node


def _axes(rank: int, given: Array | None = None) -> tuple[int, ...]:
    """The dimensions that are reduced: those given, or all."""
    axes = range(rank) if given is None else [int(axis) for axis in np.ravel(given)]
    for axis in axes:
        if not -rank <= axis < rank:
            raise ValueError(f"There is no dimension {axis}, there are {rank}.")
    return tuple(axis % rank for axis in axes)


def _reduced_shape(op: Operation) -> list[Shape]:
    source, *axes = op.inputs[0].shape, *map(constant_value, op.inputs[1:])
    keep = op.attributes.get("keep_dims", False)
    if source is None or any(each is None for each in axes):
        return [None if source is None or not keep else (None,) * len(source)]
    gone = _axes(len(source), *axes)
    sizes = [1 if at in gone else size for at, size in enumerate(source)]
    return [tuple(size for at, size in enumerate(sizes) if keep or at not in gone)]


def _sum(value: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    return np.sum(value, axis=axes, keepdims=keepdims, dtype=value.dtype)


def _mean(value: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    count = np.prod([value.shape[at] for at in axes], dtype=np.int64).astype(value.dtype)
    divide = np.floor_divide if value.dtype.kind in "iu" else np.true_divide
    return divide(_sum(value, axes, keepdims), count)


reduce_sum = _reduction("Sum", _sum, "The sum.")
reduce_mean = _reduction("Mean", _mean, "The mean; NaN of no elements.")


def argmax(input: Any, axis: int = 0, output_type: Any = int64, name: str | None = None) -> Tensor:
    """The index of the largest element (the first of equals) along a dimension."""
    inputs = [("input", input, None), ("dimension", axis, int32)]
    return build("ArgMax", inputs, as_dtype(output_type), None, name)


def _kept(shape: Array, *axes: Array) -> Array:
    """A shape with size 1 in the dimensions that are reduced."""
    made = np.array(shape)
    made[list(_axes(len(shape), *axes))] = 1
    return made


def _repeated(one: Array, other: Array) -> list[Array]:
    """For two shapes: the dimensions along which each is repeated to reach their common shape."""
    rank = max(len(one), len(other))
    padded = [np.concatenate([np.ones(rank - len(s), np.int32), s]) for s in (one, other)]
    common = np.where(padded[0] == 1, padded[1], padded[0])
    return [
        np.flatnonzero((np.arange(rank) < rank - len(source)) | ((size == 1) & (common != 1)))
        for source, size in zip((one, other), padded, strict=True)
    ]


define("Cast", lambda step, op, inputs: inputs[0].astype(op.attributes["DstT"]), same_shape)
define("AddN", lambda step, op, inputs: sum(inputs[1:], inputs[0]), same_shape)
define("CheckNumerics", _check_numerics_kernel, same_shape)
define("MatMul", _matmul_kernel, lambda op: _product_shape(op, *(each.shape for each in op.inputs)))
define("ReducedShape", pure(_kept), same_shape)
define("ArgMax", pure(lambda value, axis: np.argmax(value, axis=int(axis))), _reduced_shape)
define("BroadcastGradientArgs", pure(_repeated), lambda op: [(None,)] * 2)


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
        drawn = node("TruncatedNormal", [as_tensor(shape, int32, "shape")], wanted)
        return add(multiply(drawn, stddev, name="mul"), mean, name=scope)


def random_uniform(
    shape: Any, minval: Any = 0.0, maxval: Any = 1.0, dtype: Any = float32, name: str | None = None
) -> Tensor:
    """Numbers evenly distributed from ``minval`` up to ``maxval``, without it."""
    wanted = as_dtype(dtype)
    with get_default_graph().name_scope(name or "random_uniform") as scope:
        low = as_tensor(minval, wanted, "min")
        high = as_tensor(maxval, wanted, "max")
        drawn = node("RandomUniform", [as_tensor(shape, int32, "shape")], wanted)
        spread = multiply(drawn, subtract(high, low, name="sub"), name="mul")
        return add(spread, low, name=scope)


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

for _name in __all__:
    globals()[_name].__name__ = globals()[_name].__qualname__ = _name


_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "matmul")
_FUNCTIONS = (add, subtract, multiply, divide, floordiv, matmul)
for _name, _function in zip(_OPERATORS, _FUNCTIONS, strict=True):
    setattr(Operand, f"__{_name}__", lambda x, y, f=_function, name=_name: f(x, y, name=name))
    setattr(Operand, f"__r{_name}__", lambda x, y, f=_function, name=_name: f(y, x, name=name))
for _name, _function in {"lt": less, "gt": greater, "neg": negative}.items():
    setattr(Operand, f"__{_name}__", _function)


def _broadcast(op: Operation, by_x: Tensor, by_y: Tensor) -> Gradients:
    """Sum the gradients of a broadcasting op over the dimensions its inputs were repeated in."""
    x, y = op.inputs
    if x is y or (is_fully_known(x.shape) and x.shape == y.shape):
        return [by_x, by_y]
    shapes, graph = [shape(x), shape(y)], get_default_graph()
    repeated = graph.create_op("BroadcastGradientArgs", shapes, [int32, int32]).outputs
    return [
        reshape(reduce_sum(grad, axes), target)
        for grad, axes, target in zip((by_x, by_y), repeated, shapes, strict=True)
    ]


def _spread(op: Operation, tensor: Tensor) -> Tensor:
    """A tensor of a reduction's output shape, repeated to the shape of the reduction's input."""
    whole = shape(op.inputs[0])
    if not op.attributes["keep_dims"]:
        tensor = reshape(tensor, node("ReducedShape", [whole, *op.inputs[1:]]))
    return build("BroadcastTo", [("input", tensor, None), ("shape", whole, None)])


gradient("CheckNumerics")(lambda op, grad: [grad])
gradient("Neg")(lambda op, grad: [negative(grad)])
gradient("Log")(lambda op, grad: [multiply(grad, reciprocal(op.inputs[0]), name="mul")])
gradient("Reciprocal")(lambda op, grad: [multiply(negative(grad), square(op.outputs[0]))])
gradient("Square")(lambda op, grad: [multiply(grad, multiply(op.inputs[0], 2))])
gradient("AddV2")(lambda op, grad: _broadcast(op, grad, grad))
gradient("Sub")(lambda op, grad: _broadcast(op, grad, negative(grad)))
gradient("AddN")(lambda op, grad: [grad] * len(op.inputs))
gradient("Sum")(lambda op, grad: [_spread(op, grad), None][: len(op.inputs)])
gradient("FloorDiv")(none)


@gradient("Mul")
def _by_factors(op: Operation, grad: Tensor) -> Gradients:
    x, y = op.inputs
    return _broadcast(op, multiply(grad, y), multiply(x, grad))


@gradient("RealDiv")
def _by_quotient(op: Operation, grad: Tensor) -> Gradients:
    x, y = op.inputs
    by_y = multiply(grad, divide(divide(negative(x), y, name="RealDiv"), y, name="RealDiv"))
    return _broadcast(op, divide(grad, y, name="RealDiv"), by_y)


@gradient("Cast")
def _by_cast(op: Operation, grad: Tensor) -> Gradients:
    source = op.inputs[0].dtype
    return [cast(grad, source) if is_differentiable(source) else None]


@gradient("MatMul")
def _by_matrices(op: Operation, grad: Tensor) -> Gradients:
    (a, b), (flip_a, flip_b) = op.inputs, op.attributes.values()
    by_a = matmul(b, grad, flip_b, True) if flip_a else matmul(grad, b, False, not flip_b)
    by_b = matmul(grad, a, True, flip_a) if flip_b else matmul(a, grad, not flip_a)
    return [by_a, by_b]


@gradient("Mean")
def _by_mean(op: Operation, grad: Tensor) -> Gradients:
    # How many elements each mean is of; 1 instead of 0 if there is nothing at all.
    count = floordiv(size(op.inputs[0]), maximum(size(op.outputs[0]), 1))
    return [divide(_spread(op, grad), cast(count, grad.dtype)), None][: len(op.inputs)]
