"""Values that tensors of a stepped PyTorch call may have, and what would be without them."""

import ml_dtypes
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from stepping_kit import step_through, stepper_of
from torch import nn

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.stepping.walk import Walk


def test_values_that_do_not_fit():
    def run(x):
        y = x + 1
        return y.argmax() * 2, y.item() if y.numel() == 1 else None

    stepper = stepper_of(run, torch.tensor([1.0, 2.0]))
    stepper.advance()
    with pytest.raises(UserError, match=r"has the shape \[2\]; the value has \[3\]"):
        stepper.override("add:0", [1, 2, 3])
    with pytest.raises(UserError, match="is float32; the value is complex128"):
        stepper.override("add:0", [1j, 2])
    with pytest.raises(UserError, match="can't have this value"):
        stepper.override("add:0", ["one", "two"])
    with pytest.raises(UserError, match='"add" is not a tensor'):
        stepper.override("add", [1, 2])
    with pytest.raises(UserError, match="There is no add:1"):
        stepper.override("add:1", [1, 2])
    assert not stepper.overrides
    stepper.advance()
    with pytest.raises(UserError, match="is int64; the value is float64"):
        stepper.override("argmax:0", np.array(0.5))
    with pytest.raises(UserError, match="int64 can't hold it"):
        stepper.override("argmax:0", np.array(2**63, np.uint64))
    stepper.override("argmax:0", np.array(1.0))
    assert stepper.finish().value[0].item() == 2


def test_a_value_that_turns_out_not_to_fit():
    calls = []

    class Counted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            calls.append(1)
            return x + torch.rand(2)

    def run(x):
        return Counted.apply(x) * 2

    for goes_on in ("advance", "finish"):
        torch.manual_seed(0)
        plain = run(torch.ones(2))
        torch.manual_seed(0)
        stepper = stepper_of(run, torch.ones(2))
        stepper.override("add:0", [1, 2, 3])
        if goes_on == "advance":
            step_through(stepper, until="add")
        with pytest.raises(UserError, match=r"has the shape \[2\]"):
            getattr(stepper, goes_on)()
        assert stepper.next.node == "add"
        with pytest.raises(UserError, match=r"has the shape \[2\]"):
            stepper.advance()
        stepper.take_back("add:0")
        assert stepper.advance().step.node == "add"
        assert torch.equal(stepper.finish().value, plain)


def test_an_override_that_nothing_came_of_is_told():
    stepper = stepper_of(lambda x: x + 1, torch.ones(2))
    stepper.override("mul:0", [1, 2])
    dump = stepper.finish().dump
    assert any("mul:0 was overridden, and no op" in warning for warning in dump.warnings)


@pytest.mark.parametrize("when", ["at the beginning", "as the next op", "afterwards"])
def test_an_underscore_that_was_forgotten(when):
    model = nn.Sequential(nn.Linear(2, 2), nn.Softmax(-1))
    stepper = stepper_of(model, torch.ones(1, 2))
    assert not stepper.has("1/softmax:0")
    if when == "at the beginning":
        stepper.override("1/softmax:0", [[1, 0]])
    step_through(stepper, until="1/_softmax")
    if when == "as the next op":
        stepper.override("1/softmax:0", [[1, 0]])
    stepper.advance()
    if when == "afterwards":
        stepper.override("1/softmax:0", [[1, 0]])
    assert Walk(stepper).index("1/softmax") == stepper.position - 1
    assert stepper.has("1/softmax:0")
    assert stepper.value("1/softmax:0").tolist() == [[1.0, 0.0]]
    assert list(stepper.overrides) == ["1/_softmax:0"]
    assert torch.equal(stepper.original("1/softmax:0"), model(torch.ones(1, 2)))
    capture = stepper.finish()
    assert capture.value.tolist() == [[1.0, 0.0]]
    assert [text for text in capture.dump.warnings if "no op has" in text] == []


def test_an_override_under_a_plain_name_is_taken_back():
    model = nn.Sequential(nn.Linear(2, 2), nn.Softmax(-1))
    stepper = stepper_of(model, torch.ones(1, 2))
    stepper.override("1/softmax:0", [[1, 0]])
    step_through(stepper, until="1/_softmax")
    stepper.take_back("1/softmax:0")
    assert torch.equal(stepper.finish().value, model(torch.ones(1, 2)))


