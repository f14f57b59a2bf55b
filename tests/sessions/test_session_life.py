"""The life of debugged runs: where the program stops, and that its fate is its own."""

import threading

import numpy as np
import pytest
from session_kit import Script, make_debugger, wrap

from tfdbg_cli.sessions.debugger.debugger import Debugger
from tfdbg_cli.sessions.wrappers.local_cli import LocalCLIDebugWrapperSession
from tfdbg_cli.ui.base import UserInterface


def count(program, sess, times):
    """Run the program; its results, or the names of the errors."""
    results = []
    for _ in range(times):
        try:
            results.append(sess.run(program.ratio, program.feed).tolist())
        except program.tf.errors.OpError as error:
            results.append(type(error).__name__)
    return results


EXPECTED = [[3.0, 1.5], [6.0, 3.0], [np.inf, np.inf], [-6.0, -3.0], [-3.0, -1.5]]


def test_run_stops_before_and_after_and_then_only_after(program):
    sess, ui = wrap(program.session)
    assert count(program, sess, 3) == EXPECTED[:3]
    assert ui.modes == "seee"
    assert ui.stops[0].initial == "run_info"
    assert ui.stops[0].role == "start"
    assert ui.stops[0].title.startswith("run-start: run #1: 1 fetch (ratio/div:0); 1 feed (x:0)")
    assert "x:0" in ui.stops[0].first_screen
    assert ui.stops[0].names == []
    assert ui.stops[1].initial == "lt"
    assert ui.stops[1].role == "end"
    assert ui.stops[1].title.startswith("run-end: run #1")
    assert {"x:0", "add:0", "ratio/left:0", "ratio/div:0"} <= set(ui.stops[1].names)
    assert [stop.title.split()[2] for stop in ui.stops] == ["#1:", "#1:", "#2:", "#3:"]
    assert sess.run_call_count == 3


def test_an_undebugged_run_is_followed_by_a_run_start(program):
    sess, ui = wrap(program.session, "run -n", "run", "run -n", "run -n")
    assert count(program, sess, 4) == EXPECTED[:4]
    assert ui.modes == "sses"
    assert [stop.title.split()[2] for stop in ui.stops] == ["#1:", "#2:", "#2:", "#4:"]


def test_several_runs_pass_before_the_one_that_counts(program):
    sess, ui = wrap(program.session, "run -t 3", "run -t 2")
    assert count(program, sess, 5) == EXPECTED
    assert ui.modes == "see"
    assert [stop.title.split()[2] for stop in ui.stops] == ["#1:", "#3:", "#5:"]


def test_more_runs_than_there_are(program):
    sess, ui = wrap(program.session, "run -t 100")
    assert count(program, sess, 4) == EXPECTED[:4]
    assert ui.modes == "s"


def test_several_undebugged_runs(program):
    sess, ui = wrap(program.session, "run -t 3 -n")
    assert count(program, sess, 4) == EXPECTED[:4]
    assert ui.modes == "sse"
    assert ui.stops[1].title.startswith("run-start: run #4")


def test_run_until_a_filter_passes(program):
    sess, ui = wrap(program.session, "run -f has_inf_or_nan", ["lt", "run"])
    assert count(program, sess, 4) == EXPECTED[:4]
    assert ui.modes == "see"
    stop = ui.stops[1]
    assert stop.title.startswith("run-end: run #3")
    assert stop.role == "error"
    assert stop.initial == "why -f has_inf_or_nan"
    assert "ratio/div:0" in stop.first_screen
    assert "add:0" not in stop.first_screen
    assert "add:0" in stop.replies["lt"].document.text


def test_a_filter_that_never_passes_runs_to_the_end(program):
    sess, ui = wrap(program.session, "run -f has_inf_or_nan -fenn ratio")
    assert count(program, sess, 4) == EXPECTED[:4]
    assert ui.modes == "s"


def test_runs_before_the_filter_counts(program):
    sess, ui = wrap(program.session, "run -t 4 -f has_inf_or_nan")
    assert count(program, sess, 5) == EXPECTED
    assert ui.modes == "s"
    sess, ui = wrap(program.session, "run -t 2 -f big")
    sess.add_tensor_filter("big", lambda datum, tensor: np.abs(tensor).max() > 4)
    assert sess.run(program.add) == 6
    assert ui.modes == "s"
    assert sess.run(program.add) == 7
    assert ui.modes == "se"


