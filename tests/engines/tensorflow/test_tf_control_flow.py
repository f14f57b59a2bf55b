from __future__ import annotations

import os

import numpy as np
import pytest
import tensorflow as tf

from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.tensorflow.sessions import adapter
from tfdbg_cli.engines.tensorflow.sessions.capture.spool import borrow_folder
from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE
from tfdbg_cli.filters.causes.find import cause_of
from tfdbg_cli.filters.lineage import TensorLineage

tf1 = tf.compat.v1


def debug(session, fetches, feed_dict=None, **watch):
    capture = ENGINE.adapt(session).debug_run(fetches, feed_dict, None, None, Watch(**watch))
    assert capture.error is None
    assert capture.dump.warnings == []
    return capture


def of(dump, tensor):
    return [datum.get_tensor().item() for datum in dump.by_tensor(tensor)]


def nothing_left():
    with borrow_folder() as folder:
        return not any(files for _, _, files in os.walk(folder))


def test_every_iteration_of_an_old_loop_is_one_dump(old_control_flow, graph):
    x = tf1.placeholder(tf.float32, [], name="x")
    loop = tf1.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), (0, 1.0), name="wl")
    after = tf.add(loop[1], 1.0, name="after")
    with tf1.Session() as session:
        capture = debug(session, [loop, after], {x: 2.0})
    dump = capture.dump
    assert capture.value == [(3, 8.0), 9.0]
    assert of(dump, "wl/mul:0") == [2, 4, 8]
    assert [datum.execution for datum in dump.by_tensor("wl/mul:0")] == [0, 1, 2]
    assert of(dump, "wl/Less:0") == [True, True, True, False]
    assert of(dump, "wl/Exit_1:0") == [8]
    at = [datum.node_name for datum in dump.data()]
    assert at.index("x") < at.index("wl/Enter") < at.index("wl/mul")
    last = len(at) - 1 - at[::-1].index("wl/mul")
    assert last < at.index("wl/Exit_1") < at.index("after")
    stamps = [datum.timestamp for datum in dump.data()]
    assert stamps == sorted(stamps)
    assert nothing_left()


def test_gradients_through_old_loops_and_conds(old_control_flow, graph):
    x = tf1.placeholder(tf.float32, [], name="x")
    loop = tf1.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), (0, 1.0))[1]
    picked = tf1.cond(x > 1, lambda: loop * 2, lambda: loop * x)
    slope = tf1.gradients(picked, x)
    with tf1.Session() as plain, tf1.Session() as debugged:
        for value in (2.0, 0.5):
            capture = debug(debugged, [picked, slope], {x: value})
            assert capture.value == plain.run([picked, slope], {x: value})


def test_only_the_branch_that_was_taken_is_dumped(old_control_flow, graph):
    x = tf1.placeholder(tf.float32, [], name="x")
    v = tf1.get_variable("never", initializer=1.0)  # stays uninitialized
    out = tf1.cond(x > 0, lambda: tf.sqrt(x, name="root"), lambda: tf.multiply(v, x, name="times"))
    nested = tf1.cond(x > 0, lambda: tf1.cond(x > 5, lambda: x, lambda: -x), lambda: x * 3)
    with tf1.Session() as session:
        capture = debug(session, [out * 2, nested], {x: 4.0})
    names = capture.dump.tensor_names()
    assert capture.value == [4.0, -4.0]
    assert of(capture.dump, "cond/root:0") == [2.0]
    assert "cond/times:0" not in names
    assert "cond/Merge:0" in names


def test_a_constant_that_the_optimizer_makes_needless_in_a_loop(old_control_flow, graph):
    """It computes 1 / x by a reciprocal; no watch sees the 1."""
    steps = tf1.placeholder(tf.int32, [], name="steps")

    def body(i, total):
        return i + 1, total + tf.divide(1.0, tf.cast(2 - i, tf.float32), name="part")

    total = tf1.while_loop(lambda i, total: i < steps, body, [0, 0.0])[1]
    with tf1.Session() as session:
        dump = debug(session, total, {steps: 3}).dump
        *_, part = dump.by_tensor("while/part:0")
        assert dump.by_tensor("while/part/x:0") == []
        assert cause_of(TensorLineage.of(dump), part).text == "a division by 0"


