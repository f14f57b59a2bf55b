"""Where values come into a graph: constants, placeholders, and the conversion of Python values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import (
    Array,
    DType,
    Shape,
    as_dtype,
    as_shape,
    dtype_name,
    float32,
    int32,
    is_fully_known,
    to_array,
)
from tfdbg_cli.engines.numpy.errors import InvalidArgumentError
from tfdbg_cli.engines.numpy.graph import get_default_graph
from tfdbg_cli.engines.numpy.nodes import Operand, Operation, Tensor
from tfdbg_cli.engines.numpy.registry import define, same_shape, scalar_shape

if TYPE_CHECKING:
    from tfdbg_cli.engines.numpy.executor import RunStep

__all__ = [
    "as_tensor",
    "constant",
    "constant_value",
    "convert_to_tensor",
    "fill",
    "ones",
    "ones_like",
    "placeholder",
    "shape",
    "size",
    "zeros",
    "zeros_like",
]


def constant(
    value: Any,
    dtype: Any = None,
    shape: Sequence[int] | None = None,
    name: str | None = None,
) -> Tensor:
    """A tensor with a fixed value.

    Args:
        value: anything that NumPy makes an array of; it is copied.
        dtype: default: float32 for Python floats, int32 for Python ints, else the array's own.
        shape: repeat or reshape the value to this.
        name: of the node, ``Const`` by default.

    Raises:
        TypeError: the value can't be a tensor of that type.
        ValueError: it can't have that shape.
    """
    made = to_array(value, None if dtype is None else as_dtype(dtype))
    if shape is not None:
        wanted = tuple(shape)
        made = np.full(wanted, made) if made.size == 1 else made.reshape(wanted)
    made.flags.writeable = False
    return (
        get_default_graph()
        .create_op("Const", [], [made.dtype], {"value": made}, name, [made.shape])
        .outputs[0]
    )


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """A tensor whose value each run must be given.

    Args:
        dtype: element type.
        shape: sizes, ``None`` where any size goes; ``None`` for any shape.
        name: of the node.
    """
    static = as_shape(shape)
    return (
        get_default_graph()
        .create_op("Placeholder", [], [as_dtype(dtype)], {"shape": static}, name, [static])
        .outputs[0]
    )


def as_tensor(value: Any, dtype: DType | None = None, name: str = "Const") -> Tensor:
    """The tensor that a value stands for: itself, a variable's value, or a new constant.

    Args:
        value: a tensor, a variable, a number, an array, or a list of any of them.
        dtype: what it must be; a Python value or an array is converted to it.
        name: of the constant, if one is made.

    Raises:
        TypeError: it is a tensor of another type, or can't be a tensor.
    """
    if isinstance(value, Operand):
        value = value.value()
    if isinstance(value, list | tuple) and any(isinstance(item, Operand) for item in value):
        from tfdbg_cli.engines.numpy.ops.array_ops import stack

        value = stack(value, name=name)
    if isinstance(value, Tensor):
        if dtype is not None and value.dtype != dtype:
            raise TypeError(
                f"{value.name} is {dtype_name(value.dtype)}, but {dtype_name(dtype)} is needed "
                f"(for {name}); use cast()."
            )
        return value
    return constant(value, dtype, name=name)


def convert_to_tensor(value: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """`as_tensor` with the public argument conventions."""
    return as_tensor(value, None if dtype is None else as_dtype(dtype), name or "Const")


def constant_value(tensor: Tensor) -> Array | None:
    """The value of a constant, ``None`` for any other tensor."""
    return tensor.op.attributes["value"] if tensor.op.type == "Const" else None


def fill(dims: Any, value: Any, name: str | None = None) -> Tensor:
    """A tensor of shape ``dims`` (known at run time) filled with a scalar."""
    graph = get_default_graph()
    with graph.name_scope(name or "Fill") as scope:
        dims = as_tensor(dims, int32, "dims")
        value = as_tensor(value, name="value")
        return graph.create_op("Fill", [dims, value], [value.dtype], name=scope).outputs[0]


def zeros(shape: Sequence[int], dtype: Any = float32, name: str | None = None) -> Tensor:
    """A constant of zeros."""
    return constant(np.zeros(tuple(shape), as_dtype(dtype)), name=name or "zeros")


def ones(shape: Sequence[int], dtype: Any = float32, name: str | None = None) -> Tensor:
    """A constant of ones."""
    return constant(np.ones(tuple(shape), as_dtype(dtype)), name=name or "ones")


def _like(op_type: str, tensor: Any, name: str | None) -> Tensor:
    tensor = as_tensor(tensor)
    return get_default_graph().create_op(op_type, [tensor], [tensor.dtype], name=name).outputs[0]


def zeros_like(tensor: Any, name: str | None = None) -> Tensor:
    """Zeros in the shape and type of a tensor."""
    return _like("ZerosLike", tensor, name or "zeros_like")


def ones_like(tensor: Any, name: str | None = None) -> Tensor:
    """Ones in the shape and type of a tensor."""
    return _like("OnesLike", tensor, name or "ones_like")


def shape(input: Any, name: str | None = None) -> Tensor:
    """The shape of a tensor as an int32 vector; a constant where it is known before a run."""
    tensor = as_tensor(input)
    if is_fully_known(tensor.shape):
        return constant(np.array(tensor.shape, int32), name=name or "Shape")
    rank = None if tensor.shape is None else len(tensor.shape)
    return (
        get_default_graph()
        .create_op("Shape", [tensor], [int32], name=name, shapes=[(rank,)])
        .outputs[0]
    )


def size(input: Any, name: str | None = None) -> Tensor:
    """The number of elements, an int32 scalar; a constant where it is known before a run."""
    tensor = as_tensor(input)
    if tensor.shape is not None and None not in tensor.shape:
        return constant(math.prod(at for at in tensor.shape if at is not None), name=name or "Size")
    return get_default_graph().create_op("Size", [tensor], [int32], name=name).outputs[0]


def _placeholder_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Any:
    (tensor,) = op.outputs
    raise InvalidArgumentError(
        op,
        f"The placeholder {tensor.name} ({dtype_name(tensor.dtype)}, shape {tensor.shape}) was "
        "not fed: give it a value in feed_dict.",
    )


def _const_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Any:
    return op.attributes["value"]


def _fill_shape(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> list[Shape]:
    known = constant_value(inputs[0])
    return [None if known is None else tuple(int(size) for size in known)]


def _fill_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Array:
    return np.full(tuple(inputs[0]), inputs[1])


define("Const", _const_kernel)
define("Placeholder", _placeholder_kernel)
define("Fill", _fill_kernel, _fill_shape)
define("ZerosLike", lambda step, op, inputs: np.zeros_like(inputs[0]), same_shape)
define("OnesLike", lambda step, op, inputs: np.ones_like(inputs[0]), same_shape)
define("Shape", lambda step, op, inputs: inputs[0].shape)
define("Size", lambda step, op, inputs: inputs[0].size, scalar_shape)
