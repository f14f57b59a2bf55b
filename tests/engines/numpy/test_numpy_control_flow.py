"""Loops."""

import numpy as np
import pytest
from floats_kit import assert_close

from tfdbg_cli.engines import numpy as tf


@pytest.fixture(autouse=True)
def _fresh_graph():
    with tf.Graph().as_default():
        yield


def run(fetches, feed_dict=None):
    with tf.Session(seed=0) as session:
        return session.run(fetches, feed_dict)


def test_a_loop_computes_what_python_would():
    limit = tf.placeholder(tf.int32, name="limit")
    i, total = tf.while_loop(
        lambda i, total: i < limit,
        lambda i, total: (i + 1, total + tf.square(tf.cast(i, tf.float32))),
        [0, 0.0],
    )
    assert run([i, total], {limit: 5}) == [5, 30.0]
    assert run([i, total], {limit: 0}) == [0, 0.0]
    # Only what is needed runs.
    assert run(i, {limit: 7}) == 7


def test_a_loop_has_the_nodes_of_tensorflow_1():
    tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0], name="count")
    types = {op.name: op.type for op in tf.get_default_graph().get_operations()}
    assert types == {
        "count/Const": "Const",
        "count/Enter": "Enter",
        "count/Merge": "Merge",
        "count/Less/y": "Const",
        "count/Less": "Less",
        "count/LoopCond": "LoopCond",
        "count/Switch": "Switch",
        "count/Identity": "Identity",
        "count/add/y": "Const",
        "count/add": "AddV2",
        "count/NextIteration": "NextIteration",
        "count/Exit": "Exit",
    }


def test_loop_variables_change_together():
    a, b = tf.while_loop(lambda a, b: a < 100, lambda a, b: (b, a + b), [0, 1])
    assert run([a, b]) == [144, 233]


def test_nested_loops():
    def outer(i, total):
        _, inner = tf.while_loop(
            lambda j, t: j < i, lambda j, t: (j + 1, t + 10 * i + j), [0, total]
        )
        return i + 1, inner

    _, total = tf.while_loop(lambda i, t: i < 4, outer, [0, 0])
    assert run(total) == sum(10 * i + j for i in range(4) for j in range(i))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda i: (i, i), "returns 2 values for 1"),
        (lambda i: tf.cast(i, tf.float32), "starts as int32.*returns float32"),
        (lambda i: tf.reshape(i, [1]), r"starts as int32 \(\).*returns int32 \(1,\)"),
    ],
)
def test_bodies_that_do_not_fit(body, message):
    with pytest.raises(ValueError, match=message):
        tf.while_loop(lambda i: i < 3, body, [0])


def test_gradients_inside_a_loop_body_work_and_through_loops_are_refused():
    def newton(x):
        value = x * x - 2.0
        return x - value / tf.gradients(value, x)[0]

    start = tf.constant(np.float64(1.0))
    root = tf.while_loop(lambda x: tf.square(x * x - 2.0) > 1e-24, newton, [start])
    assert run(root) == pytest.approx(np.sqrt(2))
    with pytest.raises(LookupError, match=r"Exit has no gradient \(node while/Exit\)"):
        tf.gradients(root, start)


def test_what_is_inside_stays_inside():
    kept = []
    tf.while_loop(lambda i: i < 3, lambda i: kept.append(i + 1) or kept[-1], [0])
    (inside,) = kept
    with pytest.raises(ValueError, match="while/add:0 can't be an input of Mul: it lives inside"):
        tf.multiply(inside, 2)
    with tf.Session() as session:
        with pytest.raises(ValueError, match="can't be fetched"):
            session.run(inside)
        with pytest.raises(ValueError, match="can't be fed"):
            session.run([], {inside: 1})


def test_nodes_made_outside_while_a_loop_is_made_run_before_it():
    outside = []

    def body(i):
        with tf.control_dependencies(None):
            outside.append(tf.constant(2, name="outside") * 1)
        return i + outside[0]

    i = tf.while_loop(lambda i: i < 5, body, [0])
    assert outside[0].op.loop is None
    assert run([i, outside[0]]) == [6, 2]


def test_a_loop_may_draw_random_numbers_and_change_variables():
    v = tf.Variable(0.0)

    def body(i):
        with tf.control_dependencies([v.assign_add(tf.random_uniform([]))]):
            return tf.identity(i + 1)

    done = tf.while_loop(lambda i: i < 3, body, [0])
    with tf.Session(seed=4) as session:
        session.run(v.initializer)
        session.run(done)
        stream = np.random.default_rng(4)
        expected = sum(np.float32(stream.random()) for _ in range(3))
        assert_close(session.run(v), expected, terms=3)
