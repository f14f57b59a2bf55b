"""Other values for what a call of a traced function returns, and for variables that it wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfdbg_cli.dumps.dump import CannotRedo, Dump, NewValues, variable_before
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.engines.kit.fitting import stands_for
from tfdbg_cli.engines.tensorflow.functions.describing import DescribedCall
from tfdbg_cli.engines.tensorflow.functions.stepping.state import CallVariables
from tfdbg_cli.engines.tensorflow.functions.variables import is_writing, quietly, written_value

__all__ = ["replace_results"]


def replace_results(
    dump: Dump,
    call: DescribedCall,
    names: Mapping[int, str],
    results: Sequence[Any],
    new: NewValues,
) -> list[Any]:
    """What a call returns with other values, and its variables written with them.

    Args:
        dump: of the run, which is this call alone.
        call: in words.
        names: of its results, by the ``id`` of what it has returned.
        results: what the program would get.
        new: the tensors with other values.

    Returns:
        Those that are other ones are new tensors on the same devices.

    Raises:
        CannotRedo: a value isn't known. Then no variable is written.
    """
    graph = dump.graph() or Graph([])
    variables = CallVariables(call.event.inputs)
    numbers = {name: at for at, name in enumerate(call.arguments)}
    written: dict[int, Any] = {}
    for handle, value in _written(dump, graph, new):
        if handle not in numbers or numbers[handle] not in variables.initial:
            raise CannotRedo(f"{handle} is written, and isn't a variable of the call")
        written[numbers[handle]] = value
    made = []
    for result, known in zip(results, call.event.outputs, strict=True):
        name = names.get(id(known), "")
        found = new(name) if name else None
        made.append(result if found is None else _tensor_like(name, found, result))
    with quietly():
        variables.write({at: tf.constant(value) for at, value in written.items()})
    return made


def _tensor_like(name: str, value: Any, result: Any) -> Any:
    kind = np.empty(tuple(result.shape), result.dtype.as_numpy_dtype)
    with quietly(), tf.device(result.device):
        return tf.constant(stands_for(name, value, kind))


def _written(dump: Dump, graph: Graph, new: NewValues) -> Iterator[tuple[str, Any]]:
    """The variables that were written with what is other now: their handles, and the values."""
    writers: dict[str, list[Node]] = {}
    for node in graph.nodes.values():
        if is_writing(node.op_type) and node.inputs:
            writers.setdefault(node.inputs[0], []).append(node)
    for handle, nodes in writers.items():
        given = [[new(name) for name in node.inputs[1:]] for node in nodes]
        if all(value is None for values in given for value in values):
            continue
        if len(nodes) > 1:
            raise CannotRedo(f"{handle[:-2]} was written several times")
        yield handle, written_value(nodes[0].op_type, variable_before(dump, handle), given[0])
