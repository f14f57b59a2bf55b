"""What ONNX's ops do with nan and infinities, and which tensors of a model show all that is bad."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tfdbg_cli.engines.kit.op_facts import FIRST, KINDS, NONE, Fact, Op, Search, Value, table
from tfdbg_cli.engines.onnx.model import Model
from tfdbg_cli.engines.onnx.values import ELEMENTS

__all__ = ["FACTS", "checked_names", "ops_of"]


def _uses_all(op: Op) -> bool:
    """A ``Gemm`` that leaves nothing out because it would multiply it by 0."""
    return all(op.attributes[name].f for name in ("alpha", "beta") if name in op.attributes)


def _is_flat(op: Op) -> bool:
    """A ``LeakyRelu`` that makes no large number larger."""
    return "alpha" not in op.attributes or abs(op.attributes["alpha"].f) <= 1


_NORMS = "BatchNormalization InstanceNormalization LayerNormalization"
#: By op type.
FACTS = table(
    {
        "Gemm": KINDS["spread"]._replace(when=_uses_all),
        "LeakyRelu": Fact(_is_flat),
        **dict.fromkeys(_NORMS.split(), Fact(spreads=FIRST, into=FIRST)),
    },
    moved="Concat Identity",
    moved_first="Flatten Neg Reshape Squeeze Transpose Unsqueeze",
    picked="""
        Clip DepthToSpace Expand Gather GatherElements GatherND Max MaxPool Min Relu Slice
        SpaceToDepth Split Tile TopK Where
    """,
    rounded="Abs Ceil Floor Round",
    bounded="Erf Sigmoid Sign Softsign Tanh",
    made="""
        And ArgMax ArgMin Equal Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual NonZero Not Or
        Shape Size
    """,
    converted="Cast",
    spread="Add MatMul Mul Sub Sum",
    spread_first="Div Log Sqrt",
)


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
            # ONNX Runtime has no complex numbers. What has no name isn't there.
            tuple(Value(name, (kinds.get(name) or "float") if name else "none") for name in names)
            for names in (node.proto.input, node.proto.output)
        )
        yield Op(node.op_type, inputs, outputs, attributes)


def _has_halves(model: Model) -> bool:
    """Whether there are numbers of 16 bits."""
    found = {ELEMENTS.get(each.type.tensor_type.elem_type) for each in model.types.values()}
    found |= {each.dtype for each in model.weights.values()}
    for node in model.nodes:
        for each in node.proto.attribute:
            found.add(ELEMENTS.get(each.i if each.name in ("to", "dtype") else each.t.data_type))
    return not found.isdisjoint(("float16", "bfloat16"))


def checked_names(model: Model) -> list[str]:
    """The fewest tensors that tell of all others, by the model's names, in its order.

    Args:
        model: without branches and loops.
    """
    facts: Mapping[str, Fact] = FACTS
    if _has_halves(model):
        # On a CPU they are computed in float32: what has no room in one gets to the next op.
        facts = {name: fact._replace(spreads=NONE) for name, fact in FACTS.items()}
    search = Search(facts)
    return [
        str(op.outputs[slot].key) for op in ops_of(model) for slot in reversed(search.check(op))
    ][::-1]
