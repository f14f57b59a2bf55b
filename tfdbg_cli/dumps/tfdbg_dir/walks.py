"""Walks over one device's graph, without recursion: graphs are deeper than Python's stack."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from tfdbg_cli.dumps.graph import node_name_of
from tfdbg_cli.dumps.tfdbg_dir.partition import DeviceGraph

__all__ = ["all_inputs", "some_path"]


def _sources(graph: DeviceGraph, name: str, control: bool, reversed_ref: bool) -> Iterator[str]:
    yield from graph.inputs.get(name, ())
    if control:
        yield from graph.control_inputs.get(name, ())
    if reversed_ref:
        yield from graph.reversed_ref_inputs.get(name, ())


def _is_merge(graph: DeviceGraph, name: str) -> bool:
    node = graph.nodes.get(name)
    return node is not None and node.op == "Merge"


def all_inputs(graph: DeviceGraph, name: str, control: bool, reversed_ref: bool) -> list[str]:
    """Everything a node depends on, depth first, each node once; not beyond ``Merge`` nodes.

    Returns:
        Inputs as they are written where they were met: ``a`` or ``a:1``.
    """
    if _is_merge(graph, name):
        return []
    visited = {name}
    found: list[str] = []
    stack = [_sources(graph, name, control, reversed_ref)]
    while stack:
        source = next(stack[-1], None)
        if source is None:
            stack.pop()
            continue
        node = node_name_of(source)
        if node in visited:
            continue
        visited.add(node)
        found.append(source)
        if not _is_merge(graph, node):
            stack.append(_sources(graph, node, control, reversed_ref))
    return found


def some_path(
    graph: DeviceGraph, source: str, target: str, control: bool, reversed_ref: bool
) -> list[str] | None:
    """A shortest way from ``source`` to ``target``, both included, or ``None``.

    The way doesn't lead through ``Merge`` nodes, so that it never runs around a loop.
    """
    following: dict[str, str] = {target: ""}
    written = {target: target}
    queue = deque([target])
    while queue:
        at = queue.popleft()
        if at == source:
            path = []
            while at:
                path.append(written[at])
                at = following[at]
            return path
        if _is_merge(graph, at):
            continue
        for name in _sources(graph, at, control, reversed_ref):
            node = node_name_of(name)
            if node not in following:
                following[node] = at
                written[node] = name
                queue.append(node)
    return None
