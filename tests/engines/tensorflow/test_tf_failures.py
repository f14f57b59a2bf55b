from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from samples import night

from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE

tf1 = tf.compat.v1


def debug(session, fetches, feed_dict=None):
    return ENGINE.adapt(session).debug_run(fetches, feed_dict, None, None, Watch())


def plain_error(session, fetches, feed_dict=None):
    with pytest.raises(Exception) as caught:  # noqa: PT011
        session.run(fetches, feed_dict)
    return caught.value


def test_an_uninitialized_variable(graph):
    x = tf1.placeholder(tf.float32, [2], name="x")
    v = tf1.get_variable("v", initializer=[1.0, 2.0])
    w = tf1.get_variable("w", initializer=[1.0, 2.0])
    out = tf.reduce_sum(tf.square(x, name="squares") * v + w)
    with tf1.Session() as session:
        expected = plain_error(session, out, {x: [1.0, 2.0]})
        adapter = ENGINE.adapt(session)
        capture = adapter.debug_run(out, {x: [1.0, 2.0]}, None, None, Watch())
        assert type(capture.error) is type(expected) is tf.errors.FailedPreconditionError
        described = adapter.describe_error(capture.error)
        assert described.type_name == "FailedPreconditionError"
        assert "Could not find variable" in described.message
        assert described.op_name.endswith("ReadVariableOp")
        # What doesn't depend on the failure is there all the same.
        assert capture.dump.by_tensor("squares:0")[0].get_tensor().tolist() == [1.0, 4.0]
        assert capture.dump.by_tensor("x:0")


def test_an_uninitialized_variable_by_reference(graph):
    x = tf1.placeholder(tf.float32, [2], name="x")
    v = tf1.get_variable("v", initializer=[1.0, 2.0], use_resource=False)
    out = tf.multiply(tf.square(x, name="squares"), v, name="out")
    with tf1.Session() as session:
        capture = debug(session, out, {x: [1.0, 2.0]})
    assert isinstance(capture.error, tf.errors.FailedPreconditionError)
    assert {"x:0", "squares:0"} <= set(capture.dump.tensor_names())


def test_a_wrong_shape_is_the_same_error(graph):
    x = tf1.placeholder(tf.float32, None, name="x")
    before = tf.add(x, 1.0, name="before")
    out = tf.matmul(before, tf.ones([3, 2]), name="mm")
    with tf1.Session() as session:
        adapter = ENGINE.adapt(session)
        given = {x: np.ones([4, 5])}
        expected = plain_error(session, out, given)
        capture = adapter.debug_run(out, given, None, None, Watch())
    assert type(capture.error) is tf.errors.InvalidArgumentError
    assert str(capture.error) == str(expected)
    described = adapter.describe_error(capture.error)
    assert described.op_name == "mm"
    assert described.message in str(expected)
    assert "[[" not in described.message and len(described.message) < 300
    assert capture.dump.by_tensor("before:0")[0].shape == (4, 5)


@pytest.mark.parametrize("resource", [True, False])
def test_a_failed_training_step_is_not_repeated(graph, resource):
    x = tf1.placeholder(tf.float32, None, name="x")
    steps = tf1.get_variable("steps", initializer=0, use_resource=resource)
    with tf.control_dependencies([tf1.assign_add(steps, 1, name="count")]):
        doubled = tf.multiply(x, 2.0, name="doubled")
        early = tf.identity(doubled, name="early")
    free = tf.add(x, 1.0, name="free")
    out = tf.reshape(early + free, [7], name="bad")
    with tf1.Session() as session:
        session.run(steps.initializer)
        capture = debug(session, out, {x: [1.0, 2.0]})
        assert isinstance(capture.error, tf.errors.InvalidArgumentError)
        assert session.run(steps) == 1
    assert capture.dump.by_tensor("free:0")[0].get_tensor().tolist() == [2.0, 3.0]
    assert capture.dump.by_tensor("doubled:0") == []  # it would count once more
    assert "once more" in capture.dump.warnings[0]


