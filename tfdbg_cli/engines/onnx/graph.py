"""The graph of a model as the debugger knows it, and the lines that its nodes come from."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.dumps.graph import Node
from tfdbg_cli.dumps.sources import Frame
from tfdbg_cli.engines.kit.stacks import Stack
from tfdbg_cli.engines.onnx.model import INITIALIZER, INPUT, Model, ModelNode
from tfdbg_cli.engines.onnx.values import ELEMENTS

__all__ = ["exported_frames", "nodes_of"]

_LINE = re.compile(r'File "([^"]+)", line (\d{1,9}), in (.+)')
_MOST_SHOWN = 20


def nodes_of(model: Model, stack: Stack, passed: Collection[str] = ()) -> Iterator[Node]:
    """The nodes: inputs, initializers, then what is computed.

    Args:
        model: whose.
        stack: of the call of ``run``.
        passed: the loops that the run has not gone round.
    """
    frames = functools.cache(stack.frames)
    for node, name in model.inputs.items():
        said = functools.partial(_types, model, {0: name})
        yield Node(node, INPUT, attributes=said, frames=frames)
    for name, weight in model.weights.items():  # the model's, not of the call: no line
        shape = str(list(weight.shape))
        known = {"output:0": f"{weight.dtype} {shape}", "tensor:0": name}
        yield Node(weight.node, INITIALIZER, attributes=known)
    for each in model.all_nodes:
        lines = functools.partial(_frames, each, frames)
        yield Node(
            each.name,
            each.op_type,
            each.inputs,
            attributes=functools.partial(_attributes, model, each),
            frames=lines,
            returns=_returns(each, each.name in passed),
        )
        for handed in each.handed:
            known = {"tensor:0": handed.tensor, "inside": handed.scope} if handed.tensor else {}
            yield Node(handed.name, handed.op_type, handed.inputs, attributes=known, frames=lines)


def _returns(node: ModelNode, was_passed: bool) -> Sequence[Sequence[str]]:
    """Per output of a node what its bodies may have given for it."""
    if len(node.branches) == 2:  # else one of them isn't known
        ways = (node.branches.get(name, []) for name in ("then_branch", "else_branch"))
        return list(zip(*ways, strict=False))
    return [ways[:1] for ways in node.ends] if was_passed else node.ends


def _frames(node: ModelNode, stack: Any) -> tuple[Frame, ...]:
    return (*stack(), *exported_frames(node))


def exported_frames(node: ModelNode) -> tuple[Frame, ...]:
    """The lines of the module that a node was exported from, as far as the files are here."""
    found = []
    for entry in node.proto.metadata_props:
        if _plain(entry.key).endswith("stack_trace"):
            for file, line, function in _LINE.findall(_plain(entry.value)):
                if file.endswith(".py") and os.path.isfile(file):
                    found.append(Frame(file, int(line), function.strip()))
    return tuple(found)


def _attributes(model: Model, node: ModelNode) -> dict[str, str]:
    found: dict[str, str] = {}
    for attribute in node.proto.attribute:
        found[_plain(attribute.name)] = _text(attribute)
    found.update(_types(model, node.outputs))
    if node.scope:
        found["inside"] = node.scope
    became = model.optimised().get(node.name)
    if became:
        found["runs as"] = became
    for entry in node.proto.metadata_props:
        if not _plain(entry.key).endswith("stack_trace"):
            found[_plain(entry.key)] = _plain(entry.value)
    if node.proto.doc_string:
        found["doc"] = _plain(node.proto.doc_string)
    return found


def _types(model: Model, outputs: dict[int, str]) -> dict[str, str]:
    found = {}
    for slot, name in outputs.items():
        known = model.types.get(name)
        if known is not None and known.type.WhichOneof("value"):
            found[f"output:{slot}"] = _type_text(known.type)
        found[f"tensor:{slot}"] = name
    return found


def _type_text(type_: Any) -> str:
    kind = type_.WhichOneof("value")
    if kind == "sequence_type":
        return f"sequence of {_type_text(type_.sequence_type.elem_type)}"
    if kind == "optional_type":
        return f"optional {_type_text(type_.optional_type.elem_type)}"
    if kind == "map_type":
        key = ELEMENTS.get(type_.map_type.key_type, "?")
        return f"map of {key} to {_type_text(type_.map_type.value_type)}"
    if kind not in ("tensor_type", "sparse_tensor_type"):
        return str(kind)
    tensor = getattr(type_, kind)
    dims = [_dim(each) for each in tensor.shape.dim] if tensor.HasField("shape") else None
    shape = f" [{', '.join(dims)}]" if dims is not None else ""
    sparse = "sparse " if kind == "sparse_tensor_type" else ""
    return f"{sparse}{ELEMENTS.get(tensor.elem_type, '?')}{shape}"


def _dim(dim: Any) -> str:
    kind = dim.WhichOneof("value")
    return str(_plain(getattr(dim, kind))) if kind else "?"


def _text(attribute: Any) -> str:
    from onnx import helper, numpy_helper

    if attribute.HasField("g"):
        return f"a graph of {len(attribute.g.node)} nodes"
    if attribute.HasField("t"):
        tensor = attribute.t
        # What is beside the model isn't read for this.
        if len(tensor.raw_data) > 1 << 12 or tensor.data_location == 1:
            return f"{ELEMENTS.get(tensor.data_type, '?')} {list(tensor.dims)}"
        try:
            return str(numpy_helper.to_array(tensor))
        except Exception as error:  # whatever a damaged one leads to
            return f"<damaged: {one_line(error)}>"
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list | tuple) and len(value) > _MOST_SHOWN:
        return f"{list(value[:_MOST_SHOWN])} and {len(value) - _MOST_SHOWN} more"
    if isinstance(value, list | tuple):
        return str([_plain(item) for item in value])
    return str(value)


def _plain(item: Any) -> Any:
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else item
