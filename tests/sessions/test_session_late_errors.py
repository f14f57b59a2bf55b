"""Errors that the program's own code raises between the runtime's work and the end of a run."""

import importlib.util

import pytest
from session_kit import Script, make_debugger, wrap

import tfdbg_cli as tf_debug

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="needs TensorFlow"),
]

COMMANDS = ["run", "run -f has_inf_or_nan", "run -n", "run -t 9", "run -p", "invoke_stepper"]


@pytest.fixture
def tf():
    """A counter ``train`` and ``log``, the logarithm of 2 - count: minus infinity in run 2."""
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        train = tf.identity(tf.assign_add(step, 1), name="train")
        tf.math.log(2.0 - tf.cast(train, tf.float32), name="log")
        yield tf


def raising(tf, error, run=1, before=False):
    """A hook that raises in one of the runs."""

    class Raising(tf.train.SessionRunHook):
        def __init__(self):
            self.runs = 0

        def before_run(self, run_context):
            self.runs += 1
            if before and self.runs == run:
                raise error
            return tf.train.SessionRunArgs("log:0")

        def after_run(self, run_context, run_values):
            if not before and self.runs == run:
                raise error

    return Raising()


def leave(stop):
    """Through a stepper to the run's end."""
    assert not stop.service.run("cont").failed


def script(command):
    return [command, [leave, "exit"]] if command == "invoke_stepper" else [command]


