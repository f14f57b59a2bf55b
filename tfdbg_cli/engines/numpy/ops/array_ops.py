"""Where values come into a graph, and their shapes: constants, placeholders, reshape, where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import (
    Array,
    DType,
    Shape,
    as_dtype,
    bool_,
    broadcast_shapes,
    dtype_name,
    float32,
    int32,
    is_fully_known,
    to_array,
)
from tfdbg_cli.engines.numpy.errors import InvalidArgumentError
from tfdbg_cli.engines.numpy.executor import RunStep
from tfdbg_cli.engines.numpy.graph import get_default_graph
from tfdbg_cli.engines.numpy.nodes import Operand, Operation, Tensor
from tfdbg_cli.engines.numpy.registry import Gradients, define, gradient, pure, same_shape

__all__ = [
    "constant",
    "identity",
    "ones",
    "placeholder",
    "reshape",
    "transpose",
    "unique",
    "where",
    "zeros",
]

#: An input of a node: its name, its value, and the type it must have (a number: that of an input).
Input: TypeAlias = "tuple[str, Any, DType | int | None]"


def constant(
    value: Any, dtype: Any = None, shape: Sequence[int] | None = None, name: str | None = None
) -> Tensor:
    """A tensor with a fixed value, repeated or reshaped to ``shape``.

    Args:
        value: anything that NumPy makes an array of; it is copied.
        dtype: default: float32 for Python floats, int32 for Python ints, else the array's own.
    """
    made = to_array(value, None if dtype is None else as_dtype(dtype))
    if shape is not None:
        made = np.full(shape, made) if made.size == 1 else made.reshape(shape)
    made.flags.writeable = False
    return build("Const", [], made.dtype, {"value": made}, name)


def placeholder(
    dtype: Any, shape: Sequence[int | None] | None = None, name: str | None = None
) -> Tensor:
    """A tensor whose value each run must be given; ``None`` stands for any size or shape."""
    static = None if shape is None else tuple(shape)
    return build("Placeholder", [], as_dtype(dtype), {"shape": static}, name)


def as_tensor(value: Any, dtype: DType | None = None, name: str = "Const") -> Tensor:
    """The tensor that a value stands for: itself, a variable's value, or a new constant."""
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
    """`Graph.create_op`; the constants that the inputs need are in a scope of the node's name.

    Args:
        dtype: of the output, or the number of the input that has it.
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


def constant_value(tensor: Tensor) -> Array | None:
    """The value of a constant, ``None`` for any other tensor."""
    return tensor.op.attributes["value"] if tensor.op.type == "Const" else None


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
    made = node("Shape", [tensor], int32)
    made.shape = (None if tensor.shape is None else len(tensor.shape),)
    return made


def size(tensor: Tensor) -> Tensor:
    """The number of elements, an int32 scalar; a constant where it is known before a run."""
    if is_fully_known(tensor.shape):
        return constant(int(np.prod(np.array(tensor.shape, int))), name="Size")
    return node("Size", [tensor], int32)


def told_shape(tensor: Tensor) -> Shape:
    """The shape that the elements of a tensor say, as far as they are known before a run."""
    wanted = constant_value(tensor)
    if wanted is None:
        rank = None if tensor.shape is None else tensor.shape[0]
        return None if rank is None else (None,) * rank
    return tuple(None if size < 0 else int(size) for size in wanted)


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


def identity(input: Any, name: str | None = None) -> Tensor:
    """The same value under a name of its own."""
    return build("Identity", [("input", input, None)], name=name)


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """The same elements in another shape; one size may be -1: whatever is left."""
    return build("Reshape", [("tensor", tensor, None), ("shape", shape, int32)], name=name)


def transpose(a: Any, name: str | None = None) -> Tensor:
    """The dimensions in reversed order; their number must be known."""
    tensor = as_tensor(a, name="a")
    if tensor.shape is None:
        raise ValueError(f"Nothing is known of the shape of {tensor.name}.")
    perm = list(range(len(tensor.shape)))[::-1]
    inputs = [("a", tensor, None), ("perm", perm, int32)]
    return build("Transpose", inputs, name=name or "transpose")


def unique(x: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The distinct elements ``y`` of a vector as they first appear, and ``idx``: where each is.

    ``x[i] == y[idx[i]]``; both are outputs of one node.
    """
    tensor = as_tensor(x)
    op = get_default_graph().create_op("Unique", [tensor], [tensor.dtype, int32], name=name)
    return op.outputs[0], op.outputs[1]


def where(condition: Any, x: Any, y: Any, name: str | None = None) -> Tensor:
    """``x`` where the condition holds, else ``y``; with broadcasting."""
    inputs = [("condition", condition, bool_), ("x", x, None), ("y", y, 1)]
    return build("Select", inputs, 1, name=name)


def broadcast_shape(op: Operation) -> list[Shape]:
    """The shape function of ops whose inputs are broadcast."""
    return [broadcast_shapes([tensor.shape for tensor in op.inputs])]


def _unique(value: Array) -> list[Array]:
    if value.ndim != 1:
        raise ValueError(f"A vector is needed, not {value.ndim} dimensions")
    values, first, inverse = np.unique(value, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return [values[order], np.argsort(order)[inverse]]


define(
    "Const",
    lambda step, op, inputs: op.attributes["value"],
    lambda op: [op.attributes["value"].shape],
)
define("Placeholder", _placeholder_kernel, lambda op: [op.attributes["shape"]])
define("Shape", pure(np.shape))
define("Size", pure(np.size), lambda op: [()])
define("Identity", pure(lambda value: value), same_shape)
define("Fill", pure(np.full), lambda op: [told_shape(op.inputs[0])], gradient=none)
define("Reshape", pure(np.reshape), lambda op: [told_shape(op.inputs[1])])
define("BroadcastTo", pure(np.broadcast_to), lambda op: [told_shape(op.inputs[1])])
define("Transpose", pure(np.transpose), lambda op: [op.inputs[0].shape[::-1]])
define("Unique", pure(_unique), lambda op: [(None,), op.inputs[0].shape])
define("Select", pure(np.where), broadcast_shape)


gradient("Identity")(lambda op, grad: [grad])
gradient("Transpose")(lambda op, grad: [transpose(grad), None])
gradient("Reshape")(lambda op, grad: [reshape(grad, shape(op.inputs[0])), None])
