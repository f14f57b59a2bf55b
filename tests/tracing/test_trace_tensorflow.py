"""Trace blocks around runs of TensorFlow."""

# ruff: noqa: PT012 - what raises is the whole block

import importlib.util
import os

import numpy as np
import pytest

import tfdbg_cli
from tfdbg_cli.tracing.errors import TraceError

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed"
    ),
]

X = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)


@pytest.fixture
def program():
    """``loss = sum(relu(x @ w) ** 2)`` with dropout beside it, and a step of gradient descent."""
    import tensorflow.compat.v1 as tf

    class Program:
        def __init__(self):
            tf.set_random_seed(3)
            self.x = tf.placeholder(tf.float32, [None, 2], name="x")
            self.w = tf.get_variable("w", initializer=np.eye(2, dtype=np.float32))
            self.h = tf.nn.relu(tf.matmul(self.x, self.w, name="y"), name="h")
            self.loss = tf.reduce_sum(self.h * self.h, name="loss")
            self.dropped = tf.nn.dropout(self.h, rate=0.5, name="dropped")
            self.step = tf.train.GradientDescentOptimizer(0.01).minimize(self.loss, name="step")
            self.feed = {self.x: X}
            self.sess = tf.Session()
            self.sess.run(tf.global_variables_initializer())

    with tf.Graph().as_default():
        made = Program()
        yield made
        made.sess.close()


def test_a_value_is_read_and_changed(program):
    with tfdbg_cli.trace(program.sess, fetches=program.loss, feed_dict=program.feed) as t:
        h = t["h:0"].value
        t[program.h].value = np.clip(h, 0, 2)
    np.testing.assert_array_equal(h, X)
    assert t.result == np.float32(1 + 4 + 4 + 4)


def test_what_is_written_into_a_value_acts_or_is_an_error(program):
    with tfdbg_cli.trace(program.sess, program.loss, program.feed) as t:
        t["h:0"].value[0] = 0
    assert t.result == 9 + 16
    with (
        pytest.raises(tfdbg_cli.OutOfOrderError, match="written into the value of h:0"),
        tfdbg_cli.trace(program.sess, program.loss, program.feed) as t,
    ):
        h = t["h:0"].value
        _ = t["loss"].value
        h[0] = 0


def test_a_changed_step_trains_with_the_change(program):
    with tfdbg_cli.trace(program.sess, program.step, program.feed) as t:
        t["h:0"].value = np.zeros((2, 2), np.float32)
    np.testing.assert_array_equal(program.sess.run(program.w), np.eye(2))
    with tfdbg_cli.trace(program.sess, program.step, program.feed):
        pass
    assert not np.array_equal(program.sess.run(program.w), np.eye(2))


def test_a_block_that_changes_nothing_leaves_the_run_as_it_is():
    import tensorflow.compat.v1 as tf

    def results(traced):
        with tf.Graph().as_default():
            tf.set_random_seed(5)
            x = tf.constant(X)
            w = tf.get_variable("w", [2, 3], initializer=tf.random_normal_initializer(seed=1))
            y = tf.nn.dropout(tf.matmul(x, w), rate=0.5, name="y")
            loss = tf.reduce_mean(y * y, name="loss")
            step = tf.train.AdamOptimizer(0.1).minimize(loss)
            found = []
            with tf.Session() as sess:
                sess.run(tf.global_variables_initializer())
                for _ in range(3):
                    if traced:
                        with tfdbg_cli.trace(sess, [loss, step]) as t:
                            _ = t["loss"].value
                        found.append(t.result[0])
                    else:
                        found.append(sess.run([loss, step])[0])
                return np.array(found).tobytes() + sess.run(w).tobytes()

    assert results(True) == results(False)


def test_order_and_names(program):
    with (
        pytest.raises(tfdbg_cli.OutOfOrderError, match="h:0 was computed before loss"),
        tfdbg_cli.trace(program.sess, program.loss, program.feed) as t,
    ):
        _ = t["loss:0"].value
        _ = t["h:0"].value
    with (
        pytest.raises(TraceError, match="this run doesn't compute it"),
        tfdbg_cli.trace(program.sess, program.loss, program.feed) as t,
    ):
        _ = t["dropped/Mul:0"].value


