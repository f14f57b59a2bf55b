"""What the ops of a traced function do to variables, and to what else there is."""

from __future__ import annotations

from collections.abc import Iterable

from tensorflow.python.framework import op_def_registry

from tfdbg_cli.engines.tensorflow.functions.definitions import BodyNode, FunctionBody
from tfdbg_cli.engines.tensorflow.functions.variables import is_writing

__all__ = [
    "can_repeat",
    "has_state",
    "is_foreign",
    "is_foreign_inside",
    "is_variable_op",
    "may_write",
    "nodes_behind",
    "touches_state",
]

_READING = frozenset(
    {"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VarIsInitializedOp", "VariableShape"}
)
# Stateful only so that nobody leaves them out.
_HARMLESS = frozenset({"Assert", "CheckNumerics", "CheckNumericsV2", "NoOp"})


def has_state(node: BodyNode) -> bool:
    """Whether a node that calls nothing has effects, or gives something else each time."""
    signature = op_def_registry.get(node.op)
    return signature is None or bool(signature.is_stateful)


def touches_state(body: FunctionBody, seen: frozenset[str] = frozenset()) -> bool:
    """Whether anything in a function has."""
    if body.name in seen:
        return True
    inside = seen | {body.name}
    return any(
        any(touches_state(each, inside) for each in node.inner.values())
        if node.inner
        else has_state(node)
        for node in body.nodes
    )


def may_write(node: BodyNode) -> bool:
    """Whether a node writes to a variable, or calls what has state."""
    if node.inner:
        return any(touches_state(each) for each in node.inner.values())
    return bool(node.kind) or is_writing(node.op)


def nodes_behind(body: FunctionBody, names: Iterable[str]) -> set[str]:
    """These nodes, and all that wait for one of them."""
    found = set(names)
    for node in body.nodes:
        if any(name in found for name, _ in node.inputs) or not found.isdisjoint(node.control):
            found.add(node.name)
    return found


def can_repeat(node: BodyNode, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a node does nothing, and gives the same, when it is executed twice in a row."""
    if not node.inner:
        return not is_foreign(node) and not is_writing(node.op)
    return all(
        body.name not in seen and all(can_repeat(each, seen | {body.name}) for each in body.nodes)
        for body in node.inner.values()
    )


def is_variable_op(op: str) -> bool:
    """Whether ops of a type have to do with variables and nothing else."""
    return op in _READING or is_writing(op)


def is_foreign(node: BodyNode) -> bool:
    """Whether what a node does can't be done again: random numbers, iterators, files, Python."""
    if node.inner:
        return False
    if node.kind:
        return True
    return has_state(node) and not is_variable_op(node.op) and node.op not in _HARMLESS


def is_foreign_inside(body: FunctionBody, seen: frozenset[str] = frozenset()) -> bool:
    """Whether there is such a node in a function."""
    if body.name in seen:
        return True
    inside = seen | {body.name}
    return any(
        is_foreign(node) or any(is_foreign_inside(each, inside) for each in node.inner.values())
        for node in body.nodes
    )
