"""Sessions while a filter is awaited: what a run costs, and that nothing is missed or changed."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import numpy as np
import pytest
import tensorflow as tf

import tfdbg_cli
from tfdbg_cli.commands.graph.verdict import first_origin
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.tensorflow.sessions.capture import prepared
from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE
from tfdbg_cli.engines.tensorflow.shared import private
from tfdbg_cli.filters.causes.find import cause_of
from tfdbg_cli.filters.lineage import TensorLineage

tf1 = tf.compat.v1

AWAITED = Watch(filter_name="has_inf_or_nan", predicate=tfdbg_cli.has_inf_or_nan)
UPDATES = ("Assign", "AssignAdd", "ApplyGradientDescent")


def awaited(session, fetches, feed_dict=None):
    capture = ENGINE.adapt(session).debug_run(fetches, feed_dict, None, None, AWAITED)
    assert capture.error is None
    return capture


def debugged(session, fetches, feed_dict=None):
    capture = ENGINE.adapt(session).debug_run(fetches, feed_dict, None, None, Watch())
    assert capture.error is None
    return capture


def variable_before(capture, name):
    """What a variable held before a run; it is in memory of its own."""
    (datum,) = capture.dump.by_tensor(name)[:1]
    return datum.get_tensor()


def first_bad(session, fetches, feed_dict=None):
    """The first bad tensor of an awaited run; empty: it says that there is none."""
    capture = awaited(session, fetches, feed_dict)
    if capture.filter_passed is False:
        return ""
    return capture.dump.find(tfdbg_cli.has_inf_or_nan)[0].tensor_name


def calls_of(function):
    """How many calls of Python functions something takes."""
    count = 0

    def seen(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(seen)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def test_an_awaited_run_does_nothing_for_each_tensor(graph):
    """Neither Session.run's handling of fetches nor ours grows with the graph."""
    x = tf1.placeholder(tf.float32, [4], name="x")
    at, ends = x, {}
    for number in range(1, 1001):
        at = tf.sin(at)
        if number in (10, 1000):
            ends[number] = at
    with tf1.Session() as session:
        adapter, feed = ENGINE.adapt(session), {x: np.ones(4, np.float32)}
        counts = {}
        for number, end in ends.items():

            def run(end=end):
                assert adapter.debug_run(end, feed, None, None, AWAITED).filter_passed is False

            run()
            run()
            counts[number] = calls_of(run)
    assert counts[1000] < counts[10] + 100


def test_an_awaited_run_has_its_dump_for_who_asks(graph):
    x = tf1.placeholder(tf.float32, [2], name="x")
    y = tf.add(x, 1.0, name="y")
    tf.identity(y, name="z")
    with tf1.Session() as session:
        capture = awaited(session, "z:0", {x: [1, 2]})
    assert capture.filter_passed is False
    assert capture.progress_text == f"none of {len(capture.dump.data())} tensors"
    values = {datum.tensor_name: datum.get_tensor() for datum in capture.dump.data()}
    assert values["y:0"].tolist() == values["z:0"].tolist() == [2, 3]


CASES = {
    "a scalar": (lambda x: tf.exp(x * 1e3, name="bad"), "bad:0"),
    "one of many": (lambda x: tf.fill([100_000], x * 1e3, name="b") ** 20.0, "pow:0"),
    "a half": (lambda x: tf.cast(x * 1e5, tf.float16, name="bad"), "bad:0"),
    "brain": (lambda x: tf.cast(x * 3.4e38, tf.bfloat16, name="bad"), "bad:0"),
    "complex": (lambda x: tf.complex(x, x * 1e38 * 10, name="c"), "mul_1:0"),
    "a constant": (lambda x: tf.minimum(x, tf.constant(np.inf, name="inf")), "inf:0"),
    "a chain of copies": (lambda x: tf.nn.relu(-tf.identity(tf.math.log(x * 0, name="l"))), "l:0"),
    "in a function": (lambda x: tf.math.log(doubled(x * 0)), "Log:0"),
    "in a loop": (lambda x: tf.while_loop(lambda y: y < 1e30, lambda y: (y * 1e30,), [x])[0], ""),
}


@tf.function
def doubled(x):
    return x * 2


