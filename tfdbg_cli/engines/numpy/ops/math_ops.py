"""Elementwise arithmetic, comparisons and matrix products."""

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
)
from tfdbg_cli.engines.numpy.graph import get_default_graph
from tfdbg_cli.engines.numpy.nodes import Operand, Operation, Tensor
from tfdbg_cli.engines.numpy.ops.constants import as_tensor
from tfdbg_cli.engines.numpy.registry import define, pure, same_shape

if TYPE_CHECKING:
    from tfdbg_cli.engines.numpy.executor import RunStep

__all__ = [
    "abs",
    "add",
    "add_n",
    "cast",
    "check_numerics",
    "cos",
    "divide",
    "equal",
    "exp",
    "floor",
    "floordiv",
    "greater",
    "greater_equal",
    "is_finite",
    "is_inf",
    "is_nan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "logical_and",
    "logical_not",
    "logical_or",
    "matmul",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "not_equal",
    "pow",
    "reciprocal",
    "sigmoid",
    "sign",
    "sin",
    "sqrt",
    "square",
    "subtract",
    "tanh",
]


def _unary(
    op_type: str, compute: Callable[[Array], Array], summary: str, dtype: DType | None = None
) -> Callable[..., Tensor]:
    """Define an elementwise op of one input and return the function that adds it to a graph."""

    def build(x: Any, name: str | None = None) -> Tensor:
        graph = get_default_graph()
        with graph.name_scope(name or op_type) as scope:
            x = as_tensor(x, name="x")
            return graph.create_op(op_type, [x], [dtype or x.dtype], name=scope).outputs[0]

    define(op_type, pure(compute), same_shape)
    build.__doc__ = (
        f"{summary}\n\nArgs:\n    x: a tensor, or what becomes one.\n    name: of the node."
    )
    return build


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))  # at most 1: exp never overflows
    return np.asarray(np.where(x >= 0, 1 / (1 + small), small / (1 + small)), dtype=x.dtype)


negative = _unary("Neg", np.negative, "``-x``.")
reciprocal = _unary("Reciprocal", np.reciprocal, "``1 / x``.")
exp = _unary("Exp", np.exp, "``e ** x``.")
log = _unary("Log", np.log, "Natural logarithm.")
log1p = _unary("Log1p", np.log1p, "Natural logarithm of ``1 + x``, exact near 0.")
sqrt = _unary("Sqrt", np.sqrt, "Square root.")
square = _unary("Square", np.square, "``x * x``.")
abs = _unary("Abs", np.abs, "Absolute value.")
sign = _unary("Sign", np.sign, "-1, 0 or 1.")
floor = _unary("Floor", np.floor, "The integer at or below.")
sin = _unary("Sin", np.sin, "Sine.")
cos = _unary("Cos", np.cos, "Cosine.")
tanh = _unary("Tanh", np.tanh, "Hyperbolic tangent.")
sigmoid = _unary("Sigmoid", _sigmoid, "``1 / (1 + e ** -x)``.")
is_nan = _unary("IsNan", np.isnan, "Where ``x`` is NaN.", bool_)
is_inf = _unary("IsInf", np.isinf, "Where ``x`` is infinite.", bool_)
is_finite = _unary("IsFinite", np.isfinite, "Where ``x`` is neither NaN nor infinite.", bool_)
logical_not = _unary("LogicalNot", np.logical_not, "``not x``.", bool_)


