from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.client import session as tf_session
from tensorflow.python.training import monitored_session

from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE

tf1 = tf.compat.v1


class Door:
    """A wrapper that debugs each run and notes it."""

    def __init__(self, session, log):
        self.adapter = ENGINE.adapt(session)
        self.log = log

    def run(
        self,
        fetches=None,
        feed_dict=None,
        options=None,
        run_metadata=None,
        callable_options=None,
        callable_runner_args=(),
    ):
        if callable_options is not None:
            call = self.adapter.callable_call(callable_options, callable_runner_args, run_metadata)
        else:
            call = self.adapter.call(fetches, feed_dict, options, run_metadata)
        self.log.append(list(call.fetches))
        capture = call.debug(Watch())
        self.dump = capture.dump
        if capture.error is not None:
            raise capture.error
        return capture.value


@pytest.fixture
def door():
    """``door.log`` holds the fetches of the runs that were debugged."""
    doors = {}

    class Doors:
        def __init__(self):
            self.log = []

        def __call__(self, session):
            if id(session) not in doors:
                doors[id(session)] = (session, Door(session, self.log))
            return doors[id(session)][1]

    made = Doors()
    made.undo = ENGINE.install(made)
    yield made
    made.undo()


def test_every_way_to_run_is_debugged_and_undone(graph, door):
    x = tf1.placeholder(tf.float32, [], name="x")
    y = tf.add(x, 1.0, name="y")
    op = tf.group(y, name="op")
    with tf1.Session() as session:
        assert isinstance(session, tf1.Session)
        assert session.run(y, {x: 1.0}) == 2.0
        assert session.run(y, feed_dict={x: 2.0}, options=None, run_metadata=None) == 3.0
        assert y.eval({x: 3.0}) == 4.0
        op.run({x: 1.0})
        assert door.log == [["y:0"], ["y:0"], ["y:0"], ["op"]]
        assert "y:0" in door(session).dump.tensor_names()
        kept = session.make_callable(y, [x])
        door.undo()
        assert session.run(y, {x: 1.0}) == kept(1.0) == 2.0
    assert len(door.log) == 4


def test_a_session_that_existed_before(graph):
    y = tf.add(tf.constant(1.0), 1.0, name="y")
    log = []
    with tf1.Session() as session:
        undo = ENGINE.install(lambda s: Door(s, log))
        try:
            assert session.run(y) == 2.0
        finally:
            undo()
            undo()
        session.run(y)
    assert log == [["y:0"]]


def test_the_undo_restores_the_classes(graph):
    before = {name: tf_session.BaseSession.__dict__[name] for name in ("run", "make_callable")}
    monitored = monitored_session._MonitoredSession.__dict__["run"]
    undo = ENGINE.install(lambda session: session)
    assert tf_session.BaseSession.run is not before["run"]
    undo()
    assert tf_session.BaseSession.__dict__["run"] is before["run"]
    assert tf_session.BaseSession.__dict__["make_callable"] is before["make_callable"]
    assert monitored_session._MonitoredSession.__dict__["run"] is monitored


def test_interactive_sessions(graph, door):
    session = tf1.InteractiveSession()
    try:
        y = tf.add(tf.constant(1.0), 1.0, name="y")
        assert y.eval() == 2.0
        assert door.log == [["y:0"]]
    finally:
        session.close()


def test_callables(graph, door):
    x = tf1.placeholder(tf.float32, [], name="x")
    y = tf.add(x, 1.0, name="y")
    z = tf.constant(3.0, name="z")
    tf.group(y, name="op")
    metadata = tf1.RunMetadata()
    with tf1.Session() as session:
        assert session.make_callable(y, [x])(4.0) == 5.0
        assert session.make_callable(z)() == 3.0
        assert session.make_callable({"z": z}, accept_options=True)(
            options=tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE), run_metadata=metadata
        ) == {"z": 3.0}
        assert metadata.step_stats.dev_stats
        assert door.log == [["y:0"], ["z:0"], ["z:0"]]
        with pytest.raises(TypeError):
            session.make_callable(z)(1.0)
        options = config_pb2.CallableOptions(feed=["x:0"], fetch=["y:0"])
        options.target.append("op")
        metadata = tf1.RunMetadata()
        call = session._make_callable_from_options(options)
        assert call(np.float32(2.0), run_metadata=metadata) == [3.0]
        assert door.log[3:] == [["y:0", "op"]]
        options.tensor_connection.add(from_tensor="z:0", to_tensor="x:0")
        del options.feed[:]
        assert session._make_callable_from_options(options)() == [4.0]
        assert len(door.log) == 4


