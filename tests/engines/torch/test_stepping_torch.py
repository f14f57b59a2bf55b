"""A PyTorch program op by op: the same result as that of the plain program, bit for bit."""

import contextvars
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from stepping_kit import state_of, step_through, stepped_like_plain, stepper_of
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_kit import Mlp, observers

from tfdbg_cli.engines.torch.engine import TorchEngine
from tfdbg_cli.errors import UserError


def train(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def problem(make_optimizer, make_model=Mlp, size=6):
    def make():
        model = make_model()
        return model, make_optimizer(model.parameters()), torch.randn(5, size), torch.arange(5) % 3

    return make


OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    "foreach": lambda parameters: torch.optim.Adam(parameters, lr=0.01, foreach=True),
    "fused": lambda parameters: torch.optim.SGD(parameters, lr=0.1, fused=True),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_steps_are_those_of_the_plain_program(optimizer):
    # Dropout draws random numbers, and batch normalisation keeps statistics.
    done = stepped_like_plain(problem(OPTIMIZERS[optimizer]), train, times=3)

    assert "fc1/addmm" in done
    assert "gradients/fc2/addmm_grad/mm" in done
    assert any(name.startswith("optimizer/") for name in done)


def test_steps_are_named_as_in_the_dump_of_a_run():
    engine = TorchEngine()
    torch.manual_seed(7)
    stepper = engine.call_stepper(train, problem(OPTIMIZERS["sgd"])(), {})

    done = step_through(stepper)

    dump = stepper.finish().dump
    ops = [name for name, node in dump.graph().nodes.items() if node.attributes.get("_phase")]
    assert done == ops
    assert [step.node for step in stepper.steps] == done
    assert stepper.position == len(done)


@pytest.mark.parametrize("kind", ["LSTM", "RNN", "GRU"])
def test_recurrent_layers(kind):
    def make():
        model = getattr(nn, kind)(4, 5, num_layers=2, dropout=0.3)
        return model, torch.randn(6, 2, 4)

    def run(model, x):
        output, state = model(x)
        output.sum().backward()
        return output, state

    stepped_like_plain(make, run)


def test_a_loop_whose_length_depends_on_values():
    def halve(x):
        count = 0
        while x.abs().max() > 0.1:
            x = x / 2
            count += 1
        return x, count

    done = stepped_like_plain(lambda: (torch.randn(4) * 8,), halve)

    assert {"div", "div_1", "div_2"} <= set(done)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))
        self.norm = nn.LayerNorm(8)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 3))

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(-2, -1) / 8**0.5
        scores = scores.masked_fill(torch.ones(4, 4, dtype=torch.bool).triu(1), float("-inf"))
        return self.mlp(self.norm(x + torch.softmax(scores, -1) @ self.value(x))).mean(1)


def test_a_transformer_block_in_mixed_precision():
    def make():
        model = Block()
        return (
            model,
            torch.optim.AdamW(model.parameters()),
            torch.randn(5, 4, 8),
            torch.arange(5) % 3,
        )

    def run(model, optimizer, x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    done = stepped_like_plain(make, run, times=2)
    assert any("_to_copy" in name for name in done)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoints_compute_again_in_the_backward_pass(use_reentrant):
    class Checkpointed(Mlp):
        def forward(self, x):
            hidden = checkpoint(self.fc1, x, use_reentrant=use_reentrant)
            hidden = checkpoint(
                lambda h: self.dropout(torch.tanh(h)), hidden, use_reentrant=use_reentrant
            )
            return self.fc2(hidden)

    def make():
        model = Checkpointed()
        x = torch.randn(5, 6, requires_grad=True)
        return model, torch.optim.SGD(model.parameters(), lr=0.1), x, torch.arange(5) % 3

    done = stepped_like_plain(make, train, times=2)
    assert any(name.startswith("recompute/") for name in done)


def test_transforms_of_functions():
    def run(w, x):
        def loss(w, x):
            return torch.tanh(x @ w).sum()

        return torch.func.vmap(torch.func.grad(loss), (None, 0))(w, x), torch.func.jacrev(loss)(
            w, x
        )

    stepped_like_plain(lambda: (torch.randn(3), torch.randn(4, 3)), run)


def test_inference_modes_and_loaders():
    data = torch.utils.data.TensorDataset(torch.arange(12.0).reshape(6, 2))

    def run(model):
        total = torch.zeros(())
        loader = torch.utils.data.DataLoader(data, batch_size=2, shuffle=True)
        for (batch,) in loader:
            with torch.no_grad():
                total += model(batch).sum()
            with torch.inference_mode():
                total += model(batch.neg()).relu_().sum()
        return total

    stepped_like_plain(lambda: (nn.Linear(2, 2),), run)


def test_the_state_of_the_thread_is_the_callers_and_the_programs_own():
    dispatch, functions, seen = observers()
    variable = contextvars.ContextVar("variable", default=0)

    def run(x):
        assert not torch.is_grad_enabled()
        variable.set(variable.get() + 1)
        with torch.enable_grad(), torch.autocast("cpu", dtype=torch.bfloat16), dispatch, functions:
            y = x @ x
            y.sum().backward()
            assert torch.is_grad_enabled()
            assert torch.is_autocast_enabled("cpu")
        assert not torch.is_grad_enabled()
        return y

    with torch.no_grad():
        stepper = stepper_of(run, torch.randn(2, 2, requires_grad=True))
        assert stepper.next.op_type == "_to_copy"
    while stepper.next is not None:
        count = len(seen)
        assert torch.is_grad_enabled()
        assert not torch.is_autocast_enabled("cpu")
        mine = torch.ones(2, 2, requires_grad=True)
        (mine @ mine).sum().backward()
        assert mine.grad.dtype == torch.float32
        assert mine.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]
        assert len(seen) == count  # the program's modes are its own
        stepper.advance()
    capture = stepper.finish()
    assert capture.error is None
    assert capture.value.dtype == torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")
    assert torch.is_grad_enabled()
    assert variable.get() == 1


