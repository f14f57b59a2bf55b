"""What ONNX's ops do with nan and infinities, and which tensors of a model show all that is bad."""

from __future__ import annotations

from collections.abc import Iterator

from tfdbg_cli.engines.kit.op_facts import (
    BOUNDED,
    FIRST,
    MOVED,
    MOVED_FIRST,
    PICKED,
    ROUNDED,
    SPREAD,
    SPREAD_FIRST,
    Fact,
    Op,
    Search,
    Value,
    each,
    fits,
    keeps_bad,
)
from tfdbg_cli.engines.onnx.model import Model
from tfdbg_cli.engines.onnx.values import ELEMENTS

__all__ = ["FACTS", "checked_names", "ops_of"]

# Real numbers of any size: ONNX Runtime computes no complex ones.
_REAL = "float"


def _uses_all(op: Op) -> bool:
    """A ``Gemm`` that leaves nothing out because it would multiply it by 0."""
    return all(op.attributes[name].f for name in ("alpha", "beta") if name in op.attributes)


def _is_flat(op: Op) -> bool:
    """A ``LeakyRelu`` that makes no large number larger."""
    return "alpha" not in op.attributes or abs(op.attributes["alpha"].f) <= 1


#: By op type; all that have no domain of their own.
FACTS: dict[str, Fact] = {
    **each("Concat Identity", MOVED),
    **each("Flatten Neg Reshape Squeeze Transpose Unsqueeze", MOVED_FIRST),
    **each(
        """
            Clip DepthToSpace Expand Gather GatherElements GatherND Max MaxPool Min Relu Slice
            SpaceToDepth Split Tile TopK Where
        """,
        PICKED,
    ),
    **each("Abs Ceil Floor Round", ROUNDED),
    **each("Erf Sigmoid Sign Softsign Tanh", BOUNDED),
    # Truths and whole numbers.
    **each(
        """
            And ArgMax ArgMin Equal Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual NonZero Not
            Or Shape Size
        """,
        PICKED._replace(absorbs=True),
    ),
    **each("Add MatMul Mul Sub Sum", SPREAD),
    **each("Div Log Sqrt", SPREAD_FIRST),
    **each(
        "BatchNormalization InstanceNormalization LayerNormalization",
        SPREAD_FIRST._replace(into=FIRST),
    ),
    "Cast": Fact(fits, spreads=FIRST, when=keeps_bad),
    "Gemm": SPREAD._replace(when=_uses_all),
    "LeakyRelu": Fact(_is_flat),
}


def ops_of(model: Model) -> Iterator[Op]:
    """The nodes of a model in the words of the search, from the last one to the first."""
    kinds = {name: each.dtype for name, each in model.weights.items()}
    for name, info in model.types.items():
        kinds[name] = ELEMENTS.get(info.type.tensor_type.elem_type, "")
    for node in reversed(model.nodes):
        attributes = {each.name: each for each in node.proto.attribute}
        if node.op_type == "Cast":
            kinds.update(dict.fromkeys(node.proto.output, ELEMENTS.get(attributes["to"].i, "")))
        inputs, outputs = (
            # What has no name is left out, or isn't given.
            tuple(Value(name, (kinds.get(name) or _REAL) if name else "opaque") for name in names)
            for names in (node.proto.input, node.proto.output)
        )
        yield Op(node.op_type, inputs, outputs, attributes)


def checked_names(model: Model) -> list[str]:
    """The fewest tensors that tell of all others, by the model's names, in its order.

    Where these are finite, and what the model is given is, so is all that it computes.

    Args:
        model: without branches and loops.
    """
    search = Search(FACTS)
    return [
        str(op.outputs[slot].key) for op in ops_of(model) for slot in reversed(search.check(op))
    ][::-1]
