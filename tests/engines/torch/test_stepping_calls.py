"""A call that is made step by step: its names, how it ends, and what is kept of it."""

import gc
import traceback
import weakref

import pytest
import torch
from stepping_kit import step_through, stepper_of
from torch import nn
from torch_kit import Mlp

from tfdbg_cli.engines.torch.engine import TorchEngine
from tfdbg_cli.engines.torch.record.capture_levels import FullLevel
from tfdbg_cli.engines.torch.record.op_record import OpRecord

torch.set_num_threads(1)


class Interrupted(nn.Module):
    """Raises something after its second op."""

    def __init__(self, error):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.error = error

    def forward(self, x):
        self.layer(x)
        raise self.error


# Names.


def test_what_was_called_before_has_no_say_in_the_names():
    engine = TorchEngine()
    x = torch.ones(2, 6)
    names = []
    for _ in range(3):
        model = Mlp()
        model(x)
        names.append(step_through(engine.call_stepper(model, (x,), {})))
        del model
    assert "fc1/addmm" in names[0]
    assert names[1] == names[0]
    assert names[2] == names[0]


def test_the_called_module_is_the_root_though_it_is_a_part_of_another():
    model = Mlp()
    x = torch.ones(2, 6)
    assert step_through(stepper_of(model.fc1, x))[-1] == "addmm"
    assert step_through(stepper_of(model.fc1.forward, x))[-1] == "addmm"
    assert "fc1/addmm" in step_through(stepper_of(lambda batch: model(batch) + 1, x))


def test_the_first_module_that_a_function_calls_is_the_root():
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    second(torch.ones(1, 2))

    def run(x):
        return second(first(x))

    done = step_through(stepper_of(run, torch.ones(1, 2)))
    assert done == ["t", "addmm", "second/t", "second/addmm"]


def test_arguments_are_known_from_the_beginning():
    class Late(nn.Module):
        def forward(self, x, scale):
            return (x + 1) * scale

    batch, factor = torch.ones(2), torch.full((2,), 3.0)
    stepper = TorchEngine().call_stepper(Late(), (batch,), {"scale": factor})
    assert stepper.next.node == "add"
    assert stepper.value("input/batch:0").tolist() == [1.0, 1.0]
    assert stepper.value("input/factor:0").tolist() == [3.0, 3.0]
    assert list(stepper.dump().graph().nodes) == ["input/batch", "input/factor"]
    stepper.override("input/factor:0", [5, 5])
    assert stepper.finish().value.tolist() == [10.0, 10.0]


# The end.


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("move", ["advance", "finish"])
def test_interruptions_come_out_where_the_run_is_driven(kind, move):
    error = kind("stop")
    stepper = stepper_of(Interrupted(error), torch.ones(1, 2))
    with pytest.raises(kind) as raised:
        step_through(stepper) if move == "advance" else stepper.finish()
    assert raised.value is error
    assert stepper.next is None
    assert stepper.value("layer/addmm:0").shape == (1, 2)
    assert stepper.finish().error is error
    assert stepper.discard().error is error
    assert torch.relu(torch.ones(1)).item() == 1.0  # and nothing is recorded any more


def test_an_interruption_in_an_op():
    class Breaks(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise KeyboardInterrupt

    def run(x):
        Breaks.apply(x * 2).sum().backward()

    stepper = stepper_of(run, torch.ones(2, requires_grad=True))
    with pytest.raises(KeyboardInterrupt):
        step_through(stepper)
    assert stepper.next is None
    assert stepper.position == len(stepper.steps)


@pytest.mark.parametrize("move", ["advance", "finish"])
def test_an_error_of_the_program_is_that_of_the_run(move):
    error = ValueError("mine")
    stepper = stepper_of(Interrupted(error), torch.ones(1, 2))
    if move == "advance":
        assert step_through(stepper) == ["layer/t", "layer/addmm"]
        assert stepper.next is None
    assert stepper.finish().error is error
    assert stepper.next is None
    assert stepper.finish().error is error


def test_tracebacks_show_the_programs_frames_only():
    def run(model, x):
        try:
            x[5]
        except IndexError as error:
            raise ValueError("mine") from error

    class Model(nn.Module):
        def forward(self, x):
            return run(self, x)

    error = stepper_of(Model(), torch.ones(2)).finish().error
    for each in error, error.__cause__:
        functions = [frame.name for frame in traceback.extract_tb(each.__traceback__)]
        assert functions[-1] == "run"
        assert not [frame for frame in traceback.extract_tb(each.__traceback__) if _is_ours(frame)]
    assert "forward" in [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def test_the_error_of_an_op_shows_where_the_program_calls_it():
    def multiply(x):
        return x @ x

    stepper = stepper_of(multiply, torch.ones(2, 3))
    with pytest.raises(RuntimeError, match="shapes") as raised:
        stepper.advance()
    frames = traceback.extract_tb(raised.value.__traceback__)
    assert frames[-1].name == "multiply"
    assert frames[-1].line == "return x @ x"
    assert not any(map(_is_ours, frames))
    stepper.override("input/x:0", torch.eye(2, 3))
    assert isinstance(stepper.finish().error, RuntimeError)


def test_interruptions_show_the_programs_frames_only():
    stepper = stepper_of(Interrupted(KeyboardInterrupt()), torch.ones(1, 2))
    with pytest.raises(KeyboardInterrupt) as raised:
        stepper.finish()
    frames = traceback.extract_tb(raised.value.__traceback__)
    assert frames[-1].name == "forward"
    assert not any(map(_is_ours, frames))


def _is_ours(frame):
    return "tfdbg_cli/" in frame.filename.replace("\\", "/") and "/tests/" not in frame.filename


# What is kept.


class Witness:
    """Something that weak references can be made to."""


@pytest.mark.parametrize("end", ["finish", "stop", "discard", "error", "interrupted", "nothing"])
def test_the_frame_that_holds_a_stepper_is_let_go_of(end):
    def caller():
        witness = Witness()
        error = {"error": ValueError(), "interrupted": KeyboardInterrupt()}.get(end)
        model = Mlp() if error is None else Interrupted(error)
        stepper = stepper_of(model, torch.ones(2, 6 if error is None else 2))
        if end in ("finish", "error"):
            stepper.finish()
        elif end == "interrupted":
            with pytest.raises(KeyboardInterrupt):
                stepper.finish()
        elif end == "stop":
            step_through(stepper, until="fc2/addmm")
            stepper.stop()
        elif end == "discard":
            stepper.discard()
        return weakref.ref(witness), weakref.ref(stepper)

    references = caller()
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_a_function_that_refers_to_its_own_stepper_is_let_go_of():
    def caller():
        def run(x):
            return x + len(steppers)

        steppers = []
        steppers.append(stepper_of(run, torch.ones(2)))
        assert steppers[0].finish().value.tolist() == [2.0, 2.0]
        return weakref.ref(steppers[0])

    reference = caller()
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("end", ["finish", "stop"])
def test_what_was_recorded_does_not_wait_for_the_garbage_collector(end):
    def call():
        stepper = stepper_of(Mlp(), torch.ones(2, 6))
        step_through(stepper, until="fc2/addmm")
        getattr(stepper, end)()

    def recorded():
        return [each for each in gc.get_objects() if type(each) in (FullLevel, OpRecord)]

    call()  # makes what is made once
    gc.collect()
    gc.disable()
    try:
        before = recorded()  # of runs that earlier tests have kept
        call()
        assert len(recorded()) == len(before)
    finally:
        gc.enable()
