"""Programs that use ONNX Runtime in all their ways, as the debugger sees them."""

import contextlib
import re

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx_kit import parsed, session_of

from tfdbg_cli.dumps.datum import InconvertibleTensorProto
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.onnx.engine import ENGINE
from tfdbg_cli.filters.lineage import TensorLineage
from tfdbg_cli.filters.origins import origin_of_nonfinite
from tfdbg_cli.sessions.wrappers.framework import (
    BaseDebugWrapperSession,
    OnRunEndResponse,
    OnRunStartAction,
    OnRunStartResponse,
    OnSessionInitAction,
    OnSessionInitResponse,
)

LOG = """g (float[N] x) => (float[N] y) <float w = {2}> {
    [scale] h = Mul(x, w)
    [log] l = Log(h)
    [clip] y = Relu(l)
}"""
ONES, ZEROS = np.ones(2, np.float32), np.zeros(2, np.float32)


class Host(BaseDebugWrapperSession):
    action = OnRunStartAction.DEBUG_RUN
    watch = Watch()

    def on_session_init(self, request):
        self.ends = []
        return OnSessionInitResponse(OnSessionInitAction.PROCEED)

    def on_run_start(self, request):
        return OnRunStartResponse(type(self).action, watch=self.watch)

    def on_run_end(self, request):
        self.ends.append(request)
        return OnRunEndResponse()


@contextlib.contextmanager
def debugged(session, watch=None, action=OnRunStartAction.DEBUG_RUN):
    """The ends of the session's runs."""
    host = Host(session)
    host.watch = watch or Watch()
    Host.action = action
    undo = ENGINE.install(lambda asked: host if asked is session else None)
    try:
        yield host.ends
    finally:
        undo()
        Host.action = OnRunStartAction.DEBUG_RUN


def value(end, name):
    (datum,) = end.dump.by_tensor(name)
    return end.dump.value(datum)


def of_nodes(nodes, inputs, outputs):
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    opsets = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return onnxruntime.InferenceSession(model.SerializeToString())


@pytest.mark.parametrize(
    "way", ["run", "ort_values", "vector", "binding", "binding_of_numpy", "address"]
)
def test_every_way_to_ask_for_a_run(way):
    session = session_of(LOG)
    with debugged(session) as ends:
        if way == "run":
            (result,) = session.run(None, {"x": ONES})
        elif way == "ort_values":
            given = {"x": onnxruntime.OrtValue.ortvalue_from_numpy(ONES)}
            result = session.run_with_ort_values(["y"], given)[0].numpy()
        elif way == "vector":
            names = onnxruntime.capi.onnxruntime_pybind11_state
            given, made = names.OrtValueVector(), names.OrtValueVector()
            given.push_back(onnxruntime.OrtValue.ortvalue_from_numpy(ONES)._ortvalue)
            place = names.OrtDevice(names.OrtDevice.cpu(), names.OrtDevice.default_memory(), 0)
            options = onnxruntime.RunOptions()
            session.run_with_ortvaluevector(options, ["x"], given, ["y"], made, [place])
            result = onnxruntime.OrtValue(made[0]).numpy()
        else:
            binding = session.io_binding()
            if way == "binding":
                binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(ONES))
            elif way == "address":
                binding.bind_cpu_input("x", ZEROS)
                binding.bind_input("x", "cpu", 0, np.float32, [2], ONES.ctypes.data)
            else:
                binding.bind_input("x", "cpu", 0, np.float32, (2,), buffer_ptr=ZEROS.ctypes.data)
                binding.bind_cpu_input("x", ONES)
            binding.bind_output("y")
            assert session.run_with_iobinding(binding) is None
            (result,) = binding.copy_outputs_to_cpu()
    assert result.tobytes() == np.log(np.float32([2, 2])).tobytes()
    (end,) = ends
    assert value(end, "scale:0").tolist() == [2, 2]
    assert value(end, "clip:0").tobytes() == result.tobytes()
    assert value(end, "w:0") == 2


def test_waiting_looks_at_outputs_and_shows_all_at_a_hit():
    session = session_of(
        "g (float[N] x) => (float[N] y) { [log] l = Log(x)  [twice] y = Add(l, l) }"
    )
    with debugged(session, Watch(filter_name="has_inf_or_nan")) as ends:
        session.run(None, {"x": ONES})
        session.run(None, {"x": ZEROS})
    assert [end.capture.filter_passed for end in ends] == [False, None]
    assert ends[0].dump is None
    assert value(ends[1], "log:0").tolist() == [-np.inf, -np.inf]


