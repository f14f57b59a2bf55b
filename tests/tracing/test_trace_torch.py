"""Trace blocks around calls of PyTorch functions and modules, and around code that makes them."""

# ruff: noqa: PT012 - what raises is the whole block

import copy
import sys
import traceback

import pytest

import tfdbg_cli
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.tracing.errors import TraceBlockError, TraceError

torch = pytest.importorskip("torch")
pytest.importorskip("greenlet")
pytestmark = pytest.mark.usefixtures("torch_engine", "one_thread")


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(4, 2)
    )


@pytest.fixture
def x():
    return torch.linspace(-1, 1, 6).reshape(2, 3)


def test_a_call_is_the_run(net, x):
    net.eval()
    with tfdbg_cli.trace(net, x) as t:
        h = t["1/relu:0"].value
        t["1/relu:0"].value = torch.zeros_like(h)
    assert torch.equal(h, torch.relu(net[0](x)))
    assert torch.equal(t.result, net[3].bias.expand(2, 2))


def test_a_training_step_that_is_only_watched_is_the_plain_one(net, x):
    def train(model, traced):
        optimizer = torch.optim.Adam(model.parameters(), 0.1)
        torch.manual_seed(1)

        def step(batch):
            optimizer.zero_grad()
            loss = model(batch).pow(2).sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        losses = []
        for _ in range(3):
            if traced:
                with tfdbg_cli.trace(step, x) as t:
                    _ = t["1/relu:0"].value
                losses.append(t.result)
            else:
                losses.append(step(x))
        return losses

    twin = copy.deepcopy(net)
    assert torch.equal(torch.stack(train(net, True)), torch.stack(train(twin, False)))
    for one, other in zip(net.parameters(), twin.parameters(), strict=True):
        assert torch.equal(one, other)


def test_gradients(net, x):
    net.eval()

    def step(batch):
        loss = net(batch).pow(2).sum()
        loss.backward()
        return loss

    with tfdbg_cli.trace(step, x) as t:
        h = t["1/relu:0"].value
        late, early = t["1/relu"].grad, t["0/addmm"].grad
        weight = t["0.weight"].grad
    first = net[0](x)
    second = torch.relu(first)
    loss = net[3](second).pow(2).sum()
    expected = torch.autograd.grad(loss, [second, first, net[0].weight])
    for found, wanted in zip((late, early, weight), expected, strict=True):
        assert torch.equal(found, wanted)
    assert torch.equal(h, second)
    assert not net[0].weight._backward_hooks


def test_a_gradient_that_there_is_not(net, x):
    net.eval()
    with (
        pytest.raises(UserError, match="computed no gradient with respect to 1/relu:0"),
        tfdbg_cli.trace(net, x) as t,
    ):
        _ = t["1/relu"].value
        _ = t["1/relu"].grad


@pytest.mark.parametrize("is_first", [True, False])
def test_the_code_in_the_block_is_the_run(net, x, is_first):
    net.eval()
    if is_first:
        with tfdbg_cli.trace(net) as t:
            out = net(x)
            scale = 3
            h = t["1/relu:0"].value
            t["1/relu:0"].value = h * 3
    else:
        with tfdbg_cli.trace(net) as t:
            h = t["1/relu:0"].value
            t["1/relu:0"].value = h * 3
            out = net(x)
            scale = 3
    expected = torch.relu(net[0](x))
    assert torch.equal(h, expected)
    assert torch.equal(out, net[3](expected * 3))
    assert scale == 3
    assert t.result is None


def test_what_watches_waits_for_what_it_mentions(net, x):
    net.eval()
    values = []
    with tfdbg_cli.trace(net) as t:
        factor = 2.0
        y = net(x * factor)
        values.append(t["1/relu:0"].value * factor)
        z = y.sum()
        total = t["sum:0"].value + z.detach() * 0
    assert torch.equal(values[0], torch.relu(net[0](x * 2)) * 2)
    assert torch.equal(total, net(x * 2).sum().detach())


