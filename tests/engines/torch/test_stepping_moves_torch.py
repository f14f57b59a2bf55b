"""Steps of a PyTorch call: errors, going back, and the two ends."""

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from stepping_kit import state_of, step_through, stepper_of
from stepping_problems import OPTIMIZERS, problem, train
from torch import nn

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.torch.engine import TorchEngine


def test_an_error_of_the_function_is_the_captures():
    def run(x):
        y = x + 1
        raise KeyError(y.shape)

    stepper = stepper_of(run, torch.ones(2))
    assert stepper.advance().step.node == "add"
    assert stepper.next is None
    capture = stepper.finish()
    assert isinstance(capture.error, KeyError)
    assert [d.tensor_name for d in capture.dump.data()] == ["input/x:0", "add:0"]


def test_what_ends_the_program_ends_it():
    def run(x):
        sys.exit(len(x + 1))

    call = nn.Module.__call__
    stepper = stepper_of(run, torch.ones(2))
    with pytest.raises(SystemExit) as raised:
        stepper.advance()
    assert raised.value.code == 2
    assert nn.Module.__call__ is call


def test_a_step_that_raises_may_be_tried_again():
    def run(x):
        y = torch.relu(x)
        return torch.linalg.cholesky(y)

    stepper = stepper_of(run, torch.zeros(2, 2))
    step_through(stepper, until="linalg_check_errors")
    with pytest.raises(torch.linalg.LinAlgError, match="not positive"):
        stepper.advance()
    assert stepper.next.node == "linalg_check_errors"
    assert isinstance(stepper.finish().error, torch.linalg.LinAlgError)


def test_the_program_may_have_the_error_and_catch_it():
    def run(indices):
        table = torch.arange(6.0).reshape(3, 2)
        try:
            return F.embedding(indices + 1, table)
        except IndexError:
            return torch.zeros(1) + 5

    stepper = stepper_of(run, torch.tensor([0, 2]))
    step_through(stepper, until="embedding")
    with pytest.raises(IndexError):
        stepper.advance()
    capture = stepper.finish()
    assert capture.error is None
    assert capture.value.item() == 5


def test_an_error_that_leaves_the_function_has_the_programs_own_frames():
    def inner(x):
        return x @ torch.ones(3)

    def run(x):
        return inner(x + 1)

    with pytest.raises(RuntimeError) as plain:
        run(torch.ones(2))
    stepper = stepper_of(run, torch.ones(2))
    while stepper.next is not None and stepper.next.op_type != "dot":
        stepper.advance()
    if stepper.next is not None:
        with pytest.raises(RuntimeError):
            stepper.advance()
    error = stepper.finish().error
    assert str(error) == str(plain.value)
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    own = [name for name in frames if name in ("run", "inner", "test")]
    assert own == ["run", "inner"]
    assert error.__context__ is plain.value.__context__


def test_the_last_op_is_undone_and_done_again():
    def run(x):
        y = F.dropout(x, 0.5)
        y.add_(1)
        return y.sum()

    torch.manual_seed(3)
    plain = run(torch.ones(50))
    state = torch.get_rng_state()

    torch.manual_seed(3)
    stepper = stepper_of(run, torch.ones(50))
    while stepper.next is not None:
        before = torch.get_rng_state()
        step = stepper.advance().step
        if step.op_type == "empty_like":
            assert not stepper.has(step.outputs[0])  # memory without a value
            continue
        value = stepper.value(step.outputs[0])
        assert stepper.back() == step
        assert stepper.next == step
        assert torch.equal(torch.get_rng_state(), before)
        assert not stepper.has(step.outputs[0])
        if step.node == "add_":
            with pytest.raises(UserError, match="mul can't be undone: only the last op can be"):
                stepper.back()
        assert stepper.advance().step == step
        assert torch.equal(stepper.value(step.outputs[0]), value)
    assert torch.equal(stepper.finish().value, plain)
    assert torch.equal(torch.get_rng_state(), state)


def gradients(model, x):
    for parameter in model.parameters():
        parameter.grad = None
    model(x)[0].square().sum().backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_going_back_leaves_the_bits_or_is_refused(kind):
    """A kernel may keep a workspace for the backward pass that is another one each time."""
    torch.manual_seed(0)
    model, x = kind(6, 8), torch.randn(4, 2, 6)
    expected = gradients(model, x)
    stepper = stepper_of(gradients, model, x)
    while stepper.next is not None:
        step = stepper.advance().step
        try:
            stepper.back()
        except UserError as error:
            reason = str(error)
            assert "can't be undone" in reason
            assert stepper.steps[stepper.position - 1] == step
        else:
            assert stepper.advance().step == step
    assert all(map(torch.equal, stepper.finish().value, expected))