def test_a_bad_value_that_no_output_shows_is_seen_at_the_level_of_ops():
    session = session_of(LOG)
    ENGINE.is_close = True
    try:
        with debugged(session, Watch(filter_name="has_inf_or_nan")) as ends:
            assert session.run(None, {"x": ZEROS})[0].tolist() == [0, 0]
    finally:
        ENGINE.is_close = False
    assert value(ends[0], "log:0").tolist() == [-np.inf, -np.inf]


def test_element_types_that_numpy_has_not():
    kinds = {
        "bfloat16": TensorProto.BFLOAT16,
        "float16": TensorProto.FLOAT16,
        "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
        "int4": TensorProto.INT4,
        "string": TensorProto.STRING,
    }
    nodes = [
        helper.make_node("Cast", ["x"], [f"c_{name}"], name=name, to=number)
        for name, number in kinds.items()
    ]
    nodes += [
        helper.make_node("SequenceConstruct", ["x", "x"], ["several"], name="sequence"),
        helper.make_node("Identity", ["x"], ["y"], name="same"),
    ]
    ends_of = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy"]
    session = of_nodes(nodes, ends_of[:1], ends_of[1:])
    with debugged(session) as ends:
        session.run(None, {"x": np.array([1, 2, -3], np.float32)})
    (end,) = ends
    for name in kinds:
        (datum,) = end.dump.by_tensor(f"{name}:0")
        assert datum.dtype == name
    for name in ("bfloat16", "float16", "float8_e4m3fn", "int4"):
        assert np.asarray(value(end, f"{name}:0")).astype(np.float32).tolist() == [1, 2, -3]
    assert list(value(end, "string:0")) == ["1", "2", "-3"]
    said = value(end, "sequence:0")
    assert isinstance(said, InconvertibleTensorProto)
    assert str(said) == "a sequence of 2 tensors: [3], [3]"


def test_nodes_without_a_name_go_by_their_outputs():
    session = session_of("g (float[N] x) => (float[N] y) { h = Exp(x)  y = Neg(h) }")
    with debugged(session) as ends:
        session.run(None, {"x": ZEROS})
    assert value(ends[0], "h:0").tolist() == [1, 1]
    assert ends[0].dump.graph().nodes["y"].inputs == ("h:0",)


def test_the_line_of_the_module_that_was_exported():
    model = parsed("g (float[N] x) => (float[N] y) { [log] y = Log(x) }")
    entry = model.graph.node[0].metadata_props.add()
    entry.key = "pkg.torch.onnx.stack_trace"
    entry.value = f'File "{__file__}", line 7, in forward\n  return torch.log(x)'
    session = onnxruntime.InferenceSession(model.SerializeToString())
    with debugged(session) as ends:
        session.run(None, {"x": ONES})
    *_, caller, last = ends[0].dump.graph().nodes["log"].frames
    assert (last.file, last.line, last.function) == (__file__, 7, "forward")
    assert caller.function == "test_the_line_of_the_module_that_was_exported"


def test_a_run_is_timed_node_by_node():
    session = session_of(LOG)
    with debugged(session, action=OnRunStartAction.PROFILE_RUN) as ends:
        session.run(None, {"x": ONES})
    (device,) = ends[0].dump.profile().devices
    assert device.name == "CPUExecutionProvider"
    assert [entry.node for entry in device.entries] == ["scale", "log", "clip"]


def test_threads_and_options_stay_the_programs_own():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    before = options.graph_optimization_level
    session = session_of(LOG, sess_options=options)
    with debugged(session) as ends:
        session.run(None, {"x": ONES})
    assert ends[0].dump.by_tensor("log:0")
    assert options.graph_optimization_level == before
    assert options.optimized_model_filepath == ""


