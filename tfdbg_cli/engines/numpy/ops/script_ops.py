"""Python functions as nodes, and assertions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import as_dtype, bool_, dtype_name, to_array
from tfdbg_cli.engines.numpy.errors import InvalidArgumentError, UnknownError
from tfdbg_cli.engines.numpy.graph import get_default_graph
from tfdbg_cli.engines.numpy.nodes import Operation
from tfdbg_cli.engines.numpy.ops.constants import as_tensor
from tfdbg_cli.engines.numpy.registry import define

if TYPE_CHECKING:
    from tfdbg_cli.engines.numpy.executor import RunStep

__all__ = ["Assert", "py_func"]


def py_func(
    func: Callable[..., Any], inp: Sequence[Any], Tout: Any, name: str | None = None
) -> Any:
    """A node that calls a Python function with arrays.

    Args:
        func: gets an array for each input, its own to change; returns an array, or a sequence of
            them if ``Tout`` is a list. What it raises becomes an `UnknownError`.
        inp: the inputs.
        Tout: the element type of the output, or a list of them.
    """
    several = isinstance(Tout, list | tuple)
    dtypes = [as_dtype(item) for item in (Tout if several else [Tout])]
    tensors = [as_tensor(item, name=f"input_{at}") for at, item in enumerate(inp)]
    attributes = {"func": func, "several": several}
    op = get_default_graph().create_op("PyFunc", tensors, dtypes, attributes, name)
    return list(op.outputs) if several else op.outputs[0]


def Assert(condition: Any, data: Sequence[Any], name: str | None = None) -> Operation:
    """An operation that fails, showing ``data``, unless the condition holds for all elements."""
    graph = get_default_graph()
    with graph.name_scope(name or "Assert") as scope:
        condition = as_tensor(condition, bool_, "condition")
        tensors = [as_tensor(item, name=f"data_{at}") for at, item in enumerate(data)]
        return graph.create_op("Assert", [condition, *tensors], [], name=scope)


def _py_func_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Any:
    several = op.attributes["several"]
    try:
        with np.errstate(**step.errstate):
            given = op.attributes["func"](*(np.array(value) for value in inputs))
    except Exception as error:
        raise UnknownError(op, f"{type(error).__name__}: {error}") from error
    results = list(given or ()) if several else [given]
    if len(results) != len(op.outputs):
        raise InvalidArgumentError(
            op, f"The function returned {len(results)} values, {len(op.outputs)} were promised."
        )
    made = []
    for tensor, value in zip(op.outputs, results, strict=True):
        array = to_array(value, None if hasattr(value, "dtype") else tensor.dtype)
        if array.dtype != tensor.dtype:
            raise InvalidArgumentError(
                op,
                f"The function returned {dtype_name(array.dtype)} for {tensor.name}, "
                f"{dtype_name(tensor.dtype)} was promised.",
            )
        made.append(array)
    return made[0] if len(made) == 1 else made


def _assert_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Sequence[Any]:
    if not np.all(inputs[0]):
        shown = ", ".join(
            f"{tensor.name} = {np.array2string(value, threshold=10)}"
            for tensor, value in zip(op.inputs[1:], inputs[1:], strict=True)
        )
        raise InvalidArgumentError(op, f"Assertion failed: {shown or 'no data given'}.")
    return ()


define("PyFunc", _py_func_kernel, has_effects=True)
define("Assert", _assert_kernel)