def test_a_kernel_that_does_not_repeat_itself_is_not_done_again():
    calls = []

    @torch.library.custom_op("tfdbg_test::counted", mutates_args=())
    def counted(x: torch.Tensor) -> torch.Tensor:
        calls.append(0)
        return x + len(calls)

    stepper = stepper_of(lambda x: counted(x) * 2, torch.zeros(2))
    assert stepper.advance().step.node == "tfdbg_test.counted"
    with pytest.raises(UserError, match=r"counted can't be undone. Done again, it would not give"):
        stepper.back()
    assert stepper.value("tfdbg_test.counted:0").tolist() == [1, 1]
    assert stepper.finish().value.tolist() == [2, 2]


def test_what_the_program_has_used_cannot_be_undone():
    def run(x):
        if x.sum().item() > 1:
            x = x * 2
        torch.rand(1)
        torch.manual_seed(5)
        return x + 1

    stepper = stepper_of(run, torch.ones(3))
    with pytest.raises(UserError, match="No step"):
        stepper.back()
    step_through(stepper, until="mul")
    with pytest.raises(UserError, match="has the result, 3"):
        stepper.back()
    step_through(stepper, until="add")
    with pytest.raises(UserError, match="random numbers"):
        stepper.back()


def test_variables_are_told_and_restored():
    torch.manual_seed(0)
    model, optimizer, x, y = problem(OPTIMIZERS["sgd"])()
    before = state_of(model.state_dict())
    stepper = stepper_of(train, model, optimizer, x, y)
    changed = {}
    while stepper.next is not None:
        outcome = stepper.advance()
        for name in outcome.updated:
            changed[name] = outcome.step.op_type
    assert changed["norm.running_mean"] == "native_batch_norm"
    assert changed["fc1.weight"] == "add_"
    assert set(stepper.updated) == set(changed) == set(before)
    with pytest.raises(UserError, match="No step has changed"):
        stepper.restore(["fc1.wight"])

    assert stepper.restore(["fc1.weight"]) == ["fc1.weight"]
    assert state_of(model.fc1.weight) == before["fc1.weight"]
    assert "fc1.weight" not in stepper.updated
    assert set(stepper.restore()) == set(changed) - {"fc1.weight"}
    assert state_of(model.state_dict()) == before


def test_a_run_is_discarded_before_its_first_step():
    said = []

    def run(x):
        said.append(1)
        try:
            return x + 1
        finally:
            said.append(2)

    stepper = stepper_of(run, torch.ones(2))
    assert stepper.discard() is None
    assert said == []
    call = nn.Module.__call__
    stepper = stepper_of(run, torch.ones(2))
    assert stepper.next.node == "add"
    assert nn.Module.__call__ is not call
    assert stepper.discard() is None
    assert said == [1, 2]
    assert nn.Module.__call__ is call


def test_a_stepper_that_nobody_has_any_more():
    said = []

    def run(x):
        try:
            return x.exp().log()
        finally:
            said.append("ended")

    call = nn.Module.__call__
    stepper = stepper_of(run, torch.ones(2, requires_grad=True))
    stepper.advance()
    assert nn.Module.__call__ is not call
    del stepper
    assert said == ["ended"]
    assert nn.Module.__call__ is call
    assert torch.ones(2).neg().neg().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("until", ["fc1/addmm", "gradients/fc2/addmm_grad/mm"])
def test_a_run_is_ended_in_the_middle(until):
    call = nn.Module.__call__
    model, optimizer, x, y = problem(OPTIMIZERS["sgd"])()
    weight = state_of(model.fc1.weight)
    stepper = stepper_of(train, model, optimizer, x, y)
    step_through(stepper, until=until)
    stepper.stop()
    assert stepper.next is None
    assert nn.Module.__call__ is call
    assert state_of(model.fc1.weight) == weight
    assert stepper.finish().value is None
    # Autograd is none the worse for it.
    assert train(model, optimizer, x, y).requires_grad
    assert state_of(model.fc1.weight) != weight


def test_a_program_that_will_not_end_does_the_rest():
    made = []

    def run(x):
        try:
            made.append(x.exp())
        except:  # noqa: E722
            made.append(x.log())

    stepper = stepper_of(run, torch.ones(2))
    assert stepper.next.node == "exp"
    stepper.stop()
    assert [value.tolist() for value in made] == [[0.0, 0.0]]