def test_excluded_nodes_do_not_stop_and_are_not_listed(program):
    sess, ui = wrap(program.session, "run -f has_inf_or_nan -fenn div")
    for _ in range(3):
        sess.run(program.ratio, program.feed)
    assert ui.modes == "s"
    sess, ui = wrap(program.session, 'run -f positive -fenn "^(x|ratio)"')
    sess.add_tensor_filter("positive", lambda datum, tensor: bool(np.all(tensor > 0)))
    sess.run(program.ratio, program.feed)
    assert ui.modes == "se"
    assert ui.stops[1].initial == "lt -f positive -fenn ^(x|ratio)"
    assert "x:0" not in ui.stops[1].first_screen


def test_no_debug_with_a_filter_is_refused(program):
    sess, ui = wrap(program.session, ["run -n -f has_inf_or_nan", "run -fenn a", "run -n"])
    sess.run(program.add)
    assert ui.modes == "s"
    replies = ui.stops[0].replies
    assert replies["run -n -f has_inf_or_nan"].failed
    assert replies["run -fenn a"].failed


@pytest.mark.parametrize(
    ("option", "kept"),
    [
        ("--node_name_filter ratio", {"ratio/three:0", "ratio/left:0", "ratio/div:0"}),
        ("--op_type_filter Sub", {"ratio/left:0"}),
        ("--tensor_dtype_filter int32", {"whole:0"}),
    ],
)
def test_filters_narrow_the_dump(program, option, kept):
    sess, ui = wrap(program.session, f"run {option}", "run")
    sess.run([program.whole], program.feed)
    sess.run([program.whole], program.feed)
    assert set(ui.stops[1].names) <= kept
    assert set(ui.stops[1].names) & {"ratio/left:0", "whole:0"}
    assert len(ui.stops[2].names) > 4


def test_an_error_is_shown_and_then_raised(program):
    sess, ui = wrap(program.session, "run -t 3", ["error", "lt", "ni -a -d -t checked", "run"])
    sess.run(program.checked, program.feed)
    sess.run(program.checked, program.feed)
    with pytest.raises(program.tf.errors.InvalidArgumentError, match="bad ratio"):
        sess.run(program.checked, program.feed)
    assert ui.modes == "se"
    stop = ui.stops[1]
    assert (stop.initial, stop.role) == ("error", "error")
    assert "Op name:    checked" in stop.first_screen
    assert "bad ratio" in stop.first_screen
    assert {"x:0", "ratio/three:0"} <= set(stop.names)
    assert not any(reply.failed for reply in stop.replies.values())
    assert sess.run(program.checked, program.feed).tolist() == EXPECTED[3]
    assert ui.modes == "see"


@pytest.mark.parametrize("command", ["run -t 100", "run -n -t 100"])
def test_an_error_of_an_undebugged_run(program, command):
    sess, ui = wrap(program.session, command, [lambda stop: stop.service.run("ri"), "run"])
    for _ in range(2):
        sess.run(program.checked, program.feed)
    with pytest.raises(program.tf.errors.InvalidArgumentError, match="bad ratio"):
        sess.run(program.checked, program.feed)
    assert ui.modes == "se"
    assert ui.stops[1].initial == "error"
    assert ui.stops[1].title == "run-end: run #3: 1 fetch (checked:0); 1 feed (x:0)"
    assert ui.stops[1].names == []
    assert "Op name:    checked" in ui.stops[1].first_screen
    assert "not debugged" in ui.stops[1].service.run("lt").document.text
    assert not ui.stops[1].service.run("ni -t checked").failed


@pytest.mark.parametrize("command", ["run -f never", "run -f has_inf_or_nan -fenn ."])
def test_an_error_under_a_filter_that_does_not_pass(program, command):
    sess, ui = wrap(program.session, command)
    sess.add_tensor_filter("never", lambda datum, tensor: False)
    for _ in range(2):
        sess.run(program.checked, program.feed)
    with pytest.raises(program.tf.errors.InvalidArgumentError, match="bad ratio"):
        sess.run(program.checked, program.feed)
    assert ui.modes == "se"
    assert ui.stops[1].initial == "error"
    assert ui.stops[1].dump is not None


def test_errors_that_pass_through(program):
    ui = Script()
    sess = LocalCLIDebugWrapperSession(
        program.session, debugger=make_debugger(ui), pass_through_operrors=True
    )
    sess.run(program.checked, program.feed)
    sess.run(program.checked, program.feed)
    with pytest.raises(program.tf.errors.InvalidArgumentError):
        sess.run(program.checked, program.feed)
    assert ui.modes == "see"


