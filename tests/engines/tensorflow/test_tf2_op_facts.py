"""What is said of TensorFlow's ops, tried on TensorFlow."""

import functools
import inspect
import itertools

import numpy as np
import tensorflow as tf
from samples import sample
from tensorflow import raw_ops
from tensorflow.python.framework import op_def_registry

from tfdbg_cli.engines.tensorflow.functions.definitions import read_body
from tfdbg_cli.engines.tensorflow.functions.library import find_function
from tfdbg_cli.engines.tensorflow.functions.twins.body_ops import ops_of
from tfdbg_cli.engines.tensorflow.sessions.capture.finite import UPDATES, described
from tfdbg_cli.engines.tensorflow.shared.op_facts import FACTS
from tfdbg_cli.testing.op_facts_contract import (
    Call,
    ComputedOp,
    Operand,
    OpFactsContract,
    Unsupported,
)

WINDOW = [1, 2, 2, 1]
X, IMAGE, LINE = Operand((3, 4)), Operand((1, 2, 2, 4)), Operand((4,))
TRIPLE = Operand((3,), "float32")
FLOATS = ("float16", "bfloat16", "float32", "float64", "complex64")
KINDS = (*FLOATS, "complex128", "int8", "uint16", "int32", "uint64", "bool")


def of(name, *given, **more):
    """A call of an op with an argument for each array."""
    signature = inspect.signature(getattr(raw_ops, name))
    names = [each for each in signature.parameters if each not in more][: len(given)]

    def call(*arrays):
        return getattr(raw_ops, name)(**dict(zip(names, arrays, strict=True)), **more)

    return Call(given, call)


def of_list(name, argument, **more):
    """A call of an op with a list of arrays."""
    return Call((X, X), lambda *arrays: getattr(raw_ops, name)(**{argument: arrays}, **more))


def from_variable(x):
    handle = raw_ops.VarHandleOp(dtype=x.dtype, shape=x.shape, shared_name=f"held_{x.dtype.name}")
    raw_ops.AssignVariableOp(resource=handle, value=x)
    return raw_ops.ResourceGather(resource=handle, indices=[2, 0], dtype=x.dtype)


def from_list(name, x, **more):
    held = raw_ops.TensorListFromTensor(tensor=x, element_shape=[4])
    return getattr(raw_ops, name)(
        input_handle=held, element_shape=[4], element_dtype=x.dtype, **more
    )


def normalized(is_training):
    given = (Operand((2, 2, 2, 3)), *(TRIPLE,) * 4)
    if is_training:
        given = (*given[:3], *(np.zeros(0, np.float32),) * 2)
    return of("FusedBatchNormV3", *given, is_training=is_training)


#: Op type -> its calls, where it isn't one of one array.
CALLS = {
    **{
        name: [of(name, X, X)]
        for name in (
            *("Add", "AddV2", "Maximum", "Minimum", "Mul", "RealDiv", "Relu6Grad", "ReluGrad"),
            *("SquaredDifference", "Sub"),
        )
    },
    "AddN": [of_list("AddN", "inputs")],
    "BatchMatMulV2": [of("BatchMatMulV2", Operand((2, 3, 4)), Operand((2, 4, 2)))],
    "BatchToSpaceND": [
        of("BatchToSpaceND", Operand((4, 3)), block_shape=[2], crops=[[crop, 0]]) for crop in (0, 1)
    ],
    "BiasAdd": [of("BiasAdd", X, LINE)],
    "BroadcastTo": [of("BroadcastTo", LINE, shape=[3, 4])],
    "Cast": [
        of("Cast", Operand((12,), given), DstT=made)
        for given, made in itertools.product(KINDS, FLOATS)
    ],
    "Concat": [of_list("Concat", "values", concat_dim=0)],
    "ConcatV2": [of_list("ConcatV2", "values", axis=1)],
    "Const": [Call((), lambda: tf.constant([[1.5, -2.0]]))],
    "Cumsum": [
        of("Cumsum", X, axis=axis, exclusive=exclusive, reverse=reverse)
        for axis, exclusive, reverse in itertools.product((0, 1), (False, True), (False, True))
    ],
    "DepthToSpace": [of("DepthToSpace", IMAGE, block_size=2)],
    "EnsureShape": [of("EnsureShape", X, shape=[None, 4])],
    "ExpandDims": [of("ExpandDims", X, axis=1)],
    "FusedBatchNormV3": [normalized(is_training) for is_training in (False, True)],
    "Gather": [of("Gather", X, indices=[2, 0])],
    "GatherNd": [of("GatherNd", X, indices=[[2, 1], [0, 0]])],
    "GatherV2": [of("GatherV2", X, indices=[2, 0], axis=1)],
    "LeakyRelu": [of("LeakyRelu", X, alpha=alpha) for alpha in (0.2, 1.0, 3.0, -2.0)],
    "MatMul": [of("MatMul", X, Operand((4, 2)))],
    "MatrixBandPart": [of("MatrixBandPart", X, num_lower=0, num_upper=1)],
    "MaxPool": [
        of("MaxPool", IMAGE, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding=padding)
        for padding in ("SAME", "VALID")
    ],
    "MaxPoolGrad": [
        of("MaxPoolGrad", IMAGE, smaller, smaller, ksize=WINDOW, strides=step, padding="SAME")
        for step, smaller in ((WINDOW, Operand((1, 1, 1, 4))), ([1, 1, 1, 1], IMAGE))
    ],
    **{
        name: [of(name, X, axis=axis) for axis in ([0], [1], [0, 1])]
        for name in ("Mean", "Prod", "Sum")
    },
    "MirrorPad": [of("MirrorPad", X, paddings=[[1, 0], [0, 2]], mode="REFLECT")],
    "Pack": [of_list("Pack", "values", axis=1)],
    "Pad": [of("Pad", X, paddings=[[1, 0], [0, 2]])],
    "Reshape": [of("Reshape", X, shape=[-1])],
    "ResourceGather": [Call((X,), from_variable)],
    "Reverse": [of("Reverse", X, dims=[True, False])],
    "ReverseV2": [of("ReverseV2", X, axis=[1])],
    "Roll": [of("Roll", X, shift=[1], axis=[0])],
    "Select": [of("Select", np.arange(12).reshape(3, 4) % 2 == 0, X, X)],
    "SelectV2": [of("SelectV2", np.arange(4) % 2 == 0, X, X)],
    "Slice": [of("Slice", X, begin=[0, 1], size=[-1, 2])],
    "SpaceToBatchND": [of("SpaceToBatchND", X, block_shape=[2], paddings=[[1, 1]])],
    "SpaceToDepth": [of("SpaceToDepth", IMAGE, block_size=2)],
    "Split": [of("Split", X, axis=1, num_split=2)],
    "SplitV": [of("SplitV", X, size_splits=[1, 3], axis=1, num_split=2)],
    "Squeeze": [of("Squeeze", Operand((3, 1)), axis=[1])],
    "StridedSlice": [of("StridedSlice", X, begin=[0, 1], end=[3, 4], strides=[1, 2])],
    "TensorListGetItem": [Call((X,), functools.partial(from_list, "TensorListGetItem", index=1))],
    "TensorListStack": [Call((X,), functools.partial(from_list, "TensorListStack"))],
    "Tile": [of("Tile", X, multiples=[2, 1])],
    "TopKV2": [of("TopKV2", X, k=2)],
    "Transpose": [of("Transpose", X, perm=[1, 0])],
    "Unpack": [of("Unpack", X, num=4, axis=1)],
}