def test_where_all_mentions_the_tracer_it_runs_as_it_stands(net, x):
    net.eval()
    found = []
    with tfdbg_cli.trace(net) as t:
        for index in range(2):
            t["1/relu:0" if index == 0 else "1-1/relu:0"].value = torch.full((2, 4), float(index))
            out = net(x)
            found.append(t["3/addmm:0" if index == 0 else "3-1/addmm:0"].value)
    assert torch.equal(found[0], net[3].bias.expand(2, 2))
    assert torch.equal(found[1], out)
    with (
        pytest.raises(tfdbg_cli.OutOfOrderError, match="has not been computed up to here"),
        tfdbg_cli.trace(net) as t,
    ):
        for _ in range(2):
            _ = t["1/relu:0"].value
            net(x)


def test_a_name_that_never_came(net, x):
    with (
        pytest.raises(TraceError, match=r"has made no tensor 1/rel:0\. Did you mean 1/relu"),
        tfdbg_cli.trace(net, x) as t,
    ):
        _ = t["1/rel"].value
    with (
        pytest.raises(TraceError, match=r"no tensor 1/rel:0\. Did you mean 1/relu") as caught,
        tfdbg_cli.trace(net, x) as t,
    ):
        t["1/rel"].value = torch.zeros(2, 4)  # the line
        done = True
    assert done
    lines = [entry.line for entry in traceback.extract_tb(caught.value.__traceback__)]
    assert lines[-1] == 't["1/rel"].value = torch.zeros(2, 4)  # the line'


def test_a_value_that_was_passed(net, x):
    with (
        pytest.raises(tfdbg_cli.OutOfOrderError) as caught,
        tfdbg_cli.trace(net, x) as t,
    ):
        _ = t["3/addmm"].value
        _ = t["0/addmm"].value
    assert "0/addmm  <--- asked for" in str(caught.value)
    with tfdbg_cli.trace(net, x, keep=True) as t:
        _ = t["3/addmm"].value
        first = t["0/addmm"].value
    assert torch.equal(first, net[0](x))


def test_stop_ends_the_call(net, x):
    done = []

    def step():
        net(x)
        done.append(1)

    with tfdbg_cli.trace(step) as t:
        _ = t["1/relu"].value
        t.stop()
    assert not done
    with pytest.raises(TraceError, match="has no result"):
        _ = t.result
    net(x)


def test_an_error_of_the_call_and_one_of_the_block(net, x):
    def step():
        return net(x) @ x.t()

    with pytest.raises(RuntimeError) as plain:
        step()
    with pytest.raises(RuntimeError) as caught, tfdbg_cli.trace(step) as t:
        pass
    assert str(caught.value) == str(plain.value)
    with pytest.raises(ZeroDivisionError), tfdbg_cli.trace(net, x) as t:
        _ = t["1/relu"].value
        _ = 1 / 0
    net(x)


def test_a_module_s_next_calls(net, x):
    net.eval()
    with tfdbg_cli.trace(net).every(2) as t:
        t["1/relu"].value = torch.zeros(2, 4)
    results = [net(x) for _ in range(3)]
    assert torch.equal(results[0], net[3].bias.expand(2, 2))
    assert torch.equal(results[1], results[0])
    assert not torch.equal(results[2], results[0])
    with (
        pytest.raises(TraceError, match="later calls of a function"),
        tfdbg_cli.trace(net.forward, x).every(),
    ):
        pass


def test_runs(net, x):
    net.eval()
    batches = iter([x, x * 2])
    found = [t["1/relu"].value for t in tfdbg_cli.runs(net, batches)]
    assert [torch.equal(h, torch.relu(net[0](x * f))) for h, f in zip(found, (1, 2), strict=True)]
    with pytest.raises(TypeError, match="need the arguments"):
        tfdbg_cli.runs(net)


class Failing(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 4)

    def forward(self, x):
        torch.relu(self.first(x))
        raise LookupError("in the model")


def test_the_program_s_own_error_goes_before_a_name_that_never_came(x):
    model = Failing()
    with pytest.raises(LookupError, match="in the model"), tfdbg_cli.trace(model, x) as t:
        _ = t["second/addmm"].value
    with pytest.raises(LookupError, match="in the model"), tfdbg_cli.trace(model, x) as t:
        _ = t["first/addmm"].grad
    with pytest.raises(LookupError, match="in the model"), tfdbg_cli.trace(model) as t:
        seen = t["second/addmm"].value
        out = model(x)
    with pytest.raises(LookupError, match="in the model"):
        for t in tfdbg_cli.runs(model, x):
            _ = t["second/addmm"].value
    with tfdbg_cli.trace(model).every(1) as t:
        _ = t["second/addmm"].value
    with pytest.raises(LookupError, match="in the model"):
        model(x)
    assert "seen" not in locals()
    assert "out" not in locals()