def test_a_switch_without_its_merge(graph):
    x = tf1.placeholder(tf.float32, [], name="x")
    no, yes = tf.raw_ops.Switch(data=x, pred=x > 0)
    left, right = tf.add(no, 1.0, name="left"), tf.add(yes, 1.0, name="right")
    merged, which = tf.raw_ops.Merge(inputs=[left, right])
    with tf1.Session() as session:
        capture = debug(session, [merged, which], {x: 1.0})
    assert capture.value == [2.0, 1]
    assert "right:0" in capture.dump.tensor_names()
    assert "left:0" not in capture.dump.tensor_names()


def test_imported_graphs_have_no_contexts_and_work_too(old_control_flow):
    with tf.Graph().as_default() as first:
        x = tf1.placeholder(tf.float32, [], name="x")
        loop = tf1.while_loop(lambda a: a < 50.0, lambda a: a * x, [1.0], name="wl")
        tf1.cond(x > 0, lambda: loop + 1, lambda: loop - 1, name="pick")
        definition = first.as_graph_def()
    with tf.Graph().as_default(), tf1.Session() as session:
        tf.import_graph_def(definition, name="in")
        capture = debug(session, "in/pick/Merge:0", {"in/x:0": 4.0})
        assert capture.value == 65.0
        assert of(capture.dump, "in/wl/mul:0") == [4, 16, 64]


def test_the_body_of_a_new_loop(graph):
    x = tf1.placeholder(tf.float32, [], name="x")

    def body(i, a):
        return i + 1, tf.tanh(a * x, name="squash") + 1

    loop = tf.while_loop(lambda i, a: i < 3, body, (0, 1.0), name="wl")
    with tf1.Session() as session:
        expected = session.run(loop[1], {x: 2.0})
        dump = debug(session, loop[1], {x: 2.0}).dump
    (name,) = {d.node_name for d in dump.data() if d.node_name.endswith("/squash")}
    assert name.startswith("wl/body/")
    assert len(dump.by_node(name)) == 3
    assert of(dump, f"{name}:0")[-1] + 1 == pytest.approx(expected)
    assert not [n for n in dump.node_names() if n.startswith("_")]
    assert len([d for d in dump.data() if d.node_name == "x"]) == 1
    node = dump.graph().node(name)
    assert node.op_type == "Tanh"
    assert node.frames[-1].file and any(frame.function == "body" for frame in node.frames)
    assert any(frame.text.startswith("return i + 1, tf.tanh") for frame in node.frames)
    # The neighbours can be walked, into the body and out to what the loop was given.
    assert "x" in dump.graph().ancestors(name)
    assert nothing_left()


def test_the_branch_of_a_new_cond_that_was_taken(graph):
    x = tf1.placeholder(tf.float32, [], name="x")
    out = tf.cond(
        x > 0, lambda: tf.sqrt(x, name="root"), lambda: tf.negative(x, name="minus"), name="cc"
    )
    with tf1.Session() as session:
        capture = debug(session, out + 1, {x: 4.0})
    found = [name for name in capture.dump.tensor_names() if "root" in name or "minus" in name]
    assert len(found) == 1 and found[0].startswith("cc/then/")
    at = [datum.tensor_name for datum in capture.dump.data()]
    assert at.index("x:0") < at.index(found[0]) < at.index("add:0")


def test_a_function_called_in_a_graph(graph):
    x = tf1.placeholder(tf.float32, [], name="x")

    @tf.function
    def inner(a):
        return tf.math.log(a, name="log") + 2

    @tf.function
    def outer(a):
        return tf.nn.relu(inner(a * 2) + 1)

    out = outer(x) * 3 + 1
    with tf1.Session() as session:
        expected = session.run(out, {x: 0.0})
        capture = debug(session, out, {x: 0.0})
    assert capture.value == expected
    (log,) = [name for name in capture.dump.tensor_names() if name.endswith("/log:0")]
    assert of(capture.dump, log) == [-np.inf]
    bad = [d.tensor_name for d in capture.dump.data() if not np.isfinite(d.get_tensor()).all()]
    assert bad[0] == log
    assert capture.dump.op_type(log.partition(":")[0]) == "Log"


def test_filters_reach_into_function_bodies(graph):
    x = tf1.placeholder(tf.float32, [], name="x")
    loop = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), (0, 1.0), name="wl")
    with tf1.Session() as session:
        dump = debug(session, loop, {x: 2.0}, op_type="^Mul$").dump
        assert [datum.get_tensor().item() for datum in dump.data()] == [2, 4, 8]
        dump = debug(session, loop, {x: 2.0}, node_name="body", tensor_dtype="int32").dump
        assert dump.data() and all("/body/" in datum.node_name for datum in dump.data())
        assert {datum.dtype for datum in dump.data()} == {"int32"}


