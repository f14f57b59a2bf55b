"""Loops and branches as nodes, with the node types and names of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import Shape, bool_, compatible, dtype_name, int32
from tfdbg_cli.engines.numpy.executor import VariableRef
from tfdbg_cli.engines.numpy.graph import Graph, get_default_graph
from tfdbg_cli.engines.numpy.nodes import Branch, Loop, Operation, Tensor
from tfdbg_cli.engines.numpy.ops.array_ops import identity
from tfdbg_cli.engines.numpy.ops.constants import as_tensor
from tfdbg_cli.engines.numpy.registry import define, scalar_shape

if TYPE_CHECKING:
    from tfdbg_cli.engines.numpy.executor import RunStep

__all__ = ["cond", "while_loop"]


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    name: str | None = None,
) -> Any:
    """Repeat ``body`` while ``cond`` holds.

    Both get the loop variables as tensors; ``cond`` returns a boolean scalar, ``body`` their next
    values.

    Returns:
        The final values: a list, or the tensor itself if there is one loop variable.

    Raises:
        ValueError: ``body`` returns other types, shapes or numbers of values than it gets.
    """
    graph = get_default_graph()
    with graph.name_scope(name or "while") as scope:
        starts = [as_tensor(item) for item in loop_vars]
        if not starts:
            raise ValueError("while_loop() needs at least one loop variable.")
        loop = Loop(graph.current_context, scope[:-1])
        enters = [_node(graph, "Enter", [tensor], shape=tensor.shape) for tensor in starts]
        with graph.in_context(loop):
            merges = [
                graph.create_op("Merge", [enter], [enter.dtype, int32], shapes=[enter.shape, ()])
                for enter in enters
            ]
            loop.merges.update(merges)
            loop.pivot = merges[0]
            values = [merge.outputs[0] for merge in merges]
            go_on = as_tensor(cond(*values), bool_, "condition")
            decision = _node(graph, "LoopCond", [go_on], shape=())
            loop.pred = decision
            switches = [_switch(graph, value, decision) for value in values]
            loop.switches.update(switches)
            inside = [identity(switch.outputs[1]) for switch in switches]
            loop.pivot = inside[0].op
            results = _as_list(body(*inside))
            if len(results) != len(starts):
                raise ValueError(
                    f"The body of {loop.name} returns {len(results)} values for "
                    f"{len(starts)} loop variables."
                )
            for merge, result in zip(merges, results, strict=True):
                _close(graph, loop, merge, result)
        exits = [
            _node(graph, "Exit", [switch.outputs[0]], shape=switch.outputs[0].shape)
            for switch in switches
        ]
    return exits if len(exits) > 1 else exits[0]


def _close(graph: Graph, loop: Loop, merge: Operation, result: Any) -> None:
    """Lead a result of a loop's body back to its Merge node."""
    value = as_tensor(result)
    target = merge.outputs[0]
    if value.dtype != target.dtype:
        raise ValueError(
            f"A variable of {loop.name} starts as {dtype_name(target.dtype)} "
            f"({merge.inputs[0].name}), but its body returns {dtype_name(value.dtype)}."
        )
    if not compatible(value.shape, target.shape):
        raise ValueError(
            f"A variable of {loop.name} starts with shape {target.shape} "
            f"({merge.inputs[0].name}), but its body returns shape {value.shape}."
        )
    following = _node(graph, "NextIteration", [value], shape=value.shape)
    merge.inputs = (merge.inputs[0], following)


def cond(
    pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any], name: str | None = None
) -> Any:
    """``true_fn()`` if ``pred`` holds in a run, else ``false_fn()``; the other is not computed.

    Each makes the nodes of its side and returns a tensor or several.

    Returns:
        A tensor, or a list of them.

    Raises:
        ValueError: the sides return different types or numbers of tensors.
    """
    graph = get_default_graph()
    with graph.name_scope(name or "cond") as scope:
        pred = identity(as_tensor(pred, bool_, "pred"), name="pred_id")
        switch = _switch(graph, pred, pred)
        sides: list[list[Tensor]] = []
        for taken_if, function in ((True, true_fn), (False, false_fn)):
            branch = Branch(graph.current_context, scope[:-1], taken_if=taken_if)
            branch.pred = pred
            with graph.in_context(branch):
                way_in = switch.outputs[int(taken_if)]
                pivot = identity(way_in, name="switch_t" if taken_if else "switch_f")
                branch.pivot = pivot.op
                # Identity makes a node of the branch of what only passes through it.
                sides.append(
                    [
                        value if value.op.context is branch else identity(value)
                        for value in map(as_tensor, _as_list(function()))
                    ]
                )
        yes_types, no_types = ([value.dtype for value in side] for side in sides)
        if yes_types != no_types or not yes_types:
            raise ValueError(
                f"The two sides of {branch.name} must return as many tensors of the same types, "
                f"one at least: {list(map(dtype_name, yes_types))} and "
                f"{list(map(dtype_name, no_types))}."
            )
        results = []
        for yes, no in zip(*sides, strict=True):
            shapes: list[Shape] = [_common(yes.shape, no.shape), ()]
            merge = graph.create_op(
                "Merge", [no, yes], [yes.dtype, int32], {"pred": pred}, shapes=shapes
            )
            results.append(merge.outputs[0])
    return results if len(results) > 1 else results[0]


def _common(one: Shape, other: Shape) -> Shape:
    """What is certain of a shape that is one of two."""
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(a if a == b else None for a, b in zip(one, other, strict=True))


def _as_list(made: Any) -> list[Any]:
    if made is None:
        return []
    return list(made) if isinstance(made, list | tuple) else [made]


def _node(graph: Graph, op_type: str, inputs: Sequence[Tensor], shape: Shape) -> Tensor:
    return graph.create_op(op_type, inputs, [inputs[0].dtype], shapes=[shape]).outputs[0]


def _switch(graph: Graph, value: Tensor, pred: Tensor) -> Operation:
    return graph.create_op(
        "Switch", [value, pred], [value.dtype] * 2, shapes=[value.shape, value.shape]
    )


def _merge_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Sequence[Any]:
    """The Merge of a ``cond``; a loop's is computed by the loop."""
    chosen = int(bool(step.values[op.attributes["pred"]]))
    value = step.values[op.inputs[chosen]]
    if type(value) is VariableRef:
        value = value.read(op)
    return value, np.asarray(chosen, np.int32)


def _switch_kernel(step: RunStep, op: Operation, inputs: list[Any]) -> Sequence[Any]:
    value, pred = inputs
    return (None, value) if pred else (value, None)


for _op_type in ("Enter", "Exit", "NextIteration"):
    define(_op_type, lambda step, op, inputs: inputs[0])
define("LoopCond", lambda step, op, inputs: inputs[0], scalar_shape)
define("Switch", _switch_kernel)
define("Merge", _merge_kernel)