def test_values_of_all_kinds():
    def run(x):
        return x.to(torch.bfloat16) + 1

    stepper = stepper_of(run, torch.zeros(2))
    step_through(stepper, until="add")
    name = stepper.steps[0].outputs[0]
    stepper.override(name, np.array([0.5, 1.5], ml_dtypes.bfloat16))
    stepper.override(name, torch.tensor([0.5, 2.5], requires_grad=True))
    result = stepper.finish().value
    assert result.dtype == torch.bfloat16
    assert result.tolist() == [1.5, 3.5]


def test_the_users_value_is_copied():
    value = torch.tensor([1.0, 2.0])
    stepper = stepper_of(lambda x: (x + 1).mul_(2), torch.zeros(2))
    stepper.override("add:0", value)
    value.zero_()
    stepper.overrides["add:0"].sum()
    assert stepper.finish().value.tolist() == [2.0, 4.0]
    assert value.tolist() == [0.0, 0.0]


def test_inference_tensors():
    def run(x):
        with torch.inference_mode():
            return (x + 1) * 2

    stepper = stepper_of(run, torch.ones(2))
    stepper.advance()
    stepper.override("add:0", [3.0, 4.0])
    assert stepper.finish().value.tolist() == [6.0, 8.0]


def test_sparse_tensors_cannot_be_overridden():
    stepper = stepper_of(lambda x: x.to_sparse().coalesce().to_dense(), torch.eye(2))
    while "sparse" not in stepper.advance().step.op_type:
        pass
    name = stepper.steps[stepper.position - 1].outputs[0]
    with pytest.raises(UserError, match="only dense tensors"):
        stepper.override(name, torch.ones(2, 2))
    assert stepper.finish().value.tolist() == torch.eye(2).tolist()


def test_what_would_be_without_overrides():
    x = torch.tensor([1.0, 2.0], requires_grad=True)

    def run(x):
        y = torch.exp(x)
        dropped = F.dropout(y * 2, 0.5)
        dropped.add_(1)
        beside = x - 1
        loss = (dropped * beside).sum()
        loss.backward()
        return loss

    def every_value(**overrides):
        torch.manual_seed(0)
        stepper = stepper_of(run, x)
        for name, value in overrides.items():
            stepper.override(f"{name}:0", value)
        step_through(stepper)
        x.grad = None
        return stepper

    plain = every_value()
    other = every_value(exp=[0.0, 0.0])
    state = torch.get_rng_state()
    names = [name for step in plain.steps for name in step.outputs if plain.has(name)]
    assert len(names) > 10
    for name in names:
        original = other.original(name)
        assert original is not None, name
        assert torch.equal(original, plain.value(name)), name
    assert not torch.equal(other.value("mul:0"), plain.value("mul:0"))
    assert torch.equal(other.value("sub:0"), plain.value("sub:0"))
    assert other.original("nothing:0") is None
    assert torch.equal(torch.get_rng_state(), state)

    parameter = every_value(**{"input/x": [0.0, 0.0]})
    for name in names:
        original = parameter.original(name)
        assert original is None or torch.equal(original, plain.value(name)), name
    assert parameter.original("input/x:0").tolist() == [1.0, 2.0]
    assert torch.equal(parameter.original("exp:0"), plain.value("exp:0"))
    assert parameter.finish().error is None


def test_after_an_override_that_was_computed_already():
    stepper = stepper_of(lambda x: torch.exp(x + 1) * 2, torch.ones(2))
    step_through(stepper, until="exp")
    stepper.override("add:0", [0, 0])
    step_through(stepper)
    assert stepper.original("add:0").tolist() == [2.0, 2.0]
    assert torch.equal(stepper.original("mul:0"), torch.exp(torch.full((2,), 2.0)) * 2)
    assert stepper.value("mul:0").tolist() == [2.0, 2.0]


def test_what_only_the_op_knows_is_not_told():
    @torch.library.custom_op("stepping_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    stepper = stepper_of(lambda x: twice(x + 1) - 1, torch.ones(2))
    stepper.override("add:0", [0, 0])
    step_through(stepper)
    assert stepper.original("add:0").tolist() == [2.0, 2.0]
    assert stepper.original("sub:0") is None
    assert stepper.finish().value.tolist() == [-1.0, -1.0]
