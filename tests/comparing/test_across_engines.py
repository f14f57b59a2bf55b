"""Runs of two engines: tensors are matched by their numbers where names, ops and shapes differ."""

import numpy as np
import pytest

from tfdbg_cli.comparing.alignment import align
from tfdbg_cli.comparing.comparison import Comparison
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_info import RunInfo

RANDOM = np.random.default_rng(0)
X, W, B = (RANDOM.standard_normal(shape).astype("float32") for shape in ((6, 4), (4, 3), (3,)))
NAN = np.where(RANDOM.random((6, 3)) < 0.2, np.nan, X @ W + B).astype("float32")


def run(engine, *steps):
    """A run from (name, op type, inputs, value)."""
    nodes = [Node(name, op, [f"{each}:0" for each in inputs]) for name, op, inputs, _ in steps]
    dump = MemoryDump(Graph(nodes))
    for at, (name, _, _, value) in enumerate(steps):
        dump.add(name, 0, np.asarray(value, "float32"), timestamp=at)
    dump.set_run_info(RunInfo(engine=engine))
    return dump


def torch_run(result, weight=W):
    return run(
        "torch",
        ("x", "randn", (), X),
        ("fc.weight", "Parameter", (), weight),
        ("fc/addmm", "addmm", ("x", "fc.weight"), X @ W + B),
        ("fc/out", "relu", ("fc/addmm",), result),
    )


def onnx_run(result, weight=W):
    return run(
        "onnx",
        ("input", "Input", (), X.reshape(2, 3, 4)),
        ("fc.weight", "Initializer", (), weight),
        ("/fc/MatMul", "MatMul", ("input", "fc.weight"), (X @ W).reshape(2, 3, 3)),
        ("/fc/Add", "Add", ("/fc/MatMul",), (X @ W + B).reshape(2, 3, 3)),
        ("/fc/Out", "Relu", ("/fc/Add",), result),
    )


def matched(first, second):
    return {
        (pair.first.node_name, pair.second.node_name): pair.matched_by
        for pair in align(first, second)
        if pair.first and pair.second
    }


@pytest.mark.parametrize("result", [X[:, :3] ** 2, NAN], ids=["finite", "nan"])
def test_the_nearest_numbers_belong_together(result):
    found = matched(torch_run(result), onnx_run(result.reshape(2, 3, 3)))
    assert found == {
        ("x", "input"): "value",
        ("fc.weight", "fc.weight"): "name",
        ("fc/addmm", "/fc/Add"): "value",
        ("fc/out", "/fc/Out"): "value",
    }
    back = matched(onnx_run(result.reshape(2, 3, 3)), torch_run(result))
    assert {(one, other) for other, one in back} == set(found)


def test_what_is_bad_elsewhere_is_another_one_of_the_same_module_and_kind():
    moved = np.roll(NAN, 1)
    first, second = torch_run(NAN), onnx_run(moved)
    assert matched(first, second)["fc/out", "/fc/Out"] == "neighbours"
    (row,) = Comparison(first, second, align(first, second)).beyond()
    assert (row.datum.node_name, row.said) == ("fc/out", "made here")


def test_a_folded_weight_that_leads_to_the_same_is_no_difference():
    result = X[:, :3] ** 2
    # What the weight is used in has its counterpart: the exporter has put a factor elsewhere.
    first, second = torch_run(result), onnx_run(result, weight=2 * W)
    assert ("fc.weight", "fc.weight") not in matched(first, second)
    assert not Comparison(first, second, align(first, second)).beyond()


def test_a_wrong_weight_is_where_they_part():
    wrong = X @ (2 * W) + B
    first = torch_run(X[:, :3] ** 2)
    second = run(
        "onnx",
        ("input", "Input", (), X),
        ("fc.weight", "Initializer", (), 2 * W),
        ("/fc/Gemm", "Gemm", ("input", "fc.weight"), wrong),
        ("/fc/Out", "Relu", ("/fc/Gemm",), np.maximum(wrong, 0)),
    )
    part = Comparison(first, second, align(first, second)).first_apart()
    assert (part.datum.node_name, part.said) == ("fc.weight", "at the start")