def test_in_a_loop_a_name_means_the_last_call(net, x):
    net.eval()
    outputs, values = [], []
    with tfdbg_cli.trace(net) as t:
        for scale in range(3):
            outputs.append(net(x * scale))
            values.append(t["3/addmm"].value)
    assert len({float(value.sum()) for value in values}) == 3
    for one, other in zip(outputs, values, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("layer", ["1/relu", "3/addmm"])
def test_in_a_loop_an_assignment_means_the_next_call(net, x, layer):
    net.eval()
    outputs = []
    with tfdbg_cli.trace(net) as t:
        for number in range(3):
            t[layer].value = torch.full((2, 4 if layer == "1/relu" else 2), float(number))
            outputs.append(net(x))
    for number, output in enumerate(outputs):
        value = torch.full((2, 4 if layer == "1/relu" else 2), float(number))
        assert torch.equal(output, net[3](value) if layer == "1/relu" else value)


def test_in_a_loop_an_assignment_after_the_call_changes_its_output(net, x):
    sums = []
    with tfdbg_cli.trace(net) as t:
        for number in range(3):
            out = net(x)
            t["3/addmm"].value = torch.full((2, 2), float(number))
            sums.append(out.sum().item())
    assert sums == [0, 4, 8]


def test_a_name_that_is_set_again_below_its_use_is_refused(net, x):
    with (
        pytest.raises(TraceBlockError, match="`scale` is set") as caught,
        tfdbg_cli.trace(net) as t,
    ):
        scale = 2
        t["1/relu"].value = t["1/relu"].value * scale
        scale = 3
        out = net(x)
    assert caught.value.text.strip() == "scale = 3"
    assert "out" not in locals()
    assert "scale" not in locals()


class Trainer:
    def watch(self, model, x):
        self.model = model
        with tfdbg_cli.trace(self.model) as self.t:
            self.h = self.t["3/addmm"].value
            self.out = self.model(x)
            self.loss = self.out.sum()
            self.seen = self.t["sum"].value


def test_the_tracer_may_be_an_attribute(net, x):
    net.eval()
    trainer = Trainer()
    trainer.watch(net, x)
    assert torch.equal(trainer.h, net(x))
    assert torch.equal(trainer.out, trainer.h)
    assert torch.equal(trainer.seen, trainer.loss)


def test_parameters_by_themselves(net, x):
    with tfdbg_cli.trace(net, x) as t:
        weight = t[net[0].weight].value
    assert torch.equal(weight, net[0].weight)
    with (
        pytest.raises(TraceError, match=r'a parameter of a module is t\["layer.weight"\]'),
        tfdbg_cli.trace(lambda: net(x)) as t,
    ):
        _ = t[net[0].weight]


def test_calls_without_what_the_block_asks_for_are_left_alone(net, x):
    net.eval()
    with tfdbg_cli.trace(net).every(1) as t:
        _ = t["1/rel"].value
    with pytest.warns(RuntimeWarning, match="was not applied: .* no tensor 1/rel:0. Did you mean"):
        found = net(x)
    assert torch.equal(net(x), found)
    t.remove()


@pytest.mark.skipif(sys.gettrace() is not None, reason="then Python can only print it")
def test_an_error_of_a_run_whose_loop_was_left_is_raised_there(x):
    model, after = Failing(), []

    def by_break():
        for t in tfdbg_cli.runs(model, x):
            _ = t["first/addmm"].value
            break
        after.append(1)

    def by_return():
        for t in tfdbg_cli.runs(model, x):
            return t["first/addmm"].value
        return None

    def by_zip():
        for _ in zip(range(1), tfdbg_cli.runs(model, x), strict=False):
            pass
        after.append(1)

    for loop in (by_break, by_return, by_zip):
        with pytest.raises(LookupError, match="in the model") as caught:
            loop()
        assert loop.__name__ in [entry.name for entry in caught.traceback]
        assert sys.gettrace() is None
    assert not after