@pytest.mark.parametrize("kind", ["RuntimeError", "InternalError"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_hook_that_raises_after_the_run(tf, command, kind):
    error = RuntimeError("too bad")
    if kind == "InternalError":  # of the program's making: no run has failed
        error = tf.errors.InternalError(None, None, "too bad")
    with tf.train.MonitoredSession(hooks=[raising(tf, error)]) as session:
        wrapper, ui = wrap(session, *script(command))
        with pytest.raises(type(error)) as raised:
            wrapper.run("train:0")
        assert raised.value is error
        assert session.run("train:0") == 2  # the run was made, and only once
    end = ui.stops[-1]
    assert end.mode == ("profile" if command == "run -p" else "run-end")
    assert (end.initial, end.role) == ("error", "error")
    assert "raised by the program after the run" in end.first_screen
    assert f"Error type: {kind}" in end.first_screen
    assert "too bad" in end.first_screen
    assert "Op name" not in end.first_screen
    assert f"Line:       {__file__}:" in end.first_screen
    assert "raise error" in end.first_screen
    if command in ("run", "run -f has_inf_or_nan", "invoke_stepper"):
        assert {"train:0", "log:0"} <= set(end.names)
    elif command == "run -p":
        assert len(end.dump.profile()) > 0


def test_what_a_filter_finds_in_a_run_with_an_error_after_it(tf):
    loss = tf.get_default_graph().get_tensor_by_name("log:0")
    nan = tf.train.NanTensorHook(tf.sqrt(loss, name="loss"))
    with tf.train.MonitoredSession(hooks=[nan]) as session:
        wrapper, ui = wrap(session, "run -f has_inf_or_nan", ["lt -f has_inf_or_nan", "run"])
        wrapper.run("train:0")
        with pytest.raises(tf.train.NanLossDuringTrainingError):
            wrapper.run("train:0")
    end = ui.stops[1]
    assert end.title.startswith("run-end: run #2")
    assert "lt -f has_inf_or_nan  what passed has_inf_or_nan" in end.first_screen
    assert "log:0" in end.replies["lt -f has_inf_or_nan"].document.text


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_a_hook_that_ends_the_program_is_no_failure(tf, error):
    with tf.train.MonitoredSession(hooks=[raising(tf, error, run=2)]) as session:
        wrapper, ui = wrap(session, "run -f has_inf_or_nan", "run")
        wrapper.run("train:0")
        with pytest.raises(type(error)) as raised:
            wrapper.run("train:0")
        assert raised.value is error
    assert [stop.initial for stop in ui.stops] == ["run_info", "why -f has_inf_or_nan"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_hook_that_raises_before_the_run(tf, command):
    error = RuntimeError("not now")
    with tf.train.MonitoredSession(hooks=[raising(tf, error, before=True)]) as session:
        wrapper, ui = wrap(session, command)
        with pytest.raises(RuntimeError) as raised:
            wrapper.run("train:0")
        assert raised.value is error
        assert ui.modes == "s"
        # The next run is a run of its own.
        ui.script.clear()
        wrapper.debugger.choice = None
        ui.script.extend([["run"], ["run"]])
        assert wrapper.run("train:0") == 1
    assert [stop.title.split(":")[0] for stop in ui.stops] == ["run-start", "run-start", "run-end"]
    assert {"train:0", "log:0"} <= set(ui.stops[2].names)
    assert ui.stops[2].initial == "lt"


def test_a_step_fn_and_its_hooks(tf):
    error = RuntimeError("too bad")
    with tf.train.MonitoredSession(hooks=[raising(tf, error)]) as session:
        wrapper, ui = wrap(session, "run")
        with pytest.raises(RuntimeError):
            wrapper.run_step_fn(lambda step_context: step_context.run_with_hooks("train:0"))
    assert ui.modes == "se"
    assert ui.stops[1].initial == "error"
    assert "log:0" in ui.stops[1].names


@pytest.mark.parametrize("is_first", [True, False])
def test_our_hook_beside_one_that_raises(tf, tmp_path, is_first):
    ui = Script("run")
    ours = [
        tf_debug.LocalCLIDebugHook(debugger=make_debugger(ui)),
        tf_debug.DumpingDebugHook(str(tmp_path / "root")),
    ]
    error = RuntimeError("too bad")
    theirs = [raising(tf, error)]
    hooks = ours + theirs if is_first else theirs + ours
    with tf.train.MonitoredSession(hooks=hooks) as session:
        with pytest.raises(RuntimeError) as raised:
            session.run("train:0")
        assert raised.value is error
        assert ui.modes == "se"
        assert "log:0" in ui.stops[1].names
        assert session.run("train:0") == 2
    assert ui.modes == "see"
    runs = sorted((tmp_path / "root").iterdir())
    assert len(runs) == 2
    for run in runs:
        assert "log" in {datum.node_name for datum in tf_debug.DebugDumpDir(str(run)).data()}


def test_a_run_that_never_began_is_no_other_sessions(tf):
    ui = Script("run")
    ours = tf_debug.LocalCLIDebugHook(debugger=make_debugger(ui))
    fetch = tf.get_default_graph().get_tensor_by_name("train:0")
    error = RuntimeError("not now")
    with tf.train.MonitoredSession(hooks=[ours, raising(tf, error, before=True)]) as session:
        with pytest.raises(RuntimeError):
            session.run(fetch)
        with tf.train.MonitoredSession() as other:
            assert other.run(fetch) == 1
        assert ui.modes == "s"
        assert session.run(fetch) == 1
    assert ui.modes == "se"


def test_a_session_that_is_lost_after_the_run_and_made_anew(tf):
    lost = raising(tf, tf.errors.AbortedError(None, None, "preempted"))
    with tf.train.MonitoredSession(hooks=[lost]) as session:
        wrapper, ui = wrap(session, "run")
        assert wrapper.run("train:0") == 1
    assert lost.runs == 2
    assert [stop.initial for stop in ui.stops] == ["run_info", "lt"]
    assert {"train:0", "log:0"} <= set(ui.stops[1].names)


@pytest.mark.parametrize("fetches", ["train:0", "train"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_session_class_with_a_run_of_its_own(tf, command, fetches):
    calls = []

    class Careful(tf.Session):
        def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
            calls.append(fetches)
            super().run(fetches, feed_dict, options, run_metadata)
            raise RuntimeError("too bad")

    with Careful() as session:
        tf.Session.run(session, tf.global_variables_initializer())
        wrapper, ui = wrap(session, *script(command))
        with pytest.raises(RuntimeError, match="too bad"):
            wrapper.run(fetches)
        assert tf.Session.run(session, tf.train.get_global_step()) == 1
    assert len(calls) == 1
    assert_told(ui.stops[-1], command, "train:0")


def test_what_such_a_run_raises_before_it_runs_anything(tf):
    class Strict(tf.Session):
        def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
            raise RuntimeError("not now")

    with Strict() as session:
        tf.Session.run(session, tf.global_variables_initializer())
        for command in COMMANDS:
            wrapper, ui = wrap(session, command)
            with pytest.raises(RuntimeError, match="not now"):
                wrapper.run("train:0")
            assert ui.modes == "s", command


def assert_told(stop, command, *names):
    """The stop is one of an error after the run, with tensors or timings if it was debugged."""
    assert stop.initial == "error"
    assert "raised by the program after the run" in stop.first_screen
    assert stop.mode == ("profile" if command == "run -p" else "run-end")
    if command in ("run", "run -f has_inf_or_nan", "invoke_stepper"):
        assert set(names) <= set(stop.names)


@pytest.fixture
def pair():
    """A fetch of ``train`` whose result can't be made."""
    from tensorflow.python.client import session as tf_session

    class Pair:
        pass

    def make(values):
        raise RuntimeError("too bad")

    tf_session.register_session_run_conversion_functions(Pair, lambda pair: (["train:0"], make))
    yield Pair()
    expansions = tf_session._REGISTERED_EXPANSIONS
    expansions[:] = [each for each in expansions if each[0] is not Pair]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_fetch_type_whose_result_cant_be_made(tf, pair, command):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        wrapper, ui = wrap(session, *script(command))
        with pytest.raises(RuntimeError, match="too bad"):
            wrapper.run([pair, "log:0"])
        assert session.run(tf.train.get_global_step()) == 1
    assert_told(ui.stops[-1], command, "train:0", "log:0")


def test_such_a_fetch_type_in_a_monitored_session(tf, pair):
    with tf.train.MonitoredSession() as session:
        for count, command in enumerate(COMMANDS, 1):
            wrapper, ui = wrap(session, *script(command))
            with pytest.raises(RuntimeError, match="too bad"):
                wrapper.run([pair, "log:0"])
            assert_told(ui.stops[-1], command, "train:0", "log:0")
            assert session.run(tf.train.get_global_step()) == count


@pytest.mark.parametrize("command", ["run", "run -f has_inf_or_nan", "run -n", "run -p"])
def test_such_a_fetch_type_in_a_part_of_a_run(tf, pair, command):
    tf.math.log(2.0 - 2.0 * tf.placeholder(tf.float32, [], name="x"), name="later")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        wrapper, ui = wrap(session, command, "run")
        handle = wrapper.partial_run_setup(["train:0", "later:0"], ["x:0"])
        with pytest.raises(RuntimeError, match="too bad"):
            wrapper.partial_run(handle, pair)
        if command == "run -n":
            ui.script.extend([["run"]])
        # The run is as good as ever.
        assert wrapper.partial_run(handle, "later:0", {"x:0": 1.0}) == -float("inf")
        assert session.run(tf.train.get_global_step()) == 1
    end = ui.stops[1]
    assert end.initial == "error"
    assert "raised by the program after the run" in end.first_screen
    assert ("train:0" in end.names) == (command != "run -n")
    assert "later:0" in ui.stops[-1].names


@pytest.mark.parametrize("is_installed", [True, False])
@pytest.mark.parametrize("error", [None, RuntimeError("too bad")])
def test_a_session_class_with_partial_runs_of_its_own(tf, error, is_installed):
    """Its methods are called as often as the program calls them, however it is debugged."""
    from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE

    calls = []

    class Careful(tf.Session):
        def partial_run_setup(self, fetches, feeds=None):
            calls.append("setup")
            return super().partial_run_setup(fetches, feeds)

        def partial_run(self, handle, fetches, feed_dict=None):
            calls.append("part")
            value = super().partial_run(handle, fetches, feed_dict)
            if error is not None:
                raise error
            return value

    with Careful() as session:
        session.run(tf.global_variables_initializer())
        wrapper, ui = wrap(session)
        undo = ENGINE.install(lambda session: wrapper) if is_installed else lambda: None
        asked = session if is_installed else wrapper
        try:
            handle = asked.partial_run_setup(["train:0"], [])
            if error is None:
                assert asked.partial_run(handle, "train:0") == 1
            else:
                with pytest.raises(RuntimeError, match="too bad"):
                    asked.partial_run(handle, "train:0")
        finally:
            undo()
    assert calls == ["setup", "part"]
    assert "train:0" in ui.stops[1].names
    # Under `install` it is the framework's part that is the run.
    is_told = error is not None and not is_installed
    assert ui.stops[1].initial == ("error" if is_told else "lt")
