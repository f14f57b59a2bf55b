"""Runs that a debug watch would change: it keeps away from what would."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE

tf1 = tf.compat.v1


def plainly(session, fetches, feeds):
    return session.run(fetches, feeds)


def debugged(session, fetches, feeds):
    capture = ENGINE.adapt(session).debug_run(fetches, feeds, None, None, Watch())
    assert capture.error is None
    assert capture.dump.data()
    return capture.value


def stepped(session, fetches, feeds):
    stepper = ENGINE.adapt(session).stepper(fetches, feeds, None, None)
    while stepper.next is not None:
        stepper.advance()
    capture = stepper.finish()
    assert capture.error is None
    return capture.value


def the_same(build, feeds_of=lambda x: None):
    """Three runs by each way: results and variables, bit for bit."""
    seen = []
    for way in (plainly, debugged, stepped):
        with tf.Graph().as_default():
            fetches, fed = build()
            with tf1.Session() as session:
                for variable in tf1.global_variables():  # an average begins as its variable
                    session.run(variable.initializer)
                found = [way(session, fetches, feeds_of(fed)) for _ in range(3)]
                seen.append([found, session.run(tf1.global_variables())])
    for other in seen[1:]:
        tf.nest.map_structure(np.testing.assert_array_equal, other, seen[0])
    return seen[0]


def reference(value):
    return tf1.get_variable("v", initializer=np.float32(value), use_resource=False)


def test_a_variable_that_is_read_again_after_its_update():
    def build():
        variable = reference(1)
        tripled = tf1.assign(variable, variable * 3)
        with tf.control_dependencies([tripled]):
            read = tf1.identity(variable)
        with tf.control_dependencies([read]):
            added = tf1.assign_add(variable, 1.0)
        with tf.control_dependencies([added]):
            return tf.multiply(read, 10.0), None

    results, _ = the_same(build)
    # What is read shares the memory of the variable: 3 x 1, and then the one that is added.
    assert results[0] == 40


def test_a_moving_average_of_what_was_just_updated():
    def build():
        variable = reference(1)
        step = tf1.train.GradientDescentOptimizer(0.1).minimize(variable * variable)
        average = tf.train.ExponentialMovingAverage(0.5)
        with tf.control_dependencies([step]):
            return average.apply([variable]), None

    _, (updated, average) = the_same(build)
    assert average != 1
    assert updated == pytest.approx(0.8**3)


def test_what_is_not_watched_is_told():
    with tf.Graph().as_default():
        variable = reference(1)
        tripled = tf1.assign(variable, variable * 3)
        with tf.control_dependencies([tripled]):
            read = tf.add(variable, 0.0, name="read")
        with tf1.Session() as session:
            session.run(variable.initializer)
            capture = ENGINE.adapt(session).debug_run(read, None, None, None, Watch())
    (warning,) = capture.dump.warnings
    assert "Not watched, for that would change the run: v" in warning


def looping_branch():
    weight = tf1.get_variable("w", initializer=tf.ones([2]), use_resource=True)
    taken = tf1.placeholder(tf.bool, [])
    x = tf.ones([2])

    def loop():
        turn = (lambda j, b: j < 3, lambda j, b: (j + 1, tf.sin(b * weight)))
        return tf.while_loop(*turn, [0, x])[1]

    result = tf1.cond(taken, loop, lambda: x * weight)
    train = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(result))
    return [result, train], taken


@pytest.mark.parametrize("is_taken", [True, False])
def test_a_loop_in_a_branch(is_taken):
    the_same(looping_branch, lambda taken: {taken: is_taken})


@pytest.mark.parametrize("is_taken", [True, False])
def test_an_old_loop_in_an_old_branch(is_taken, old_control_flow):
    the_same(looping_branch, lambda taken: {taken: is_taken})


HANDED_ON = {
    "identity": lambda x: tf.identity(tf.reshape(x, [4, 4])),
    "switch": lambda x: tf.raw_ops.Switch(data=x, pred=tf.constant(True)).output_true,
    "merge": lambda x: tf.raw_ops.Merge(inputs=[tf.raw_ops.PreventGradient(input=x)]).output,
    "slice": lambda x: tf.slice(x, [0], [16]),
    "strided slice": lambda x: x[:],
    "bitcast": lambda x: tf.bitcast(tf.bitcast(x, tf.int32), tf.float32),
    "check": lambda x: tf.debugging.check_numerics(x, "bad"),
    "ensured shape": lambda x: tf.ensure_shape(x, [16]),
    "default": lambda x: tf1.placeholder_with_default(x, [16]),
    "cast": lambda x: tf.raw_ops.Cast(x=x, DstT=tf.float32),
    "broadcast": lambda x: tf.broadcast_to(x, [16]),
    "transpose": lambda x: tf.transpose(tf.reshape(x, [1, 16])),
    "sum of one": lambda x: tf.raw_ops.AddN(inputs=[x]),
    "sum over nothing": lambda x: tf.reduce_sum(x, axis=[]),
    "padding": lambda x: tf.pad(x, [[0, 0]]),
    "tile": lambda x: tf.tile(x, [1]),
    "stack": lambda x: tf.stack([x]),
    "choice": lambda x: tf1.where(tf.constant(True), x, x + 1),
}


@pytest.mark.parametrize("handed_on", HANDED_ON.values(), ids=HANDED_ON.keys())
def test_a_buffer_that_is_handed_on_and_read_after_the_update(handed_on):
    def build():
        variable = reference(np.zeros(16))
        seen = handed_on(variable.read_value())
        with tf.control_dependencies([seen]):
            updated = tf1.assign_add(variable, np.ones(16, np.float32))
        with tf.control_dependencies([updated]):
            return tf.add(seen, 0.0), None

    the_same(build)


def test_a_buffer_that_is_fetched_and_updated_later():
    def build():
        variable = reference(0)
        seen = tf.identity(tf.reshape(variable.read_value(), []))
        with tf.control_dependencies([tf.multiply(seen, 2.0)]):
            updated = tf1.assign_add(variable, 1.0)
        return [seen, updated], None

    found, _ = the_same(build)
    assert found == [[1, 1], [2, 2], [3, 3]]


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_a_signal_handler_of_the_programs_does_not_run_in_the_copy_that_reads_stacks():
    from tfdbg_cli.engines.tensorflow.shared.probe import probe

    class Op:
        """An operation at whose stack a signal comes."""

        name = "op"

        @property
        def traceback(self):
            os.kill(os.getpid(), signal.SIGUSR1)
            return [SimpleNamespace(filename=__file__, lineno=1, name="<module>")]

    ran = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: ran.append(1 / 0))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        assert probe([Op()]) == {"op": [[__file__, 1, "<module>"]]}
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert ran == []
