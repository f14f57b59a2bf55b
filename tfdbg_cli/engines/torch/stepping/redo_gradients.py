"""Gradients that were only seen between modules, computed again with other values.

Outside of modules a backward pass is known by autograd's nodes: each is the derivative of one
recorded op. What a module, or a parameter, gets back is the sum of what was handed to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tfdbg_cli.dumps.dump import CannotRedo, Dump
from tfdbg_cli.dumps.graph import Node
from tfdbg_cli.engines.torch.record.op_record import OpRecord

__all__ = ["recorded", "redo_gradient"]

_Array = np.ndarray[Any, Any]
_Pulled = Callable[[OpRecord, Sequence[_Array], Sequence[_Array], bool], Sequence[_Array | None]]

_GRADIENTS, _FORWARD_NODE = "gradients/", "_forward_node"
# Of the largest number: autograd may sum in another order than the run did.
_APART = {"float16": 1e-2, "bfloat16": 1e-1}


def redo_gradient(
    dump: Dump,
    ops: Mapping[str, OpRecord],
    pulled: _Pulled,
    name: str,
    given: Sequence[_Array],
    made: Sequence[Any],
    is_wide: bool,
) -> list[_Array | None]:
    """Compute a node that is no recorded op: a derivative, or a sum of gradients.

    Whether the node is understood is found out first: of the values of the run it has to give what
    the run has given.

    Args:
        dump: of the run.
        ops: that were recorded, by their nodes.
        pulled: the gradients of such an op, of its inputs and of what comes back to it.
        name: of the node.
        given: the values of its inputs.
        made: what it gave in the run.
        is_wide: as `Redo` takes it.

    Raises:
        CannotRedo: it can't be computed.
    """
    graph = dump.graph()
    node = graph.nodes.get(name) if graph is not None else None
    if graph is None or node is None or not made:
        raise CannotRedo(_why_not(name))
    forward = graph.nodes.get(str(node.attributes.get(_FORWARD_NODE)))

    def compute(values: Mapping[str, _Array], is_wide: bool) -> list[_Array | None]:
        if forward is None or forward.name not in ops:
            return [_sum(node, values, made[0])]
        inputs = [values[each] for each in forward.inputs]
        own = {*forward.inputs, f"{forward.name}:0"}
        back = [values[each] for each in node.inputs if each not in own]
        return [*pulled(ops[forward.name], inputs, back, is_wide)]

    before = compute({each: recorded(dump, each) for each in node.inputs}, False)
    # Autograd's node may have no place for an input without a gradient (the condition of a where).
    places = [at for at, each in enumerate(before) if each is not None]
    order = next((each for each in (range(len(before)), places) if _are(made, before, each)), None)
    if order is None:
        raise CannotRedo("what its gradient consists of isn't known")
    found = compute(dict(zip(node.inputs, given, strict=True)), is_wide)
    return [found[at] if was is not None else None for at, was in zip(order, made, strict=False)]


def _are(made: Sequence[Any], found: Sequence[_Array | None], order: Sequence[int]) -> bool:
    """Whether gradients, in an order, are those of the run."""
    ordered = [found[at] for at in order]
    return all(
        was is None or (now is not None and _same(was, now))
        for was, now in zip(made, ordered, strict=False)
    )


def _sum(node: Node, values: Mapping[str, _Array], made: Any) -> _Array:
    """What was handed to a module or a parameter, or the 1 that autograd begins with at a loss."""
    given = [each for each in node.inputs if each.startswith(_GRADIENTS)]
    if node.op_type != "Gradient" or made is None:
        raise CannotRedo(_why_not(node.name))
    if not given and made.shape == () and made == 1:  # the backward pass begins here
        return np.asarray(made)
    parts = [values[each] for each in given if values[each].shape == made.shape]
    if not parts:
        raise CannotRedo(_why_not(node.name))
    return np.asarray(sum(parts[1:], parts[0]))


def _why_not(name: str) -> str:
    if name.startswith(_GRADIENTS):
        return "the ops of this module's backward pass weren't recorded"
    if name.startswith("optimizer/"):
        return "the weights before the update weren't kept"
    return "it stands for several ops"


def recorded(dump: Dump, name: str) -> _Array:
    """A value of the run.

    Args:
        dump: of the run.
        name: of the tensor.

    Raises:
        CannotRedo: it isn't in the dump, or several times.
    """
    data = dump.by_tensor(name)
    value = data[0].get_tensor() if len(data) == 1 else None
    if not isinstance(value, np.ndarray | np.generic):
        raise CannotRedo(f"{name} isn't in the dump")
    return np.asarray(value)


def _same(one: _Array, other: _Array) -> bool:
    if one.shape != other.shape:
        return False
    was, now = one.astype(np.float64), other.astype(np.float64)
    largest = np.abs(was[np.isfinite(was)]).max(initial=0)
    apart = _APART.get(str(one.dtype), 1e-4) * largest
    return bool(np.allclose(was, now, rtol=0, atol=apart, equal_nan=True))