def as_pair(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Two operands as tensors of one type; a Python value takes the type of the other.

    Raises:
        TypeError: they are tensors of different types.
    """
    if not isinstance(x, Operand) and isinstance(y, Operand):
        y = as_tensor(y, name="y")
        return as_tensor(x, y.dtype, "x"), y
    x = as_tensor(x, name="x")
    return x, as_tensor(y, x.dtype, "y")


def _broadcast_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    return [broadcast_shapes([tensor.shape for tensor in inputs])]


def _binary(
    op_type: str,
    compute: Callable[[Array, Array], Array],
    summary: str,
    default_name: str | None = None,
    dtype: DType | None = None,
) -> Callable[..., Tensor]:
    """Define an elementwise op of two inputs, with broadcasting, and return its function."""

    def build(x: Any, y: Any, name: str | None = None) -> Tensor:
        graph = get_default_graph()
        with graph.name_scope(name or default_name or op_type) as scope:
            x, y = as_pair(x, y)
            return graph.create_op(op_type, [x, y], [dtype or x.dtype], name=scope).outputs[0]

    define(op_type, pure(compute), _broadcast_shape)
    build.__doc__ = (
        f"{summary} With broadcasting.\n\nArgs:\n    x: a tensor, or what becomes one.\n"
        "    y: likewise, of the same type.\n    name: of the node."
    )
    return build


def _divide(x: Array, y: Array) -> Array:
    if x.dtype.kind not in "iub":
        return np.asarray(np.true_divide(x, y))
    raise TypeError(f"{dtype_name(x.dtype)} can't be divided exactly; use floordiv() or cast()")


def _checked(compute: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """An integer division that raises instead of giving 0."""

    def checked(x: Array, y: Array) -> Array:
        if y.dtype.kind in "iu" and not np.all(y):
            raise ZeroDivisionError("Integer division by zero")
        return compute(x, y)

    return checked


add = _binary("AddV2", np.add, "``x + y``.", "Add")
subtract = _binary("Sub", np.subtract, "``x - y``.")
multiply = _binary("Mul", np.multiply, "``x * y``.")
divide = _binary("RealDiv", _divide, "``x / y``.", "truediv")
floordiv = _binary("FloorDiv", _checked(np.floor_divide), "``x // y``.", "floordiv")
mod = _binary("FloorMod", _checked(np.mod), "``x % y``, with the sign of ``y``.")
pow = _binary("Pow", np.power, "``x ** y``.")
maximum = _binary("Maximum", np.maximum, "The larger one.")
minimum = _binary("Minimum", np.minimum, "The smaller one.")
equal = _binary("Equal", np.equal, "``x == y``.", dtype=bool_)
not_equal = _binary("NotEqual", np.not_equal, "``x != y``.", dtype=bool_)
greater = _binary("Greater", np.greater, "``x > y``.", dtype=bool_)
greater_equal = _binary("GreaterEqual", np.greater_equal, "``x >= y``.", dtype=bool_)
less = _binary("Less", np.less, "``x < y``.", dtype=bool_)
less_equal = _binary("LessEqual", np.less_equal, "``x <= y``.", dtype=bool_)
logical_and = _binary("LogicalAnd", np.logical_and, "``x and y``.", dtype=bool_)
logical_or = _binary("LogicalOr", np.logical_or, "``x or y``.", dtype=bool_)


def cast(x: Any, dtype: Any, name: str | None = None) -> Tensor:
    """A tensor in another element type; itself if it has that type already."""
    wanted = as_dtype(dtype)
    graph = get_default_graph()
    with graph.name_scope(name or "Cast") as scope:
        tensor = as_tensor(x, name="x")
        if tensor.dtype == wanted:
            return tensor
        return graph.create_op("Cast", [tensor], [wanted], {"DstT": wanted}, scope).outputs[0]


def add_n(inputs: Sequence[Any], name: str | None = None) -> Tensor:
    """The sum of tensors of one shape and type."""
    tensors = [as_tensor(item) for item in inputs]
    graph = get_default_graph()
    return graph.create_op("AddN", tensors, [tensors[0].dtype], name=name).outputs[0]


def check_numerics(tensor: Any, message: str, name: str | None = None) -> Tensor:
    """The tensor itself; the run fails with ``message`` if an element is NaN or infinite."""
    tensor = as_tensor(tensor)
    graph = get_default_graph()
    return graph.create_op(
        "CheckNumerics", [tensor], [tensor.dtype], {"message": message}, name
    ).outputs[0]


def matmul(
    a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, name: str | None = None
) -> Tensor:
    """The product of two matrices.

    Args:
        a: shape ``(n, k)``, or ``(k, n)`` with ``transpose_a``.
        b: shape ``(k, m)``, or ``(m, k)`` with ``transpose_b``.
        transpose_a: use ``a`` transposed.
        transpose_b: use ``b`` transposed.
        name: of the node.

    Returns:
        A tensor of shape ``(n, m)``.
    """
    graph = get_default_graph()
    with graph.name_scope(name or "MatMul") as scope:
        a = as_tensor(a, name="a")
        b = as_tensor(b, a.dtype, "b")
        attributes = {"transpose_a": transpose_a, "transpose_b": transpose_b}
        return graph.create_op("MatMul", [a, b], [a.dtype], attributes, scope).outputs[0]


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


def _cast_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Array:
    made: Array = inputs[0].astype(op.attributes["DstT"])
    return made


def _add_n_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Array:
    total: Array = inputs[0]
    for value in inputs[1:]:
        total = np.asarray(total + value)
    return total


def _check_numerics_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Array:
    value: Array = inputs[0]
    found = [word for word, test in (("NaN", np.isnan), ("Inf", np.isinf)) if test(value).any()]
    if found:
        raise ValueError(f"{op.attributes['message']}: the tensor has {' and '.join(found)} values")
    return value


define("Cast", _cast_kernel, same_shape)
define("AddN", _add_n_kernel, same_shape)
define("CheckNumerics", _check_numerics_kernel, same_shape)
define("MatMul", _matmul_kernel, _matmul_shape)

for _name in __all__:
    globals()[_name].__name__ = globals()[_name].__qualname__ = _name