def test_mistakes_of_the_program_are_raised_as_they_are(program):
    sess, _ = wrap(program.session)
    for wrong in ("no_such_tensor", "no_such_tensor:0", object()):
        with pytest.raises((ValueError, TypeError, KeyError)) as plain:
            program.session.run(wrong)
        with pytest.raises(type(plain.value)):
            sess.run(wrong)
    with pytest.raises((program.tf.errors.OpError, ValueError)) as plain:
        program.session.run(program.ratio)
    with pytest.raises(type(plain.value)):
        sess.run(program.ratio)


def test_exit_lets_the_program_go_on(program):
    sess, ui = wrap(program.session, "run", "exit --detach")
    assert count(program, sess, 4) == EXPECTED[:4]
    assert ui.modes == "se"
    sess, ui = wrap(program.session, "exit --detach")
    sess.run(program.add)
    sess.run(program.add)
    assert ui.modes == "s"


def test_a_detached_program_still_gets_its_errors(program):
    sess, ui = wrap(program.session, "exit --detach")
    count(program, sess, 2)
    with pytest.raises(program.tf.errors.InvalidArgumentError):
        sess.run(program.checked, program.feed)
    assert ui.modes == "s"


@pytest.mark.parametrize("script", [["exit --end"], ["run", "exit --end"]])
def test_exit_ends_the_program_also_if_it_swallows_the_end(program, script):
    sess, ui = wrap(program.session, *script)
    for _ in range(2):
        with pytest.raises(SystemExit) as caught:
            sess.run(program.add)
        assert caught.value.code == 1
    assert len(ui.stops) == len(script)


def test_a_filter_that_raises_is_reported_once_and_the_run_goes_on(program, capsys):
    sess, ui = wrap(program.session, "run -f fussy", ["run -f fussy"])

    def fussy(datum, tensor):
        if datum.node_name == "add":
            raise ValueError("cannot say\nanything")
        return bool(np.isinf(tensor).any())

    sess.add_tensor_filter("fussy", fussy)
    assert count(program, sess, 4) == EXPECTED[:4]
    assert ui.modes == "se"
    stderr = capsys.readouterr().err
    assert stderr.count("tfdbg:") == 1 == stderr.count("\n")
    assert 'The filter "fussy" raised in run #1 at add:0' in stderr
    assert "ValueError: cannot say anything" in stderr
    assert "fussy" in ui.stops[1].first_screen
    assert "add:0" in ui.stops[1].first_screen


def test_results_and_state_are_the_same_as_without(program):
    tf = program.tf
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        noise = tf.random_uniform([4])
        kept = tf.Variable(tf.zeros([4]))
        step = tf.assign_add(kept, noise)
        init = tf.global_variables_initializer()
        fetches = {"step": step, "pair": (noise, [step]), "op": step.op}
        found = []
        for debugged in (False, True):
            with tf.Session() as session:
                session.run(init)
                sess = wrap(session)[0] if debugged else session
                found.append([sess.run(fetches) for _ in range(3)])
    for plain, debugged in zip(*found, strict=True):
        assert list(plain) == list(debugged)
        np.testing.assert_array_equal(plain["step"], debugged["step"])
        np.testing.assert_array_equal(plain["pair"][0], debugged["pair"][0])
        assert type(debugged["pair"]) is tuple
        assert debugged["op"] is None


def test_empty_fetches_and_other_threads_pass_by(program):
    sess, ui = wrap(program.session)
    for empty in ([], {}, [[], ()]):
        assert sess.run(empty) == program.session.run(empty)
    assert ui.modes == ""
    assert sess.run_call_count == 3

    ui = Script()
    sess = LocalCLIDebugWrapperSession(
        program.session, debugger=make_debugger(ui), thread_name_filter="work"
    )
    sess.run(program.add)
    assert ui.modes == ""
    thread = threading.Thread(target=lambda: sess.run(program.add), name="worker")
    thread.start()
    thread.join()
    assert ui.modes == "se"
    other = threading.Thread(target=lambda: sess.run(program.add), name="other work")
    other.start()
    other.join()
    assert ui.modes == "se"
    assert sess.run(program.add) == 4


