"""What a function computes, in the words of the search for the tensors to look at."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from tfdbg_cli.engines.kit.op_facts import Op, Value
from tfdbg_cli.engines.tensorflow.functions.definitions import BodyNode, FunctionBody
from tfdbg_cli.engines.tensorflow.shared.op_facts import DTYPE_NAMES

__all__ = ["ops_of", "written"]

# What is done to a variable, in the words of the table.
_WRITING = {
    "AssignAddVariableOp": "AddV2",
    "AssignSubVariableOp": "Sub",
    "AssignVariableOp": "Identity",
}


def written(body: FunctionBody) -> dict[tuple[str, int], BodyNode]:
    """What variables hold behind each node that writes to one: its key, and the node."""
    return {(f"^{node.name}", 0): node for node in body.nodes if node.op in _WRITING}


def ops_of(
    body: FunctionBody, before: Container[str] | None = None
) -> Iterator[tuple[BodyNode, Op]]:
    """What a function itself computes, from its end, in the words of the search.

    Args:
        body: of the function.
        before: the nodes of which those behind them don't tell, as that would be too late.
    """
    arguments = body.definition.signature.input_arg
    kinds = {("", at): each.type for at, each in enumerate(arguments)}
    for node in body.nodes:
        kinds.update(((node.name, slot), each.dtype) for slot, each in enumerate(node.outputs))
    writes = written(body)
    kinds.update((key, kinds.get(node.inputs[1], 0)) for key, node in writes.items())

    def values(places: Iterable[tuple[str, int]], is_late: bool) -> Iterator[Value]:
        for place in places:
            is_apart = is_late and before is not None and (not place[0] or place[0] in before)
            yield Value(None if is_apart else place, DTYPE_NAMES.get(kinds.get(place, 0), "opaque"))

    for node in reversed(body.nodes):
        if node.name not in body.live or node.inner:
            continue
        kind, inputs = node.op, node.inputs
        outputs = [(node.name, slot) for slot in range(len(node.outputs))]
        if kind in _WRITING:
            kind, inputs, outputs = _WRITING[kind], inputs[1:], [(f"^{node.name}", 0)]
        elif kind == "ReadVariableOp":
            held = [(f"^{name}", 0) for name in node.control]
            held = [key for key in held if key in writes and writes[key].inputs[0] == inputs[0]]
            if len(held) == 1:
                kind, inputs = "Identity", held
        is_late = before is not None and node.name not in before
        given, made = (*values(inputs, is_late),), (*values(outputs, False),)
        if kind == "IdentityN":  # some of what it hands on may be for nobody
            for pair in zip(given, made, strict=True):
                yield node, Op("Identity", pair[:1], pair[1:])
        else:
            yield node, Op(kind, given, made, node.definition.attr)
