"""Nodes that are added to the definitions of functions; each gives a reference to its output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import dtypes

__all__ = [
    "add_call",
    "add_constant",
    "add_empty_list",
    "add_node",
    "add_numbers",
    "add_stand_in",
    "add_zero",
]


def add_node(definition: Any, op: str, inputs: tuple[str, ...] | list[str] = ()) -> Any:
    """A new node with a name of its own.

    The optimizer makes one of two nodes that are alike, which changes what it makes of those that
    wait for the program's: so ours are marked.
    """
    made = definition.node_def.add(name=f"tfdbg_{len(definition.node_def)}", op=op)
    made.input.extend(inputs)
    made.attr["_tfdbg"].b = True
    return made


def add_constant(definition: Any, number: int, count: int | None = None) -> str:
    """An integer, or a vector of ``count`` of them."""
    made = add_node(definition, "Const")
    made.attr["dtype"].type = types_pb2.DT_INT32
    tensor = made.attr["value"].tensor
    tensor.dtype = types_pb2.DT_INT32
    tensor.tensor_shape.SetInParent()
    if count is not None:
        tensor.tensor_shape.dim.add().size = count
    tensor.int_val.append(number)
    return f"{made.name}:output:0"


def add_numbers(definition: Any, *numbers: float, is_scalar: bool = True) -> str:
    """A float, or a vector of them."""
    made = add_node(definition, "Const")
    made.attr["dtype"].type = types_pb2.DT_FLOAT
    tensor = made.attr["value"].tensor
    tensor.dtype = types_pb2.DT_FLOAT
    tensor.tensor_shape.SetInParent()
    if not is_scalar:
        tensor.tensor_shape.dim.add().size = len(numbers)
    tensor.float_val.extend(numbers)
    return f"{made.name}:output:0"


def add_stand_in(
    definition: Any,
    name: str,
    outputs: Sequence[Any],
    given: Sequence[str],
    renamed: dict[str, str],
) -> Any:
    """A node of a name that hands on what is given in place of another one's outputs.

    Args:
        definition: gets the node.
        name: of both.
        outputs: of the other one, as many as are given.
        given: references.
        renamed: gets the references of the outputs that were -> those that are.
    """
    made = definition.node_def.add(name=name, op="IdentityN" if given else "NoOp")
    made.input.extend(given)
    for at, output in enumerate(outputs):
        made.attr["T"].list.type.append(output.dtype)
        renamed[output.reference] = f"{name}:output:{at}"
    return made


def add_call(definition: Any, function: Any, inputs: list[str], is_stateful: bool) -> Any:
    """A call of a function, by its definition."""
    made = add_node(definition, f"{'Stateful' if is_stateful else ''}PartitionedCall", inputs)
    made.attr["f"].func.name = function.signature.name
    made.attr["Tin"].list.type.extend(each.type for each in function.signature.input_arg)
    made.attr["Tout"].list.type.extend(each.type for each in function.signature.output_arg)
    return made


def add_empty_list(definition: Any, kind: int) -> str:
    """A list for tensors of one type and any shape."""
    shape = add_constant(definition, -1)
    made = add_node(definition, "EmptyTensorList", [shape, shape])
    made.attr["element_dtype"].type = kind
    made.attr["shape_type"].type = types_pb2.DT_INT32
    return f"{made.name}:handle:0"


def add_zero(definition: Any, kind: int, count: int | None = None) -> str:
    """A zero of a type (an empty text, an empty list), or a vector of ``count`` of them."""
    if kind == types_pb2.DT_VARIANT:
        return add_empty_list(definition, types_pb2.DT_FLOAT)
    made = add_node(definition, "Const")
    made.attr["dtype"].type = kind
    tensor = made.attr["value"].tensor
    tensor.dtype = kind
    tensor.tensor_shape.SetInParent()
    if count is not None:
        tensor.tensor_shape.dim.add().size = count
    if count == 0:
        pass
    elif kind == types_pb2.DT_STRING:
        tensor.string_val.append(b"")
    elif kind == types_pb2.DT_FLOAT:
        tensor.float_val.append(0.0)
    else:
        tensor.tensor_content = bytes(dtypes.as_dtype(kind).size)
    return f"{made.name}:output:0"
