"""The stepper: the plain run, bit for bit, a node at a time, forwards and backwards."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy_stepping_kit import Twin, entries, exact, go, stepper_of
from stepping_programs import PROGRAMS, batch_norm, dropout, loop

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines import numpy as tf
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.numpy.debugging import ENGINE


@pytest.fixture(autouse=True)
def _fresh_graph():
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("iteration", [False, True])
def test_the_stepped_run_is_the_plain_run(program, iteration):
    twin = Twin(program)
    for run in range(3):
        stepper = twin.stepper(run)
        while stepper.next is not None:
            stepper.advance(iteration)
        capture = stepper.finish()
        assert capture.error is None
        assert exact(capture.value) == exact(twin.run(run))
        assert stepper.finish() is capture
    twin.assert_alike()


@pytest.mark.parametrize("program", PROGRAMS)
def test_finish_does_what_is_left(program):
    twin = Twin(program)
    stepper = twin.stepper()
    for _ in range(len(stepper.steps) // 2):
        stepper.advance()
    assert exact(stepper.finish().value) == exact(twin.run())
    assert stepper.position == len(stepper.steps)
    twin.assert_alike()


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_dump_is_the_one_of_a_debugged_run(program):
    twin = Twin(program)
    debugged = ENGINE.adapt(twin.plain).debug_run(
        twin.program.fetches, twin.program.feed(0), None, None, Watch()
    )
    stepper = twin.stepper()
    before = len(stepper.dump().data())
    while stepper.next is not None:
        stepper.advance()
        now = len(stepper.dump().data())
        assert now >= before
        before = now
    dump = stepper.finish().dump
    assert entries(dump) == entries(debugged.dump)
    stamps = [datum.timestamp for datum in dump.data()]
    assert stamps == sorted(stamps)


@pytest.mark.parametrize("program", PROGRAMS)
def test_all_the_way_back_and_on_again(program):
    twin = Twin(program)
    stepper = twin.stepper()
    states = []
    while stepper.next is not None:
        states.append((entries(stepper.dump()), exact(twin.other.run(twin.variables))))
        stepper.advance()
    whole = entries(stepper.dump())
    for position in range(len(states) - 1, -1, -1):
        step = stepper.back()
        assert step is stepper.next
        assert stepper.position == position
        assert (entries(stepper.dump()), exact(twin.other.run(twin.variables))) == states[position]
    assert not stepper.updated
    with pytest.raises(UserError, match="No step"):
        stepper.back()
    while stepper.next is not None:
        stepper.advance()
    assert entries(stepper.dump()) == whole
    assert exact(stepper.finish().value) == exact(twin.run())
    twin.assert_alike()


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("share", [0.3, 0.8, 1])
def test_after_discard_it_has_never_begun(program, share):
    twin = Twin(program)
    stepper = twin.stepper()
    for _ in range(int(len(stepper.steps) * share)):
        stepper.advance(iteration=True)
    assert stepper.discard() is None
    with pytest.raises(UserError, match="over"):
        stepper.advance()
    assert exact(twin.other.run(twin.program.fetches, twin.program.feed(0))) == exact(twin.run())
    twin.assert_alike()


@settings(max_examples=40, deadline=None)
@given(
    program=st.sampled_from([loop, dropout, batch_norm]),
    moves=st.lists(st.sampled_from(["on", "on", "round", "back"]), max_size=80),
)
def test_any_walk_ends_as_the_plain_run(program, moves):
    with tf.Graph().as_default():
        twin = Twin(program)
        stepper = twin.stepper()
        for move in moves:
            if move == "back" and stepper.position:
                stepper.back()
            elif move != "back" and stepper.next is not None:
                stepper.advance(iteration=move == "round")
        assert exact(stepper.finish().value) == exact(twin.run())
        twin.assert_alike()


def test_feeds_come_first_and_are_known_from_the_start():
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.add(x, 1.0, name="y")
    stepper = stepper_of(tf.Session(), y, {x: [1, 2]})
    first, *_, last = stepper.steps
    assert (first.node, first.op_type, first.is_feed, first.outputs) == (
        "x", "Placeholder", True, ("x:0",),
    )  # fmt: skip
    assert stepper.has("x:0") and not stepper.has("y:0")
    with pytest.raises(KeyError, match="y:0"):
        stepper.value("y:0")
    assert last.node == "y" and last.inputs == ("x:0", "y/y:0") and last.outputs == ("y:0",)
    go(stepper, "y").advance()
    assert stepper.next is None
    with pytest.raises(UserError, match="at its end"):
        stepper.advance()
    assert exact(stepper.value("y:0")) == exact(np.float32([2, 3]))


def test_values_are_the_callers_own():
    v = tf.Variable([1.0, 2.0], name="v")
    y = v * 2.0
    session = tf.Session()
    session.run(v.initializer)
    stepper = stepper_of(session, y)
    go(stepper, "mul")
    stepper.value("v/read:0")[:] = 9
    stepper.value("v:0")[:] = 9
    given = np.float32([5, 6])
    stepper.override("v/read:0", given)
    given[:] = 0
    stepper.value("v/read:0")[:] = 0
    result = stepper.finish().value
    assert result.tolist() == [10, 12]
    result[:] = 0
    assert stepper.value("mul:0").tolist() == [10, 12]
    assert session.run(v).tolist() == [1, 2]


def test_a_value_that_cannot_be_an_array_is_none():
    class Broken:
        def __array__(self, *args, **kwargs):
            raise RuntimeError("no")

    stepper = stepper_of(tf.Session(), tf.constant(1.0))
    assert stepper.as_array(Broken()) is None
    assert stepper.as_array(2.0).tolist() == 2


def test_a_loop_is_a_step_with_what_goes_in_and_comes_out():
    start = tf.constant(1.0, name="start")
    out = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2.0), [0, start], name="turn")
    stepper = stepper_of(tf.Session(), out[1])
    go(stepper, "turn")
    step = stepper.next
    assert step.op_type == "while_loop"
    assert step.inputs == ("turn/Enter:0", "turn/Enter_1:0")
    assert step.outputs == ("turn/Switch_1:0",)
    assert {"turn/LoopCond", "turn/mul", "turn/NextIteration"} <= set(step.members)
    position = stepper.position
    seen = []
    while (outcome := stepper.advance(iteration=True)).is_partial:
        assert stepper.position == position and stepper.next is step
        seen.append(float(stepper.value("turn/mul:0")))
    assert seen == [2, 4, 8]
    assert outcome.step is step and stepper.position == position + 1
    # A loop that is over is undone as a whole.
    stepper.back()
    assert not stepper.has("turn/mul:0")
    stepper.advance(iteration=True)
    stepper.advance(iteration=True)
    stepper.back()
    assert float(stepper.value("turn/mul:0")) == 2
    assert float(stepper.finish().value) == 8
