"""What became of a model's nodes in the graph that ONNX Runtime really runs."""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnxruntime

from tfdbg_cli.common.temporary import passing_folder
from tfdbg_cli.engines.onnx.model import Model, ModelNode
from tfdbg_cli.engines.onnx.private import initial_options, model_source
from tfdbg_cli.engines.onnx.twin import own_options

__all__ = ["optimised_nodes", "optimised_options"]

# A copy of larger models isn't made for this.
_LARGEST = 64 << 20


def optimised_options(session: Any) -> Any:
    """Options like those of a session, its optimisations included."""
    given, options = initial_options(session), own_options(session)
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = (
        given.graph_optimization_level if given is not None else levels.ORT_ENABLE_ALL
    )
    return options


def optimised_nodes(session: Any, model: Model) -> Mapping[str, str]:
    """Node -> what it is part of, or has become, where the graph that runs hasn't got it as it is.

    Args:
        session: the program's; another one like it is made, once.
        model: of it.

    Raises:
        Exception: ONNX Runtime's.
    """
    import onnx

    if model.folder or model.proto.ByteSize() > _LARGEST:
        return {}
    options = optimised_options(session)
    with passing_folder() as folder:
        options.optimized_model_filepath = os.path.join(folder, "model.onnx")
        onnxruntime.InferenceSession(
            model_source(session), options, session.get_providers(), enable_fallback=0
        )
        graph = onnx.load(options.optimized_model_filepath).graph
    makers = {name: node for node in graph.node for name in node.output if name}
    constants = {tensor.name for tensor in graph.initializer}
    return dict(_told(model.nodes, makers, constants))


def _told(
    nodes: Sequence[ModelNode], makers: Mapping[str, Any], constants: set[str]
) -> Iterator[tuple[str, str]]:
    users: dict[str, list[ModelNode]] = defaultdict(list)
    for node in nodes:
        for name in node.proto.input:
            users[name].append(node)
    for node in nodes:
        names = list(node.outputs.values())
        found = next((makers[name] for name in names if name in makers), None)
        if found is not None:
            if found.op_type != node.proto.op_type:
                yield node.name, f"{_title(found)}"
        elif any(name in constants for name in names):
            yield node.name, "a constant, computed when the session was made"
        else:
            maker = _first_below(node, users, makers)
            yield node.name, f"part of {_title(maker)}" if maker is not None else "left out"


def _first_below(
    node: ModelNode, users: Mapping[str, Sequence[ModelNode]], makers: Mapping[str, Any]
) -> Any:
    """The nearest node of the other graph that makes what is computed from a node."""
    waiting, seen = deque([node]), {node.name}
    while waiting:
        for name in waiting.popleft().outputs.values():
            for user in users.get(name, ()):
                made = next((makers[each] for each in user.outputs.values() if each in makers), 0)
                if made:
                    return made
                if user.name not in seen:
                    seen.add(user.name)
                    waiting.append(user)
    return None


def _title(node: Any) -> str:
    """``FusedMatMul of com.microsoft (dense/MatMul)``."""
    domain = f" of {node.domain}" if node.domain else ""
    return f"{node.op_type}{domain}" + (f" ({node.name})" if node.name else "")
