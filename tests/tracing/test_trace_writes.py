"""What a block writes into a value acts, or is an error."""

# ruff: noqa: PT012 - what raises is the whole block

import numpy as np
import pytest
from trace_kit import W, X, total_of

import tfdbg_cli
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.tracing.errors import OutOfOrderError, TraceError

torch = pytest.importorskip("torch")
pytest.importorskip("greenlet")
pytestmark = pytest.mark.usefixtures("torch_engine")

Y = X @ W


def test_what_is_written_into_a_value_is_seen_by_the_rest(model):
    with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
        t["h"].value[:, 0] = 0
    changed = Y.copy()
    changed[:, 0] = 0
    assert t.result == total_of(changed)
    with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
        h = t["h"].value
        h *= 2
        square = t["square"].value
        assert t["h"].value is h
    np.testing.assert_array_equal(square, (2 * Y) ** 2)
    h[:] = 0  # the run is over, and this is the program's own
    assert t.result == total_of(2 * Y)


def test_what_is_written_too_late_is_an_error(model):
    with (
        pytest.raises(OutOfOrderError, match="written into the value of h:0") as caught,
        tfdbg_cli.trace(model.sess, model.total, model.feed) as t,
    ):
        h = t["h"].value
        _ = t["total"].value
        h[0, 0] = 0
    assert "square  <--- has used it" in str(caught.value)
    assert "copy it first" in str(caught.value)
    with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
        h = t["h"].value.copy()
        _ = t["total"].value
        h[0, 0] = 0
    assert t.result == total_of(Y)


def test_every_run_of_a_loop(model):
    for t in tfdbg_cli.runs(model.sess, model.total, model.feed, times=2):
        t["h"].value[...] = 1
        assert t.result == 4


class Net(torch.nn.Module):
    """``a(x) -> view -> transpose -> chunk``, of which all are used."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a = torch.nn.Linear(4, 6)

    def forward(self, x):
        first = self.a(x)
        turned = first.view(2, 2, 6).transpose(0, 1)
        one, other = torch.chunk(turned, 2, -1)
        return one * 2 + other * 3 + first.sum()


@pytest.fixture
def net():
    return Net()


@pytest.fixture
def x():
    return torch.linspace(-1, 1, 16).reshape(4, 4)


def write_through_version(h):
    h[:, -1] = 0


def write_through_data(h):
    h.data[:, -1] = 0


def write_through_numpy(h):
    h.numpy()[:, -1] = 0


@pytest.mark.parametrize("write", [write_through_version, write_through_data, write_through_numpy])
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_pytorch_writes_act(net, x, write, mode):
    with mode():
        with tfdbg_cli.trace(net, x) as t:
            h = t["a/linear" if mode is torch.inference_mode else "a/addmm"].value
            write(h)
            _ = t["add"].value
        expected = net.a(x).clone()
        expected[:, -1] = 0
        net.a.forward = lambda x: expected
        assert torch.equal(t.result, net(x))


@pytest.mark.parametrize("write", [write_through_version, write_through_data, write_through_numpy])
def test_pytorch_writes_too_late_are_errors(net, x, write):
    with (
        torch.no_grad(),
        pytest.raises(OutOfOrderError, match="written into the value of a/addmm:0"),
        tfdbg_cli.trace(net, x) as t,
    ):
        h = t["a/addmm"].value
        _ = t["add_1"].value
        write(h)


def test_what_the_program_writes_is_not_the_blocks(net, x):
    def program(x):
        first = net.a(x)
        first.detach().numpy()[:] = 1  # nobody is told of it
        return first.relu() * 2

    with tfdbg_cli.trace(program, x) as t:
        h = t["a/addmm"].value
        late = t["relu"].value
        after = t["mul"].value
    assert torch.equal(h, net.a(x))
    assert late.eq(1).all()
    assert t.result.eq(2).all()
    assert after.eq(2).all()


@pytest.mark.parametrize(("change", "most"), [(False, 1), (True, 4)])
def test_big_values_are_copied_once_for_the_block(net, x, monkeypatch, change, most):
    copies = []
    clone = torch.Tensor.clone
    monkeypatch.setattr(torch.Tensor, "clone", lambda t, **how: copies.append(t) or clone(t, **how))
    with tfdbg_cli.trace(net, x) as t:
        h = t["a/addmm"].value
        if change:
            t["a/addmm"].value = h * 2
    assert len(copies) <= most


def test_where_the_block_is_the_run_writes_act_before_the_next_op(net, x):
    with tfdbg_cli.trace(net) as t:
        out = net(x) + 0 * len(t.names)
        t["add_2"].value.zero_()
        total = out.sum() + 0 * len(t.names)
    assert total == 0
    with (
        pytest.raises(OutOfOrderError, match="written into the value of a/addmm:0"),
        tfdbg_cli.trace(net) as t,
    ):
        out = net(x) + 0 * len(t.names)
        t["a/addmm"].value.zero_()
        out = out.sum() + 0 * len(t.names)


def plain_with(net, x, name, value):
    """What the net gives if a tensor has another value."""
    first = net.a(x)
    viewed = value if name == "view" else first.view(2, 2, 6)
    turned = value if name == "transpose" else viewed.transpose(0, 1)
    one, other = torch.chunk(turned, 2, -1)
    other = value if name == "split:1" else other
    return one * 2 + other * 3 + first.sum()


@pytest.mark.parametrize("name", ["view", "transpose", "split:1"])
@pytest.mark.parametrize("how", ["read, then assigned", "written", "twice", "assigned"])
def test_a_view_is_given_another_value(net, x, name, how):
    with tfdbg_cli.trace(net, x) as t:
        if how == "assigned":
            t[name].value = np.ones((2, 2, 3 if name == "split:1" else 6))
        elif how == "written":
            t[name].value[:] = 1
        else:
            value = t[name].value
            if how == "twice":
                t[name].value = value * 5
            t[name].value = torch.ones_like(value)
            assert t[name].value.sum() == value.numel()
    with torch.no_grad():
        value = torch.ones(2, 2, 3 if name == "split:1" else 6)
        assert torch.equal(t.result, plain_with(net, x, name, value))


def test_what_a_view_was_made_of_stays_as_it_is(net, x):
    with tfdbg_cli.trace(net, x, keep=True) as t:
        first = t["a/addmm"].value
        t["view"].value = torch.zeros(2, 2, 6)
        turned = t["transpose"].value
    assert torch.equal(t["a/addmm"].value, first)
    assert torch.equal(first, net.a(x))
    assert not turned.any()


def gradients(net, x, change):
    """Those of the layer's weight and of what comes out of it, with others for the view."""
    net.zero_grad()
    first = net.a(x)
    first.retain_grad()
    viewed = first.view(2, 2, 6)
    viewed.register_hook(change)
    one, other = torch.chunk(viewed.transpose(0, 1), 2, -1)
    (one * 2 + other * 3 + first.sum()).square().sum().backward()
    return net.a.weight.grad.clone(), first.grad


