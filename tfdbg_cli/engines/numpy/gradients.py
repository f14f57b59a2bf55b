"""Reverse-mode differentiation: new nodes that compute the gradients of some tensors by others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfdbg_cli.engines.numpy.contexts import FlowContext
from tfdbg_cli.engines.numpy.dtypes import dtype_name, is_differentiable
from tfdbg_cli.engines.numpy.graph import Graph
from tfdbg_cli.engines.numpy.nodes import Operand, Operation, Tensor
from tfdbg_cli.engines.numpy.ops.constants import as_tensor, fill, shape, zeros_like
from tfdbg_cli.engines.numpy.ops.control_flow import branches
from tfdbg_cli.engines.numpy.ops.math_ops import add_n
from tfdbg_cli.engines.numpy.registry import OPS

__all__ = ["gradients"]


def gradients(
    ys: Any, xs: Any, grad_ys: Any = None, name: str | None = None
) -> list[Tensor | None]:
    """The derivative of the sum of ``ys`` by each of ``xs``.

    Args:
        ys: a tensor or several.
        xs: a tensor or variable, or several.
        grad_ys: what to start from, one tensor for each of ``ys``; default: ones.
        name: of the scope that the nodes are in, ``gradients`` by default. The nodes for a node
            ``a/b`` are in ``gradients/a/b_grad``.

    Returns:
        A tensor in the shape of each of ``xs``, or ``None`` where ``ys`` don't depend on it.

    Raises:
        LookupError: there is an op without a gradient on the way; it is named.
        TypeError: ``ys`` are not floating-point.
    """
    targets = [as_tensor(y) for y in _as_list(ys)]
    sources = [_source(x) for x in _as_list(xs)]
    graph = (targets + sources)[0].graph
    given = _as_list(grad_ys) if grad_ys is not None else [None] * len(targets)
    with graph.as_default(), graph.name_scope(name or "gradients") as scope:
        starts = []
        for at, (target, start) in enumerate(zip(targets, given, strict=True)):
            if not is_differentiable(target.dtype):
                raise TypeError(
                    f"{target.name} is {dtype_name(target.dtype)}: only floating-point tensors "
                    "have gradients."
                )
            if start is None:
                one = np.ones((), target.dtype)
                made = fill(shape(target), one, name=f"grad_ys_{at}")
            else:
                made = as_tensor(start, target.dtype, f"grad_ys_{at}")
            starts.append(made)
        return _backpropagate(graph, scope, targets, sources, starts)


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _source(x: Any) -> Tensor:
    """A variable is derived by as itself, so that all its reads count."""
    element = x.as_graph_element() if isinstance(x, Operand) else x
    return as_tensor(element)


def _external_inputs(merge: Operation) -> list[Tensor]:
    """The tensors from outside that the two branches behind a Merge node compute from."""
    found: dict[Tensor, None] = {}
    seen: set[Operation] = set()
    stack = [tensor.op for tensor in merge.inputs]
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        for tensor in op.inputs:
            if _is_inside(tensor.op.context, merge.context):
                stack.append(tensor.op)
            else:
                found[tensor] = None
    return [tensor for tensor in found if is_differentiable(tensor.dtype)]


def _is_inside(context: FlowContext | None, outer: FlowContext | None) -> bool:
    """Whether a context is below another (and is not it)."""
    if context is None or context is outer:
        return False
    while context is not None and context is not outer:
        context = context.parent
    return context is outer


def _effective_inputs(op: Operation) -> list[Tensor]:
    """What an op is computed from; a ``cond`` counts as one op with the inputs of its branches."""
    if op.type == "Merge" and "pred" in op.attributes:
        return _external_inputs(op)
    return list(op.inputs)


def _between(targets: list[Tensor], sources: list[Tensor]) -> list[Operation]:
    """The ops on a way from sources to targets, in the order of creation."""
    inputs: dict[Operation, list[Tensor]] = {}
    stack = [tensor.op for tensor in targets]
    while stack:
        op = stack.pop()
        if op not in inputs:
            inputs[op] = _effective_inputs(op)
            stack.extend(tensor.op for tensor in inputs[op])
    wanted = set(sources)
    depends: set[Operation] = set()
    ordered = sorted(inputs, key=lambda op: op.index)
    for op in ordered:
        if any(tensor in wanted or tensor.op in depends for tensor in inputs[op]):
            depends.add(op)
    return [op for op in ordered if op in depends]


def _backpropagate(
    graph: Graph,
    scope: str,
    targets: list[Tensor],
    sources: list[Tensor],
    starts: list[Tensor],
) -> list[Tensor | None]:
    collected: dict[Tensor, list[Tensor]] = {}
    for target, start in zip(targets, starts, strict=True):
        collected.setdefault(target, []).append(start)

    def total(tensor: Tensor) -> Tensor | None:
        parts = collected.get(tensor)
        if not parts:
            return None
        if len(parts) > 1:
            with graph.name_scope(scope):
                parts[:] = [add_n(parts)]
        return parts[0]

    for op in reversed(_between(targets, sources)):
        outputs = [total(tensor) for tensor in op.outputs]
        if all(grad is None for grad in outputs):
            continue
        # A scope that starts anew for each op: gradients/a/b_grad, and ..._1 for a second pass.
        with graph.name_scope(scope), graph.name_scope(op.name + "_grad"):
            inputs = _effective_inputs(op)
            results = _input_gradients(op, inputs, outputs)
        for tensor, grad in zip(inputs, results, strict=True):
            if grad is not None and is_differentiable(tensor.dtype):
                grad.set_shape(tensor.shape)
                collected.setdefault(tensor, []).append(grad)
    return [total(tensor) for tensor in sources]


def _input_gradients(
    op: Operation, inputs: list[Tensor], outputs: list[Tensor | None]
) -> Sequence[Tensor | None]:
    if op.type == "Merge" and "pred" in op.attributes:
        return _cond_gradient(op, inputs, outputs[0])
    rule = OPS[op.type].gradient
    if op.type in _LOOP_TYPES and rule is None:
        raise LookupError(
            f"There are no gradients through while_loop() (node {op.name}, op type {op.type}); "
            "take them inside the body, or unroll the loop."
        )
    if rule is None:
        raise LookupError(f"The op type {op.type} has no gradient (node {op.name}).")
    return rule(op, *outputs)


#: The op types by which a gradient would go into a loop.
_LOOP_TYPES = frozenset({"Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch"})


def _cond_gradient(
    merge: Operation, inputs: list[Tensor], grad: Tensor | None
) -> Sequence[Tensor | None]:
    """A second ``cond`` on the same condition, with the gradients of the side that was taken."""
    if grad is None or not inputs:
        return [None] * len(inputs)
    start = grad

    def side(result: Tensor) -> list[Tensor]:
        found = gradients(result, inputs, grad_ys=[start])
        return [
            zeros_like(tensor) if made is None else made
            for tensor, made in zip(inputs, found, strict=True)
        ]

    no, yes = merge.inputs
    return branches(merge.attributes["pred"], lambda: side(yes), lambda: side(no))
