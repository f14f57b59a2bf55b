"""Runs of two engines: tensors are matched by their numbers where names, ops and shapes differ."""

import numpy as np
import pytest

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.comparing.alignment import align
from tfdbg_cli.comparing.comparison import Comparison
from tfdbg_cli.comparing.engines import SCOPES
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


def tagged(*nodes, engine="onnx", graph=True):
    """A run from (name, op type, what the exporter wrote down, value)."""
    dump = MemoryDump(
        Graph(
            Node(name, op, attributes={SCOPES: told} if told else {}) for name, op, told, _ in nodes
        )
        if graph
        else None
    )
    for at, (name, _, _, value) in enumerate(nodes):
        dump.add(name, 0, np.asarray(value, "float32"), timestamp=at)
    dump.set_run_info(RunInfo(engine=engine))
    return dump


def counterparts(first, second):
    return {
        one.node_name: other.node_name for one, other, _ in align(first, second) if one and other
    }


TWICE = (("a/sub/addmm", "addmm", "", X), ("b/sub/addmm", "addmm", "", X))


@pytest.mark.parametrize(
    ("scopes", "is_told"),
    [
        (("['', 'b', 'b.sub', 'addmm_1']", "['', 'a', 'a.sub', 'addmm']"), True),
        (("['b.sub', 'addmm_1']", "['a.sub', 'addmm']"), True),
        (("['b.sub']", "['a.sub']"), False),
        (("['b.sub'", "3"), False),
        (("", ""), False),
    ],
)
def test_of_equal_numbers_those_of_one_module_belong_together(scopes, is_told):
    first = tagged(*TWICE, engine="torch")
    exported = tagged(("n1", "Gemm", scopes[0], X), ("n2", "Gemm", scopes[1], X))
    in_time = {"a/sub/addmm": "n1", "b/sub/addmm": "n2"}
    crossed = {"a/sub/addmm": "n2", "b/sub/addmm": "n1"}
    assert counterparts(first, exported) == (crossed if is_told else in_time)
    back = counterparts(exported, first)
    assert {one: other for other, one in back.items()} == (crossed if is_told else in_time)


def test_modules_are_told_by_paths_as_well():
    first = tagged(*TWICE, engine="torch")
    exported = tagged(("/b/sub/Gemm", "Gemm", "", X), ("/a/sub/Gemm", "Gemm", "", X))
    assert counterparts(first, exported) == {
        "a/sub/addmm": "/a/sub/Gemm",
        "b/sub/addmm": "/b/sub/Gemm",
    }
    # Names that no exporter of modules has given tell of none, nor does a run without its graph.
    other = tagged(("b/sub/Gemm", "Gemm", "", X), ("a/sub/Gemm", "Gemm", "", X))
    assert counterparts(first, other) == {
        "a/sub/addmm": "b/sub/Gemm",
        "b/sub/addmm": "a/sub/Gemm",
    }
    bare = tagged(("/b/sub/Gemm", "Gemm", "", X), ("/a/sub/Gemm", "Gemm", "", X), graph=False)
    assert counterparts(first, bare) == {
        "a/sub/addmm": "/b/sub/Gemm",
        "b/sub/addmm": "/a/sub/Gemm",
    }


@pytest.mark.parametrize(
    ("ops", "wanted"),
    [
        # The nearest number goes before the op, the op before the order.
        (("Other", 1.0, "Relu_", 1.0), "n2"),
        (("Relu", 1.0, "LayerNormalization", 1.0), "n1"),
        (("Relu", 1.005, "Gemm", 1.0), "n2"),
        (("Relu", 1.0, "Gemm", 1.0), "n1"),
        (("Gemm", 1.0, "Relu", 1.0), "n2"),
        (("Gemm", 1.0, "Gemm", 1.0), "n1"),
        (("Gemm", 1.0, "Relu", 1.005), "n1"),
        (("Gemm", 1.03, "Gemm", 1.019), "n2"),
    ],
)
def test_how_near_counts_then_the_op_then_the_order(ops, wanted):
    op, factor, other_op, other_factor = ops
    first = tagged(("y", "relu", "", X), engine="torch")
    second = tagged(("n1", op, "", X * factor), ("n2", other_op, "", X * other_factor))
    pair = next(each for each in align(first, second) if each.first and each.second)
    assert (pair.second.node_name, pair.matched_by) == (wanted, "value")