@pytest.mark.parametrize("how", ["read, then set", "set", "written"])
def test_a_gradient_is_set(net, x, how):
    def step():
        net.zero_grad()
        net(x).square().sum().backward()

    with tfdbg_cli.trace(step) as t:
        if how == "set":
            t["view"].grad = torch.full((2, 2, 6), 2.0)
        elif how == "written":
            t["view"].grad[:] = 2
        else:
            g = t["view"].grad
            t["view"].grad = g * 0 + 2
            assert torch.equal(t["view"].grad, torch.full_like(g, 2))
        outer = t["a/addmm"].grad
    weight, first = gradients(net, x, lambda g: torch.full_like(g, 2))
    assert torch.equal(net.a.weight.grad, weight)
    assert torch.equal(outer, first)


def test_a_gradient_of_a_parameter_is_set(net, x):
    def step():
        net.zero_grad()
        net(x).sum().backward()

    with tfdbg_cli.trace(step) as t:
        t["a.weight"].grad = torch.full((6, 4), 7.0)
    assert torch.equal(net.a.weight.grad, torch.full((6, 4), 7.0))
    assert not net.a.weight._backward_hooks


def test_where_the_block_is_the_run_a_gradient_is_set_before_the_backward_pass(net, x):
    with tfdbg_cli.trace(net) as t:
        out = net(x) * len(t.names)
        t["mul_2"].grad = torch.zeros(2, 2, 3)
        (out + len(t.names)).sum().backward()
    assert not net.a.weight.grad.any()


def test_gradients_that_can_t_be_set(net, x):
    def step(frozen=False):
        net.zero_grad()
        net.requires_grad_(not frozen)
        loss = net(x).sum()
        return loss if frozen else loss.backward()

    with (
        pytest.raises(UserError, match="backward pass has gone on with it"),
        tfdbg_cli.trace(step) as t,
    ):
        g = t["add_1"].grad
        _ = t["a/addmm"].grad
        t["add_1"].grad = g
    with (
        pytest.raises(TraceError, match="written into the gradient of add_1:0"),
        tfdbg_cli.trace(step) as t,
    ):
        g = t["add_1"].grad
        _ = t["a/addmm"].grad
        g.zero_()
    with pytest.raises(UserError, match=r"has the shape \[4, 6\]"), tfdbg_cli.trace(step) as t:
        t["a/addmm"].grad = torch.zeros(3)
    with (
        pytest.raises(UserError, match="doesn't require a gradient"),
        tfdbg_cli.trace(step, True) as t,
    ):
        t["a/addmm"].grad = torch.zeros(4, 6)
    net.requires_grad_(True)
    with (
        pytest.raises(TraceError, match="computed no gradient with respect to a/addmm:0"),
        tfdbg_cli.trace(net, x) as t,
    ):
        t["a/addmm"].grad = torch.zeros(4, 6)
    with (
        pytest.raises(TraceError, match="has made no tensor b/addmm:0"),
        tfdbg_cli.trace(step) as t,
    ):
        t["b/addmm"].grad = torch.zeros(4, 6)


def test_gradients_of_graphs_go_by_their_names(model):
    with (
        pytest.raises(UserError, match=r"engine has no \.grad"),
        tfdbg_cli.trace(model.sess, model.total, model.feed) as t,
    ):
        t["h"].grad = Y
