"""Waiting at the level of ops looks at few tensors, and misses nothing."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx_kit import FAIL, session_of
from test_onnx_runs import debugged

from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.onnx.engine import ENGINE
from tfdbg_cli.engines.onnx.model import Model
from tfdbg_cli.engines.onnx.op_facts import checked_names
from tfdbg_cli.engines.onnx.requests import Request
from tfdbg_cli.engines.onnx.sameness import Sameness

FAILURE = onnxruntime.capi.onnxruntime_pybind11_state.Fail
ONE = ("Abs", "Ceil", "Exp", "Identity", "Log", "Neg", "Relu", "Sigmoid", "Softmax", "Sqrt")
MORE = ("Reciprocal", "Tanh", "Transpose", "LeakyRelu", "Erf", "Floor", "Softplus", "Clip")
TWO = ("Add", "Div", "Gemm", "MatMul", "Max", "Min", "Mul", "Pow", "Sub")
NUMBERS = st.sampled_from([0.0, 1.0, -1.0, 0.5, 3.0, 1e-30, 1e30, -1e30, 3e38])
ARRAYS = st.lists(NUMBERS, min_size=4, max_size=4)


@st.composite
def models(draw):
    """Ops on matrices of 2 x 2, each on what was there before; the last one is the output."""
    nodes, names = [], ["a", "b"]
    for at in range(draw(st.integers(2, 10))):
        op = draw(st.sampled_from(ONE + MORE + TWO))
        count = 2 if op in TWO else 1
        inputs = [draw(st.sampled_from(names)) for _ in range(count)]
        more = {"beta": draw(st.sampled_from([0.0, 1.0]))} if op == "Gemm" else {}
        inputs += [draw(st.sampled_from(names))] if op == "Gemm" else []
        if op == "LeakyRelu":
            more = {"alpha": draw(st.sampled_from([0.01, 1.0, 3.0, -2.0]))}
        nodes.append(helper.make_node(op, inputs, [f"t{at}"], f"n{at}", **more))
        names.append(f"t{at}")
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 2]) for n in ("a", "b")]
    last = helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, [2, 2])
    graph = helper.make_graph(nodes, "g", ends, [last])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@settings(max_examples=300, deadline=None)
@given(model=models(), a=ARRAYS, b=ARRAYS)
def test_what_is_looked_at_tells_of_all_others(model, a, b):
    known = Model(model, "")
    checked = checked_names(known)
    del model.graph.output[:]
    names = [name for node in known.nodes for name in node.outputs.values()]
    model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    feeds = {name: np.reshape(np.float32(x), (2, 2)) for name, x in (("a", a), ("b", b))}
    found = dict(zip(names, session.run(None, feeds), strict=True))
    bad = {name for name, value in found.items() if not np.isfinite(value).all()}
    assert set(checked) <= set(names)
    assert bool(bad) == bool(bad & {*checked, *known.outputs})


def test_few_are_looked_at():
    session = session_of(
        """g (float[2,2] x, float[2,2] w) => (float[2,2] y) {
            [product] p = MatMul(x, w)
            [bias] a = Add(p, w)
            [clip] r = Relu(a)
            [turn] t = Transpose(r)
            [grow] e = Exp(t)
            [last] y = Sub(e, x)
        }"""
    )
    with debugged(session):
        pass
    model = ENGINE.adapt(session).model()
    # MatMul's is in Add's; Relu and Transpose make nothing bad; Exp's is in Sub's.
    assert checked_names(model) == ["a", "y"]


@pytest.mark.parametrize("last", ["[last] y = Sub(p, x)", "[last] y = Cast<to=1>(p)"])
def test_what_has_no_room_in_16_bits_is_found_behind_the_next_op(as_set, last):
    as_set(level="ops")
    kind = "float" if "Cast" in last else "float16"
    session = session_of(
        f"""g (float16[N] x) => ({kind}[N] z) {{
            [product] p = Mul(x, x)
            {last}
            [clip] z = Sqrt(y)
        }}"""
    )
    # ONNX Runtime has 90,000 there, as long as nobody looks.
    assert np.isfinite(session.run(None, {"x": np.float16([300])})[0]).all()
    with debugged(session, Watch(filter_name="has_inf_or_nan")) as ends:
        session.run(None, {"x": np.float16([3])})
        session.run(None, {"x": np.float16([300])})
    assert [end.capture.filter_passed for end in ends] == [False, None]


LOG = """g (float[N] x) => (float[N] y) {
    [log] l = Log(x)
    [clip] c = Relu(l)
    [twice] y = Add(c, c)
}"""


@pytest.fixture
def as_set():
    """Settings for a test: ``as_set(level="ops")``."""
    given = {"results": "own"}
    ENGINE.configure(lambda name: given.get(name, "auto"))
    yield given.update
    given.clear()
    given["results"] = "own"


@pytest.mark.parametrize("waits", [True, False])
def test_the_program_gets_the_twins_results_where_it_wants_them(as_set, tmp_path, waits):
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "own")
    session = session_of(LOG, sess_options=options)
    watch = Watch(filter_name="has_inf_or_nan") if waits else Watch()
    expected = session.run(None, {"x": np.float32([3, 5])})[0]
    as_set(level="ops", results="twin")
    with debugged(session, watch) as ends:
        (clean,) = session.run(None, {"x": np.float32([3, 5])})
        (bad,) = session.run(["y"], {"x": np.float32([0, 5])})
        as_set(results="own")
        session.run(None, {"x": np.float32([0, 5])})
    assert clean.tolist() == expected.tolist()
    assert bad.tolist() == [0, expected[1]]
    assert [end.capture.filter_passed for end in ends] == [False if waits else None, None, None]
    for end in ends[1:]:
        (datum,) = end.dump.by_tensor("log:0")
        assert end.dump.value(datum)[0] == -np.inf
    events = json.loads(Path(session.end_profiling()).read_text())
    # The first run, and the last: the two between were the twin's alone.
    assert sum(event["name"] == "model_run" for event in events) == 2


def test_runs_are_the_twins_once_it_has_given_the_same(as_set):
    as_set(level="ops")
    session = session_of(LOG)
    rows = [np.float32([step + 1, 7]) for step in range(9)] + [np.float32([0, 5])]
    expected = [session.run(None, {"x": row})[0] for row in rows]
    with debugged(session, Watch(filter_name="has_inf_or_nan")) as ends:
        found = [session.run(None, {"x": row})[0] for row in rows]
        other = session.run(None, {"x": np.float32([1, 2, 3])})[0]
    assert [each.tobytes() for each in found] == [each.tobytes() for each in expected]
    assert other.tolist() == session.run(None, {"x": np.float32([1, 2, 3])})[0].tolist()
    assert [end.capture.filter_passed for end in ends] == [False] * 9 + [None, False]
    (datum,) = ends[9].dump.by_tensor("log:0")
    assert ends[9].dump.value(datum)[0] == -np.inf


def test_a_twin_is_trusted_where_it_has_given_the_same_and_never_after_it_has_not():
    def made(count, value):
        array = np.full(count, value, np.float32)
        request = Request(["y"], {"x": array}, None, lambda: None)
        return request, {"y": array}

    def twins(array):
        return {"y": onnxruntime.OrtValue.ortvalue_from_numpy(array)}

    sameness = Sameness()
    request, outputs = made(2, np.nan)
    for _ in range(5):
        assert not sameness.holds(request)
        sameness.compare(request, outputs, twins(outputs["y"]))
    assert sameness.holds(request)
    assert not sameness.holds(made(3, 1)[0])
    request, outputs = made(3, 1)
    sameness.compare(request, outputs, twins(np.nextafter(outputs["y"], np.float32(2))))
    assert not sameness.may_hold
    assert not sameness.holds(made(2, 1)[0])


def test_errors_are_the_programs_own_with_the_twins_results(as_set):
    as_set(level="ops", results="twin")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = session_of(FAIL, sess_options=options)
    pair = np.ones(2, np.float32)
    feeds = {"given": pair, "variable": pair, "shape": np.array([3])}
    with pytest.raises(FAILURE, match="Reshape") as plain:
        session.run(None, feeds)
    with debugged(session) as ends, pytest.raises(FAILURE, match="Reshape") as raised:
        session.run(None, feeds)
    assert str(raised.value) == str(plain.value)
    assert ends[0].error.op_name == "bad"


def test_twins_share_the_file_of_large_initializers(as_set, monkeypatch, tmp_path):
    monkeypatch.setattr("tfdbg_cli.engines.onnx.twin._LARGE", 1 << 12)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    as_set(level="ops")
    weight = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], "p"),
        helper.make_node("Log", ["p"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    with debugged(session, Watch(filter_name="has_inf_or_nan")) as ends:
        session.run(None, {"x": np.ones((1, 64), np.float32)})
        session.run(None, {"x": -np.ones((1, 64), np.float32)})
        (datum,) = ends[1].dump.by_tensor("p:0")
        assert ends[1].dump.value(datum)[0, 0] == -64
        assert len(list(tmp_path.iterdir())) == 1
    assert [end.capture.filter_passed for end in ends] == [False, None]
