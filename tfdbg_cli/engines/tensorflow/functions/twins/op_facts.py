"""What TensorFlow's ops do with nan and infinities; see `tfdbg_cli.engines.kit.op_facts`."""

from __future__ import annotations

from collections.abc import Iterator

from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import dtypes

from tfdbg_cli.engines.kit.op_facts import FIRST, Fact, Op, Value, is_real, table
from tfdbg_cli.engines.tensorflow.functions.definitions import BodyNode, FunctionBody

__all__ = ["COMPLEX", "FACTS", "FLOATING", "ops_of"]

#: The dtypes of complex numbers, and those of their parts.
COMPLEX = {
    types_pb2.DT_COMPLEX64: types_pb2.DT_FLOAT,
    types_pb2.DT_COMPLEX128: types_pb2.DT_DOUBLE,
}
#: The dtypes that are looked at.
FLOATING = frozenset(
    {types_pb2.DT_BFLOAT16, types_pb2.DT_DOUBLE, types_pb2.DT_FLOAT, types_pb2.DT_HALF, *COMPLEX}
)
_EXACT = ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
_NAMES = {
    **{number: dtypes.as_dtype(number).name for number in FLOATING},
    **{dtypes.as_dtype(name).as_datatype_enum: name for name in _EXACT},
}

#: By op type.
FACTS = table(
    {
        # What is last isn't added to anything.
        "Cumsum": Fact(spreads=FIRST, when=lambda op: not op.attributes["exclusive"].b),
        "FusedBatchNormV3": Fact(spreads=FIRST, into=FIRST),
        "LeakyRelu": Fact(lambda op: is_real(op) and abs(op.attributes["alpha"].f) <= 1),
    },
    moved="ConcatV2 Identity Neg Pack PreventGradient Snapshot StopGradient",
    moved_first="BroadcastTo ExpandDims Pad Reshape ReverseV2 Squeeze Transpose",
    picked="""
        BatchToSpaceND Concat Const DepthToSpace EnsureShape Gather GatherNd GatherV2 IdentityN
        MatrixBandPart MatrixDiagPart MaxPool Maximum Minimum MirrorPad Relu Relu6 Relu6Grad
        ReluGrad ResourceGather Reverse Roll Select SelectV2 Slice SpaceToBatchND SpaceToDepth
        Split SplitV StridedSlice TensorListGetItem TensorListStack Tile TopKV2 Unpack
    """,
    rounded="Abs",
    bounded="Ceil Cos Elu Floor Rint Round Sigmoid Sign Sin Softmax Softsign Tanh",
    made="OnesLike ZerosLike",
    converted="Cast",
    spread="""
        Add AddN AddV2 BatchMatMulV2 BiasAdd L2Loss Log MatMul Mean Mul Prod Sqrt Square
        SquaredDifference Sub Sum
    """,
    spread_first="RealDiv",
)


def ops_of(body: FunctionBody) -> Iterator[tuple[BodyNode, Op]]:
    """What a function itself computes, from its end, in the words of the search."""
    arguments = body.definition.signature.input_arg
    kinds = {("", at): each.type for at, each in enumerate(arguments)}
    for node in body.nodes:
        kinds.update(((node.name, slot), each.dtype) for slot, each in enumerate(node.outputs))
    for node in reversed(body.nodes):
        if node.name in body.live and not node.inner:
            made = ((node.name, slot) for slot in range(len(node.outputs)))
            inputs, outputs = (
                tuple(Value(place, _NAMES.get(kinds.get(place), "opaque")) for place in places)
                for places in (node.inputs, made)
            )
            yield node, Op(node.op, inputs, outputs, node.definition.attr)