def test_what_a_loop_did_before_it_failed(old_control_flow, graph):
    x = tf1.placeholder(tf.float32, None, name="x")

    def body(i):
        with tf.control_dependencies([tf1.Assert(i < 2, ["too far", i])]):
            return tf.add(i, 1, name="next")

    loop = tf1.while_loop(lambda i: i < 5, body, [0], name="wl")
    with tf1.Session() as session:
        capture = debug(session, tf.cast(loop, tf.float32) + x, {x: 1.0})
    assert isinstance(capture.error, tf.errors.InvalidArgumentError)
    assert [d.get_tensor().item() for d in capture.dump.by_tensor("wl/next:0")] == [1, 2]


@pytest.mark.parametrize(
    ("fetches", "feeds"),
    [
        (None, None),
        ("nowhere:0", None),
        (["y:0", 3], None),
        ("y:0", {"x:0": [1.0, 2.0, 3.0]}),
        ("y:0", {"x:0": "text"}),
        ("y:0", {"nowhere:0": 1.0}),
        ("y:0", {3: 1.0}),
        ("y:0", None),
    ],
)
def test_wrong_arguments_raise_what_the_plain_run_raises(graph, fetches, feeds):
    x = tf1.placeholder(tf.float32, [2], name="x")
    tf.add(x, 1.0, name="y")
    with tf1.Session() as session:
        expected = plain_error(session, fetches, feeds)
        try:
            got = debug(session, fetches, feeds).error
        except Exception as error:
            got = error
    assert type(got) is type(expected)
    assert str(got) == str(expected)


def test_closed_and_empty_sessions(graph):
    session = tf1.Session()
    with pytest.raises(RuntimeError, match="empty"):
        debug(session, "x:0")
    x = tf.constant(1.0)
    session.close()
    with pytest.raises(RuntimeError, match="closed"):
        debug(session, x)


def test_the_end_of_the_data(graph):
    data = tf1.data.make_one_shot_iterator(tf.data.Dataset.range(2))
    item = data.get_next() + 1
    with tf1.Session() as session:
        assert [debug(session, item).value for _ in range(2)] == [1, 2]
        assert isinstance(debug(session, item).error, tf.errors.OutOfRangeError)


def test_an_intermediate_that_only_the_debugger_computes(graph):
    x = tf1.placeholder(tf.float32, None, name="x")
    # Only the shape is needed and it is known: the optimizer drops the failing operation.
    bad = tf.reshape(x, [3, 5], name="bad")
    out = tf.add(tf.raw_ops.Shape(input=bad), 1, name="out")
    good = tf.add(x, 1.0, name="good")
    with tf1.Session() as session:
        adapter = ENGINE.adapt(session)
        given = {x: [[1.0, 2.0]]}
        plain = session.run([out, good], given)
        for _ in range(2):
            capture = adapter.debug_run([out, good], given, None, None, Watch())
            assert capture.error is None
            np.testing.assert_array_equal(capture.value[0], plain[0])
            assert capture.dump.by_tensor("good:0")


def test_an_error_of_a_debug_node_is_the_runtimes_error():
    from tfdbg_cli.engines.tensorflow.sessions.errors import describe, failed_op, unmasked

    real = tf.errors.ResourceExhaustedError(
        None, None, "No space\n\t [[{{node __dbg_a/b:0_0_DebugIdentity}}]]"
    )
    masked = ValueError("Name '__dbg_a/b:0_0_DebugIdentity' appears to refer to a Tensor")
    masked.__context__ = real
    assert unmasked(masked) is real
    assert unmasked(real) is real
    other = ValueError("something else")
    assert unmasked(other) is other
    assert failed_op(real) == "a/b"
    assert describe(real).message == "No space"
    assert describe(other) is None


@night
def test_when_the_runtimes_disk_limit_is_reached_the_run_goes_on_without_watches():
    code = """
import tensorflow as tf
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE
tf1 = tf.compat.v1
tf1.disable_control_flow_v2()
with tf.Graph().as_default(), tf1.Session() as session:
    x = tf1.placeholder(tf.float32, [], name="x")
    loop = tf1.while_loop(lambda a: a < 5.0, lambda a: a + x, [0.0]) * 2
    adapter = ENGINE.adapt(session)
    for turn in range(2):
        capture = adapter.debug_run(loop, {x: 1.0}, None, None, Watch())
        assert capture.error is None and capture.value == 10.0
        assert capture.dump.by_tensor("mul:0")
        assert ("any more" in " ".join(capture.dump.warnings)) == (turn == 0)
"""
    environment = dict(os.environ, TFDBG_DISK_BYTES_LIMIT="10")
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=120)
