"""The debugger's hooks in monitored sessions, through TensorFlow's own hook protocol."""

import copy
import importlib.util

import pytest
from session_kit import Script, make_debugger

import tfdbg_cli as tf_debug

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="needs TensorFlow"),
]


@pytest.fixture
def model():
    """``log`` is log(x - step): minus infinity in the run that brings the step to x."""
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        train = tf.identity(tf.assign_add(step, 1), name="train")
        x = tf.placeholder(tf.float32, [], name="x")
        log = tf.math.log(x - tf.cast(train, tf.float32), name="log")
        tf.check_numerics(log, "no logarithm", name="checked")
        yield tf


def make_hook(*script, **options):
    ui = Script(*script)
    return tf_debug.LocalCLIDebugHook(debugger=make_debugger(ui), **options), ui


def feeding(tf):
    """A hook of the program's that fetches and feeds, and notes what it got."""

    class Feeding(tf.train.SessionRunHook):
        def __init__(self):
            self.results = []

        def before_run(self, run_context):
            return tf.train.SessionRunArgs("log:0", feed_dict={"x:0": 3.0})

        def after_run(self, run_context, run_values):
            self.results.append(float(run_values.results))

    return Feeding()


def test_the_cycle_of_stops(model):
    tf = model
    hook, ui = make_hook()
    last = tf.train.StopAtStepHook(last_step=3)
    with tf.train.MonitoredTrainingSession(hooks=[hook, last]) as session:
        runs = 0
        while not session.should_stop():
            runs += 1
            session.run("train:0", {"x:0": 1.0})
    assert runs == 3
    assert ui.modes == "seee"
    assert ui.stops[0].title == "run-start: run #1: 1 fetch (train:0); 1 feed (x:0)"
    assert ui.stops[3].title == "run-end: run #3: 1 fetch (train:0); 1 feed (x:0)"
    assert "train:0" in ui.stops[3].names


def test_filters_of_before_the_first_run_and_later_ones(model):
    tf = model
    hook, ui = make_hook("run -f early", "run", "run -f late")
    hook.add_tensor_filter("early", lambda datum, tensor: datum.node_name == "log")
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        session.run("log:0", {"x:0": 5.0})
        hook.add_tensor_filter("late", lambda datum, tensor: datum.node_name == "log")
        session.run("train:0")
        session.run("log:0", {"x:0": 5.0})
    assert [stop.initial for stop in ui.stops] == ["run_info", "lt -f early", "lt", "lt -f late"]
    assert ui.stops[3].title.startswith("run-end: run #3")


def test_what_other_hooks_fetch_and_feed(model):
    tf = model
    hook, ui = make_hook("run -f has_inf_or_nan")
    other = feeding(tf)
    for hooks in ([hook, other], [other, make_hook("run -n")[0]]):
        with tf.train.MonitoredSession(hooks=hooks) as session:
            for number in range(3):
                assert session.run("train:0") == number + 1
    assert other.results == pytest.approx([0.693147, 0.0, -float("inf")] * 2, rel=1e-5)
    assert ui.modes == "se"
    assert ui.stops[1].initial == "why -f has_inf_or_nan"
    assert ui.stops[1].title == "run-end: run #3: 1 fetch (train:0); 1 feed (x:0)"
    assert {"x:0", "log:0"} <= set(ui.stops[1].names)


@pytest.mark.parametrize(
    "command", ["run", "run -f has_inf_or_nan", "run -n", "run -t 9", "run -p"]
)
def test_an_error_is_shown_and_raised(model, command):
    tf = model
    hook, ui = make_hook(command)
    hook.add_tensor_filter("never", lambda datum, tensor: False)
    ended = []

    class Last(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            ended.append(run_values)

    with tf.train.MonitoredSession(hooks=[Last(), hook]) as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="no logarithm"):
            session.run("checked:0", {"x:0": 1.0})
        assert ended == []
        assert ui.modes[0] == "s"
        assert len(ui.modes) == 2
        assert ui.stops[1].initial == "error"
        assert "Op name:    checked" in ui.stops[1].first_screen
        assert "ni -a -d -t checked" in ui.stops[1].first_screen
        # The session goes on, and so does the debugger.
        assert session.run("log:0", {"x:0": 9.0}) > 0
    assert ui.modes[2:] == "e"
    assert "log:0" in ui.stops[2].names


