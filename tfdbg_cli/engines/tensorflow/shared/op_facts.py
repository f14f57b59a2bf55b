"""What TensorFlow's ops do with nan and infinities; see `tfdbg_cli.engines.kit.op_facts`."""

from __future__ import annotations

from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import dtypes

from tfdbg_cli.engines.kit.op_facts import FIRST, Fact, Op, is_real, table

__all__ = ["COMPLEX", "DTYPE_NAMES", "FACTS", "FLOATING"]

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
#: ``DataType`` enum -> what `Value.dtype` calls it.
DTYPE_NAMES = {
    **{number: dtypes.as_dtype(number).name for number in FLOATING},
    **{dtypes.as_dtype(name).as_datatype_enum: name for name in _EXACT},
}


def _is_apart(op: Op) -> bool:
    """The windows of a pooling don't overlap: nothing is summed up."""
    sizes, steps = op.attributes["ksize"].list.i, op.attributes["strides"].list.i
    return is_real(op) and all(size <= step for size, step in zip(sizes, steps, strict=True))


#: By op type.
FACTS = table(
    {
        # What is last isn't added to anything.
        "Cumsum": Fact(spreads=FIRST, when=lambda op: not op.attributes["exclusive"].b),
        "FusedBatchNormV3": Fact(spreads=FIRST, into=FIRST),
        "LeakyRelu": Fact(lambda op: is_real(op) and abs(op.attributes["alpha"].f) <= 1),
        "MaxPoolGrad": Fact(_is_apart),
    },
    moved="ConcatV2 Identity Neg Pack PreventGradient Snapshot StopGradient",
    moved_first="BroadcastTo ExpandDims Pad Reshape ReverseV2 Squeeze Transpose",
    picked="""
        BatchToSpaceND Concat Const DepthToSpace EnsureShape Gather GatherNd GatherV2
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