def test_the_modes_of_the_caller_see_the_program():
    dispatch, functions, seen = observers()

    def run(x):
        return torch.relu(x)

    with dispatch, functions:
        stepper = stepper_of(run, torch.ones(2))
        step_through(stepper)
        stepper.finish()

    assert torch.ops.aten.relu.default in seen
    assert torch.relu in seen


def test_the_program_waits_before_an_op_and_goes_on_to_the_next():
    said = []

    def run(x):
        said.append("begins")
        y = x + 1
        said.append("added")
        return y * 2

    stepper = stepper_of(run, torch.ones(2))
    assert said == []
    assert stepper.position == 0
    assert stepper.next == stepper.steps[0]
    assert (stepper.next.node, stepper.next.op_type) == ("add", "add")
    assert (stepper.next.inputs, stepper.next.outputs) == (("input/x:0",), ("add:0",))
    assert said == ["begins"]
    assert not stepper.has("add:0")

    outcome = stepper.advance()

    assert outcome.step.node == "add"
    assert said == ["begins", "added"]
    assert stepper.next.node == "mul"
    assert stepper.value("add:0").tolist() == [2.0, 2.0]
    assert [d.tensor_name for d in stepper.dump().data()] == ["input/x:0", "add:0"]
    assert "mul" not in stepper.graph().nodes
    stepper.advance()
    assert stepper.next is None
    assert stepper.position == 2
    with pytest.raises(UserError, match="at its end"):
        stepper.advance()
    assert stepper.finish().value.tolist() == [4.0, 4.0]
    assert stepper.finish() is stepper.finish()


def test_values_are_nobody_elses():
    def run(x):
        y = x + 1
        y.mul_(10)
        return y.sum()

    stepper = stepper_of(run, torch.ones(2))
    step_through(stepper, until="mul_")
    taken = stepper.value("add:0")
    taken.zero_()
    assert not taken.requires_grad
    step_through(stepper)
    assert stepper.value("add:0").tolist() == [2.0, 2.0]
    assert stepper.value("mul_:0").tolist() == [20.0, 20.0]
    assert stepper.finish().value.item() == 40.0
    with pytest.raises(KeyError):
        stepper.value("div:0")


def test_views_have_values():
    def run(x):
        y = x + 1
        z = y[1].reshape(1, 2)
        y.zero_()
        return z

    stepper = stepper_of(run, torch.arange(4.0).reshape(2, 2))
    done = step_through(stepper)
    view = next(name for name in done if "view" in name or "reshape" in name or "unsqueeze" in name)
    assert stepper.value(f"{view}:0").tolist() == [[3.0, 4.0]]


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


def test_an_input_is_repaired_and_the_op_goes_well():
    def run(indices):
        table = torch.arange(6.0).reshape(3, 2)
        chosen = indices + 1
        return F.embedding(chosen, table)

    stepper = stepper_of(run, torch.tensor([0, 2]))
    step_through(stepper, until="embedding")
    with pytest.raises(IndexError) as first:
        stepper.advance()
    with pytest.raises(IndexError) as second:
        stepper.advance()
    assert str(first.value) == str(second.value)

    stepper.override("add:0", torch.tensor([0, 1]))
    assert stepper.advance().step.node == "embedding"
    capture = stepper.finish()
    assert capture.error is None
    assert capture.value.tolist() == [[0.0, 1.0], [2.0, 3.0]]


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
    assert torch.ones(2).exp().log().tolist() == [1.0, 1.0]


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
from tfdbg_cli.errors import UserError
try:
    TorchEngine().call_stepper(torch.relu, (torch.ones(1),), {})
except UserError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "pip install greenlet" in done.stdout
