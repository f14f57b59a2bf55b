"""Arithmetic, comparisons, Python's operators, matrix products, what reduces dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import (
    Array,
    DType,
    Shape,
    as_dtype,
    bool_,
    broadcast_shapes,
    dtype_name,
    int32,
    int64,
)
from tfdbg_cli.engines.numpy.graph import get_default_graph
from tfdbg_cli.engines.numpy.nodes import Operand, Operation, Tensor
from tfdbg_cli.engines.numpy.ops.constants import (
    as_tensor,
    as_vector,
    build,
    constant,
    constant_value,
)
from tfdbg_cli.engines.numpy.registry import define, pure, same_shape, scalar_shape

if TYPE_CHECKING:
    from tfdbg_cli.engines.numpy.executor import RunStep

__all__ = [
    "add",
    "argmax",
    "cast",
    "check_numerics",
    "divide",
    "equal",
    "exp",
    "floor",
    "floordiv",
    "greater",
    "less",
    "log",
    "matmul",
    "multiply",
    "negative",
    "reduce_mean",
    "reduce_sum",
    "sqrt",
    "square",
    "subtract",
    "tanh",
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
exp = unary("Exp", np.exp, "``e ** x``.")
log = unary("Log", np.log, "Natural logarithm.")
sqrt = unary("Sqrt", np.sqrt, "Square root.")
square = unary("Square", np.square, "``x * x``.")
floor = unary("Floor", np.floor, "The integer at or below.")
tanh = unary("Tanh", np.tanh, "Hyperbolic tangent.")


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

    define(op_type, pure(compute), _broadcast_shape)
    add_node.__doc__ = f"{summary} With broadcasting."
    return add_node


def _broadcast_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    return [broadcast_shapes([tensor.shape for tensor in inputs])]


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
    wanted = as_dtype(dtype)
    graph = get_default_graph()
    with graph.name_scope(name or "Cast") as scope:
        tensor = as_tensor(x, name="x")
        if tensor.dtype == wanted:
            return tensor
        return graph.create_op("Cast", [tensor], [wanted], {"DstT": wanted}, scope).outputs[0]


def add_n(tensors: Sequence[Tensor]) -> Tensor:
    """The sum of tensors of one shape and type."""
    return get_default_graph().create_op("AddN", tensors, [tensors[0].dtype]).outputs[0]


def check_numerics(tensor: Any, message: str, name: str | None = None) -> Tensor:
    """The tensor itself; the run fails with ``message`` if an element is NaN or infinite."""
    return build("CheckNumerics", [("tensor", tensor, None)], 0, {"message": message}, name)


def matmul(
    a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, name: str | None = None
) -> Tensor:
    """The product of two matrices, each transposed before if that is asked for."""
    flags = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    return build("MatMul", [("a", a, None), ("b", b, 0)], 0, flags, name)


def _matmul_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Array:
    a, b = inputs
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError(f"Matrices are needed, the inputs have {a.ndim} and {b.ndim} dimensions")
    a = a.T if op.attributes["transpose_a"] else a
    b = b.T if op.attributes["transpose_b"] else b
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"Matrix sizes don't fit: {a.shape[1]} columns times {b.shape[0]} rows")
    return np.asarray(a @ b)


def _matmul_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    sides: list[tuple[int | None, int | None]] = []
    for tensor, flag in zip(inputs, ("transpose_a", "transpose_b"), strict=True):
        if tensor.shape is None:
            sides.append((None, None))
            continue
        if len(tensor.shape) != 2:
            raise ValueError(f"A matrix is needed, {tensor.name} has shape {tensor.shape}.")
        rows, columns = tensor.shape
        sides.append((columns, rows) if attributes[flag] else (rows, columns))
    (rows, inner), (other, columns) = sides
    if inner is not None and other is not None and inner != other:
        raise ValueError(f"Matrix sizes don't fit: {inner} columns times {other} rows.")
    return [(rows, columns)]


def _check_numerics_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Array:
    value: Array = inputs[0]
    found = [word for word, test in (("NaN", np.isnan), ("Inf", np.isinf)) if test(value).any()]
    if found:
        raise ValueError(f"{op.attributes['message']}: the tensor has {' and '.join(found)} values")
    return value


def _reduction(
    op_type: str, compute: Callable[[Array, tuple[int, ...], bool], Any], summary: str
) -> Callable[..., Tensor]:
    """Define a reduction and return the function that adds it to a graph."""

    def add_node(
        input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
    ) -> Tensor:
        tensor = as_tensor(input_tensor)
        # As in TensorFlow: the axes of a full reduction are a node beside it, others one below.
        axis = _all_axes(tensor) if axis is None else as_vector(axis)
        inputs = [("input_tensor", tensor, None), ("reduction_indices", axis, int32)]
        return build(op_type, inputs, 0, {"keep_dims": keepdims}, name)

    def kernel(step: Any, op: Operation, inputs: list[Any]) -> Any:
        axes = tuple(int(at) for at in np.ravel(inputs[1]))
        return compute(inputs[0], axes, op.attributes["keep_dims"])

    define(op_type, kernel, _reduced_shape)
    add_node.__doc__ = f"{summary} Over some dimensions or all; kept with size 1 if asked for."
    return add_node


def _all_axes(tensor: Tensor) -> Tensor:
    if tensor.shape is not None:
        return constant(np.arange(len(tensor.shape), dtype=np.int32))
    rank = get_default_graph().create_op("Rank", [tensor], [int32]).outputs[0]
    inputs = [("start", 0, int32), ("limit", rank, int32), ("delta", 1, int32)]
    return build("Range", inputs, name="range")


def _sum(value: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    return np.sum(value, axis=axes, keepdims=keepdims, dtype=value.dtype)


def _mean(value: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    total = np.asarray(_sum(value, axes, keepdims))
    count = np.prod([value.shape[at] for at in axes], dtype=np.int64)
    divide = np.floor_divide if value.dtype.kind in "iu" else np.true_divide
    return divide(total, count.astype(value.dtype))


def _reduced_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    source, axes = inputs[0].shape, constant_value(inputs[1])
    keep = attributes.get("keep_dims", False)
    if source is None or axes is None:
        return [None if source is None or not keep else (None,) * len(source)]
    count = len(source)
    for at in np.ravel(axes):
        if not -count <= at < count:
            raise ValueError(f"There is no dimension {at} in shape {source}.")
    gone = {int(at) % count for at in np.ravel(axes)}
    if keep:
        return [tuple(1 if at in gone else size for at, size in enumerate(source))]
    return [tuple(size for at, size in enumerate(source) if at not in gone)]


reduce_sum = _reduction("Sum", _sum, "The sum.")
reduce_mean = _reduction("Mean", _mean, "The mean; NaN of no elements.")


def argmax(input: Any, axis: int = 0, output_type: Any = int64, name: str | None = None) -> Tensor:
    """The index of the largest element (the first of equals) along a dimension."""
    inputs = [("input", input, None), ("dimension", axis, int32)]
    return build("ArgMax", inputs, as_dtype(output_type), None, name)


def _kept(shape: Array, axes: Array) -> Array:
    """A shape with size 1 in the dimensions that are reduced."""
    made = np.array(shape)
    made[np.ravel(axes)] = 1
    return made


define("Cast", lambda step, op, inputs: inputs[0].astype(op.attributes["DstT"]), same_shape)
define("AddN", lambda step, op, inputs: sum(inputs[1:], inputs[0]), same_shape)
define("CheckNumerics", _check_numerics_kernel, same_shape)
define("MatMul", _matmul_kernel, _matmul_shape)
define("Rank", lambda step, op, inputs: inputs[0].ndim, scalar_shape)
define("Range", pure(np.arange), lambda inputs, attributes: [(None,)])
define("ReducedShape", pure(_kept), same_shape)
define("ArgMax", pure(lambda value, axis: np.argmax(value, axis=int(axis))), _reduced_shape)

for _name in __all__:
    globals()[_name].__name__ = globals()[_name].__qualname__ = _name


def _named(function: Callable[..., Tensor], name: str) -> Callable[[Any, Any], Tensor]:
    return lambda self, other: function(self, other, name=name)


def _reflected(function: Callable[..., Tensor], name: str) -> Callable[[Any, Any], Tensor]:
    return lambda self, other: function(other, self, name=name)


_OPERATORS = {
    "add": add,
    "sub": subtract,
    "mul": multiply,
    "truediv": divide,
    "floordiv": floordiv,
    "matmul": matmul,
}
for _name, _function in _OPERATORS.items():
    setattr(Operand, f"__{_name}__", _named(_function, _name))
    setattr(Operand, f"__r{_name}__", _reflected(_function, _name))
for _name, _function in {"lt": less, "gt": greater, "neg": negative}.items():
    setattr(Operand, f"__{_name}__", _function)