@pytest.mark.parametrize("case", CASES)
def test_what_is_bad_is_found(graph, case):
    build, name = CASES[case]
    x = tf1.placeholder(tf.float32, [], name="x")
    result = build(x)
    with tf1.Session() as session:
        for value in (0.5, 1.0):
            found = first_bad(session, result, {x: value})
            dump = debugged(session, result, {x: value}).dump
            bad = [each.tensor_name for each in dump.find(tfdbg_cli.has_inf_or_nan)]
            assert found == (bad[0] if bad else "")
        assert not name or found == name


def test_an_awaited_run_fetches_what_tells_of_all(graph):
    """The rest is computed of it once something is bad; the next runs fetch all."""
    x = tf1.placeholder(tf.float32, [4], name="x")
    y, kept = x, variable("kept", [1, 2, 3, 4])
    for number in range(6):
        y = tf.tanh(tf.identity(y * kept) + 0.5, name=f"tanh_{number}")
    with tf.control_dependencies([y]):
        tf1.assign_add(kept, y, name="more")
    tf.reduce_sum(tf.math.log(y - 0.5) * 2.0, name="z")
    with tf1.Session() as session:
        feeds = [{x: np.full(4, value, np.float32)} for value in (1.0, -5.0)]
        session.run(kept.initializer)
        assert awaited(session, ["z:0", "more:0"], feeds[0]).filter_passed is False
        session.run(kept.initializer)
        fewer = awaited(session, ["z:0", "more:0"], feeds[1]).dump
        session.run(kept.initializer)
        whole = awaited(session, ["z:0", "more:0"], feeds[1]).dump
    computed = {each.tensor_name for each in fewer.data() if each.is_computed}
    assert {"mul_1:0", "add_1:0"} - computed and {"tanh_1:0", "Identity_2:0"} <= computed
    assert not [each.tensor_name for each in whole.data() if each.is_computed]
    values = {each.tensor_name: each.get_tensor() for each in whole.data()}
    assert [each.tensor_name for each in fewer.data()] == list(values)
    for each in fewer.data():
        np.testing.assert_array_equal(each.get_tensor(), values[each.tensor_name], each.tensor_name)
    assert fewer.warnings == whole.warnings == []
    assert not any(each.note for each in fewer.data())


def test_what_does_not_come_out_alike_is_told(graph):
    """A fused relu makes 0 of a nan, and a relu doesn't."""
    x, weights = tf1.placeholder(tf.float32, [4, 8], name="x"), variable("weights", np.ones((8, 8)))
    layer = tf.nn.relu(tf.nn.bias_add(x @ weights, variable("bias", np.ones(8))), name="layer")
    tf.reduce_sum(tf.tanh(tf.tanh(layer) * 0.5), name="z")
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        result = session.run("z:0", {x: np.full((4, 8), np.nan)})
        dump = awaited(session, "z:0", {x: np.full((4, 8), np.nan)}).dump
        notes = {each.tensor_name: each.note for each in dump.data()}
    is_told = np.isfinite(result)
    assert (dump.warnings != []) == is_told, dump.warnings
    assert ("may have been different" in notes["Tanh:0"]) == is_told


def test_a_bad_feed_and_what_is_made_of_it(graph):
    x = tf1.placeholder(tf.float32, [2], name="x")
    with tf1.Session() as session:
        for build in (tf.identity, tf.nn.relu, tf.stop_gradient):
            made = build(x)
            assert first_bad(session, made, {x: [1, 2]}) == ""
            assert first_bad(session, made, {x: [1, np.nan]}) == "x:0"
            # What is fed in the middle follows from nothing.
            assert first_bad(session, tf.reshape(made, [2, 1]), {x: [1, 1], made: [1, np.inf]})


def variable(name, value, resource=False):
    initial = np.asarray(value, np.float32)
    return tf1.get_variable(name, initializer=initial, use_resource=resource)