def test_stop_updates_nothing_more(program):
    with tfdbg_cli.trace(program.sess, program.step, program.feed) as t:
        h = t["h:0"].value
        t.stop()
    np.testing.assert_array_equal(h, X)
    np.testing.assert_array_equal(program.sess.run(program.w), np.eye(2))


def test_every_run_of_a_plain_and_of_a_debugged_session(program):
    with tfdbg_cli.trace(program.sess).every(2) as t:
        t["h:0"].value = np.minimum(t["h:0"].value, 1)
    results = [program.sess.run(program.loss, program.feed) for _ in range(3)]
    assert results == [4, 4, 30]
    assert isinstance(program.sess.run(program.h, program.feed), np.ndarray)


def test_runs(program):
    losses = [
        float(t["loss:0"].value)
        for t in tfdbg_cli.runs(program.sess, [program.loss, program.step], program.feed, times=3)
    ]
    assert losses[0] == 30
    assert len(set(losses)) == 3


def test_runs_that_do_not_compute_it_are_left_alone(program):
    with tfdbg_cli.trace(program.sess).every(1) as t:
        t["y:0"].value = np.zeros((2, 2), np.float32)
        t["loss:0"].value = t["loss:0"].value + 7
    program.sess.run(program.w.initializer)
    np.testing.assert_array_equal(program.sess.run(program.h, program.feed), X)
    results = [program.sess.run(program.loss, program.feed) for _ in range(2)]
    assert results == [7, 30]


def test_a_monitored_session():
    import tensorflow.compat.v1 as tf

    class Hook(tf.train.SessionRunHook):
        steps = ()

        def before_run(self, run_context):
            return tf.train.SessionRunArgs(step)

        def after_run(self, run_context, run_values):
            self.steps = (*self.steps, int(run_values.results))

    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        x = tf.placeholder(tf.float32, [2, 2], name="x")
        h = tf.nn.relu(x, name="h")
        loss = tf.reduce_sum(h, name="loss")
        more = tf.assign_add(step, 1, name="more")
        hook, feed = Hook(), {x: X}
        with tf.train.MonitoredSession(hooks=[hook]) as sess:
            with tfdbg_cli.trace(sess, [loss, more], feed) as t:
                t["h:0"].value = np.minimum(t["h:0"].value, 1)
            assert t.result[0] == 4
            with tfdbg_cli.trace(sess).every(2) as t:
                t["h:0"].value = np.minimum(t["h:0"].value, 2)
            results = [sess.run([loss, more], feed)[0] for _ in range(3)]
            after = [
                float(t["loss:0"].value) for t in tfdbg_cli.runs(sess, [loss, more], feed, times=2)
            ]
            assert (results, after) == ([7, 7, 10], [10, 10])
            assert sess.run(step) == 6
    assert len(hook.steps) == 7


def test_an_error_in_the_block_takes_the_run_back(program):
    with (
        pytest.raises(ZeroDivisionError),
        tfdbg_cli.trace(program.sess, program.step, program.feed) as t,
    ):
        _ = 1 / int(t["h:0"].value[0, 0] * 0)
    np.testing.assert_array_equal(program.sess.run(program.w), np.eye(2))
    with pytest.raises(KeyError):
        for t in tfdbg_cli.runs(program.sess, program.step, program.feed, times=1):
            raise KeyError(t.names[0])
    np.testing.assert_array_equal(program.sess.run(program.w), np.eye(2))
    with tfdbg_cli.trace(program.sess).every(1) as t:
        t["h:0"].value = np.ones((5, 5, 5))  # a shape that it can't have
    with pytest.raises(Exception, match="shape"):
        program.sess.run(program.step, program.feed)
    np.testing.assert_array_equal(program.sess.run(program.w), np.eye(2))
    program.sess.run(program.step, program.feed)
    assert not np.array_equal(program.sess.run(program.w), np.eye(2))


