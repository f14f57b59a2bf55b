"""What is said of ONNX's ops, tried on ONNX Runtime."""

import functools
import itertools

import numpy as np
import pytest
from samples import sample

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

import onnxruntime
from onnx import helper

from tfdbg_cli.engines.onnx.model import Model
from tfdbg_cli.engines.onnx.op_facts import FACTS, ops_of
from tfdbg_cli.testing.op_facts_contract import (
    Call,
    ComputedOp,
    Operand,
    OpFactsContract,
    Unsupported,
)

X, IMAGE = Operand((3, 4)), Operand((1, 4, 2, 2))
EVEN = np.arange(12).reshape(3, 4) % 2 == 0
FLOATS = ("float16", "float32", "float64")
KINDS = (*FLOATS, "int8", "uint16", "int32", "uint64", "bool")


def of(*operands, outputs=1, **attributes):
    return Call(operands, (outputs, attributes))


def numbers(*given):
    return np.array(given, np.int64)


#: Op type -> its calls, where it isn't one of one array.
CALLS = {
    **{key: [of(EVEN, EVEN)] for key in ("And", "Or")},
    **{
        key: [of(X, X), of(X, Operand((4,)))]
        for key in (
            *("Add", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Mul"),
            *("Max", "Min", "Sub", "Sum"),
        )
    },
    "BatchNormalization": [of(IMAGE, *(Operand((4,)),) * 4)],
    "Cast": [
        of(Operand((12,), given), to=helper.np_dtype_to_tensor_dtype(np.dtype(made)))
        for given, made in itertools.product(KINDS, FLOATS)
    ],
    "Clip": [of(X, Operand(()), Operand(()))],
    "Concat": [of(X, Operand((2, 4)), axis=0)],
    "DepthToSpace": [of(IMAGE, blocksize=2)],
    "Expand": [of(X, numbers(2, 3, 4))],
    "Gather": [of(X, numbers(2, 0), axis=0)],
    "GatherElements": [of(X, numbers([2, 0, 1, 1]), axis=0)],
    "GatherND": [of(X, numbers([2, 0], [1, 1]))],
    "Gemm": [
        *(
            of(X, Operand((4, 2)), Operand((2,)), alpha=a, beta=b)
            for a in (0.0, 1.0)
            for b in (0.0, 0.5)
        ),
        of(X, Operand((2, 4)), transB=1),
    ],
    "InstanceNormalization": [of(IMAGE, Operand((4,)), Operand((4,)))],
    "LayerNormalization": [of(X, Operand((4,)), Operand((4,))), of(X, Operand((4,)), outputs=3)],
    "LeakyRelu": [of(X), *(of(X, alpha=alpha) for alpha in (0.2, 1.0, 3.0, -2.0))],
    "MatMul": [of(X, Operand((4, 2))), of(Operand((2, 3, 4)), Operand((4,)))],
    "MaxPool": [
        of(IMAGE, kernel_shape=[2, 2], pads=[0, 0, 1, 1]),
        of(IMAGE, kernel_shape=[2, 2], strides=[3, 3], ceil_mode=1),
    ],
    "Not": [of(EVEN)],
    "Reshape": [of(X, numbers(2, -1))],
    "Slice": [of(X, numbers(1), numbers(9))],
    "SpaceToDepth": [of(IMAGE, blocksize=2)],
    "Split": [of(X, outputs=2, axis=1, num_outputs=2)],
    "Squeeze": [of(Operand((1, 4)), numbers(0))],
    "Tile": [of(X, numbers(2, 1))],
    "TopK": [of(X, numbers(2), outputs=2)],
    "Unsqueeze": [of(X, numbers(0))],
    "Where": [of(EVEN, X, X)],
}


@functools.cache
def session(name, outputs, attributes, kinds):
    """A session of one op, and the op as the search sees it."""
    given = [f"x{at}" for at in range(len(kinds))]
    made = [f"y{at}" for at in range(outputs)]
    node = helper.make_node(name, given, made, **dict(attributes))
    ends = [
        helper.make_tensor_value_info(at, helper.np_dtype_to_tensor_dtype(dtype), shape)
        for at, (shape, dtype) in zip(given, kinds, strict=True)
    ]
    results = [helper.make_empty_tensor_value_info(at) for at in made]
    graph = helper.make_graph([node], "g", ends, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    (op,) = ops_of(Model(model, ""))
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options), op
    except Exception as error:
        return error, op


class TestOnnxFacts(OpFactsContract):
    facts = FACTS
    absent = FACTS.keys() - {*sample(FACTS, 3)}  # of the sample
    dtypes = FLOATS
    knows_shapes = False

    def calls(self, name):
        return CALLS.get(name, [of(X)])

    def compute(self, name, call, operands):
        outputs, attributes = call.more
        frozen = tuple(
            (key, tuple(v) if isinstance(v, list) else v) for key, v in attributes.items()
        )
        kinds = tuple((each.shape, each.dtype) for each in operands)
        computed, op = session(name, outputs, frozen, kinds)
        if isinstance(computed, Exception):
            raise Unsupported from computed
        given = [f"x{at}" for at in range(len(operands))]
        try:
            made = computed.run(None, dict(zip(given, operands, strict=True)))
        except Exception as error:
            raise Unsupported from error
        return ComputedOp(op, given, made)