@pytest.mark.parametrize(
    ("value", "other", "is_matched"),
    [
        ([1, 2], [1, 2], True),
        ([1, 1], [1, 1], False),  # what is the same everywhere says nothing
        ([1, 1, np.nan], [1, 1, np.nan], True),
        ([np.nan] * 3, [np.nan] * 3, False),
        ([np.inf, np.nan], [np.inf, np.nan], False),
        ([1, 2, np.inf], [1, 2, -np.inf], False),
        ([3], [3], False),
        ([-9, 1], [-9, 1.1], True),
        ([-9, 1], [-9, 1.5], False),
        (np.r_[np.zeros(1 << 16), 1, 5], np.r_[np.zeros(1 << 16), 1, 5], True),
    ],
)
def test_numbers_that_say_something(value, other, is_matched):
    first = tagged(("y", "relu", "", value), engine="torch")
    second = tagged(("n1", "Other", "", np.reshape(other, (-1, 1))))
    matched_by = [pair.matched_by for pair in align(first, second) if pair.first and pair.second]
    assert ("value" in matched_by) == is_matched


@pytest.mark.parametrize(
    ("op", "other"),
    [
        ("native_layer_norm", "LayerNormalization"),
        ("convolution_backend", "Convolution"),
        ("relu", "Relu"),
    ],
)
def test_ops_that_several_engines_call_alike(op, other):
    first = tagged(("y", op, "", X), engine="torch")
    second = tagged(("n1", "Abs", "", X), ("n2", other, "", X))
    assert counterparts(first, second) == {"y": "n2"}


def test_the_size_counts_as_rows_and_the_last_dimension():
    """Where numbers don't tell: what is bad elsewhere, of one module and kind."""
    bad = np.where(X > 0.5, np.nan, X).astype("float32")
    first = tagged(("m/y", "relu", "", bad), engine="torch")
    moved = np.roll(bad, 1)
    fits, turned = moved.reshape(2, 3, 4), moved.T
    for values in ((turned, fits), (fits, turned)):
        second = tagged(*((f"/m/n{at}", "Relu", "", each) for at, each in enumerate(values)))
        (found,) = counterparts(first, second).values()
        assert second.data()[int(found[-1])].shape == (2, 3, 4)


def test_where_two_engines_part_is_the_first_op_that_makes_it():
    def of(engine, weight, result):
        return run(
            engine,
            ("w", "Parameter", (), weight),
            ("x", "Input", (), X),
            ("m", "Neg", ("x",), result),
            ("n", "Exp", ("m",), result),
        )

    first, second = of("torch", W, X), of("jax", W + 1, X + 1)
    rows = Comparison(first, second, align(first, second))
    assert {row.datum.node_name: row.said for row in rows.beyond()}["w"] == "at the start"
    assert rows.first_apart().datum.node_name == "m"


def test_a_weight_that_is_no_array_stays_with_its_name():
    nodes = ("w", "Parameter", "", 3), ("y", "relu", "", X)
    first, second = tagged(*nodes, engine="torch"), tagged(*nodes)
    assert counterparts(first, second) == {"w": "w", "y": "y"}
    lost = tagged(("w", "Initializer", "", X), ("y", "Relu", "", X * 2))

    def damaged():
        raise DumpError("cut off")

    lost.data()[0]._load = damaged
    lost.data()[0]._shape, lost.data()[0]._dtype = X.shape, "float32"
    first = tagged(("w", "Parameter", "", X), ("y", "relu", "", X * 2), engine="torch")
    assert counterparts(first, lost) == {"w": "w", "y": "y"}


def test_numbers_in_the_code_stand_wherever_they_do():
    """They are of no order: what isn't computed from anything and has no dimension."""
    first = tagged(("k", "lift", "", 3), ("v", "made", "", [3]), engine="torch")
    second = tagged(("c", "lift", "", 4), ("d", "made", "", [5]))
    assert counterparts(first, second) == {"v": "d"}
