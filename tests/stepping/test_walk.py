"""Moves through runs, and what a stepper has that can no more than every one must."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines import numpy as tf
from tfdbg_cli.filters.builtin import has_inf_or_nan
from tfdbg_cli.stepping.stepper import Step, StepOutcome, Stepper
from tfdbg_cli.stepping.walk import Walk

sys.path.append(str(Path(__file__).parents[1] / "engines" / "numpy"))

from numpy_stepping_kit import stepper_of


class Chain(Stepper):
    """x, a block of two sums, and a root: the stepper of an engine that needs nothing else."""

    steps = (
        Step("x", "Input", (), ("x:0",)),
        Step("block", "Call", ("x:0",), ("block/b:0",), members=("block/a", "block/b")),
        Step("root", "Sqrt", ("block/b:0",), ("root:0",)),
    )
    position = 0
    overrides = None

    def __init__(self):
        self.overrides, self.tried, self._dump = {}, [], MemoryDump()

    def advance(self, iteration=False):
        step = self.steps[self.position]
        self.tried.append(step.node)
        for name in step.inputs:
            if np.shape(self.overrides.get(name)):
                raise UserError(f"{name} is one number.")
            if self.overrides.get(name, 0) < 0:
                raise ValueError("a negative number")
        for node in step.members or (step.node,):
            self._dump.add(node, 0, np.float32(1), timestamp=self.position)
        self.position += 1
        return StepOutcome(step)

    def back(self):
        raise UserError("No step can be undone.")

    def has(self, tensor_name):
        return bool(self._dump.by_tensor(tensor_name))

    def value(self, tensor_name):
        return self._dump.value(self._dump.by_tensor(tensor_name)[-1])

    def override(self, tensor_name, value):
        self.overrides[tensor_name] = value

    def take_back(self, tensor_name):
        del self.overrides[tensor_name]

    def graph(self):
        return None

    def dump(self):
        return self._dump


def test_a_stepper_that_has_only_what_it_must():
    stepper = Chain()
    made = []
    while stepper.next is not None:
        made.append([datum.tensor_name for datum in stepper.made(stepper.advance())])
    assert made == [["x:0"], ["block/a:0", "block/b:0"], ["root:0"]]
    assert (stepper.numbers_values, stepper.updated, stepper.mendable()) == (False, (), ())
    with pytest.raises(UserError, match=r"^The variables of this run can't be restored\.$"):
        stepper.restore()


def test_a_step_that_fails_is_tried_once_and_the_way_on_is_told():
    walk = Walk(Chain())
    walk.override("block/b:0", -1)
    halt = walk.step(5)
    assert repr(halt.error) == "ValueError('a negative number')"
    assert [each.step.node for each in halt.outcomes] == ["x", "block"]
    assert walk.stepper.tried == ["x", "block", "root"]
    walk.stepper.override("block/b:0", [1, 2])
    with pytest.raises(UserError, match="block/b:0 is one number") as caught:
        walk.step()
    assert caught.value.hint == "restore takes an override back."


class OpenChain(Chain):
    """The same, of a program whose next step nobody knows before it gets there."""

    is_open_ended = True
    to_come = Chain.steps

    @property
    def steps(self):
        return self.to_come[: self.position + 1]


@pytest.mark.parametrize("target", ["root", "root:0", "Sqrt", "scope/root"])
def test_where_nobody_knows_the_names_yet_part_of_one_will_do(target):
    walk = Walk(OpenChain())
    walk.stepper.to_come = (*Chain.steps[:2], Step("scope/root", "Sqrt", (), ("scope/root:0",)))
    halt = walk.go(target, before=True)
    assert (halt.why, walk.next.node) == ("", "scope/root")
    walk.go(target)
    assert walk.next is None
    with pytest.raises(UserError, match='"nowhere" is not in this run'):
        walk.find("nowhere")


def test_a_name_that_never_comes_is_told_at_the_end():
    walk = Walk(OpenChain())
    assert walk.find("nowhere") is None
    halt = walk.go("rot")
    assert halt.why == 'The run is at its end. There was no "rot". Did you mean root?'
    assert [each.step.node for each in halt.outcomes] == ["x", "block", "root"]


def test_what_is_not_there_is_not_overridden():
    with pytest.raises(UserError, match='"nowhere:0" is not in this run'):
        Walk(Chain()).override("nowhere:0", 1)


@pytest.fixture
def walk():
    """Through a logarithm of 0, what reads it, and a loop."""
    with tf.Graph().as_default():
        log = tf.log(tf.constant(0.0, name="x"), name="log")
        twice = tf.add(log, log, name="twice")
        _, end = tf.while_loop(
            lambda i, v: tf.less(i, 2),
            lambda i, v: (tf.add(i, 1), tf.negative(v, name="neg")),
            [tf.constant(0), twice],
            name="loop",
        )
        with tf.Session() as session:
            yield Walk(stepper_of(session, end))


def test_more_steps_than_there_are(walk):
    count = len(walk.stepper.steps)
    halt = walk.step(count)
    assert (len(halt.outcomes), halt.why, walk.next) == (count, "", None)
    with pytest.raises(UserError, match="The run is at its end"):
        walk.step()


def test_the_end_and_a_filter_s_breakpoint_end_a_move(walk):
    walk.breakpoints.add("", "bad", has_inf_or_nan)
    halt = walk.step(100)
    assert halt.why == "Breakpoint 1: log:0 passes bad, and twice is about to read it"
    assert walk.next.node == "twice"
    walk.breakpoints.delete()
    assert walk.step(100).why == "The run is at its end."
    assert walk.next is None


def test_what_is_done_already_is_not_gone_to(walk):
    walk.go("twice")
    place = walk.stepper.position
    with pytest.raises(UserError) as caught:
        walk.go("log:0")
    count = place - walk.index("log")
    assert str(caught.value) == f'"log:0" is done. step -b -t {count} goes back to it.'
    assert walk.stepper.position == place


def test_what_a_loop_makes_inside_is_found_at_the_loop(walk):
    (inner,) = {each for each in walk.names() if each.endswith("neg")}
    place = walk.index(inner)
    assert walk.stepper.steps[place].node != inner
    assert walk.index(f"{inner}:0") == walk.index(f"{inner}:0 (#1)") == place
    assert walk.index("nowhere:0") is None


def test_whole_loops_single_iterations_and_back(walk):
    halt = walk.go()
    assert len(halt.outcomes) == len(walk.stepper.steps)
    (inner,) = {each for each in walk.names() if each.endswith("neg")}
    place = walk.index(inner)
    assert walk.readers(f"{inner}:0 (#1)") == [place]
    walk.rewind(place)
    assert (walk.stepper.position, walk.iterations) == (place, 0)
    assert walk.readers(f"{inner}:0 (#1)") == []
    for iterations in (1, 2):
        walk.step(iteration=True)
        assert (walk.stepper.position, walk.iterations) == (place, iterations)
    walk.back()
    assert (walk.stepper.position, walk.iterations) == (place, 1)
    assert len(walk.rewind(place)) == 1
    assert (walk.stepper.position, walk.iterations) == (place, 0)
    assert walk.rewind(place) == []


def test_back_goes_as_far_as_it_can(walk):
    names = [outcome.step.node for outcome in walk.step(3).outcomes]
    assert [step.node for step in walk.back(100)] == names[::-1]
    with pytest.raises(UserError, match="No step"):
        walk.back()


def test_moves_on_another_thread_are_interrupted_by_nobody(walk):
    halts = []
    thread = threading.Thread(target=lambda: halts.append(walk.go()))
    thread.start()
    thread.join()
    assert [halt.why for halt in halts] == ["The run is at its end."]


def test_a_name_that_is_almost_one_of_the_run(walk):
    with pytest.raises(UserError, match="Did you mean twice"):
        walk.go("twcie")