@pytest.mark.parametrize("resource", [True, False], ids=["resource", "reference"])
def test_bad_variables_before_and_after(graph, resource):
    v = variable("v", [1, 2], resource)
    gradient = tf1.placeholder(tf.float32, [2], name="g")
    doubled_v = tf.multiply(v, 2.0, name="doubled")
    with tf.control_dependencies([doubled_v]):
        step = v.assign_sub(gradient) if resource else tf1.assign_sub(v, gradient, name="step")
    run = [doubled_v, step.op]
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        assert first_bad(session, run, {gradient: [0, 1]}) == ""
        assert session.run(v).tolist() == [1, 1]
        if not resource:
            capture = debugged(session, run, {gradient: [0.5, 0]})
            values = {datum.tensor_name: datum.get_tensor() for datum in capture.dump.data()}
            assert values["v:0"].tolist() == values["v/read:0"].tolist() == [1, 1]
            assert values["step:0"].tolist() == [0.5, 1]
            capture = awaited(session, run, {gradient: [0, np.inf]})
            bad = capture.dump.find(tfdbg_cli.has_inf_or_nan)
            assert [each.tensor_name for each in bad] == ["g:0", "step:0"]
        else:
            assert first_bad(session, run, {gradient: [0, np.inf]}) == "g:0"
        assert first_bad(session, run, {gradient: [0, 0]}) == (
            "v:0" if not resource else "doubled/ReadVariableOp:0"
        )


def test_dumps_and_results_are_nobody_elses(graph):
    """A callable of the runtime hands out the very memory of variables and constants."""
    v, number = variable("v", np.ones(100)), tf.constant(np.ones(100, np.float32), name="c")
    read, same = tf.identity(v, name="read"), tf.identity(number, name="same")
    summed = tf.add(read, same, name="sum")
    step = tf1.assign_add(v, tf.ones([100]))
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        capture = debugged(session, [v, read, same, summed])
        for array in capture.value:
            array[:] = 7
        session.run(step.op)
        assert session.run([v, number])[0][0] == 2
        assert session.run(number)[0] == 1
        assert capture.value[0][0] == 7
        for datum in capture.dump.data():
            assert datum.get_tensor()[0] == (2 if datum.node_name == "sum" else 1), datum


def test_a_variable_without_a_value(graph):
    v = variable("v", [1, 2])
    start = tf1.assign(v, [3, 4], name="start")
    with tf1.Session() as session:
        capture = debugged(session, start.op)
        values = {datum.tensor_name: datum.get_tensor() for datum in capture.dump.data()}
        assert isinstance(values["v:0"], tfdbg_cli.InconvertibleTensorProto)
        assert values["start:0"].tolist() == [3, 4]
        assert first_bad(session, start.op) == ""


def test_threads_that_share_a_session(graph):
    """Another thread may write between a look at a variable and the run: the run itself looks."""
    v = variable("v", 0.0)
    step = tf1.assign_add(v, 1.0, name="step")
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        adapter, wrong = ENGINE.adapt(session), []

        def work():
            for _ in range(50):
                dump = adapter.debug_run(step.op, None, None, None, Watch()).dump
                values = {datum.tensor_name: float(datum.get_tensor()) for datum in dump.data()}
                if values["step:0"] <= 0 or dump.warnings:
                    wrong.append((values, dump.warnings))

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert session.run(v) == 150
        assert adapter._plans.is_shared


def test_a_failed_run_tells_which_updates_were_made(graph):
    v, w = variable("v", [1, 1]), variable("w", [1, 1])
    x = tf1.placeholder(tf.float32, [], name="x")
    early = tf1.assign_add(v, [1, 1], name="early")
    with tf.control_dependencies([early]):
        checked = tf.debugging.check_numerics(1 / x, "not here", name="check")
    with tf.control_dependencies([checked]):
        late = tf1.assign_add(w, [1, 1], name="late")
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        assert first_bad(session, late.op, {x: 1}) == ""
        capture = ENGINE.adapt(session).debug_run(late.op, {x: 0}, None, None, Watch())
        assert isinstance(capture.error, tf.errors.InvalidArgumentError)
        values = {datum.tensor_name: datum.get_tensor() for datum in capture.dump.data()}
        assert values["v:0"].tolist() == values["w:0"].tolist() == [2, 2]
        assert values["early:0"].tolist() == [3, 3]
        assert "late:0" not in values and "check:0" not in values


def test_a_program_whose_own_run_asks_for_more(graph):
    class Asking(tf1.Session):
        def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
            self.more, value = super().run([more, fetches], feed_dict, options, run_metadata)
            return value

    x = tf1.placeholder(tf.float32, [], name="x")
    y, more = tf.add(x, 1.0, name="y"), tf.multiply(x, 5.0, name="more")
    z = tf.multiply(y, 2.0, name="z")
    with Asking() as session:
        capture = debugged(session, z, {x: 2})
        assert capture.value == 6
        assert session.more == 10
        assert float(capture.dump.by_tensor("y:0")[0].get_tensor()) == 3


