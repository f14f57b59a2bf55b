"""Numbers of half precision are looked at in copies of the ops that compute them.

TensorFlow's optimizer makes one op of several where nobody else reads what is between them. What
is returned is read: another result would leave these ops apart, each of which rounds. In float32
that changes last bits, in float16 and bfloat16 whole percents of a loss after some steps. So the
program's own ops of such a function are left as they are, and twins return what copies of them
compute, which costs as much once more.
"""

from __future__ import annotations

from typing import Any

from tensorflow.core.framework import types_pb2

from tfdbg_cli.engines.tensorflow.functions.definitions import BodyNode, FunctionBody
from tfdbg_cli.engines.tensorflow.functions.effects import has_state

__all__ = ["copy_halves"]

_HALVES = frozenset({types_pb2.DT_HALF, types_pb2.DT_BFLOAT16})
_MARK = "_tfdbg_copy"


def copy_halves(definition: Any, body: FunctionBody) -> dict[str, str]:
    """Add copies of what may be computed twice, if anything of it is of half precision.

    Args:
        definition: of the function's twin; it gets the copies.
        body: of the function.

    Returns:
        What refers to a tensor -> what refers to its copy.
    """
    if not any(output.dtype in _HALVES for node in body.nodes for output in node.outputs):
        return {}
    made: dict[str, str] = {}
    known = {node.name: node for node in definition.node_def}
    for node in body.nodes:
        if not _is_copied(node):
            continue
        copy = definition.node_def.add()
        copy.CopyFrom(known[node.name])
        copy.name = f"{node.name}{_MARK}"
        # Nodes that are alike in all of their attributes would be made one again.
        copy.attr[_MARK].b = True
        copy.input[:] = [made.get(each, each) for each in copy.input]
        for output in node.outputs:
            made[output.reference] = f"{copy.name}{output.reference[len(node.name) :]}"
    return made


def _is_copied(node: BodyNode) -> bool:
    is_computed = bool(node.inputs) and not (node.inner or node.kind or has_state(node))
    return is_computed and node.stands_for is None