def test_restored_variables_are_used_by_the_steps_to_come():
    weight = nn.Parameter(torch.ones(2))

    def run(weight):
        with torch.no_grad():
            weight.add_(1)
            weight.mul_(10)
            return weight * 1

    stepper = stepper_of(run, weight)
    step_through(stepper, until="mul_")
    assert stepper.updated == ["input/weight"]
    stepper.restore(["input/weight"])
    assert stepper.finish().value.tolist() == [10.0, 10.0]

    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.ones(2))
            self.scale = nn.Parameter(torch.ones(2))

        def forward(self, x):
            self.count.add_(1)
            self.count.mul_(10)
            return self.count * self.scale * x

    model = Counter()
    stepper = stepper_of(model, torch.ones(2))
    step_through(stepper, until="mul_")
    assert stepper.updated == ["count"]
    assert stepper.restore() == ["count"]
    assert model.count.tolist() == [1.0, 1.0]
    assert stepper.value("add_:0").tolist() == [2.0, 2.0]
    assert stepper.finish().value.tolist() == [10.0, 10.0]


def test_a_run_without_overrides_goes_on_when_it_is_discarded():
    def run(x):
        y = x + 1
        return y * 2

    stepper = stepper_of(run, torch.ones(2))
    stepper.advance()
    stepper.override("add:0", [7, 7])
    assert stepper.discard().value.tolist() == [4.0, 4.0]

    stepper = stepper_of(run, torch.ones(2))
    stepper.advance()
    stepper.override("add:0", [7, 7])
    stepper.advance()
    with pytest.raises(UserError, match="another add:0"):
        stepper.discard()
    assert stepper.finish().value.tolist() == [14.0, 14.0]


def test_several_steppers_take_turns():
    def run(x, count):
        for _ in range(count):
            x = torch.relu(x) + 1
        return x

    one, other = stepper_of(run, torch.ones(2), 3), stepper_of(run, torch.zeros(2), 2)
    while one.next is not None or other.next is not None:
        for stepper in (one, other):
            if stepper.next is not None:
                stepper.advance()
    assert one.finish().value.tolist() == [4.0, 4.0]
    assert other.finish().value.tolist() == [2.0, 2.0]
    assert one.position == 6
    assert other.position == 4


def test_ops_of_other_threads_are_recorded_and_not_stepped():
    import threading

    def run(x):
        made = []
        thread = threading.Thread(target=lambda: made.append(torch.exp(x)))
        thread.start()
        thread.join()
        return torch.log(made[0])

    stepper = stepper_of(run, torch.zeros(2))
    assert step_through(stepper) == ["log"]
    assert "exp" in stepper.finish().dump.graph().nodes


def test_calls_of_a_module_are_intercepted():
    engine = TorchEngine()
    inner = nn.Linear(2, 2)
    model = nn.Sequential(inner, nn.ReLU())
    x = torch.ones(1, 2)
    plain, call = model(x), nn.Module.__call__
    calls = []

    def around(original, args, kwargs):
        calls.append((args, kwargs))
        assert model(x) is not None  # inside, it is called as it is
        return original() * 2

    undo = engine.intercept(model, around)
    assert torch.equal(model(x), plain * 2)
    assert torch.equal(model(input=x), plain * 2)
    inner(x)
    assert len(calls) == 2
    undo()
    undo()
    assert torch.equal(model(x), plain)
    assert nn.Module.__call__ is call


def test_intercepted_calls_can_be_stepped_through():
    engine = TorchEngine()
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def around(original, args, kwargs):
        stepper = engine.call_stepper(original, args, kwargs)
        stepper.override("1/relu:0", torch.full((1, 2), 3.0))
        return stepper.finish().value

    undo = engine.intercept(model, around)
    try:
        assert [model(torch.ones(1, 2)).tolist() for _ in range(3)] == [[[3.0, 3.0]]] * 3
    finally:
        undo()


def test_without_greenlet_it_says_what_to_install():
    program = """
import sys
sys.modules["greenlet"] = None
import torch
from tfdbg_cli.engines.torch.engine import TorchEngine
from tfdbg_cli.common.errors import UserError
try:
    TorchEngine().call_stepper(torch.relu, (torch.ones(1),), {})
except UserError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "pip install greenlet" in done.stdout
