"""Two pieces of code that take turns on one thread."""

import contextvars
import ctypes
import gc
import sys
import threading
import weakref

import pytest

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.stepping.coroutine import Coroutine


def test_values_go_both_ways():
    heard = []

    def function():
        for word in ("a", "b"):
            heard.append(strand.pause(word))
        return "c"

    strand = Coroutine(function)
    assert not strand.is_started
    assert strand.resume("ignored") == "a"
    assert strand.is_started
    assert strand.resume(1) == "b"
    assert not strand.is_done
    assert strand.resume(2) == "c"
    assert strand.is_done
    assert heard == [1, 2]
    with pytest.raises(RuntimeError, match="done"):
        strand.resume()


def test_it_needs_a_package_that_need_not_be_imported_yet(monkeypatch):
    assert Coroutine.is_possible() is True
    monkeypatch.delitem(sys.modules, "greenlet")
    assert Coroutine.is_possible() is True


def test_it_is_current_while_it_runs():
    strand = Coroutine(lambda: strand.is_current)
    assert strand.is_current is False
    assert strand.resume() is True
    assert strand.is_current is False


def test_a_function_that_never_begins_is_let_go_of():
    def function():
        raise AssertionError

    gone = weakref.ref(function)
    strand = Coroutine(function)
    del function
    strand.forget()
    gc.collect()
    assert gone() is None
    assert not strand.is_started


def test_what_is_raised_reaches_whoever_resumed_last():
    def function():
        strand.pause()
        raise KeyError("gone")

    strand = Coroutine(function)
    strand.resume()
    with pytest.raises(KeyError, match="gone") as raised:
        strand.resume()
    assert raised.traceback[-1].name == "function"
    assert strand.is_done


def test_exceptions_that_are_handled_stay_on_their_side():
    def function():
        try:
            raise KeyError(1)
        except KeyError:
            strand.pause(sys.exc_info()[0])
            strand.pause(sys.exc_info()[0])

    strand = Coroutine(function)
    assert strand.resume() is KeyError
    assert sys.exc_info()[0] is None
    try:
        raise ValueError(2)
    except ValueError:
        assert strand.resume() is KeyError
        assert sys.exc_info()[0] is ValueError


def test_closing_ends_the_function_where_it_is():
    steps = []

    def function():
        try:
            steps.append("begun")
            strand.pause()
            steps.append("never")
        finally:
            steps.append("ended")

    strand = Coroutine(function)
    strand.close()  # nothing has begun
    strand.resume()
    strand.close()
    strand.close()
    assert strand.is_done
    assert steps == ["begun", "ended"]


def test_a_function_that_raises_or_pauses_while_it_is_closed():
    def raising():
        try:
            one.pause()
        finally:
            raise KeyError("in finally")

    def pausing():
        try:
            other.pause()
        finally:
            other.pause()

    one, other = Coroutine(raising), Coroutine(pausing)
    one.resume()
    with pytest.raises(KeyError, match="in finally"):
        one.close()
    other.resume()
    with pytest.raises(RuntimeError, match="paused while"):
        other.close()
    other.close()
    assert other.is_done


def test_strands_in_strands():
    def inner_function():
        inner.pause("inner")
        return "inner is done"

    def outer_function():
        outer.pause(inner.resume())
        return "outer is done"

    inner, outer = Coroutine(inner_function), Coroutine(outer_function)
    assert outer.resume() == "inner"
    assert inner.resume() == "inner is done"  # by somebody else than the first time
    assert outer.resume() == "outer is done"


def test_only_the_function_itself_pauses():
    strand = Coroutine(lambda: None)
    with pytest.raises(RuntimeError, match="itself"):
        strand.pause()


def test_other_threads_cannot_resume():
    strand = Coroutine(lambda: strand.pause("waiting"))
    strand.resume()
    errors = []

    def resume():
        try:
            strand.resume()
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=resume)
    thread.start()
    thread.join()
    assert len(errors) == 1
    assert "thread" in errors[0]
    strand.resume()
    assert strand.is_done


def test_context_variables():
    variable = contextvars.ContextVar("variable", default="default")
    own = contextvars.ContextVar("own")
    seen = []

    def function():
        seen.append(variable.get())
        strand.pause()
        seen.append(variable.get())
        variable.set("function's")
        own.set("new")
        strand.pause()
        seen.append(variable.get())

    strand = Coroutine(function)
    variable.set("resumer's")
    strand.resume()
    variable.set("another")
    strand.resume()
    assert (variable.get(), own.get("unset")) == ("another", "unset")
    strand.resume()
    assert seen == ["resumer's", "resumer's", "function's"]
    assert (variable.get(), own.get()) == ("function's", "new")  # as after a call


@pytest.mark.parametrize("kind", ["trace", "profile"])
def test_trace_and_profile_functions_see_both_sides(kind):
    put, get = getattr(sys, f"set{kind}"), getattr(sys, f"get{kind}")
    calls = []

    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_name in ("in_function", "in_resumer"):
            calls.append(frame.f_code.co_name)
        return note

    def in_function():
        pass

    def in_resumer():
        pass

    def function():
        in_function()
        strand.pause()
        in_function()

    strand = Coroutine(function)
    before = get()
    put(note)
    try:
        strand.resume()
        in_resumer()
        strand.resume()
        in_resumer()
        during = get()
    finally:
        put(before)
    assert during is note
    assert calls == ["in_function", "in_resumer"] * 2


def test_deep_recursion_counts_for_each_side():
    def depth(count):
        return count and depth(count - 1)

    def function():
        strand.pause(depth(sys.getrecursionlimit() - 200))

    strand = Coroutine(function)
    strand.resume()
    assert depth(sys.getrecursionlimit() - 200) == 0
    strand.resume()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc tells native frames")
def test_who_notes_native_frames_does_not_reach_the_end_of_the_stack():
    """As c10::Error does: beyond that end are other frames than when the function began."""
    count = []

    def function():
        count.append(ctypes.CDLL(None).backtrace((ctypes.c_void_p * 65)(), 65))

    thread = threading.Thread(target=lambda: Coroutine(function).resume())  # a short stack
    thread.start()
    thread.join()
    assert count == [65]


def test_without_greenlet(monkeypatch):
    monkeypatch.setitem(sys.modules, "greenlet", None)
    with pytest.raises(UserError, match="pip install greenlet"):
        Coroutine(lambda: None)