def test_later_traces_of_the_same_run_make_nothing_anew(program, monkeypatch):
    """What computes values that the real run doesn't keep is kept; each has its run's values."""
    import tensorflow.compat.v1 as tf
    from tensorflow.python.client import session

    made = []
    for name, kind in (("session", tf.Session), ("callable", session.BaseSession._Callable)):
        plain = kind.__init__

        def counted(self, *args, _name=name, _plain=plain, **kwargs):
            made.append(_name)
            _plain(self, *args, **kwargs)

        monkeypatch.setattr(kind, "__init__", counted)
    fetches = [program.loss, program.step]
    for turn in range(4):
        w = program.sess.run(program.w)
        feed = {program.x: X + turn}
        with tfdbg_cli.trace(program.sess, fetches=fetches, feed_dict=feed) as t:
            y, loss = t["y:0"].value, t["loss:0"].value
        np.testing.assert_allclose(y, (X + turn) @ w, rtol=1e-5)
        assert loss == t.result[0]
        assert turn == 0 or made == [], made
        made.clear()


@pytest.fixture
def runtime_calls(monkeypatch):
    """The calls of the runtime from now on, by the names of its functions."""
    from tensorflow.python.client import pywrap_tf_session

    found = []

    def counting(name, original):
        return lambda *args: found.append(name) or original(*args)

    for name in ("TF_SessionRunCallable", "TF_SessionRun_wrapper"):
        monkeypatch.setattr(
            pywrap_tf_session, name, counting(name, getattr(pywrap_tf_session, name))
        )
    return found


def test_what_is_read_takes_few_runs(program, runtime_calls):
    found = []

    def read():
        with tfdbg_cli.trace(program.sess, [program.loss, program.step], program.feed) as t:
            found.append(t["h:0"].value)

    for _ in range(2):
        read()
    runtime_calls.clear()
    read()
    assert not np.array_equal(found[1], found[2])
    # What it updates, the run, and what was asked of it: all made ready before.
    assert len(runtime_calls) <= 3
    assert not [name for name in runtime_calls if name == "TF_SessionRun_wrapper"]


def test_a_tensor_is_the_same_whatever_else_is_read(program):
    for name in ("y:0", "h:0", "mul:0", "loss:0"):
        for _ in range(2):
            with tfdbg_cli.trace(program.sess, program.loss, program.feed) as t:
                alone = t[name].value
            with tfdbg_cli.trace(program.sess, program.loss, program.feed) as t:
                [datum] = t.dump.by_tensor(name) if t.result is not None else []
            np.testing.assert_array_equal(alone, datum.get_tensor())


def test_a_change_acts_in_each_run_with_its_own_values(program, runtime_calls):
    counts = []
    for value in (1.0, 2.0, 3.0):
        before = program.sess.run(program.w)
        runtime_calls.clear()
        with tfdbg_cli.trace(program.sess, [program.loss, program.step], program.feed) as t:
            t["h:0"].value = np.full((2, 2), value, np.float32)
        counts.append(len(runtime_calls))
        assert t.result[0] == 4 * value**2
        # d loss / dw = x' @ (2 h * [y > 0])
        mask = (X @ before > 0).astype(np.float32)
        expected = before - np.float32(0.01) * (X.T @ (2 * np.float32(value) * mask))
        np.testing.assert_allclose(program.sess.run(program.w), expected, rtol=1e-6)
    assert counts[2] <= counts[0]


def test_a_reference_variable_that_the_run_only_reads():
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default(), tf.Session() as sess:
        w = tf.get_variable("w", initializer=[1.0, 2.0], use_resource=False)
        total = tf.reduce_sum(w * 2.0, name="total")
        sess.run(tf.global_variables_initializer())
        for scale in (1.0, 3.0):
            sess.run(w.assign([1.0 * scale, 2.0 * scale]))
            with tfdbg_cli.trace(sess, total, {}) as t:
                value = t["w:0"].value
            np.testing.assert_array_equal(value, [scale, 2 * scale])
            assert t.result == 6 * scale
