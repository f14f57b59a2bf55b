"""Other values in the middle of a PyTorch program, against results that were computed by hand."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from stepping_kit import state_of, step_through, stepper_of
from stepping_overridden import TIMES
from torch import nn

from tfdbg_cli.common.errors import UserError


def overridden(function, args, when, node, value):
    """Step through a call with the output of a node overridden before or after it is computed."""
    stepper = stepper_of(function, *args)
    if when == "before":
        stepper.override(f"{node}:0", value)
    else:
        step_through(stepper, until=node)
        stepper.advance()
        stepper.override(f"{node}:0", value)
    step_through(stepper)
    assert list(stepper.overrides) == [f"{node}:0"]
    assert stepper.value(f"{node}:0").tolist() == torch.as_tensor(value).tolist()
    return stepper.finish()


@TIMES
def test_a_softmax_forward_and_backward(when):
    x = torch.tensor([[0.5, -0.5, 1.0]], requires_grad=True)
    weights = torch.tensor([[1.0, 2.0, 4.0]])
    instead = torch.tensor([[0.5, 0.25, 0.25]])

    def run(x, weights):
        p = torch.softmax(x, -1)
        loss = (p * weights).sum()
        loss.backward()
        return loss

    capture = overridden(run, (x, weights), when, "softmax", instead)

    # Autograd has saved the output: dL/dx = p * (g - sum(g * p)) with the overridden p.
    expected = instead * (weights - (weights * instead).sum())
    assert capture.value.item() == pytest.approx(0.5 + 0.5 + 1.0)
    assert torch.allclose(x.grad, expected)
    (datum,) = capture.dump.by_tensor("softmax:0")
    assert np.array_equal(capture.dump.value(datum), instead.numpy())
    assert any("softmax:0" in warning for warning in capture.dump.warnings)


@TIMES
def test_a_gradient(when):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    x = torch.tensor([[1.0, -2.0]])
    before = model[0].weight.detach().clone(), model[2].weight.detach().clone()
    hidden = torch.tanh(model[0](x)).detach()

    def run(model, x):
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        return loss

    # The gradient of what goes into the last layer.
    capture = overridden(run, (model, x), when, "gradients/2/addmm_grad/mm", torch.ones(1, 2) * 3)

    assert capture.error is None
    delta = 3 * (1 - hidden**2)
    assert torch.allclose(before[0] - model[0].weight, delta.T @ x)
    assert torch.allclose(before[1] - model[2].weight, hidden)


@TIMES
def test_what_is_written_in_place_is_seen_through_views(when):
    def run(x):
        base = x * 1
        view = base[0]
        base.add_(1)
        return view * 10, base

    capture = overridden(
        run, (torch.zeros(2, 2),), when, "add_", torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    )

    view, base = capture.value
    assert view.tolist() == [10.0, 20.0]
    assert base.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_view_is_replaced_and_its_base_stays():
    x = torch.tensor([[1.0, 2.0]], requires_grad=True)

    def run(x):
        doubled = x * 2
        turned = doubled.t()
        loss = (turned * doubled.t()).sum()
        loss.backward()
        return doubled, loss

    stepper = stepper_of(run, x)
    stepper.override("t:0", [[5.0], [7.0]])
    step_through(stepper)
    doubled, loss = stepper.finish().value
    assert doubled.tolist() == [[2.0, 4.0]]
    assert loss.item() == 5 * 2 + 7 * 4
    assert x.grad.tolist() == [[2 * (2 + 5), 2 * (4 + 7)]]

    stepper = stepper_of(run, x)
    step_through(stepper, until="t")
    stepper.advance()
    with pytest.raises(UserError, match=r"shares its memory with mul:0.*before it is computed"):
        stepper.override("t:0", [[5.0], [7.0]])


def test_a_value_that_only_a_view_was_made_of():
    def run(x):
        doubled = x * 2
        flat = doubled.reshape(-1)
        return flat + 1

    stepper = stepper_of(run, torch.ones(2, 2))
    step_through(stepper, until="add")
    stepper.override("mul:0", [[1.0, 2.0], [3.0, 4.0]])
    view = stepper.steps[stepper.position - 1].outputs[0]
    assert stepper.value(view).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert stepper.finish().value.tolist() == [2.0, 3.0, 4.0, 5.0]


def test_one_of_several_outputs():
    def run(x):
        values, indices = torch.max(x, 1)
        return values + 1, indices + 1

    stepper = stepper_of(run, torch.tensor([[1.0, 5.0], [7.0, 2.0]]))
    stepper.override("max:1", [5, 6])
    step_through(stepper, until="add")
    stepper.override("max:0", [-1, -2])
    values, indices = stepper.finish().value
    assert values.tolist() == [0.0, -1.0]
    assert indices.tolist() == [6, 7]


def test_a_parameter_and_an_input_for_this_run_only():
    model = nn.Linear(2, 1, bias=False)
    x = torch.tensor([[1.0, 2.0]])
    kept = state_of(model.weight)

    def run(model, x):
        y = model(x)
        y.sum().backward()
        return y

    stepper = stepper_of(run, model, x)
    stepper.override("weight:0", [[3.0, 4.0]])
    assert stepper.next.op_type == "t"
    assert stepper.value("weight:0").tolist() == [[3.0, 4.0]]
    step_through(stepper, until="mm")
    stepper.override("input/x:0", [[10.0, 20.0]])
    capture = stepper.finish()
    assert capture.value.item() == 30 + 80
    assert model.weight.grad.tolist() == [[10.0, 20.0]] or model.weight.grad.tolist() == [
        [1.0, 2.0]
    ]
    assert state_of(model.weight) == kept
    assert x.tolist() == [[1.0, 2.0]]
    (datum,) = capture.dump.by_tensor("input/x:0")
    assert capture.dump.value(datum).tolist() == [[10.0, 20.0]]


def test_an_update_is_made_to_the_parameter_itself():
    weight = nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = torch.optim.SGD([weight], lr=0.5)

    def run(weight):
        (weight * 3).sum().backward()
        optimizer.step()

    stepper = stepper_of(run, weight)
    assert stepper.next.inputs == ("input/weight:0",)
    stepper.override("input/weight:0", [10.0, 10.0])
    step_through(stepper)
    assert stepper.value("mul:0").tolist() == [30.0, 30.0]
    assert weight.tolist() == [1.0 - 1.5, 2.0 - 1.5]


def test_random_ops_are_executed_all_the_same():
    def run(x):
        dropped = F.dropout(x, 0.5)
        return dropped, torch.rand(3)

    torch.manual_seed(1)
    plain = run(torch.ones(4))
    torch.manual_seed(1)
    stepper = stepper_of(run, torch.ones(4))
    step_through(stepper, until="bernoulli_")
    stepper.override("bernoulli_:0", [1.0, 1.0, 0.0, 0.0])
    dropped, rest = stepper.finish().value
    assert dropped.tolist() == [2.0, 2.0, 0.0, 0.0]
    assert torch.equal(rest, plain[1])


def test_too_late():
    def run(x):
        y = x + 1
        z = y * 2
        y.add_(1)
        return z - y

    stepper = stepper_of(run, torch.ones(2))
    step_through(stepper, until="add_")
    with pytest.raises(UserError, match=r"mul has used it.*before it is used"):
        stepper.override("add:0", [1, 1])
    with pytest.raises(UserError, match="add has used it"):
        stepper.override("input/x:0", [1, 1])
    stepper.override("mul:0", [0, 0])
    assert stepper.finish().value.tolist() == [-3.0, -3.0]


def test_the_last_op_is_done_again_with_another_input():
    x = torch.tensor([1.0, 2.0], requires_grad=True)

    def run(x):
        y = x * 2
        z = torch.exp(y)
        loss = (z * 3).sum()
        loss.backward()
        return loss

    stepper = stepper_of(run, x)
    step_through(stepper, until="mul_1")
    assert stepper.back().op_type == "detach"  # of what autograd keeps: a view
    assert stepper.back().op_type == "exp"
    assert stepper.next.node == "exp"
    stepper.override("mul:0", [0.0, 0.0])
    assert stepper.advance().step.node == "exp"
    assert stepper.value("exp:0").tolist() == [1.0, 1.0]
    assert stepper.next.node == "detach"
    stepper.advance()
    assert stepper.next.node == "mul_1"
    assert stepper.finish().value.item() == 6.0
    assert x.grad.tolist() == [6.0, 6.0]


def test_an_undone_op_gets_another_output():
    def run(x):
        y = x * 2
        y.add_(1)
        return y + 1

    stepper = stepper_of(run, torch.ones(2))
    step_through(stepper, until="add")
    stepper.back()
    assert stepper.next.node == "add_"
    stepper.override("add_:0", [8, 9])
    stepper.advance()
    assert stepper.value("add_:0").tolist() == [8.0, 9.0]
    stepper.take_back("add_:0")
    assert stepper.value("add_:0").tolist() == [3.0, 3.0]
    stepper.override("add_:0", [8, 9])
    assert stepper.finish().value.tolist() == [9.0, 10.0]


def test_overrides_are_taken_back():
    def run(x):
        y = x + 1
        z = y * 2
        return z - 1

    stepper = stepper_of(run, torch.ones(2))
    stepper.override("mul:0", [0, 0])
    stepper.override("add:0", [5, 5])
    step_through(stepper, until="mul")
    assert stepper.value("add:0").tolist() == [5.0, 5.0]
    stepper.take_back("add:0")
    assert stepper.value("add:0").tolist() == [2.0, 2.0]
    stepper.take_back("mul:0")
    with pytest.raises(UserError, match="add:0 is not overridden"):
        stepper.take_back("add:0")
    assert not stepper.overrides
    assert stepper.finish().value.tolist() == [3.0, 3.0]


def test_what_was_used_cannot_be_taken_back():
    stepper = stepper_of(lambda x: torch.exp(x + 1), torch.ones(2))
    stepper.override("add:0", [0, 0])
    step_through(stepper)
    with pytest.raises(UserError, match="exp has used it"):
        stepper.take_back("add:0")
    assert stepper.finish().value.tolist() == [1.0, 1.0]
