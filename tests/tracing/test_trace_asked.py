"""Of a program only that is watched which its trace block asks for."""

# ruff: noqa: PT012 - what raises is the whole block

import contextlib
import linecache
import threading

import pytest

import tfdbg_cli
from tfdbg_cli.tracing.errors import AbsentError, OutOfOrderError, TraceError

torch = pytest.importorskip("torch")
pytest.importorskip("greenlet")
pytestmark = pytest.mark.usefixtures("torch_engine")
nn = torch.nn


class Probe(nn.Module):
    """Looks whether somebody sees the ops that are done in it, then and after its children."""

    def __init__(self, child=None):
        super().__init__()
        self.child = child
        self.seen = []

    def look(self):
        # The stack of modes itself has the program's own only.
        self.seen.append(
            torch._C._dispatch_tls_is_dispatch_key_included(torch._C.DispatchKey.Python)
        )

    def forward(self, x):
        self.look()
        if self.child is not None:
            x = self.child(x)
            self.look()
        return torch.sin(x) + torch.sin(2 * x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a = Probe(Probe())
        self.b = Probe()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        first, second = self.a(x), self.b(x)
        return self.fc(first) * 2 + self.fc(second)

    def watched(self):
        return self.a.seen, self.a.child.seen, self.b.seen


@pytest.fixture
def net():
    return Net()


NOBODY = ([False, False], [False], [False])


def test_a_block_that_asks_for_nothing(net, x):
    with tfdbg_cli.trace(net, x) as t:
        pass
    assert net.watched() == NOBODY
    assert torch.equal(t.result, net(x))


def test_a_module_s_result(net, x):
    with tfdbg_cli.trace(net, x) as t:
        for name in ("a", "b"):
            _ = t.module(name).output
    assert net.watched() == NOBODY


def test_one_op(net, x):
    with tfdbg_cli.trace(net, x) as t:
        second = t["b/sin_1"].value
    assert net.watched() == ([False, False], [False], [True])
    assert torch.equal(second, torch.sin(2 * x))


def test_an_op_around_another_module(net, x):
    with tfdbg_cli.trace(net, x) as t:
        first = t["a/sin_1"].value
    assert net.watched() == ([True, True], [False], [False])
    assert torch.equal(first, torch.sin(2 * net.a.child(x)))


def test_an_op_inside_another_module(net, x):
    with tfdbg_cli.trace(net, x) as t:
        inner = t["a.child/sin"].value
    assert net.watched() == ([False, False], [True], [False])
    assert torch.equal(inner, torch.sin(x))


def test_ops_of_the_model_itself_and_of_a_second_call(net, x):
    with tfdbg_cli.trace(net, x) as t:
        doubled = t["mul"].value
        second = t["fc-1/addmm"].value
    assert net.watched() == NOBODY
    assert torch.equal(doubled, net.fc(net.a(x)) * 2)
    assert torch.equal(second, net.fc(net.b(x)))


def test_a_function_and_one_of_its_modules(net, x):
    def step():
        return net(x).sum().exp()

    with tfdbg_cli.trace(step) as t:
        second = t["b/sin_1"].value
        t["exp"].value = 5
    assert net.watched() == ([False, False], [False], [True])
    assert torch.equal(second, torch.sin(2 * x))
    assert t.result == 5


def test_the_code_in_the_block_is_the_run(net, x):
    with tfdbg_cli.trace(net) as t:
        out = net(x)
        second = t["b/sin_1"].value
        t["fc/addmm"].value[:] = 0
        total = out.sum()
    assert net.watched() == ([False, False], [False], [True])
    assert torch.equal(second, torch.sin(2 * x))
    assert torch.equal(total, net.fc(net.b(x)).sum())


def test_it_is_changed_as_if_all_were_watched(net, x):
    def changed(keep):
        results = []
        with tfdbg_cli.trace(net, x, keep=keep) as t:
            t["a/sin"].value = t["a/sin"].value * 3
        results.append(t.result)
        with tfdbg_cli.trace(net, x, keep=keep) as t:
            t["b/add"].value[:, 1] = 7
            t["mul"].value = torch.ones(3, 4)
        results.append(t.result)
        with tfdbg_cli.trace(net, x, keep=keep) as t:
            t["fc-1/t"].value = torch.eye(4)  # a view
        return [*results, t.result]

    for one, other in zip(changed(False), changed(True), strict=True):
        assert torch.equal(one, other)
    assert not torch.equal(changed(True)[0], net(x))


def all_ops(net):
    return net.watched() == ([True, True], [True], [True])


def test_what_the_text_does_not_tell_is_watched(net, x):
    names = ["b/sin", "b/sin_1"]
    with tfdbg_cli.trace(net, x) as t:
        values = [t[name].value for name in names]
    assert all_ops(net)
    assert torch.equal(values[1], torch.sin(2 * x))


def test_a_tracer_that_is_handed_on(net, x):
    def look(tracer):
        return tracer["b/sin_1"].value

    with tfdbg_cli.trace(net, x) as t:
        value = look(t)
    assert all_ops(net)
    assert torch.equal(value, torch.sin(2 * x))


def test_what_is_asked_after_the_block(net, x):
    with tfdbg_cli.trace(net, x) as t:
        _ = t["b/sin_1"].value
    assert all_ops(net)
    assert {"a/sin", "b/sin", "fc/addmm"} <= {datum.node_name for datum in t.dump.data()}


def test_gradients_of_ops_by_name(net, x):
    x.requires_grad_()
    with tfdbg_cli.trace(lambda: net(x).sum().backward()) as t:
        gradient = t["b/sin"].grad
    assert all_ops(net)
    assert gradient.shape == x.shape


def test_a_change_after_something_else_was_read(net, x):
    with tfdbg_cli.trace(net, x) as t:
        first = t["a/add"].value
        _ = t["b/sin"].value
        t["a/add"].value = first * 0
    assert all_ops(net)
    assert torch.equal(t.result, net.fc(torch.zeros(3, 4)) * 2 + net.fc(net.b(x)))


def test_what_is_written_after_the_run_has_gone_on(net, x):
    with (
        pytest.raises(OutOfOrderError, match=r"written into the value of a/add:0.*has gone on"),
        tfdbg_cli.trace(net, x) as t,
    ):
        first = t["a/add"].value
        _ = t["b/sin"].value
        first.zero_()


def test_names_that_there_are_not(net, x):
    with (
        pytest.raises(TraceError, match=r"has made no tensor b/sinn:0\. Did you mean b/sin:0"),
        tfdbg_cli.trace(net, x) as t,
    ):
        _ = t["b/sinn"].value
    with (
        pytest.raises(TraceError, match=r"has made no tensor c/sin:0\. Did you mean"),
        tfdbg_cli.trace(net, x) as t,
    ):
        _ = t["c/sin"].value


def test_a_dump_says_that_it_is_a_part(net, x):
    t = None

    def run():
        nonlocal t
        with tfdbg_cli.trace(net, x) as t:
            _ = t["b/sin_1"].value

    run()
    assert [datum.node_name for datum in t.dump.data() if "sin" in datum.node_name] == [
        "b/sin",
        "b/sin_1",
    ]
    assert any("Only the ops were recorded that" in text for text in t.dump.warnings)


def test_a_result_bit_for_bit_and_an_error_of_the_program(x):
    class Failing(nn.Module):
        def forward(self, x):
            try:
                torch.ones(2) @ torch.ones(3)
            except RuntimeError:
                x = x + 1
            raise LookupError("in the model")

    with pytest.raises(LookupError, match="in the model"), tfdbg_cli.trace(Failing(), x) as t:
        value = t["add"].value
    assert torch.equal(value, x + 1)
    with pytest.raises(LookupError, match="in the model"), tfdbg_cli.trace(Failing(), x) as t:
        _ = t.module("").output
    with pytest.raises(LookupError, match="in the model"), tfdbg_cli.trace(Failing(), x):
        pass


def test_modules_that_take_a_shortcut_take_it(x):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    given = torch.linspace(-1, 1, 48).reshape(2, 3, 8)
    with torch.no_grad():
        with tfdbg_cli.trace(encoder, given) as t:
            first = t["layers.0/_transformer_encoder_layer_fwd"].value
            second = t.module("layers.1").output
        assert torch.equal(first, encoder.layers[0](given))
        assert torch.equal(second, encoder.layers[1](first))
        assert torch.equal(t.result, encoder(given))
        with (
            pytest.raises(TraceError, match=r"has not called layers\.0\.linear1"),
            tfdbg_cli.trace(encoder, given) as t,
        ):
            _ = t.module("layers.0.linear1").output


def test_what_threads_do_is_recorded(net, x):
    def step():
        results = []
        thread = threading.Thread(target=lambda: results.append(net.b(x)))
        thread.start()
        thread.join()
        return results[0] + net.b(x * 2)

    with tfdbg_cli.trace(step, keep=True) as t:
        pass
    names = [datum.node_name for datum in t.dump.data() if "sin" in datum.node_name]
    assert "b/sin" in names
    assert len(names) == 4
    with tfdbg_cli.trace(step) as t:
        value = t["b/sin"].value
    assert torch.equal(value, torch.sin(x))
    assert torch.equal(t.result, step())


def test_modes_of_the_program_and_compiled_code(net, x):
    compiled = torch.compile(nn.Sequential(net.fc, nn.Tanh()), backend="eager")
    expected = compiled(x)
    with tfdbg_cli.trace(compiled, x) as t:
        hidden = t.module("0").output.clone()
    assert torch.equal(hidden, net.fc(x))
    assert torch.equal(t.result, expected)
    with torch.inference_mode():
        with tfdbg_cli.trace(nn.Sequential(net.fc, nn.ReLU(inplace=True)), x) as t:
            t.module("0").output[:] = -1
        assert not t.result.any()


def test_traces_in_traces(net, x):
    def inner():
        with tfdbg_cli.trace(net, x) as t:
            hidden = t.module("fc").output
        return hidden + net.fc(x)

    with tfdbg_cli.trace(inner) as t:
        last = t.module("fc").output
    assert torch.equal(last, net.fc(x))
    with tfdbg_cli.trace(net, x) as t:
        first = t.module("a").output
        with tfdbg_cli.trace(net, x * 2) as u:
            other = u.module("a").output
            u.module("fc").output = torch.zeros(3, 4)
        second = t.module("b").output
    assert torch.equal(first, net.a(x))
    assert torch.equal(other, net.a(x * 2))
    assert torch.equal(second, net.b(x))
    assert torch.equal(t.result, net(x))
    assert torch.equal(u.result, net.fc(net.b(x * 2)))


class Seen(nn.Module):
    """Notes what is changed around it while it is called: the code of calls, modes."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.plain = nn.Module.__call__.__code__
        self.seen = []

    def forward(self, x):
        x = x.sin()
        is_called_plainly = nn.Module.__call__.__code__ is self.plain
        has_modes = torch._C._len_torch_dispatch_stack() > 0
        self.seen.append((is_called_plainly, has_modes))
        return x


def test_the_rest_of_the_run_is_left_alone(x):
    net = nn.Sequential(Seen(), Seen(), Seen())
    call, backward = nn.Module.__call__, torch.Tensor.backward
    classes = []

    def step():
        classes.append((nn.Module.__call__, torch.Tensor.backward))
        return net(x).sum()

    with tfdbg_cli.trace(step) as t:
        value = t["1/sin"].value
    assert [module.seen for module in net] == [[(False, False)], [(True, True)], [(True, False)]]
    with tfdbg_cli.trace(step) as t:
        hidden = t.module("1").output
    seen = [module.seen[1:] for module in net]
    assert seen == [[(False, False)], [(False, False)], [(True, False)]]
    assert torch.equal(value, x.sin().sin())
    assert torch.equal(value, hidden)
    with tfdbg_cli.trace(step) as t:
        pass
    assert {module.seen[2] for module in net} == {(True, False)}
    assert t.result == x.sin().sin().sin().sum()
    # The classes of PyTorch are what they were, even while calls are seen.
    assert classes == [(call, backward)] * 3


def test_what_is_to_come_is_still_changed_when_the_block_is_over(x):
    net = nn.Sequential(Seen(), Seen(), Seen())
    with tfdbg_cli.trace(net, x) as t:
        t.module("2").output = torch.ones(3, 4)
        _ = t.module("0").output
    assert torch.equal(t.result, torch.ones(3, 4))
    with tfdbg_cli.trace(net, x) as t:
        t["2/sin"].value = torch.ones(3, 4)
        _ = t["0/sin"].value
    assert torch.equal(t.result, torch.ones(3, 4))
    x.requires_grad_()

    def step():
        net(x).sum().backward()
        return x.grad

    with tfdbg_cli.trace(step) as t:
        hidden = t.module("1").output
        t[hidden].grad = torch.zeros(3, 4)
    assert not t.result.any()


class Penalty(nn.Module):
    """Trains in the middle of its forward pass."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((4,), 2.0))
        self.optimizer = torch.optim.SGD([self.weight], 0.5)

    def forward(self, x):
        loss = (x * self.weight).sum()
        (gradient,) = torch.autograd.grad(loss, self.weight, create_graph=True)
        (gradient * self.weight).sum().backward()
        self.optimizer.step()
        ones = torch.ones_like(x)
        return ones * 3 + self.weight.detach().add_(1)


OF_PENALTY = """
with tfdbg_cli.trace(net, x, keep={keep}) as t:
    value = t["0/{op}"].value
result = t.result
"""


@pytest.mark.parametrize(
    "op", ["ones_like", "mul", "mul_1", "mul_2", "sum", "sum_1", "add_", "add"]
)
def test_backward_passes_and_steps_within_a_module_are_none_of_its_forward_pass(op, x, known):
    one, other = (
        known(OF_PENALTY.format(keep=keep, op=op), net=nn.Sequential(Penalty()), x=x)
        for keep in (False, True)
    )
    assert torch.equal(one["value"], other["value"])
    assert torch.equal(one["result"], other["result"])
    assert not torch.equal(one["value"], torch.ones(()))  # that of a backward pass


def test_what_a_program_leaves_on_is_off_after_its_run(x):
    def leave():
        torch.set_grad_enabled(False)
        torch.autograd.graph.saved_tensors_hooks(abs, abs).__enter__()
        torch.inference_mode(True).__enter__()
        torch.autocast("cpu").__enter__()
        torch.utils._device.DeviceContext("meta").__enter__()
        return x + 1

    def state():
        return (
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.is_autocast_enabled("cpu"),
            torch.empty(1).device.type,
            torch._C._len_torch_function_stack(),
        )

    before = state()
    for _ in range(2):
        with tfdbg_cli.trace(leave) as t:
            pass
        assert state() == before
        assert (x.clone().requires_grad_() * 2).requires_grad
        assert t.result.shape == x.shape


def test_names_are_those_of_the_modules_as_they_are_now():
    model = nn.Sequential(nn.ReLU(), nn.Sequential(nn.Tanh(), nn.Sigmoid()))
    x = torch.randn(3)

    def seen():
        found = []
        for name in ("0/relu", "1.0/tanh", "1.1/sigmoid", "1.0/sigmoid", "1.1/tanh", "2/tanh"):
            with contextlib.suppress(AbsentError):
                found.append((name, read(name)))
        return [(name, value.tolist()) for name, value in found]

    def read(name):
        code = f"with tfdbg_cli.trace(model, x) as t:\n    value = t['{name}'].value\n"
        file = f"<names {name}>"
        linecache.cache[file] = (len(code), None, code.splitlines(True), file)
        space = {"tfdbg_cli": tfdbg_cli, "model": model, "x": x}
        exec(compile(code, file, "exec"), space)
        return space["value"]

    first, inner = x.relu(), model[1]
    assert seen() == [
        ("0/relu", first.tolist()),
        ("1.0/tanh", first.tanh().tolist()),
        ("1.1/sigmoid", first.tanh().sigmoid().tolist()),
    ]
    inner[0], inner[1] = inner[1], inner[0]
    assert seen() == [
        ("0/relu", first.tolist()),
        ("1.0/sigmoid", first.sigmoid().tolist()),
        ("1.1/tanh", first.sigmoid().tanh().tolist()),
    ]
    model.append(nn.Tanh())
    assert [name for name, _ in seen()] == ["0/relu", "1.0/sigmoid", "1.1/tanh", "2/tanh"]
    del model[2]
    model[1] = nn.Sequential(nn.Tanh())
    assert seen() == [("0/relu", first.tolist()), ("1.0/tanh", first.tanh().tolist())]
