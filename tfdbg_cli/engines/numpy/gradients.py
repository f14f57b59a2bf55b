"""Reverse-mode differentiation: new nodes that compute the gradients of some tensors by others."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import dtype_name, is_differentiable
from tfdbg_cli.engines.numpy.graph import Graph
from tfdbg_cli.engines.numpy.nodes import Operand, Operation, Tensor
from tfdbg_cli.engines.numpy.ops.constants import as_tensor, fill, node, shape
from tfdbg_cli.engines.numpy.registry import OPS

__all__ = ["gradients"]


def gradients(ys: Any, xs: Any) -> list[Tensor | None]:
    """The derivative of the sum of ``ys``, a tensor or several, by each of ``xs``.

    The nodes for a node ``a/b`` are in the scope ``gradients/a/b_grad``.

    Returns:
        A tensor in the shape of each of ``xs``, or ``None`` where ``ys`` don't depend on it.

    Raises:
        LookupError: there is an op without a gradient on the way; it is named.
        TypeError: ``ys`` are not floating-point.
    """
    targets = [as_tensor(y) for y in _as_list(ys)]
    # A variable is derived by as itself, so that all its reads count.
    sources = [
        as_tensor(x.as_graph_element() if isinstance(x, Operand) else x) for x in _as_list(xs)
    ]
    graph = (targets + sources)[0].graph
    with graph.as_default(), graph.name_scope("gradients") as scope:
        collected: dict[Tensor, list[Tensor]] = {}
        for at, target in enumerate(targets):
            if not is_differentiable(target.dtype):
                raise TypeError(
                    f"{target.name} is {dtype_name(target.dtype)}: only floating-point tensors "
                    "have gradients."
                )
            start = fill(shape(target), np.ones((), target.dtype), name=f"grad_ys_{at}")
            collected.setdefault(target, []).append(start)
        return _backpropagate(graph, scope, targets, sources, collected)


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _between(targets: list[Tensor], sources: list[Tensor]) -> list[Operation]:
    """The ops on a way from sources to targets, in the order of creation."""
    reached: set[Operation] = set()
    stack = [tensor.op for tensor in targets]
    while stack:
        op = stack.pop()
        if op not in reached:
            reached.add(op)
            stack.extend(tensor.op for tensor in op.inputs)
    wanted = set(sources)
    depends: set[Operation] = set()
    ordered = sorted(reached, key=lambda op: op.index)
    for op in ordered:
        if any(tensor in wanted or tensor.op in depends for tensor in op.inputs):
            depends.add(op)
    return [op for op in ordered if op in depends]


def _backpropagate(
    graph: Graph,
    scope: str,
    targets: list[Tensor],
    sources: list[Tensor],
    collected: dict[Tensor, list[Tensor]],
) -> list[Tensor | None]:
    def total(tensor: Tensor) -> Tensor | None:
        parts = collected.get(tensor)
        if not parts:
            return None
        if len(parts) > 1:
            with graph.name_scope(scope):
                parts[:] = [node("AddN", parts)]
        return parts[0]

    for op in reversed(_between(targets, sources)):
        outputs = [total(tensor) for tensor in op.outputs]
        if all(grad is None for grad in outputs):
            continue
        rule = OPS[op.type].gradient
        if rule is None:
            raise LookupError(f"The op type {op.type} has no gradient (node {op.name}).")
        # A scope that starts anew for each op: gradients/a/b_grad, and ..._1 for a second pass.
        with graph.name_scope(scope), graph.name_scope(op.name + "_grad"):
            results = rule(op, *outputs)
        for tensor, grad in zip(op.inputs, results, strict=True):
            if grad is not None and is_differentiable(tensor.dtype):
                grad.set_shape(tensor.shape)
                collected.setdefault(tensor, []).append(grad)
    return [total(tensor) for tensor in sources]