@pytest.mark.parametrize("missing", [True, False])
def test_without_the_private_names_all_is_as_it_was(graph, missing, monkeypatch):
    if missing:
        monkeypatch.setattr(prepared, "prepared_call", lambda session, options: None)
    x, v = tf1.placeholder(tf.float32, [2], name="x"), variable("v", [1, 2])
    loss = tf.reduce_sum(tf.math.log(v * x), name="loss")
    train = tf1.train.AdamOptimizer(0.1).minimize(loss)
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        feed = {x: [1, 2]}
        for _ in range(2):
            dump = debugged(session, [loss, train], feed).dump
        assert dump.warnings == []
        found = {datum.tensor_name for datum in dump.data()}
        assert {"v:0", "v/read:0", "v/Adam:0", "Adam/update_v/ApplyAdam:0", "loss:0"} <= found
        assert first_bad(session, [loss, train], feed) == ""
        assert first_bad(session, [loss, train], {x: [1, 0]}) == "Log:0"


def test_options_and_metadata_are_the_runs(graph):
    x = tf.sin(tf.ones([3]), name="x")
    options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
    with tf1.Session() as session:
        for given in (None, options):
            metadata = tf1.RunMetadata()
            capture = ENGINE.adapt(session).debug_run(x, None, given, metadata, Watch())
            assert capture.dump.by_tensor("x:0")
            assert metadata.HasField("step_stats") is (given is not None)


def test_what_was_prepared_does_not_keep_a_session(graph):
    x = tf.sin(tf.ones([3]), name="x")
    session = tf1.Session()
    debugged(session, x)
    alive = weakref.ref(session)
    del session
    gc.collect()
    assert alive() is None


def test_callables_go_past_the_debugger_itself(graph):
    """The runs that fetch besides are no runs of the program's."""
    from tfdbg_cli.engines.tensorflow.sessions.install import install

    asked = []

    class Seeing:
        def __init__(self, session):
            self.session = session

        def run(self, *arguments, **options):
            asked.append(arguments)
            return ENGINE.adapt(self.session).debug_run(*arguments, AWAITED).value

    v = variable("v", [1, 2])
    step = tf1.assign_add(v, [1, 1])
    undo = install(Seeing)
    try:
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(step.op)
            assert session.run(v).tolist() == [2, 3]
    finally:
        undo()
    assert len(asked) == 3
    assert private.NAMES.why_not("debugged") == ""


@pytest.mark.parametrize("name", ["made:0", "scale:0", "v/start:0"])
def test_what_is_fed_comes_from_outside_whatever_op_it_is_of(graph, name):
    x = tf1.placeholder(tf.float32, [2], name="x")
    start = tf.constant([1.0, 1.0], name="v/start")
    v = tf1.get_variable("v", initializer=start, use_resource=True)
    scale = tf.constant([1.0, 2.0], name="scale")
    total = tf.reduce_sum(tf.nn.relu(x, name="made") * scale)
    run = v.initializer if name == start.name else total
    with tf1.Session() as session:
        dump = awaited(session, run, {x: [1, 2], name: [1, np.inf]}).dump
        begin = first_origin(dump)
        assert begin.tensor_name == name
        cause = cause_of(TensorLineage.of(dump), begin)
        assert cause is not None
        assert cause.text == f"it came in from outside ({name})"
        assert dump.graph().nodes[name[:-2]].inputs == ()
        assert ENGINE.adapt(session).graph().nodes["made"].inputs == ("x:0",)


def test_the_memory_of_variables_that_were_read_is_used_again_if_nobody_has_it():
    with tf1.Graph().as_default(), tf1.Session() as session:
        variable = tf1.Variable(tf.zeros([1000]), use_resource=False, name="v")
        update = tf1.assign_add(variable, tf.ones([1000]))
        session.run(tf1.global_variables_initializer())
        kept = [variable_before(debugged(session, update.op), "v:0") for _ in range(3)]
        # A stop that somebody looks back at keeps its own.
        assert [set(each) for each in kept] == [{0.0}, {1.0}, {2.0}]
        places = set()
        for number in range(3, 8):
            value = variable_before(debugged(session, update.op), "v:0")
            places.add(value.ctypes.data)
            assert set(value) == {float(number)}
            del value
        assert places.isdisjoint(each.ctypes.data for each in kept)
        assert len(places) <= 2
