"""Whether the dumps of a device agree with its graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.graph import node_name_of, slot_of
from tfdbg_cli.dumps.tfdbg_dir.partition import DeviceGraph

__all__ = ["causality_problems"]

# What these give belongs to another frame or iteration than the node that takes it.
_LOOP_EDGES = frozenset({"Enter", "NextIteration"})


def causality_problems(graph: DeviceGraph, data: Sequence[Datum]) -> Iterator[str]:
    """What in the dumps contradicts the graph, one line each.

    A node must be in the graph, and no node may be dumped for the first time before the watched
    tensors that it takes (a ``Merge``: before any of them).

    Args:
        graph: of one device.
        data: the same device's dumps, in time order.
    """
    first: dict[tuple[str, int], int] = {}
    for datum in data:
        first.setdefault((datum.node_name, datum.output_slot), datum.timestamp)
    seen: set[str] = set()
    for datum in data:
        name = datum.node_name
        if name in seen:
            continue
        seen.add(name)
        if name not in graph.nodes:
            yield f'Node "{name}" was dumped but is not in the graph of {graph.device_name}.'
            continue
        late = [
            source
            for source in graph.inputs[name]
            if first.get((node_name_of(source), slot_of(source)), 0) > datum.timestamp
            and not _is_loop_edge(graph, source)
        ]
        watched = [
            source
            for source in graph.inputs[name]
            if (node_name_of(source), slot_of(source)) in first
        ]
        is_merge = graph.nodes[name].op == "Merge"
        if late and (not is_merge or len(late) == len(watched)):
            yield f"{name} was dumped before its input {late[0]} on {graph.device_name}."


def _is_loop_edge(graph: DeviceGraph, source: str) -> bool:
    node = graph.nodes.get(node_name_of(source))
    return node is not None and node.op in _LOOP_EDGES
