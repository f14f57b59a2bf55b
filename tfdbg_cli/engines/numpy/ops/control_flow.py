"""Loops as nodes, with the node types and names of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import bool_, compatible, dtype_name, int32
from tfdbg_cli.engines.numpy.executor import RunStep
from tfdbg_cli.engines.numpy.graph import get_default_graph
from tfdbg_cli.engines.numpy.nodes import Loop, Operation
from tfdbg_cli.engines.numpy.ops.array_ops import as_tensor, identity, node
from tfdbg_cli.engines.numpy.registry import define, same_shape

__all__ = ["while_loop"]


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    name: str | None = None,
) -> Any:
    """Repeat ``body`` while ``cond`` holds.

    Both get the loop variables as tensors; ``cond`` returns a boolean scalar, ``body`` their next
    values. The final values are returned, a single one not in a list.

    Raises:
        ValueError: ``body`` returns other types, shapes or numbers of values than it gets.
    """
    graph = get_default_graph()
    with graph.name_scope(name or "while") as scope:
        loop = Loop(graph.building.loop, scope[:-1])
        enters = [node("Enter", [start]) for start in [as_tensor(item) for item in loop_vars]]
        if not enters:
            raise ValueError("while_loop() needs at least one loop variable.")
        with graph.building.elsewhere(loop=loop, control=()):
            merges = [graph.create_op("Merge", [each], [each.dtype, int32]) for each in enters]
            loop.pivot = merges[0]
            values = [merge.outputs[0] for merge in merges]
            loop.pred = node("LoopCond", [as_tensor(cond(*values), bool_, "condition")])
            switches = [
                graph.create_op("Switch", [value, loop.pred], [value.dtype] * 2).outputs
                for value in values
            ]
            loop.body = graph.version
            inside = [identity(goes_on) for _, goes_on in switches]
            loop.pivot = inside[0].op
            made = body(*inside)
            results = list(made) if isinstance(made, list | tuple) else [made]
            if len(results) != len(enters):
                raise ValueError(
                    f"The body of {loop.name} returns {len(results)} values for "
                    f"{len(enters)} loop variables."
                )
            for merge, result in zip(merges, results, strict=True):
                _close(loop, merge, result)
        exits = [node("Exit", [leaves]) for leaves, _ in switches]
    return exits if len(exits) > 1 else exits[0]


def _close(loop: Loop, merge: Operation, result: Any) -> None:
    """Lead a result of a loop's body back to its Merge node."""
    (start,), value = merge.inputs, as_tensor(result)
    if value.dtype != start.dtype or not compatible(value.shape, start.shape):
        raise ValueError(
            f"A variable of {loop.name} starts as {dtype_name(start.dtype)} {start.shape} "
            f"({start.name}), but its body returns {dtype_name(value.dtype)} {value.shape}."
        )
    merge.inputs = (start, node("NextIteration", [value]))


def _merge_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Sequence[Any]:
    """What comes back, in the first iteration what comes in."""
    came_from = int(op.inputs[1] in step.values)
    return step.values[op.inputs[came_from]], np.asarray(came_from, np.int32)


def _switch_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Sequence[Any]:
    value, pred = inputs
    return (None, value) if pred else (value, None)


for _op_type in ("Enter", "Exit", "LoopCond", "NextIteration"):
    define(_op_type, lambda step, op, inputs: inputs[0], same_shape)
define("Switch", _switch_kernel, lambda op: [op.inputs[0].shape] * 2)
define("Merge", _merge_kernel, lambda op: [op.inputs[0].shape, ()])