def test_a_run_that_another_hook_stops_before_it_begins(model):
    tf = model
    hook, ui = make_hook()
    failures = [tf.errors.AbortedError(None, None, "preempted")]

    class Preempt(tf.train.SessionRunHook):
        def before_run(self, run_context):
            if failures:
                raise failures.pop()

    with tf.train.MonitoredSession(hooks=[hook, Preempt()]) as session:
        assert session.run("log:0", {"x:0": 9.0}) > 0
        assert session.run("train:0") == 2
    assert [stop.title.split(":")[0] for stop in ui.stops] == ["run-start", "run-end", "run-end"]
    assert ui.stops[1].title.startswith("run-end: run #2: 1 fetch (log:0)")
    assert "log:0" in ui.stops[1].names


def test_the_session_is_as_it_was_afterwards(model):
    from tensorflow.python.client.session import BaseSession

    tf = model
    before = BaseSession.run
    hook, _ = make_hook("run", ["exit --detach"])
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        for _ in range(3):
            session.run("train:0")
        assert BaseSession.run is before


def test_only_the_threads_that_are_meant(model):
    tf = model
    hook, ui = make_hook(thread_name_filter="no such thread")
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        assert session.run("train:0") == 1
    assert ui.modes == ""


def test_a_step_fn_and_empty_fetches(model):
    tf = model
    hook, ui = make_hook()
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        assert session.run([]) == []
        assert session.run_step_fn(lambda step_context: step_context.run_with_hooks("train:0")) == 1
    assert ui.modes == "se"


def test_dumps(model, tmp_path):
    from tensorflow.python.debug.lib import debug_data

    tf = model
    root = tmp_path / "root"
    seen = []

    def watch_fn(fetches, feeds):
        seen.append((fetches, feeds))
        return tf_debug.WatchOptions(node_name_regex_allowlist="(x|log)$")

    hook = tf_debug.DumpingDebugHook(str(root), watch_fn)
    with tf.train.MonitoredSession(hooks=[hook, feeding(tf)]) as session:
        for _ in range(3):
            session.run(["train:0"])
    assert seen == [(["train:0"], None)] * 3
    runs = sorted(root.iterdir(), key=lambda path: path.name.rpartition("_")[2])
    values = []
    for run in runs:
        dump = debug_data.DebugDumpDir(str(run))
        assert {d.node_name for d in dump.dumped_tensor_data} == {"x", "log"}
        values.append(float(dump.get_tensors("log", 0, "DebugIdentity")[0]))
    assert values == pytest.approx([0.693147, 0.0, -float("inf")], rel=1e-5)


def test_a_recovered_session_goes_on_in_the_same_folder(model, tmp_path):
    tf = model
    failures = [tf.errors.AbortedError(None, None, "preempted")]

    class Preempt(tf.train.SessionRunHook):
        def before_run(self, run_context):
            if failures and run_context.session.run("global_step:0") == 1:
                raise failures.pop()

    with tf.Graph().as_default():
        step = tf.get_variable("global_step", initializer=0, use_resource=False)
        tf.assign_add(step, 1, name="train")
        hook = tf_debug.DumpingDebugHook(str(tmp_path / "root"))
        with tf.train.MonitoredSession(hooks=[hook, Preempt()]) as session:
            assert [session.run("train:0") for _ in range(3)] == [1, 1, 2]
    runs = sorted((tmp_path / "root").iterdir())
    assert [int(run.name.rpartition("_")[2]) for run in runs] == [0, 1, 2, 3]


def test_two_hooks_at_once(model, tmp_path):
    tf = model
    hook, ui = make_hook()
    dumping = tf_debug.DumpingDebugHook(str(tmp_path / "root"))
    with tf.train.MonitoredSession(hooks=[hook, dumping]) as session:
        assert session.run("log:0", {"x:0": 2.0}) == 0.0
    assert "log:0" in ui.stops[1].names
    (run,) = (tmp_path / "root").iterdir()
    assert "log" in {datum.node_name for datum in tf_debug.DebugDumpDir(str(run)).data()}


def test_a_hook_can_be_copied_and_has_an_end(model, tmp_path):
    tf = model
    hook = copy.deepcopy(tf_debug.DumpingDebugHook(str(tmp_path / "root")))
    assert isinstance(hook, tf.train.SessionRunHook)
    with tf.train.SingularMonitoredSession(hooks=[hook]) as session:
        session.run("train:0")
    assert len(list((tmp_path / "root").iterdir())) == 1
