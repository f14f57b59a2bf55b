"""Which tensors of a model have to be looked at to know that none of them is bad."""

from __future__ import annotations

from collections.abc import Mapping

from tfdbg_cli.engines.onnx.model import Model, ModelNode

__all__ = ["checked_names"]

#: Ops that make nothing bad of what is clean.
_SAFE = frozenset(
    [
        *("Abs", "And", "ArgMax", "ArgMin", "Ceil", "Clip", "Concat", "DepthToSpace"),
        *("Equal", "Erf", "Expand", "Flatten", "Floor", "Gather", "GatherElements"),
        *("GatherND", "Greater", "GreaterOrEqual", "Identity", "IsInf", "IsNaN", "LeakyRelu"),
        *("Less", "LessOrEqual", "Max", "MaxPool", "Min", "Neg", "NonZero", "Not", "Or"),
        *("Relu", "Reshape", "Round", "Shape", "Sigmoid", "Sign", "Size", "Slice"),
        *("Softsign", "SpaceToDepth", "Split", "Squeeze", "Tanh", "Tile", "TopK"),
        *("Transpose", "Unsqueeze", "Where"),
    ]
)
#: Ops with something bad in their output if there is something bad in one of these inputs. What
#: forgets an infinity (1 / x, exp, a comparison) isn't here, nor what takes only a part.
_TELLING: Mapping[str, range] = {
    **dict.fromkeys(("Add", "Concat", "Gemm", "MatMul", "Mul", "Sub", "Sum"), range(1 << 20)),
    **dict.fromkeys(
        (
            *("Abs", "BatchNormalization", "Ceil", "Div", "Flatten", "Floor", "Identity"),
            *("InstanceNormalization", "LayerNormalization", "Log", "Neg", "Reshape", "Round"),
            *("Sqrt", "Squeeze", "Transpose", "Unsqueeze"),
        ),
        range(1),
    ),
}


def checked_names(model: Model) -> list[str]:
    """The fewest tensors that tell of all others, by the model's names, in its order.

    Where these are finite, and what the model is given is, so is all that it computes: the others
    are shown by one of them, or made of clean ones by an op that makes nothing bad.

    Args:
        model: without branches and loops.
    """
    readers: dict[str, list[ModelNode]] = {}
    for node in model.nodes:
        telling = _TELLING.get(node.op_type, range(0)) if not _has_zero(node) else range(0)
        for at, name in enumerate(node.proto.input):
            if name and at in telling:
                readers.setdefault(name, []).append(node)
    made: list[str] = []
    #: Tensors that something tells of which is looked at, or told of in its turn.
    told: set[str] = set()
    for node in reversed(model.nodes):
        is_safe = node.op_type in _SAFE and not _has_slope(node)
        for name in reversed(node.outputs.values()):
            if any(
                first in told or each.op_type not in _SAFE or _has_slope(each)
                for each in readers.get(name, ())
                if (first := each.outputs.get(0))
            ):
                told.add(name)
            elif not is_safe:
                made.append(name)
    return made[::-1]


def _has_slope(node: ModelNode) -> bool:
    """Whether a ``LeakyRelu`` makes large numbers larger."""
    if node.op_type != "LeakyRelu":
        return False
    return any(each.name == "alpha" and abs(each.f) > 1 for each in node.proto.attribute)


def _has_zero(node: ModelNode) -> bool:
    """Whether a ``Gemm`` leaves out what it multiplies by 0."""
    return any(each.name in ("alpha", "beta") and not each.f for each in node.proto.attribute)
