"""Timed runs of TensorFlow: the numbers are those of its own analyzer, the names the user's."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.tensorflow.sessions.capture.profile import StepTimings, traced
from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE

tf1 = tf.compat.v1


def profile(session, fetches, feed_dict=None, options=None, run_metadata=None):
    """A timed run that gave no error: its capture."""
    capture = ENGINE.adapt(session).profile_run(fetches, feed_dict, options, run_metadata)
    assert capture.error is None
    assert capture.dump.warnings == []
    assert capture.dump.data() == []
    return capture


def entries(capture):
    return list(capture.dump.profile())


def by_node(capture):
    """Node -> its entries."""
    found = {}
    for entry in entries(capture):
        found.setdefault(entry.node, []).append(entry)
    return found


@pytest.fixture
def trained(classifier):
    """The capture of one step of the classifier."""
    with tf1.Session(graph=classifier.graph) as session:
        session.run(classifier.init)
        feed = {classifier.x: np.ones([4, 8]), classifier.y: np.eye(3)[[0, 1, 2, 0]]}
        yield profile(session, [classifier.train, classifier.loss], feed)


def test_the_numbers_are_those_of_tensorflows_own_analyzer(classifier, trained):
    profile_analyzer_cli = pytest.importorskip("tensorflow.python.debug.cli.profile_analyzer_cli")
    analyzer = profile_analyzer_cli.ProfileAnalyzer(classifier.graph, trained.run_metadata)
    generate = analyzer._get_profile_data_generator()
    (device,) = trained.run_metadata.step_stats.dev_stats
    theirs = sorted(generate(device), key=lambda one: one.node_exec_stats.all_start_nanos)
    (ours,) = trained.dump.profile().devices
    assert ours.name == device.device
    assert len(ours.entries) == len(theirs) > 30
    origin = theirs[0].start_time
    known = 0
    for mine, other in zip(ours.entries, theirs, strict=True):
        name = other.node_exec_stats.node_name
        assert (mine.runtime_name or mine.node) == name
        # Its clock has whole microseconds, cut off; ours are nanoseconds of the same stats.
        assert mine.start == pytest.approx(other.start_time - origin, abs=1.001)
        assert mine.op_time == pytest.approx(other.op_time, abs=2)
        assert mine.exec_time == pytest.approx(other.exec_time, abs=2)
        if other.op_type:
            known += 1
            assert mine.op_type == other.op_type
            assert str(mine.place) == other.file_line_func
    assert known > 30
    text = "\n".join(analyzer.list_profile(["-s", "exec_time"]).lines)
    assert all((one.runtime_name or one.node) in text for one in ours.entries)


def test_every_node_leads_back_to_the_users(trained):
    graph = trained.dump.graph()
    for entry in entries(trained):
        assert entry.node in graph
        assert entry.op_type == graph.node(entry.node).op_type
        assert entry.place is not None
        assert entry.place.file in (__file__, __file__.replace("test_tf_profile", "conftest"))
    fed = {e.node: e for e in entries(trained) if e.runtime_name.startswith("_arg_")}
    assert set(fed) == {"input/x-input", "input/y-input"}
    assert {(e.op_type, e.kernel) for e in fed.values()} == {("Placeholder", "_Arg")}
    fetched = [e for e in entries(trained) if e.runtime_name.startswith("_retval_")]
    assert [(e.node, e.kernel) for e in fetched] == [("cross_entropy/Mean", "_Retval")]


def test_times_count_from_the_first_op(trained):
    # Defect 43: microseconds since the epoch.
    starts = [entry.start for entry in entries(trained)]
    assert starts[0] == 0
    assert starts == sorted(starts)
    assert starts[-1] < 60e6
    assert all(e.op_time >= 0 and e.exec_time >= 0 for e in entries(trained))
    assert any(e.exec_time > 0 for e in entries(trained))


def test_result_state_and_random_stream_are_those_of_plain_runs(graph):
    count = tf1.get_variable("count", initializer=0.0)
    add = tf1.assign_add(count, 1.0)
    noise = tf1.random.uniform([3], seed=5)

    def numbers(run):
        with tf1.Session(graph=graph) as session:
            session.run(tf1.global_variables_initializer())
            return [run(session, {"a": [add], "n": noise}) for _ in range(3)]

    plain = numbers(lambda session, fetches: session.run(fetches))
    timed = numbers(lambda session, fetches: profile(session, fetches).value)
    assert [value["a"] for value in timed] == [[1.0], [2.0], [3.0]]
    for one, other in zip(plain, timed, strict=True):
        assert one.keys() == other.keys()
        assert one["n"].tolist() == other["n"].tolist()


def test_the_callers_options_and_metadata_are_as_after_a_plain_run(graph):
    doubled = tf.multiply(tf1.placeholder(tf.float32, [], name="x"), 2.0)
    with tf1.Session(graph=graph) as session:
        options = tf1.RunOptions(output_partition_graphs=True)
        before = options.SerializeToString()
        plain, record = tf1.RunMetadata(), tf1.RunMetadata()
        session.run(doubled, {"x:0": 1.0}, options, plain)
        capture = profile(session, doubled, {"x:0": 1.0}, options, record)
        assert options.SerializeToString() == before
        assert capture.value == 2.0
        assert len(record.partition_graphs) == len(plain.partition_graphs) == 1
        assert not record.HasField("step_stats")
        assert capture.run_metadata.HasField("step_stats")
        own = tf1.RunOptions(trace_level=tf1.RunOptions.SOFTWARE_TRACE)
        profile(session, doubled, {"x:0": 1.0}, own, record)
        assert record.step_stats.dev_stats
        assert own.trace_level == tf1.RunOptions.SOFTWARE_TRACE


def test_a_failing_run_gives_its_error_and_no_timings(graph):
    checked = tf1.check_numerics(tf1.placeholder(tf.float32, [], name="x"), "bad", name="checked")
    with tf1.Session(graph=graph) as session:
        record = tf1.RunMetadata()
        capture = ENGINE.adapt(session).profile_run(checked, {"x:0": np.nan}, None, record)
        assert isinstance(capture.error, tf.errors.InvalidArgumentError)
        assert record == tf1.RunMetadata()
        assert len(capture.dump.profile()) == 0
        assert capture.dump.warnings == ["TensorFlow gives no timings of a run that failed."]
        assert "checked" in capture.dump.graph()
        with pytest.raises(TypeError, match="invalid type"):
            ENGINE.adapt(session).profile_run(object(), None, None, None)


def test_the_inside_of_loops_and_branches(graph):
    x = tf1.placeholder(tf.float32, [], name="x")

    def body(i, y):
        return i + 1, tf.tanh(y, name="tanh")

    _, y = tf.while_loop(lambda i, y: i < 3, body, [tf.constant(0), x], name="loop")
    out = tf1.cond(y > 0, lambda: tf.sin(y, name="sin"), lambda: y, name="choice")
    with tf1.Session(graph=graph) as session:
        capture = profile(session, out, {x: 2.0})
        watched = ENGINE.adapt(session).debug_run(out, {x: 2.0}, None, None, Watch())
    found = by_node(capture)
    (tanh,) = (node for node in found if node.endswith("/tanh"))
    (sine,) = (node for node in found if node.endswith("/sin"))
    assert len(found[tanh]) == 3
    # The names are those under which a debugged run lists them.
    assert {tanh, sine} <= {datum.node_name for datum in watched.dump.data()}
    line = body.__code__.co_firstlineno + 1
    assert {(e.op_type, e.place.line, e.place.function) for e in found[tanh]} == {
        ("Tanh", line, "body")
    }
    assert found[sine][0].op_type == "Sin"
    # What a loop is made of belongs to the loop.
    kernels = {entry.kernel for entry in found["loop"]}
    assert {"Enter", "Merge", "Switch", "NextIteration", "Exit"} <= kernels
    assert {entry.place.line for entry in found["loop"]} == {line + 2}
    assert all(entry.node in capture.dump.graph() for entry in entries(capture))


def test_old_loops(graph, old_control_flow):
    out = tf1.while_loop(
        lambda y: y < 9.0, lambda y: tf.multiply(y, 2.0, name="twice"), [1.0], name="loop"
    )
    with tf1.Session(graph=graph) as session:
        found = by_node(profile(session, out))
    assert len(found["loop/twice"]) == 4
    assert found["loop/twice"][0].place.file == __file__


def test_functions_that_run_as_they_are(graph):
    """Their nodes appear without a prefix, some under names that the graph has as well."""

    @tf.function
    def inner(a):
        return tf.add(tf.nn.relu(a, name="relu"), 1.0, name="add")

    @tf.function
    def outer(a):
        return tf.multiply(inner(a), 3.0, name="mul")

    x = tf1.placeholder(tf.float32, [4], name="x")
    called = outer(x)
    out = tf.add(called, x, name="add")
    with tf1.Session(graph=graph) as session:
        capture = profile(session, out, {x: [-1.0, 0.0, 1.0, 2.0]})
    assert capture.value.tolist() == [2.0, 3.0, 7.0, 11.0]
    found = by_node(capture)
    call = called.op.name
    (relu,) = (node for node in found if node.endswith("/relu"))
    assert relu.startswith(f"{call}/")
    (add,) = found[relu.replace("/relu", "/add")]
    assert (add.op_type, add.place.function) == ("AddV2", "inner")
    assert found[f"{call}/mul"][0].place.function == "outer"
    own = [entry for entry in found["add"] if not entry.kernel]
    assert [entry.place.function for entry in own] == ["test_functions_that_run_as_they_are"]
    assert all(entry.node in capture.dump.graph() for entry in entries(capture))


def test_what_the_optimizers_make_of_a_node_is_the_nodes(graph):
    x = tf1.placeholder(tf.float32, [4], name="x")
    with tf1.name_scope("scope"):
        third = tf.tanh(x, name="tanh") / tf.constant(3.0 * np.ones(4, np.float32), name="three")
        total = tf.add_n([x, x, x], name="sum3")
    square = tf.multiply(third, third, name="square")
    with tf1.Session(graph=graph) as session:
        capture = profile(session, [square, total], {x: [1.0, 2.0, 3.0, 4.0]})
    made = [
        e for e in entries(capture) if "Optimizer" in e.runtime_name or "Fold" in e.runtime_name
    ]
    assert made  # else grappler has changed, and this test shows nothing
    assert {entry.node for entry in made} <= {"scope/truediv", "scope/sum3", "square"}
    for entry in made:
        assert entry.op_type in ("RealDiv", "AddN", "Mul")
        assert entry.place.file == __file__


@pytest.mark.parametrize(
    ("name", "label", "node", "op_type", "kernel"),
    [
        ("conv-0-TransposeNHWCToNCHW-LayoutOptimizer", "", "conv", "Identity", ""),
        ("conv/_7", "conv/_7 = _HostRecv()", "conv", "Identity", "_HostRecv"),
        ("conv:FusedKernel", "conv:FusedKernel#x=1#", "conv", "Identity", ""),
        ("ConstantFolding/conv_recip", "a = Const()", "conv", "Identity", "Const"),
        ("scope/ArithmeticOptimizer/Hoist_Mul_b", "a = Mul()", "scope/b", "Identity", "Mul"),
        ("_retval_scope/b_0_3", "a = _Retval(scope/b)", "scope/b", "Identity", "_Retval"),
        ("own_idea", "own_idea = Magic(conv)", "own_idea", "Magic", ""),
        ("gone", "", "gone", "", ""),
    ],
)
def test_names_that_other_runtimes_make(graph, name, label, node, op_type, kernel):
    conv = tf.identity(1.0, name="conv")
    with tf1.name_scope("scope"):
        tf.identity(conv, name="b")
    stats = tf1.RunMetadata().step_stats
    device = stats.dev_stats.add(device="/device:GPU:0/stream:all")
    device.node_stats.add(node_name="_SOURCE", timeline_label="_SOURCE = NoOp()")
    device.node_stats.add(
        node_name=name,
        timeline_label=label,
        all_start_micros=1_700_000_000_000_000,
        op_start_rel_micros=2,
        op_end_rel_micros=7,
        all_end_rel_micros=9,
    )
    with tf1.Session(graph=graph) as session:
        timings = StepTimings(graph, ENGINE.adapt(session)._graph_view(), stats)
    ((device_name, (entry,)),) = timings.profile().devices
    assert device_name == "/device:GPU:0/stream:all"
    assert (entry.node, entry.op_type, entry.kernel) == (node, op_type, kernel)
    assert (entry.start, entry.op_time, entry.exec_time) == (0, 5, 9)
    assert entry.runtime_name == ("" if name == node else name)


def test_several_devices(graph):
    with tf.device("/cpu:0"):
        a = tf.tanh(tf1.placeholder(tf.float32, [2], name="x"), name="a")
    with tf.device("/cpu:1"):
        b = tf.sin(a, name="b")
    config = tf1.ConfigProto(device_count={"CPU": 2})
    with tf1.Session(graph=graph, config=config) as session:
        devices = profile(session, b, {"x:0": [1.0, 2.0]}).dump.profile().devices
    found = {device.name[-5:]: {e.node for e in device.entries} for device in devices}
    assert "a" in found["CPU:0"]
    assert "b" in found["CPU:1"]
    assert min(e.start for device in devices for e in device.entries) == 0


def test_a_monitored_session_is_timed_below_its_hooks(graph):
    seen = []

    class Hook(tf1.train.SessionRunHook):
        def before_run(self, run_context):
            return tf1.train.SessionRunArgs(extra)

        def after_run(self, run_context, run_values):
            seen.append((run_values.results, run_values.run_metadata.HasField("step_stats")))

    tf1.train.get_or_create_global_step()
    x = tf1.placeholder(tf.float32, [], name="x")
    doubled, extra = tf.multiply(x, 2.0, name="doubled"), tf.negative(x, name="extra")
    with tf1.train.MonitoredSession(hooks=[Hook()]) as session:
        capture = profile(session, doubled, {x: 3.0})
    assert capture.value == 6.0
    assert {"doubled", "extra"} <= set(by_node(capture))
    assert seen == [(-3.0, False)]


def test_tracing_asks_for_nothing_else():
    options = tf1.RunOptions(timeout_in_ms=5000)
    made = traced(options)
    assert made.trace_level == tf1.RunOptions.FULL_TRACE
    made.ClearField("trace_level")
    assert made == options
