"""What TensorFlow's optimizer makes of a function and its twin (see `shared.optimized`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from tensorflow.core.framework import types_pb2

from tfdbg_cli.engines.tensorflow.functions.definitions import (
    BodyNode,
    FunctionBody,
    Kind,
    plain_text,
)
from tfdbg_cli.engines.tensorflow.functions.effects import has_state
from tfdbg_cli.engines.tensorflow.shared.optimized import PASSING, GraphNode, OptimizedGraph

__all__ = ["Place", "Unread", "graph_of_function", "nodes_of", "refusable", "unread_edges"]

#: A node of a body: the names of both.
Place = tuple[str, str]
#: By the name of a body: its tensors that nobody may read, by node and slot; of an argument the
#: node has no name.
Unread = Mapping[str, Collection[tuple[str, int]]]


def refusable(definition: Any) -> None:
    """Add one more argument to a function, a float32, which nothing reads.

    As long as what it is given there is of another type, the runtime prepares a call of it, and
    refuses the call: nothing of the function is executed. When it is called for good, it is ready.
    """
    definition.signature.input_arg.add(name="tfdbg_refused", type=types_pb2.DT_FLOAT)


def graph_of_function(graphs: Iterable[Any]) -> OptimizedGraph:
    """The graph that the runtime executes for a call of a function or of its twin."""
    return OptimizedGraph(graphs, lambda node: "tfdbg_" in node.name, op_type=plain_text)


def nodes_of(body: FunctionBody, graph: OptimizedGraph) -> Iterator[GraphNode]:
    """The nodes of a function and of those that were put in the place of its calls."""
    return _nodes_of(body, graph, "", _ends(body, body.returns))


def _nodes_of(
    body: FunctionBody, graph: OptimizedGraph, before: str, ends: Collection[Place]
) -> Iterator[GraphNode]:
    for node in body.nodes:
        name, place = f"{before}{node.name}", (body.name, node.name)
        inputs = [(body.name, each) for each, _ in node.inputs]
        is_between = node.name in body.live and place not in ends
        yield GraphNode(name, place, inputs, is_between, _is_plain(node))
        for step, inner in node.inner.items():
            folder = f"{name}/branch{step}" if node.op.endswith("Case") else f"{name}/{step}"
            folder = folder.removesuffix("/")
            if folder in graph.folders:
                yield from _nodes_of(inner, graph, f"{folder}/", ends)


def _ends(body: FunctionBody, results: Iterable[tuple[str, int]]) -> set[Place]:
    """The nodes that give results, and what is written to variables."""
    edges, found = {*results}, set[Place]()
    for node in reversed(body.nodes):
        if node.kind == Kind.CALL and node.inner:
            ((_, inner),) = node.inner.items()
            returns = enumerate(inner.returns)
            found |= _ends(inner, [edge for at, edge in returns if (node.name, at) in edges])
        elif node.op in PASSING and (node.name, 0) in edges:
            edges.add(node.inputs[0])
        elif not node.inner and has_state(node):
            edges.update(node.inputs)
    return found | {(body.name, name) for name, _ in edges}


def unread_edges(body: FunctionBody, places: Collection[Place]) -> Unread:
    """The tensors that can't be read where some nodes are left alone.

    They are also results of calls, and arguments of what is called.

    Args:
        body: of a function.
        places: the nodes.
    """
    found: dict[str, set[tuple[str, int]]] = {}
    if not places:
        return found
    waiting, known = [body], {body.name}
    order: list[FunctionBody] = []
    while waiting:
        each = waiting.pop()
        order.append(each)
        found[each.name] = {
            (node.name, slot)
            for node in each.nodes
            if (each.name, node.name) in places
            for slot in range(len(node.outputs))
        }
        for node in each.nodes:
            for inner in node.inner.values():
                if inner.name not in known:
                    known.add(inner.name)
                    waiting.append(inner)
    count = -1
    while count != (count := sum(map(len, found.values()))):
        for each in order:
            own = found[each.name]
            for node in each.nodes:
                if node.kind == Kind.CALL and node.inner:
                    ((_, inner),) = node.inner.items()
                    theirs = found[inner.name]
                    for at, edge in enumerate(node.inputs):
                        if edge in own:
                            theirs.add(("", at))
                    for at, edge in enumerate(inner.returns):
                        if edge in theirs:
                            own.add((node.name, at))
                elif node.op in PASSING and node.inputs[0] in own:
                    own.add((node.name, 0))
    return found


def _is_plain(node: BodyNode) -> bool:
    """Whether a node may be left unread, and be computed of its inputs if somebody looks."""
    return bool(node.inputs) and not (
        node.inner or node.kind or node.op in PASSING or has_state(node)
    )
