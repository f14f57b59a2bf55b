"""What is said of MLX's ops, tried on MLX."""

import ml_dtypes
import numpy as np
import pytest
from samples import sample

pytest.importorskip("mlx.core")

import mlx.core as mx

from tfdbg_cli.engines.kit.op_facts import Op, Value
from tfdbg_cli.engines.mlx.op_facts import FACTS
from tfdbg_cli.testing.op_facts_contract import (
    Call,
    ComputedOp,
    Operand,
    OpFactsContract,
    Unsupported,
)

X = Operand((3, 4))
EVEN = np.arange(12).reshape(3, 4) % 2 == 0


def of(*operands, **more):
    return Call(operands, more)


#: Op type -> its calls, where it isn't one of one array.
CALLS = {
    **{
        name: [of(X, X), of(X, Operand((4,)))]
        for name in (
            *("add", "divide", "equal", "greater", "greater_equal", "less", "less_equal"),
            *("maximum", "minimum", "multiply", "not_equal", "subtract"),
        )
    },
    "broadcast_to": [of(X, shape=(2, 3, 4))],
    "expand_dims": [of(X, axis=1)],
    "getitem": [of(X)],
    "matmul": [of(X, Operand((4, 2))), of(Operand((2, 3, 4)), Operand((4,)))],
    "max": [of(X), of(X, axis=1)],
    "mean": [of(X), of(X, axis=0)],
    "min": [of(X), of(X, axis=1)],
    "moveaxis": [of(X, source=0, destination=1)],
    "reshape": [of(X, shape=(2, -1))],
    "squeeze": [of(Operand((3, 1)))],
    "sum": [of(X), of(X, axis=0), of(X, axis=1)],
    "swapaxes": [of(X, axis1=0, axis2=1)],
    "where": [of(EVEN, X, X)],
}


def given(array):
    if array.dtype == ml_dtypes.bfloat16:
        return mx.array(array.astype(np.float32)).astype(mx.bfloat16)
    return mx.array(array, mx.float64 if array.dtype == np.float64 else None)


def read(array):
    if array.dtype == mx.bfloat16:
        return np.array(array.view(mx.uint16)).view(ml_dtypes.bfloat16)
    return np.array(array)


def value(key, array):
    return Value(key, str(array.dtype).rpartition(".")[2], tuple(array.shape))


class TestMlxFacts(OpFactsContract):
    facts = FACTS
    absent = FACTS.keys() - {*sample(FACTS, 3)}  # of the sample

    def calls(self, name):
        return CALLS.get(name) or [of(X)]

    def compute(self, name, call, operands):
        arrays = [given(each) for each in operands]
        try:
            with mx.stream(mx.cpu):
                if name == "getitem":
                    made = arrays[0][1:]
                else:
                    made = getattr(mx, name)(*arrays, **call.more)
                mx.eval(made)
        except (ValueError, RuntimeError) as error:
            raise Unsupported from error
        inputs = tuple(value(at, each) for at, each in enumerate(arrays))
        op = Op(name, inputs, (value("made", made),))
        return ComputedOp(op, range(len(arrays)), [read(made)])
