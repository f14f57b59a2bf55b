"""Norms of gradients and parameters as expressions over the tensors of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.elements import node_name_of
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.run_info import roles_of
from tfdbg_cli.dumps.series.gradients import is_backward, leaving

__all__ = ["GRADIENT", "PARAMETER", "STEP", "norm_expressions"]

#: What the series are called: these, and behind a dot the module.
GRADIENT, PARAMETER = "grad_norm", "param_norm"
#: The same of gradients as an optimizer gets them, which an engine tells by itself.
STEP = "step_norm"


def norm_expressions(dump: Dump) -> dict[str, str]:
    """The norms over all gradients and parameters, and over those of each module, by their names.

    Gradients are what the backward pass hands to whatever isn't a part of it: an optimizer,
    something that clips. Parameters are the state that the forward pass reads.

    Args:
        dump: of a run of training.
    """
    graph = dump.graph()
    if graph is None:
        return {}
    found: dict[str, dict[str, None]] = {}
    for what, tensors in (
        (GRADIENT, leaving(graph)),
        (PARAMETER, _parameters(graph, dump)),
    ):
        for tensor, module in tensors:
            data = dump.by_tensor(tensor)
            if data and "float" in data[-1].dtype:
                for name in (what, f"{what}.{module}" if module else what):
                    found.setdefault(name, {})[tensor] = None
    return {name: _norm(tensors) for name, tensors in sorted(found.items())}


def _norm(tensors: Iterable[str]) -> str:
    parts = ", ".join(f'np.linalg.norm(`{tensor}`.astype("f8"))' for tensor in tensors)
    return f"np.hypot.reduce([{parts}])"


def _parameters(graph: Graph, dump: Dump) -> Iterator[tuple[str, str]]:
    """The state that the forward pass reads, and the modules that it is in."""
    info = dump.run_info()
    roles = roles_of(info)
    seen = set()
    for node in _forward(graph):
        for tensor in node.inputs:
            giver = graph.nodes.get(node_name_of(tensor))
            if giver is None or giver.op_type not in roles.weights | roles.reading:
                continue
            if giver.op_type in roles.weights and node.op_type in roles.reading:
                continue  # a handle; what is read of it counts
            is_read = giver.op_type in roles.reading and giver.inputs
            owner = node_name_of(giver.inputs[0]) if is_read else giver.name
            if owner not in seen:
                seen.add(owner)
                yield tensor, owner.rpartition("/")[0]


def _forward(graph: Graph) -> list[Node]:
    """What the backward pass comes from, in the order of the graph."""
    waiting = [name for name in graph.nodes if is_backward(name)]
    found = set(waiting)
    while waiting:
        for tensor in graph.nodes[waiting.pop()].inputs:
            name = node_name_of(tensor)
            if name not in found and name in graph:
                found.add(name)
                waiting.append(name)
    return [node for node in graph.nodes.values() if node.name in found]
