"""Blocks where somebody traces the program already, and the tracebacks of their errors."""

# ruff: noqa: PT012 - what raises is the whole block

import bdb
import sys
import threading
import traceback

import pytest

import tfdbg_cli
from tfdbg_cli.tracing.skip import SkippedError


def lines_of(run):
    """What lines of this file a tracer sees, and whether it is there afterwards."""
    lines = []

    def tracer(frame, event, argument):
        if frame.f_code.co_filename != __file__:
            return None
        if event == "line":
            lines.append(frame.f_lineno)
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        run()
        return lines, sys.gettrace() is tracer
    finally:
        sys.settrace(before)


def test_a_tracer_sees_the_lines_of_the_block_and_goes_on(model):
    first = sys._getframe().f_lineno + 3

    def run():
        local = 1
        with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
            local += 1
            _ = t["h"].value
        assert local == 2

    lines, is_there = lines_of(run)
    assert is_there
    assert [line - first for line in lines] == [0, 1, 1, 2, 3, 4]


def test_the_frame_s_own_tracing_is_restored(model):
    events = []

    def local(frame, event, argument):
        events.append(event)
        return local

    before = sys.gettrace()
    frame = sys._getframe()
    kept = frame.f_trace, frame.f_trace_opcodes, frame.f_trace_lines
    sys.settrace(lambda *_: None)
    frame.f_trace, frame.f_trace_lines = local, False
    try:
        with tfdbg_cli.trace(model.sess, model.total, model.feed):
            pass
        found = frame.f_trace, frame.f_trace_opcodes, frame.f_trace_lines
    finally:
        sys.settrace(before)
        frame.f_trace, frame.f_trace_opcodes, frame.f_trace_lines = kept
    assert found == (local, False, False)


def test_nobody_traces_afterwards_if_nobody_did(model):
    before = sys.gettrace()
    sys.settrace(None)
    try:
        with tfdbg_cli.trace(model.sess, model.total, model.feed):
            inside = sys.gettrace()
        after = sys.gettrace()
    finally:
        sys.settrace(before)
    assert inside is after is None


def test_a_breakpoint_in_the_block(model):
    seen = []

    class Debugger(bdb.Bdb):
        def user_line(self, frame):
            if self.break_here(frame):
                seen.append((frame.f_lineno, frame.f_code.co_name, frame.f_locals["local"]))
            self.set_continue()

    debugger = Debugger()
    line = sys._getframe().f_lineno + 6

    def run():
        local = 1
        with tfdbg_cli.trace(model.sess, model.total, model.feed):
            local += 1
            local += 1

    debugger.set_break(__file__, line)
    before = sys.gettrace()
    try:
        debugger.runcall(run)
    finally:
        sys.settrace(before)
    assert seen == [(line, "run", 2)]


def test_the_profiler_is_left_alone(model):
    calls = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, argument: calls.append(event))
    try:
        with tfdbg_cli.trace(model.sess, model.total, model.feed):
            inside = sys.getprofile()
    finally:
        sys.setprofile(before)
    assert inside is not None
    assert calls


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there is no sys.monitoring")
def test_monitoring_tools_see_the_block(model):
    monitoring = sys.monitoring
    lines = []
    tool = monitoring.COVERAGE_ID
    monitoring.use_tool_id(tool, "test")
    monitoring.register_callback(
        tool,
        monitoring.events.LINE,
        lambda code, line: lines.append(line) if code.co_filename == __file__ else None,
    )
    monitoring.set_events(tool, monitoring.events.LINE)
    first = sys._getframe().f_lineno + 2
    try:
        with tfdbg_cli.trace(model.sess, model.total, model.feed):
            lines.append("inside")
    finally:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)
    assert first + 1 in lines


def test_an_error_goes_up_as_it_is_with_the_user_s_line(model):
    error = KeyError("mine")
    with (
        pytest.raises(KeyError) as caught,
        tfdbg_cli.trace(model.sess, model.step, model.feed) as t,
    ):
        _ = t["total"].value
        raise error  # this line
    assert caught.value is error
    last = traceback.extract_tb(error.__traceback__)[-1]
    assert (last.filename, last.line) == (__file__, "raise error  # this line")
    assert last.name == "test_an_error_goes_up_as_it_is_with_the_user_s_line"
    assert error.__context__ is None
    assert not error.__suppress_context__
    assert model.weights()[0, 0] == 1


def test_an_error_of_ours_is_shown_at_the_user_s_line(model):
    with (
        pytest.raises(tfdbg_cli.OutOfOrderError) as caught,
        tfdbg_cli.trace(model.sess, model.step, model.feed) as t,
    ):
        _ = t["total"].value
        _ = t["y"].value  # this line
    text = "".join(traceback.format_exception(caught.value))
    assert (
        traceback.extract_tb(caught.value.__traceback__)[-1].line == '_ = t["y"].value  # this line'
    )
    assert "SkippedError" not in text
    assert "tracing/drive.py" not in text


def test_errors_of_errors_keep_their_story(model):
    with (
        pytest.raises(ValueError, match="second") as caught,
        tfdbg_cli.trace(model.sess, model.step, model.feed),
    ):
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second")  # noqa: B904
    assert isinstance(caught.value.__context__, KeyError)
    assert caught.value.__context__.__context__ is None


def test_an_error_takes_the_run_back(model):
    before = model.weights().tobytes()
    state = model.sess.run(model.total, model.feed)
    for kind in (RuntimeError, KeyboardInterrupt):
        with pytest.raises(kind), tfdbg_cli.trace(model.sess, model.step, model.feed) as t:
            t["h"].value = t["h"].value * 0
            _ = t["step"].value
            assert model.weights().tobytes() != before
            raise kind
    assert model.weights().tobytes() == before
    assert model.sess.run(model.total, model.feed) == state


def test_what_the_block_has_bound_before_an_error_is_bound(model):
    found = None
    with (
        pytest.raises(ZeroDivisionError),
        tfdbg_cli.trace(model.sess, model.total, model.feed) as t,
    ):
        found = t["h"].value.shape
        _ = 1 / 0
    assert found == (2, 2)


def test_blocks_of_several_threads(model):
    found = []

    def run():
        for _ in range(5):
            with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
                shape = t["h"].value.shape
            found.append((shape, float(t.result)))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 15
    assert len(set(found)) == 1


def test_where_tracing_is_off_the_block_is_run_in_its_place(model, known):
    text = """
def function(sess, total, feed):
    with tfdbg_cli.trace(sess, total, feed) as t:
        h = t["h"].value
        t["h"].value = h * 0
    return h.shape, float(t.result)
"""
    function = known(text)["function"]
    found = []

    def tracer(frame, event, argument):
        # As the prompt of a debugger: nothing is traced while a trace function is running.
        sys.settrace(None)
        found.append(function(model.sess, model.total, model.feed))

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        traceback.format_exc()
    finally:
        sys.settrace(before)
    assert found == [((2, 2), 0.0)]


def test_the_skipping_is_no_exception_that_a_program_catches():
    assert not issubclass(SkippedError, Exception)
