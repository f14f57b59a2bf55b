"""Where values come into a graph: constants, placeholders, and the conversion of Python values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import (
    Array,
    DType,
    Shape,
    as_dtype,
    dtype_name,
    float32,
    int32,
    is_fully_known,
    to_array,
)
from tfdbg_cli.engines.numpy.errors import InvalidArgumentError
from tfdbg_cli.engines.numpy.graph import get_default_graph
from tfdbg_cli.engines.numpy.nodes import Operand, Operation, Tensor
from tfdbg_cli.engines.numpy.registry import Gradients, define, pure

if TYPE_CHECKING:
    from tfdbg_cli.engines.numpy.executor import RunStep

__all__ = ["constant", "ones", "placeholder", "zeros"]

#: An input of a node: its name, its value, and the type it must have (a number: that of an input).
Input: TypeAlias = "tuple[str, Any, DType | int | None]"


def constant(
    value: Any, dtype: Any = None, shape: Sequence[int] | None = None, name: str | None = None
) -> Tensor:
    """A tensor with a fixed value, repeated or reshaped to ``shape``.

    Args:
        value: anything that NumPy makes an array of; it is copied.
        dtype: default: float32 for Python floats, int32 for Python ints, else the array's own.

    Raises:
        TypeError: the value can't be a tensor of that type.
        ValueError: it can't have that shape.
    """
    made = to_array(value, None if dtype is None else as_dtype(dtype))
    if shape is not None:
        made = np.full(shape, made) if made.size == 1 else made.reshape(shape)
    made.flags.writeable = False
    graph = get_default_graph()
    op = graph.create_op("Const", [], [made.dtype], {"value": made}, name, [made.shape])
    return op.outputs[0]


def placeholder(
    dtype: Any, shape: Sequence[int | None] | None = None, name: str | None = None
) -> Tensor:
    """A tensor whose value each run must be given; ``None`` stands for any size or shape."""
    static: Shape = None if shape is None else tuple(shape)
    graph = get_default_graph()
    op = graph.create_op("Placeholder", [], [as_dtype(dtype)], {"shape": static}, name, [static])
    return op.outputs[0]


def as_tensor(value: Any, dtype: DType | None = None, name: str = "Const") -> Tensor:
    """The tensor that a value stands for: itself, a variable's value, or a new constant.

    Raises:
        TypeError: it is a tensor of another type, or can't be a tensor.
    """
    if not isinstance(value, Operand):
        return constant(value, dtype, name=name)
    tensor = value.value()
    if dtype is not None and tensor.dtype != dtype:
        raise TypeError(
            f"{tensor.name} is {dtype_name(tensor.dtype)}, but {dtype_name(dtype)} is needed "
            f"(for {name}); use cast()."
        )
    return tensor


def build(
    op_type: str,
    inputs: Iterable[Input],
    dtype: DType | int = 0,
    attributes: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Tensor:
    """Add a node; the constants that its inputs need are in a scope of its name.

    Args:
        op_type, attributes: as in `Graph.create_op`.
        inputs: made tensors, in order.
        dtype: of the output, or the number of the input that has it.
        name: of the node; default: the op type.
    """
    graph = get_default_graph()
    with graph.name_scope(name or op_type) as scope:
        made: list[Tensor] = []
        for label, value, wanted in inputs:
            kind = made[wanted].dtype if isinstance(wanted, int) else wanted
            made.append(as_tensor(value, kind, label))
        result = made[dtype].dtype if isinstance(dtype, int) else dtype
        return graph.create_op(op_type, made, [result], attributes, scope).outputs[0]


def node(
    op_type: str, inputs: Sequence[Tensor], dtype: DType | None = None, **attributes: Any
) -> Tensor:
    """Add a node without a name of its own; by default its output has the first input's type."""
    dtypes = [inputs[0].dtype if dtype is None else dtype]
    return get_default_graph().create_op(op_type, inputs, dtypes, attributes).outputs[0]


def as_vector(value: Any) -> Any:
    """A shape as integers, an empty one too."""
    return np.array(value, np.int32) if isinstance(value, list | tuple) and not value else value


def constant_value(tensor: Tensor) -> Array | None:
    """The value of a constant, ``None`` for any other tensor."""
    return tensor.op.attributes["value"] if tensor.op.type == "Const" else None


def fill(dims: Any, value: Any, name: str | None = None) -> Tensor:
    """A tensor of shape ``dims`` (known at run time) filled with a scalar."""
    return build("Fill", [("dims", dims, int32), ("value", value, None)], 1, None, name)


def zeros(shape: Sequence[int], dtype: Any = float32, name: str | None = None) -> Tensor:
    """A constant of zeros."""
    return constant(np.zeros(tuple(shape), as_dtype(dtype)), name=name or "zeros")


def ones(shape: Sequence[int], dtype: Any = float32, name: str | None = None) -> Tensor:
    """A constant of ones."""
    return constant(np.ones(tuple(shape), as_dtype(dtype)), name=name or "ones")


def shape(tensor: Tensor) -> Tensor:
    """The shape of a tensor as an int32 vector; a constant where it is known before a run."""
    if is_fully_known(tensor.shape):
        return constant(np.array(tensor.shape, int32), name="Shape")
    return node("Shape", [tensor], int32)


def size(tensor: Tensor) -> Tensor:
    """The number of elements, an int32 scalar; a constant where it is known before a run."""
    if is_fully_known(tensor.shape):
        return constant(int(np.prod(np.array(tensor.shape, int))), name="Size")
    return node("Size", [tensor], int32)


def dims_shape(op: Operation) -> list[Shape]:
    """The shape that the first input says, if it is a constant."""
    known = constant_value(op.inputs[0])
    return [None if known is None else tuple(int(size) for size in known)]


def _placeholder_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Any:
    (tensor,) = op.outputs
    raise InvalidArgumentError(
        op,
        f"The placeholder {tensor.name} ({dtype_name(tensor.dtype)}, shape {tensor.shape}) was "
        "not fed: give it a value in feed_dict.",
    )


def none(op: Operation, *of_outputs: Tensor | None) -> Gradients:
    """The gradients of ops whose outputs don't change smoothly with the inputs."""
    return [None] * len(op.inputs)


def _rank(op: Operation) -> list[Shape]:
    shape = op.inputs[0].shape
    return [(None if shape is None else len(shape),)]


define("Const", lambda step, op, inputs: op.attributes["value"])
define("Placeholder", _placeholder_kernel)
define("Fill", pure(lambda dims, value: np.full(tuple(dims), value)), dims_shape, gradient=none)
define("Shape", lambda step, op, inputs: inputs[0].shape, _rank)
define("Size", lambda step, op, inputs: inputs[0].size, lambda op: [()])
