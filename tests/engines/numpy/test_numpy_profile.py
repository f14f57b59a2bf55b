"""Timed runs of the NumPy engine."""

import time

import numpy as np
import pytest

from tfdbg_cli.engines import numpy as tf
from tfdbg_cli.engines.numpy.debugging import ENGINE
from tfdbg_cli.engines.numpy.registry import define, pure


@pytest.fixture(autouse=True)
def _fresh_graph():
    with tf.Graph().as_default():
        yield


def profile(session, fetches, feed_dict=None):
    return ENGINE.adapt(session).profile_run(fetches, feed_dict, None, None)


def entries(capture):
    (device,) = capture.dump.profile().devices
    assert device.name == "/job:localhost/replica:0/task:0/device:CPU:0"
    return device.entries


def test_every_node_of_the_run_is_timed_in_order():
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.add(tf.square(x, name="square"), tf.constant(1.0, name="one"), name="y")
    tf.negative(y, name="unused")
    with tf.Session() as session:
        capture = profile(session, [y, y.op], {x: [1.0, 2.0]})
    assert capture.error is None
    assert capture.value[0].tolist() == [2.0, 5.0]
    assert capture.dump.data() == []
    found = entries(capture)
    assert [(e.node, e.op_type) for e in found] == [
        *(("square", "Square"), ("one", "Const"), ("y", "AddV2"))
    ]
    assert found[0].start == 0
    for entry, after in zip(found, [*found[1:], None], strict=True):
        assert 0 <= entry.op_time <= entry.exec_time
        assert after is None or entry.start + entry.exec_time <= after.start
        assert (entry.place.file, entry.place.function) == (
            __file__,
            "test_every_node_of_the_run_is_timed_in_order",
        )
        assert (entry.kernel, entry.runtime_name) == ("", "")
    line = test_every_node_of_the_run_is_timed_in_order.__code__.co_firstlineno
    assert [entry.place.line for entry in found] == [line + 2] * 3


def test_the_time_of_a_slow_node_is_its_own():
    def slow(value):
        time.sleep(0.02)
        return value

    define("Slow", pure(slow))
    x = tf.constant([1.0], name="x")
    op = tf.get_default_graph().create_op("Slow", [x], [tf.float32], name="slow")
    y = tf.negative(op.outputs[0], name="y")
    with tf.Session() as session:
        found = {entry.node: entry for entry in entries(profile(session, y))}
    assert found["slow"].op_time >= 20_000
    assert found["y"].start >= found["slow"].start + 20_000


def test_loops_are_timed_turn_by_turn():
    loop = tf.while_loop(
        lambda i: tf.less(i, 3), lambda i: tf.add(i, 1, name="body"), [0], name="loop"
    )
    with tf.Session() as session:
        capture = profile(session, loop)
    assert capture.value == 3
    counts = {}
    for entry in entries(capture):
        counts[entry.op_type] = counts.get(entry.op_type, 0) + 1
        assert entry.op_time >= 0
    assert counts["AddV2"] == 3
    assert counts["Less"] == counts["Merge"] == counts["Switch"] == 4
    assert counts["Exit"] == 1


def test_result_state_and_random_stream_are_those_of_plain_runs():
    count = tf.Variable(tf.constant(0.0), name="count")
    fetches = {"add": tf.assign_add(count, 1.0), "noise": tf.random_uniform([3])}

    def numbers(run):
        with tf.Session(seed=7) as session:
            session.run(tf.global_variables_initializer())
            return [run(session) for _ in range(3)]

    plain = numbers(lambda session: session.run(fetches))
    timed = numbers(lambda session: profile(session, fetches).value)
    for one, other in zip(plain, timed, strict=True):
        assert one["add"] == other["add"]
        assert one["noise"].tolist() == other["noise"].tolist()


def test_a_failing_run_tells_of_what_came_before():
    x = tf.placeholder(tf.float32, [], name="x")
    checked = tf.check_numerics(tf.negative(x, name="neg"), "bad", name="checked")
    with tf.Session() as session:
        capture = profile(session, tf.square(checked, name="square"), {x: np.inf})
        with pytest.raises(TypeError):
            profile(session, object())
    assert isinstance(capture.error, tf.errors.InvalidArgumentError)
    assert [entry.node for entry in entries(capture)] == ["neg"]


def test_a_run_that_computes_nothing_has_no_timings():
    x = tf.placeholder(tf.float32, [], name="x")
    with tf.Session() as session:
        assert entries(profile(session, x, {x: 1.0})) == ()


def test_plain_runs_are_not_timed(monkeypatch):
    y = tf.square(tf.constant(2.0), name="y")

    def no_clock():
        raise AssertionError

    with tf.Session() as session:
        monkeypatch.setattr(time, "perf_counter_ns", no_clock)
        assert session.run(y) == 4.0
        with pytest.raises(AssertionError):
            profile(session, y)
