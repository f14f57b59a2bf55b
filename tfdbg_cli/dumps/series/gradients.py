"""Which tensors of a run are the gradients that its backward pass hands over."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tfdbg_cli.common.node_words import GRAD_OF
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.elements import node_name_of
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.run_info import roles_of
from tfdbg_cli.dumps.series.history import GRADIENT, MeasuredTensor

__all__ = ["gradients_of", "is_backward", "leaving"]

_BACKWARD = re.compile(r"gradients(_\d+)?/")
# What TensorFlow and the NumPy engine call what comes back through an op.
_OF_OP = re.compile(r"_grad$")


def gradients_of(dump: Dump) -> Mapping[str, MeasuredTensor]:
    """The gradients that a run has computed, by their tensors' names.

    Those of parameters, if the graph says which these are; of a parameter whose gradient is added
    up, the last. Otherwise what leaves the backward pass: to an optimizer, as a result of the run.

    Args:
        dump: of the run.
    """
    graph = dump.graph()
    if graph is None:
        return {}
    info = dump.run_info()
    weights, found = roles_of(info).weights, {}
    for node in graph.nodes.values():
        owner = graph.nodes.get(node.attributes.get(GRAD_OF, ""))
        if owner is not None and owner.op_type in weights:
            module = owner.name.rpartition(".")[0]
            found[owner.name] = (
                f"{node.name}:0",
                MeasuredTensor(f"gradient of {owner.name}", module, GRADIENT),
            )
    if found:
        return dict(found.values())
    told = dict(leaving(graph))
    for tensor in info.ends if info is not None else ():
        if is_backward(tensor):
            told.setdefault(tensor, _module_of(graph, tensor))
    return {
        tensor: MeasuredTensor(tensor, module, GRADIENT)
        for tensor, module in told.items()
        if any("float" in each.dtype for each in dump.by_tensor(tensor)[-1:])
    }


def is_backward(name: str) -> bool:
    """Whether a node or tensor is of a backward pass, by its name."""
    return _BACKWARD.match(name) is not None


def leaving(graph: Graph) -> Iterator[tuple[str, str]]:
    """What leaves the backward pass, and the modules of the ops whose gradients these are."""
    for node in graph.nodes.values():
        if not is_backward(node.name):
            for tensor in node.inputs:
                if is_backward(tensor):
                    yield tensor, _module_of(graph, tensor)


def _module_of(graph: Graph, tensor: str) -> str:
    """The scope of the op that the first parts of a gradient's name are the name of."""
    path = _BACKWARD.sub("", node_name_of(tensor), 1)
    parts = [_OF_OP.sub("", part) for part in path.split("/")]
    for end in range(len(parts), 0, -1):
        if "/".join(parts[:end]) in graph:
            return "/".join(parts[: end - 1])
    return ""