def test_housekeeping_passes(graph, door, tmp_path):
    v = tf1.get_variable("v", initializer=1.0)
    saver = tf1.train.Saver()
    with tf1.Session() as session:
        session.run(v.initializer)
        path = saver.save(session, str(tmp_path / "model"))
        saver.restore(session, path)
    assert door.log == [["v/Assign"]]


def test_monitored_sessions_are_debugged_at_their_own_door(graph, door):
    step = tf1.train.get_or_create_global_step()
    train = tf1.assign_add(step, 1, name="train")
    hooks = [tf1.train.StopAtStepHook(last_step=4), tf1.train.NanTensorHook(tf.constant(1.0))]
    with tf1.train.MonitoredTrainingSession(hooks=hooks) as session:
        assert isinstance(session, tf1.train.MonitoredSession)
        assert session.run(train) == 1
        assert door.log == [[train.name]]

        def step_fn(step_context):
            step_context.session.run(step)
            return step_context.run_with_hooks(train)

        assert session.run_step_fn(step_fn) == 2
        assert door.log[1:] == [[step.name], [train.name]]
        with pytest.raises(ValueError, match="step_fn"):
            session.run_step_fn(lambda wrong: None)
        while not session.should_stop():
            session.run(train)
    assert len(door.log) == 5


def test_a_subclass_with_its_own_run(graph, door):
    calls = []

    class Mine(tf1.Session):
        def run(self, *args, **kwargs):
            calls.append(1)
            return super().run(*args, **kwargs)

    with Mine() as session:
        assert session.run(tf.constant(2.0, name="c")) == 2.0
    assert calls == [1]
    assert door.log == [["c:0"]]


def test_errors_come_out_as_they_are(graph, door):
    x = tf1.placeholder(tf.float32, None, name="x")
    with tf1.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(tf.reshape(x, [7]), {x: [1.0]})
        with pytest.raises(TypeError, match="Cannot be None"):
            session.run(None)


def test_the_default_session_of_a_wrapper(graph):
    y = tf.add(tf.constant(1.0), 1.0, name="y")
    log = []

    class Wrapper:
        def __init__(self, session):
            self.door = Door(session, log)
            self.graph = session.graph
            self.run = self.door.run

    with tf1.Session() as session:
        wrapper = Wrapper(session)
        with wrapper.door.adapter.default_session(wrapper):
            assert tf1.get_default_session() is wrapper
            assert y.eval() == 2.0
        assert tf1.get_default_session() is session
    assert log == [["y:0"]]


def test_asking_for_a_session_imports_no_tensorflow():
    code = (
        "import sys\n"
        "from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE\n"
        "assert not ENGINE.is_session(object())\n"
        "assert not any(name.split('.')[0] == 'tensorflow' for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_installed_while_tensorflow_is_being_imported():
    """As the launcher does it: as soon as the session module is there, before all the rest."""
    code = """
import importlib.abc, importlib.util, sys

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "tensorflow.python.client.session":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module
        def exec_module(module):
            run(module)
            from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE
            ENGINE.install(wrap)
        spec.loader.exec_module = exec_module
        return spec

log = []
class Wrapper:
    def __init__(self, session):
        from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE
        self.adapter = ENGINE.adapt(session)
    def run(self, fetches, *arguments):
        log.append(self.adapter.fetch_names(fetches))
        return self.adapter.run(fetches, *arguments)
wrappers = {}
def wrap(session):
    return wrappers.setdefault(id(session), Wrapper(session))

sys.meta_path.insert(0, Finder())
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
step = tf.train.get_or_create_global_step()
more = tf.assign_add(step, 1, name="more")
with tf.train.MonitoredTrainingSession() as session:
    session.run(more)
with tf.Session() as session:
    session.run(tf.constant(1, name="c"))
assert log == [[more.name], ["c:0"]], log
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
