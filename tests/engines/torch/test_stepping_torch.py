"""A PyTorch program op by op: the same result as that of the plain program, bit for bit."""

import contextvars

import pytest
import torch
import torch.nn.functional as F
from stepping_kit import step_through, stepped_like_plain, stepper_of
from stepping_problems import OPTIMIZERS, problem, train
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_kit import Mlp, observers

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.torch.engine import TorchEngine


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
