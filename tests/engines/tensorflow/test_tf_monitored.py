from __future__ import annotations

import pytest
import tensorflow as tf

from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE
from tfdbg_cli.sessions.wrappers.framework import (
    BaseDebugWrapperSession,
    OnRunEndResponse,
    OnRunStartAction,
    OnRunStartResponse,
    OnSessionInitAction,
    OnSessionInitResponse,
)

tf1 = tf.compat.v1


class Recorder(BaseDebugWrapperSession):
    """Debugs every run and keeps what it is told."""

    def __init__(self, sess):
        self.ends = []
        super().__init__(sess)

    def on_session_init(self, request):
        return OnSessionInitResponse(OnSessionInitAction.PROCEED)

    def on_run_start(self, request):
        self.info = request.run_info
        return OnRunStartResponse(OnRunStartAction.DEBUG_RUN, [])

    def on_run_end(self, request):
        self.ends.append(request)
        return OnRunEndResponse()


class Hook(tf1.train.SessionRunHook):
    """Fetches, feeds and looks at everything a hook may."""

    def __init__(self, fetch, feed):
        self.fetch, self.feed = fetch, feed
        self.seen = []

    def before_run(self, run_context):
        self.seen.append(run_context.original_args.fetches)
        return tf1.train.SessionRunArgs(self.fetch, feed_dict={self.feed: 10.0})

    def after_run(self, run_context, run_values):
        self.seen.append(run_values.results)
        # A hook's own run is housekeeping.
        self.seen.append(run_context.session.run(self.fetch, {self.feed: 1.0}))


@pytest.fixture
def model(graph):
    step = tf1.train.get_or_create_global_step()
    fed = tf1.placeholder(tf.float32, [], name="fed")
    doubled = tf.multiply(fed, 2.0, name="doubled")
    total = tf.add(doubled, 1.0, name="total")
    train = tf1.assign_add(step, 1, name="train")
    return fed, doubled, total, train


def test_hooks_counters_and_stops_work_as_ever(model):
    fed, doubled, total, train = model
    hook = Hook(doubled, fed)
    stop = tf1.train.StopAtStepHook(last_step=3)
    with tf1.train.MonitoredTrainingSession(hooks=[hook, stop]) as session:
        adapter = ENGINE.adapt(session)
        runs = 0
        while not session.should_stop():
            capture = adapter.debug_run([total, train], None, None, None, Watch())
            runs += 1
            assert capture.error is None
            assert capture.value == [21.0, runs]
    assert runs == 3
    assert hook.seen[:3] == [[total, train], 20.0, 2.0]
    names = capture.dump.tensor_names()
    assert {"fed:0", "doubled:0", "total:0"} <= set(names)
    assert capture.dump.by_tensor("fed:0")[0].get_tensor() == 10.0


def test_a_wrapper_around_a_monitored_session(model):
    _, _, _, train = model
    with tf1.train.MonitoredTrainingSession() as session:
        wrapper = Recorder(session)
        assert [wrapper.run(train) for _ in range(2)] == [1, 2]
        assert wrapper.info.fetches == [train.name]
        assert not wrapper.should_stop()
        assert wrapper.run_step_fn(lambda step_context: step_context.run_with_hooks(train)) == 3
    assert len(wrapper.ends) == 3


def test_an_error_reaches_the_user_and_has_a_dump(model):
    x = tf1.placeholder(tf.float32, None, name="x")
    out = tf.reshape(tf.add(x, 1.0, name="before"), [7], name="bad")
    with tf1.train.SingularMonitoredSession() as session:
        capture = ENGINE.adapt(session).debug_run(out, {x: [1.0]}, None, None, Watch())
        assert isinstance(capture.error, tf.errors.InvalidArgumentError)
        assert capture.dump.by_tensor("before:0")


def test_a_recovered_session_is_debugged_too(model):
    _, _, total, train = model
    failures = []

    class Preempt(tf1.train.SessionRunHook):
        def before_run(self, run_context):
            if not failures:
                failures.append(1)
                raise tf.errors.AbortedError(None, None, "preempted")

    fed = model[0]
    with tf1.train.MonitoredSession(hooks=[Preempt()]) as session:
        capture = ENGINE.adapt(session).debug_run([total, train], {fed: 1.0}, None, None, Watch())
    assert failures and capture.value == [3.0, 1]
    assert "total:0" in capture.dump.tensor_names()


def test_the_graph_of_a_closed_session(model):
    session = tf1.train.MonitoredTrainingSession()
    adapter = ENGINE.adapt(session)
    assert "total" in adapter.graph()
    session.close()
    assert "total" in adapter.graph()
    assert ENGINE.is_session(session)
