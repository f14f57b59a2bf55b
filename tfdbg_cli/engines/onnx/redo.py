"""Nodes of a model, computed again with other values, each as a model of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime

from tfdbg_cli.dumps.dump import CannotRedo, Redo
from tfdbg_cli.engines.onnx.install import plain_run
from tfdbg_cli.engines.onnx.model import Model, ModelNode
from tfdbg_cli.engines.onnx.stepping.nodes import model_of

__all__ = ["redo_of"]

_RANDOM = ("Random", "Multinomial", "Bernoulli")


def redo_of(model: Model) -> Redo:
    """What `Dump.redo` is for a run of a model.

    Args:
        model: it.
    """
    sessions: dict[tuple[Any, ...], Any] = {}

    def redo(
        node: str, given: Sequence[Any], recorded: Sequence[Any], *, is_wide: bool = False
    ) -> Sequence[Any] | None:
        found = model.by_name.get(node)
        if found is None or found.body:
            raise CannotRedo("it is a loop or a branch, or inside of one")
        if found.op_type.startswith(_RANDOM):
            return None
        names = list(dict.fromkeys(name for name in found.proto.input if name))
        values = dict(zip([name for name in found.proto.input if name], given, strict=False))
        if len(values) != len(names):
            raise CannotRedo("its inputs aren't known")
        key = node, *((str(each.dtype), each.ndim) for each in given)
        try:
            if key not in sessions:
                sessions[key] = _session(model, found, values)
            made = plain_run(sessions[key], [*found.outputs.values()], values)
        except Exception as error:
            raise CannotRedo(f"it refuses these values: {type(error).__name__}") from error
        by_slot = dict(zip(found.outputs, made, strict=True))
        return [np.asarray(by_slot.get(slot)) for slot in range(max(by_slot) + 1)]

    return redo


def _session(model: Model, node: ModelNode, values: Mapping[str, Any]) -> Any:
    kind = onnx.helper.np_dtype_to_tensor_dtype
    inputs = {name: kind(each.dtype) for name, each in values.items()}
    made = model_of(model, "node", [node.proto], inputs, node.outputs.values())
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