def test_reference_variables_show_what_the_run_used(graph):
    v = tf1.get_variable("v", initializer=1.0, use_resource=False)
    times = v * 5.0
    with tf.control_dependencies([times]):
        more = tf1.assign_add(v, 2.0, name="more")
    with tf1.Session() as session:
        init = debug(session, v.initializer).dump
        assert of(init, "v/Assign:0") == [1.0]
        dump = debug(session, [times, more]).dump
        assert of(dump, "v:0") == of(dump, "v/read:0") == [1.0]
        assert of(dump, "more:0") == [3.0]
        assert session.run(v) == 3.0
        # A run that only reads needs no watch: the variable has the value that was read.
        dump = debug(session, v * 5.0).dump
        assert of(dump, "v:0") == of(dump, "v/read:0") == [3.0]


def test_nothing_is_written_where_everything_can_be_fetched(graph, monkeypatch):
    def refuse():
        raise AssertionError("no watch is needed")

    monkeypatch.setattr(adapter, "borrow_folder", refuse)
    v = tf1.get_variable("v", initializer=[1.0, 2.0])
    with tf1.Session() as session:
        debug(session, v.initializer)
        assert debug(session, v + 1).value.tolist() == [2.0, 3.0]


def test_a_programs_own_watches_are_not_disturbed(old_control_flow, graph, tmp_path):
    loop = tf1.while_loop(lambda i: i < 2, lambda i: i + 1, [0], name="wl")
    options = tf1.RunOptions()
    options.debug_options.debug_tensor_watch_opts.add(
        node_name="wl/add",
        output_slot=0,
        debug_ops=["DebugIdentity"],
        debug_urls=[f"file://{tmp_path}"],
    )
    with tf1.Session() as session:
        capture = ENGINE.adapt(session).debug_run(loop, None, options, None, Watch())
    assert capture.value == 2
    assert len(list(tmp_path.rglob("add_0_DebugIdentity*"))) == 2


def test_function_bodies_of_an_imported_graph(graph):
    with tf.Graph().as_default() as first:
        x = tf1.placeholder(tf.float32, [], name="x")

        def body(a):
            return tf.abs(tf.multiply(a, x, name="by"))

        tf.while_loop(lambda a: a < 50.0, body, [1.0], name="wl")
        definition = first.as_graph_def()
    tf.import_graph_def(definition, name="in")
    with tf1.Session() as session:
        dump = debug(session, "in/wl/Identity_2:0", {"in/x:0": 4.0}).dump
    (name,) = {datum.node_name for datum in dump.data() if datum.node_name.endswith("/by")}
    assert of(dump, f"{name}:0") == [4, 16, 64]
    assert dump.op_type(name) == "Mul"
    assert dump.graph().node(name).frames is None


def test_names_too_long_for_a_file_are_not_watched(old_control_flow, graph):
    # TensorFlow ends the process when it can't create a dump file.
    x = tf1.placeholder(tf.float32, [], name="x")
    long = "n" * 240
    loop = tf1.while_loop(lambda a: a < 5.0, lambda a: tf.add(a, x, name=long), [0.0], name="wl")
    with tf1.Session() as session:
        dump = debug(session, loop, {x: 1.0}).dump
        assert len(dump.by_tensor("wl/Less:0")) == 6
        assert not dump.by_tensor(f"wl/{long}:0")
    tf1.enable_control_flow_v2()
    loop = tf.while_loop(lambda a: a < 5.0, lambda a: tf.add(a, x, name=long), [0.0], name="wl")
    with tf1.Session() as session:
        capture = ENGINE.adapt(session).debug_run(loop, {x: 1.0}, None, None, Watch())
    assert capture.value == [5.0]
    assert "too long" in capture.dump.warnings[0]


def test_several_devices(graph):
    x = tf1.placeholder(tf.float32, [], name="x")
    with tf.device("/cpu:1"):
        there = tf.multiply(x, 2.0, name="there")
        loop = tf.while_loop(lambda a: a < 50.0, lambda a: a * there, [1.0], name="wl")
    config = tf1.ConfigProto(device_count={"CPU": 2})
    with tf1.Session(config=config) as session:
        dump = debug(session, [loop, there], {x: 2.0}).dump
    assert dump.by_tensor("there:0")[0].device_name.endswith("CPU:1")
    inside = [datum for datum in dump.data() if "/body/" in datum.node_name]
    assert inside and {datum.device_name[-5:] for datum in inside} == {"CPU:1"}