@functools.cache
def traced(name, function, kinds):
    """A function of one op, and the op as the search sees it."""
    given = [tf.TensorSpec(shape, dtype) for shape, dtype in kinds]
    made = tf.function(function, autograph=False).get_concrete_function(*given)
    body = read_body(made.function_def.signature.name, find_function, {})
    # The last one that is found is the first that is computed.
    return made, [op for _, op in ops_of(body) if op.type == name][-1]


class TestTensorFlowFacts(OpFactsContract):
    facts = FACTS
    absent = FACTS.keys() - {*sample(FACTS, 6)}  # of the sample
    dtypes = (*sample(FLOATS, ("float16", "float32", "complex64")),)
    knows_shapes = False

    def calls(self, name):
        return CALLS[name] if name in CALLS else [of(name, X)]

    def compute(self, name, call, operands):
        try:
            kinds = tuple((each.shape, each.dtype) for each in operands)
            function, op = traced(name, call.more, kinds)
            made = function(*map(tf.constant, operands))
        except (TypeError, ValueError, tf.errors.OpError) as error:
            raise Unsupported from error
        outputs = [each.numpy() for each in tf.nest.flatten(made)]
        return ComputedOp(op, [("", at) for at in range(len(operands))], outputs)


RATE, DECAY, FAST, TINY = (np.array(each) for each in (1e-2, 0.9, 0.99, 1e-4))
#: Update -> its operands and attributes. The rates are those of trainings: most others, such as a
#: decay above 1, make everything bad.
UPDATE_CALLS = {
    "ApplyAdagrad": [
        Call((LINE, LINE, RATE, LINE), {"update_slots": updates}) for updates in (False, True)
    ],
    "ApplyAdam": [
        Call(
            (LINE, LINE, LINE, DECAY, FAST, RATE, DECAY, FAST, TINY, LINE),
            {"use_nesterov": nesterov},
        )
        for nesterov in (False, True)
    ],
    "ApplyGradientDescent": [Call((LINE, RATE, LINE), {})],
    "ApplyMomentum": [
        Call((LINE, LINE, RATE, LINE, DECAY), {"use_nesterov": nesterov})
        for nesterov in (False, True)
    ],
    "ApplyRMSProp": [Call((LINE, LINE, LINE, RATE, DECAY, DECAY, TINY, LINE), {})],
    **{name: [Call((LINE, LINE), {})] for name in ("Assign", "AssignAdd", "AssignSub")},
}


@functools.cache
def updating(name, kinds, more):
    """A session with one update of variables, which what is fed is assigned to before."""
    with tf.Graph().as_default() as graph:
        fed, given, assigned = [], {}, []
        for argument, (shape, dtype) in zip(
            op_def_registry.get(name).input_arg, kinds, strict=True
        ):
            fed.append(tf.compat.v1.placeholder(dtype, shape))
            given[argument.name] = fed[-1]
            if argument.is_ref:
                given[argument.name] = variable = raw_ops.VariableV2(shape=shape, dtype=dtype)
                assigned.append(raw_ops.Assign(ref=variable, value=fed[-1]))
        made = getattr(raw_ops, name)(**given, **dict(more))
        return tf.compat.v1.Session(graph=graph), fed, assigned, made


class TestUpdatesOfReferences(OpFactsContract):
    facts = UPDATES
    dtypes = TestTensorFlowFacts.dtypes
    knows_shapes = False

    def calls(self, name):
        return UPDATE_CALLS[name]

    def compute(self, name, call, operands):
        kinds = tuple((each.shape, operands[0].dtype) for each in operands)
        try:
            session, fed, assigned, made = updating(name, kinds, tuple(call.more.items()))
            feeds = dict(zip(fed, operands, strict=True))
            session.run(assigned, feeds)
            outputs = [session.run(made, feeds)]
        except (TypeError, ValueError, tf.errors.OpError) as error:
            raise Unsupported from error
        op = described(made.op)
        return ComputedOp(op, [value.key for value in op.inputs], outputs)