def test_callables(program):
    sess, ui = wrap(program.session)
    runner = sess.make_callable(program.ratio, feed_list=[program.x])
    assert runner([6.0, 3.0]).tolist() == EXPECTED[0]
    assert ui.modes == "se"
    assert "ratio/div:0" in ui.stops[1].names
    for arguments, options in (((), {}), (([6.0, 3.0],), {"timeout": 1})):
        plain = program.session.make_callable(program.ratio, feed_list=[program.x])
        with pytest.raises(Exception) as expected:  # noqa: PT011
            plain(*arguments, **options)
        with pytest.raises(type(expected.value)):
            runner(*arguments, **options)
    before = program.session.run(program.count)
    assert sess.make_callable(program.add)() == before + 1
    assert sess.run(callable_runner=lambda a: a + 1, callable_runner_args=(2,)) == 3
    assert "runner from make_callable()" in ui.stops[-1].title
    with pytest.raises(ValueError, match="mutually exclusive"):
        sess.run(program.add, callable_runner=lambda: 1)


@pytest.mark.parametrize("command", ["run", "run -n", "run -t 9", "run -f has_inf_or_nan"])
def test_a_runner_of_the_programs_own_that_raises(program, command):
    sess, ui = wrap(program.session, command)

    def runner(feed):
        program.session.run(program.ratio, feed)
        raise RuntimeError("too bad")

    with pytest.raises(RuntimeError, match="too bad"):
        sess.run(callable_runner=runner, callable_runner_args=(program.feed,))
    assert ui.modes == "se"
    assert (ui.stops[1].initial, ui.stops[1].role) == ("error", "error")
    assert "Error type: RuntimeError" in ui.stops[1].first_screen
    assert 'raise RuntimeError("too bad")' in ui.stops[1].first_screen


def test_eval_goes_through_the_debugger(program):
    sess, ui = wrap(program.session)
    with sess.as_default():
        assert program.add.eval() == 1
        assert program.ratio.eval(program.feed).tolist() == EXPECTED[1]
    assert ui.modes == "see"


def test_the_context_manager_closes_the_session(program):
    session = program.tf.Session(graph=program.add.graph)
    sess, ui = wrap(session)
    with sess as entered:
        assert entered is sess
        sess.run(program.count.initializer)
        assert program.add.eval() == 1
    assert ui.modes == "see"
    with pytest.raises((RuntimeError, ValueError)):
        session.run(program.add)


def test_it_looks_like_a_session(program):
    sess, _ = wrap(program.session)
    assert sess.graph is program.session.graph
    assert sess.session is program.session
    program.session.some_attribute = 3
    assert sess.some_attribute == 3
    with pytest.raises(AttributeError):
        _ = sess.no_such_attribute
    with pytest.raises(ValueError, match="should_stop"):
        sess.should_stop()


@pytest.mark.tensorflow
def test_a_monitored_session(tmp_path):
    tf = pytest.importorskip("tensorflow").compat.v1
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        add = tf.assign_add(step, 1)
        hook = tf.train.StopAtStepHook(num_steps=3)
        with tf.train.MonitoredSession(hooks=[hook]) as session:
            sess, ui = wrap(session)
            runs = 0
            while not sess.should_stop():
                runs += 1
                assert sess.run(add) == runs
    assert runs == 3
    assert ui.modes == "seee"
    assert "global_step" in " ".join(ui.stops[1].names)


class Broken(UserInterface):
    """A UI with a bug."""

    def interact(self, service, queue):
        raise RuntimeError("a bug of ours")


def test_a_bug_of_ours_is_told_and_never_raised_into_the_program(program, capsys):
    debugger = Debugger(ui="plain")
    debugger._ui = Broken()
    session = LocalCLIDebugWrapperSession(program.session, debugger=debugger)
    assert session.run(program.add) == 1
    assert session.run(program.add) == 2
    err = capsys.readouterr().err
    assert err.count("RuntimeError: a bug of ours") == 2  # its traceback, and in one line
    assert "the program goes on without it" in err


def test_a_filter_under_a_built_in_name_is_the_one_that_is_asked(program):
    """No engine takes its name for what it stood for."""
    sess, ui = wrap(program.session, "run -f has_inf_or_nan")
    sess.add_tensor_filter("has_inf_or_nan", lambda datum, tensor: datum.node_name == "add")
    for _ in range(2):
        sess.run(program.ratio, program.feed)
    assert ui.modes == "see"
    assert ui.stops[1].initial == "lt -f has_inf_or_nan"