def test_functions_of_the_model_are_shown_inlined():
    text = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
    g (float[N] x) => (float[N] y) { [call] y = own.twice_log(x) }
    <domain: "own", opset_import: ["" : 17]>
    twice_log (a) => (c) { b = Log(a)  c = Add(b, b) }"""
    session = onnxruntime.InferenceSession(onnx.parser.parse_model(text).SerializeToString())
    with debugged(session) as ends:
        session.run(None, {"x": ZEROS})
    types = {node.op_type for node in ends[0].dump.graph().nodes.values()}
    assert {"Log", "Add"} <= types
    assert sum(datum.shape == (2,) for datum in ends[0].dump.data()) == 3


IF = """g (float[N] x, bool c) => (float[N] y) {
    [choose] y = If (c) <
        then_branch = taken () => (a) { [yes] h = Exp(x)  [neg] a = Neg(h) },
        else_branch = other () => (b) { [no] b = Log(x) }
    >
}"""
LOOP = """g (float[N] x, int64 count) => (float[N] y) <bool true = {1}> {
    [shrink] y = Loop (count, true, x) <
        body = step (int64 at, bool going, float[N] v) => (bool on, float[N] next) {
            [on] on = Identity(going)
            [less] less = Sub(v, x)
            [log] next = Log(less)
        }
    >
}"""


@pytest.mark.parametrize(("taken", "nodes"), [(True, ["yes", "neg"]), (False, ["no"])])
def test_the_side_of_a_branch_that_was_taken(taken, nodes):
    session = session_of(IF)
    with debugged(session) as ends:
        session.run(None, {"x": ONES, "c": np.array(taken)})
    names = [datum.node_name for datum in ends[0].dump.data()]
    assert names == ["x", "c", *nodes, "choose"]
    assert value(ends[0], f"{nodes[-1]}:0").tolist() == value(ends[0], "choose:0").tolist()


def test_what_a_branch_gives_began_inside_of_it():
    session = session_of(IF)
    with debugged(session) as ends:
        session.run(None, {"x": ZEROS, "c": np.array(False)})
    dump = ends[0].dump
    found = [each.node_name for each in dump.data() if origin_of_nonfinite(each, None, dump)]
    assert found == ["no"]
    (chosen,) = dump.by_node("choose")
    inputs = TensorLineage.of(dump).inputs(chosen)
    assert {each.node_name for each in inputs if each.node_name in ("neg", "no")} == {"no"}


def test_the_iterations_of_a_loop():
    session = session_of(LOOP)
    with debugged(session) as ends:
        session.run(None, {"x": ONES, "count": np.array(2)})
    data = ends[0].dump.by_tensor("log:0")
    assert [datum.execution for datum in data] == [0, 1]
    assert ends[0].dump.value(data[0]).tolist() == [-np.inf, -np.inf]


SCAN = """g (float[2] start, float[2,3] xs, float[3,2] back) => (float[2] end, float[K,2] ys) {
    [scan] end, ys = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0],
        scan_input_directions = [0, 1],
        body = step (float[2] sum, float[2] x, float[2] b) => (float[2] next, float[2] root) {
            [add] more = Add(sum, x)
            [both] next = Sub(more, b)
            [root] root = Sqrt(next)
        }
    > (start, xs, back)
}"""


def test_the_iterations_of_a_scan():
    session = session_of(SCAN)
    feeds = {
        "start": np.zeros(2, np.float32),
        "xs": np.array([[1, 2, 3], [4, 5, 6]], np.float32),
        "back": np.array([[9, 0], [0, 0], [0, 0]], np.float32),
    }
    with debugged(session) as ends:
        end, roots = session.run(None, feeds)
    data = ends[0].dump.by_tensor("both:0")
    assert [datum.execution for datum in data] == [0, 1, 2]
    sums = [ends[0].dump.value(datum).tolist() for datum in data]
    assert sums == [[1, 4], [3, 9], [-3, 15]]  # the last one takes the first of what goes back
    assert end.tolist() == sums[-1]
    shown = [ends[0].dump.value(datum) for datum in ends[0].dump.by_tensor("root:0")]
    np.testing.assert_array_equal(np.stack(shown), roots)
    assert not ends[0].dump.warnings


FUSED = """g (float[2,2] x) => (float[2,2] y)
<float[2,2] w = {1, 2, 3, 4}, float[2] b = {1, 1}, float two = {2}, float three = {3}> {
    [mm] m = MatMul(x, w)
    [bias] a = Add(m, b)
    [act] r = Relu(a)
    [six] k = Mul(two, three)
    [scale] s = Mul(r, k)
    [log] y = Log(s)
}"""


@pytest.mark.parametrize("is_optimised", [True, False])
def test_what_became_of_a_node_is_told(is_optimised):
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = (
        levels.ORT_ENABLE_EXTENDED if is_optimised else levels.ORT_DISABLE_ALL
    )
    session = session_of(FUSED, sess_options=options)
    with debugged(session) as ends:
        session.run(None, {"x": np.eye(2, dtype=np.float32)})
    nodes = ends[0].dump.graph().nodes
    told = {name: node.attributes.get("runs as", "") for name, node in nodes.items()}
    assert not told["log"] and not told["x"]
    if is_optimised:
        assert re.match(r"(part of )?(Fused)?Gemm", told["mm"]), told
        assert re.match(r"(part of )?(Fused)?Gemm", told["bias"]), told
        assert told["six"].startswith("a constant")
    else:
        assert not any(told.values())
