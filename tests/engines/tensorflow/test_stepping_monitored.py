"""Runs of monitored sessions, hooks and all, gone through in steps."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE

tf1 = tf.compat.v1


class Counting(tf1.train.SessionRunHook):
    """Asks for a tensor of its own, and keeps what it was given."""

    def __init__(self, name):
        self.name = name
        self.seen = []

    def before_run(self, run_context):
        return tf1.train.SessionRunArgs({"own": self.name})

    def after_run(self, run_context, run_values):
        self.seen.append(run_values.results["own"])


def training():
    x = tf1.placeholder(tf.float32, [2], name="x")
    weight = tf1.get_variable("w", initializer=[1.0, 2.0], use_resource=False)
    loss = tf.reduce_sum(tf.square(weight * x, name="squares"), name="loss")
    step = tf1.train.get_or_create_global_step()
    train = tf1.train.GradientDescentOptimizer(0.5).minimize(loss, global_step=step)
    return x, weight, loss, train


def run_twice(way):
    with tf.Graph().as_default():
        x, weight, loss, train = training()
        hook = Counting("squares:0")
        with tf1.train.MonitoredTrainingSession(hooks=[hook], log_step_count_steps=None) as session:
            found = [way(session, [loss, train], {x: [1.0, 3.0]}) for _ in range(2)]
            left = session.run([weight, tf1.train.get_global_step()], {x: [0.0, 0.0]})
    return found, left, hook.seen[:2]


def plainly(session, fetches, feeds):
    return session.run(fetches, feeds)


@pytest.mark.parametrize("overrides", [{}, {"squares:0": [1.0, 1.0]}])
def test_a_monitored_run_is_stepped_through(overrides):
    def stepped(session, fetches, feeds):
        stepper = ENGINE.adapt(session).stepper(fetches, feeds, None, None)
        for name, value in overrides.items():
            stepper.override(name, value)
        while stepper.next is not None:
            stepper.advance()
        return stepper.finish().value

    plain, left, seen = run_twice(plainly)
    found, then, known = run_twice(stepped)
    if not overrides:
        for expected, value in zip((plain, left, seen), (found, then, known), strict=True):
            tf.nest.map_structure(np.testing.assert_array_equal, value, expected)
    else:
        assert [loss for loss, _ in found] == [2.0, 2.0]
        # The gradient of the squares doesn't know of their values.
        np.testing.assert_array_equal(then[0], left[0])
        assert then[1] == left[1]


@pytest.mark.parametrize(
    "fail",
    [
        lambda x: tf1.check_numerics(tf1.log(x), "bad", name="bad"),
        lambda x: tf.reshape(x, [3], name="bad"),  # without side effects: it is tried plainly, too
    ],
)
def test_an_error_is_the_runs(fail):
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, None, name="x")
        fail(x)
        with tf1.train.MonitoredSession() as session:
            stepper = ENGINE.adapt(session).stepper("bad:0", {x: [0.0, 1.0]}, None, None)
            assert isinstance(stepper.finish().error, tf.errors.InvalidArgumentError)
