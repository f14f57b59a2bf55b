"""Trace blocks that read and change what modules of PyTorch are given and give."""

# ruff: noqa: PT012 - what raises is the whole block

import numpy as np
import pytest
from program_server import python_in
from trace_kit import Model

import tfdbg_cli
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines import numpy as small
from tfdbg_cli.tracing.errors import OutOfOrderError, TraceError

torch = pytest.importorskip("torch")
pytest.importorskip("greenlet")
pytestmark = pytest.mark.usefixtures("torch_engine")
nn = torch.nn


class Block(nn.Module):
    """Gives a tuple, and gets an argument by name."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, hidden, *, scale=1.0):
        return torch.tanh(self.fc(hidden)) * scale, scale


class Net(nn.Module):
    """Blocks one after the other, and one head that is called twice."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        for block in self.blocks:
            x, _ = block(hidden=x, scale=2.0)
        return self.head(x) + self.head(x * 3)


@pytest.fixture
def net():
    return Net()


@pytest.fixture(params=["only modules", "all ops"])
def keep(request):
    """With and without a recording of all ops around it."""
    return request.param == "all ops"


def first_of(net, x):
    return net.blocks[0](hidden=x, scale=2.0)[0]


def rest_of(net, hidden):
    hidden = net.blocks[1](hidden=hidden, scale=2.0)[0]
    return net.head(hidden) + net.head(hidden * 3)


def test_what_modules_get_and_give_is_the_program_s_own(net, x, keep):
    with tfdbg_cli.trace(net, x, keep=keep) as t:
        whole = t.module("").input
        args, kwargs = t.module("blocks.0").inputs
        hidden, scale = t.module("blocks.0").output
        again = t.module(net.blocks[0]).output
        inner = t.module("blocks.1.fc").output
        first, second = t.module("head").output, t.module("head", call=1).output
        result = t.module("").output
    assert whole is x
    assert args == ()
    assert kwargs["hidden"] is x
    assert again[0] is hidden
    assert scale == 2
    assert torch.equal(hidden, first_of(net, x))
    assert torch.equal(inner, net.blocks[1].fc(hidden))
    assert torch.equal(first + second, result)
    assert t.result is result
    assert torch.equal(result, net(x))


def test_what_is_written_into_an_output_is_what_the_program_has(net, x, keep):
    with tfdbg_cli.trace(net, x, keep=keep) as t:
        t.module("blocks.0").output[0][:, -1] = 0
    hidden = first_of(net, x)
    hidden[:, -1] = 0
    assert torch.equal(t.result, rest_of(net, hidden))


@pytest.mark.parametrize("is_read", [True, False])
def test_an_output_is_replaced(net, x, keep, is_read):
    with tfdbg_cli.trace(net, x, keep=keep) as t:
        hidden = t.module("blocks.0").output[0] if is_read else torch.ones(3, 4)
        t.module("blocks.0").output = (hidden * 0 + 1, None)
        t.module("head-1").output = np.ones((3, 2))
        seen = t.module("head", 1).output
    assert torch.equal(seen, torch.ones(3, 2))
    hidden = net.blocks[1](hidden=torch.ones(3, 4), scale=2.0)[0]
    assert torch.equal(t.result, net.head(hidden) + 1)


def test_an_input_is_replaced(net, x, keep):
    with tfdbg_cli.trace(net, x, keep=keep) as t:
        t.module("blocks.0").input = x * 2
        args, kwargs = t.module("blocks.1").inputs
        t.module("blocks.1").inputs = args, {**kwargs, "scale": 0.0}
    assert torch.equal(kwargs["hidden"], first_of(net, x * 2))
    assert torch.equal(t.result, net.head.bias * 2 + torch.zeros(3, 2))


def test_what_does_not_fit_is_an_error_at_the_block(net, x):
    def assigned(value, path="blocks.0"):
        with tfdbg_cli.trace(net, x) as t:
            t.module(path).output = value
        return t.result

    with pytest.raises(UserError, match=r"The output of blocks\.0 is a tuple; the value is a Ten"):
        assigned(torch.zeros(3, 4))
    with pytest.raises(UserError, match=r"tensor of shape \[3, 2\] on cpu; the value is a float64"):
        assigned(torch.zeros(3, 2, dtype=torch.float64), "head")
    with pytest.raises(UserError, match=r"has the shape \[3, 2\]; the value has \[7\]"):
        assigned(np.zeros(7), "head")
    result = assigned(torch.zeros(3, 2), "head")
    assert torch.equal(result, net.head(last_of(net, x) * 3))


def last_of(net, x):
    return net.blocks[1](hidden=first_of(net, x), scale=2.0)[0]


def test_calls_that_were_passed_or_never_come(net, x):
    call = nn.Module.__call__
    with (
        pytest.raises(OutOfOrderError, match=r"The output of blocks\.0 was passed"),
        tfdbg_cli.trace(net, x) as t,
    ):
        _ = t.module("head").output
        _ = t.module("blocks.0").output
    with (
        pytest.raises(OutOfOrderError, match=r"The input of head was passed.*input before its out"),
        tfdbg_cli.trace(net, x) as t,
    ):
        _ = t.module("head").output
        _ = t.module("head").input
    with (
        pytest.raises(OutOfOrderError, match=r"The output of blocks\.0 can't be changed any more"),
        tfdbg_cli.trace(net, x) as t,
    ):
        _ = t.module("blocks.0").output
        _ = t.module("head").output
        t.module("blocks.0").output = None
    with (
        pytest.raises(TraceError, match="has called head 2 times: there is no call 2"),
        tfdbg_cli.trace(net, x) as t,
    ):
        _ = t.module("head-2").output
    with (
        pytest.raises(TraceError, match=r"no module block\.0 in Net\. Did you mean blocks"),
        tfdbg_cli.trace(net, x) as t,
    ):
        _ = t.module("block.0").output
    with (
        pytest.raises(TraceError, match="has not called Linear"),
        tfdbg_cli.trace(net, x) as t,
    ):
        t.module(nn.Linear(1, 1)).output = torch.zeros(1)
        done = True
    assert done
    with (
        pytest.raises(TraceError, match="asked for by its path or as an object"),
        tfdbg_cli.trace(net, x) as t,
    ):
        _ = t.module(3).output
    with (
        pytest.raises(TraceError, match="The run is over: the output of head was not read"),
        tfdbg_cli.trace(net, x) as t,
    ):
        _ = t.result
        _ = t.module("head").output
    net(x)
    assert nn.Module.__call__ is call


def test_with_keep_calls_are_read_in_any_order(net, x):
    with tfdbg_cli.trace(net, x, keep=True) as t:
        last = t.module("head", 1).output
        first = t.module("head").output
        hidden = t.module("blocks.0").output[0]
    assert torch.equal(first + last, t.result)
    assert torch.equal(t.module("blocks.1").inputs[1]["hidden"], hidden)


def test_an_error_in_the_block_leaves_the_run_alone(net, x):
    def step():
        results.append(net(x))

    results = []
    with pytest.raises(ZeroDivisionError), tfdbg_cli.trace(step) as t:
        _ = t.module("blocks.0").output
        t.module("blocks.1").output = (torch.zeros(3, 4), 0)
        t.module("head").output = torch.zeros(3, 2)
        _ = 1 / 0
    assert torch.equal(results[0], net(x))


def test_stop(net, x):
    results = []

    def step():
        results.append(net(x).sum().backward())

    with tfdbg_cli.trace(step) as t:
        hidden = t.module("blocks.0").output[0]
        _ = t[hidden].grad
        t.stop()
    assert not results
    assert torch._C._current_autograd_node() is None
    with tfdbg_cli.trace(step) as t:
        _ = t.module("blocks.0").output
        t.stop()
    assert not results


def test_functions_and_their_modules(net, x):
    first, second = net, nn.Linear(2, 3)

    def step():
        return second(first(x))

    with tfdbg_cli.trace(step) as t:
        hidden = t.module("blocks.1").output[0]
        whole = t.module("").output
        t.module("second").input = whole * 0
        t.module(second).output[:, 0] = 5
    assert torch.equal(hidden, last_of(net, x))
    assert torch.equal(whole, net(x))
    assert torch.equal(t.result[:, 1:], second.bias[1:].expand(3, 2))
    assert torch.equal(t.result[:, 0], torch.full((3,), 5.0))
    with (
        pytest.raises(TraceError, match=r"has not called blocks\.2\. Did you mean blocks"),
        tfdbg_cli.trace(step) as t,
    ):
        _ = t.module("blocks.2").output


def gradients(net, x, change=lambda g: g):
    net.zero_grad()
    hidden = first_of(net, x)
    found = []
    hidden.register_hook(lambda g: found.append(change(g)) or found[0])
    rest_of(net, hidden).sum().backward()
    return net.blocks[0].fc.weight.grad.clone(), found[0]


@pytest.mark.parametrize("how", ["read", "set", "read, then set", "written"])
def test_gradients_of_hidden_states(net, x, how):
    def step():
        net.zero_grad()
        net(x).sum().backward()

    with tfdbg_cli.trace(step) as t:
        hidden = t.module("blocks.0").output[0]
        assert t[hidden].value is hidden
        if how == "set":
            t[hidden].grad = torch.ones(3, 4)
        else:
            gradient = t[hidden].grad
        if how == "read, then set":
            t[hidden].grad = gradient * 0 + 1
        elif how == "written":
            gradient[:] = 1
    weight = net.blocks[0].fc.weight.grad.clone()
    plain, expected = gradients(net, x)
    if how in ("read", "read, then set"):
        assert torch.equal(gradient, expected)
    changed, _ = gradients(net, x, torch.ones_like)
    assert torch.equal(weight, plain if how == "read" else changed)
    assert not torch.equal(plain, changed)


def test_a_set_gradient_reaches_the_parameters(net, x):
    def step():
        net.zero_grad()
        net(x).sum().backward()

    with tfdbg_cli.trace(step) as t:
        hidden = t.module("blocks.0").output[0]
        t[hidden].grad = torch.zeros(3, 4)
    assert not net.blocks[0].fc.weight.grad.any()
    assert net.blocks[1].fc.weight.grad.any()
    with (
        pytest.raises(TraceError, match="program's own tensor"),
        tfdbg_cli.trace(step) as t,
    ):
        t[t.module("blocks.0").output[0]].value = 0
    with (
        pytest.raises(TraceError, match="A trace block knows tensors by name"),
        tfdbg_cli.trace(step) as t,
    ):
        _ = t[torch.zeros(3)]


def test_the_code_in_the_block_is_the_run(net, x):
    with tfdbg_cli.trace(net) as t:
        scale = 2.0
        out = net(x * scale)
        hidden = t.module("blocks.0").output[0] * scale
        t.module("blocks.1").output[0].zero_()
        total = out.sum()
    assert torch.equal(hidden, first_of(net, x * 2) * 2)
    assert torch.equal(total, (net.head.bias * 2 + torch.zeros(3, 2)).sum())


def test_in_a_loop_a_module_means_its_last_call_and_its_next(net, x):
    seen, results = [], []
    with tfdbg_cli.trace(net) as t:
        for number in range(3):
            t.module("blocks.1").output = (torch.full((3, 4), float(number)), 0)
            results.append(net(x * number))
            seen.append(t.module(net.blocks[0]).output[0])
    for number in range(3):
        assert torch.equal(seen[number], first_of(net, x * number))
        hidden = torch.full((3, 4), float(number))
        assert torch.equal(results[number], net.head(hidden) + net.head(hidden * 3))
    with (
        pytest.raises(OutOfOrderError, match="no output of head up to here"),
        tfdbg_cli.trace(net) as t,
    ):
        for _ in range(1):
            _ = t.module("head").output
            net(x)


def test_later_calls_of_a_module(net, x):
    with tfdbg_cli.trace(net).every(2) as t:
        t.module("blocks.1").output[0].zero_()
    results = [net(x) for _ in range(3)]
    assert torch.equal(results[0], net.head.bias * 2 + torch.zeros(3, 2))
    assert torch.equal(results[1], results[0])
    assert not torch.equal(results[2], results[0])


def test_runs(net, x):
    for t in tfdbg_cli.runs(net, iter([x, x * 2])):
        hidden = t.module("blocks.0").output[0]
        t.module("head").output.zero_()
        last = t.module("head", 1).output
        assert torch.equal(t.result, last)
    assert torch.equal(hidden, first_of(net, x * 2))


def test_a_step_that_is_only_looked_at_is_the_plain_one(net, x):
    def train(traced):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
        optimizer = torch.optim.Adam(model.parameters(), 0.1)

        def step():
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        for _ in range(3):
            if traced:
                with tfdbg_cli.trace(step) as t:
                    hidden = t.module("1").output
                    _ = t[hidden].grad
            else:
                step()
        return [parameter.detach() for parameter in model.parameters()]

    for one, other in zip(train(False), train(True), strict=True):
        assert torch.equal(one, other)


def test_a_checkpoint_s_second_pass_is_no_call(x):
    from torch.utils.checkpoint import checkpoint

    block = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    calls = []
    block.register_forward_pre_hook(lambda *_: calls.append(1))

    def step():
        checkpoint(block, x, use_reentrant=False).sum().backward()

    with (
        pytest.raises(TraceError, match="has called Sequential once: there is no call 1"),
        tfdbg_cli.trace(step) as t,
    ):
        _ = t.module(block, call=1).output
    assert len(calls) == 2


def test_engines_without_modules():
    with small.Graph().as_default():
        model = Model()
        with (
            pytest.raises(UserError, match="Runs of the numpy engine have no modules"),
            tfdbg_cli.trace(model.sess, model.total, model.feed) as t,
        ):
            _ = t.module("h").output


GENERATION = """
import torch, tfdbg_cli
from transformers import GPT2Config, GPT2LMHeadModel
torch.manual_seed(0)
config = GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=20, n_positions=32,
                    bos_token_id=0, eos_token_id=None)
model = GPT2LMHeadModel(config).eval()
ids = torch.tensor([[1, 2, 3]])
chosen = []
with tfdbg_cli.trace(model.generate, ids, max_new_tokens=4, do_sample=False, pad_token_id=0) as t:
    for step in range(4):
        hidden = t.module("transformer.h.1", call=step).output
        logits = t.module("lm_head", call=step).output
        logits[:, -1] = 0
        logits[:, -1, step + 5] = 1
        chosen.append(logits[:, -1].argmax().item())
assert t.result[0, 3:].tolist() == [5, 6, 7, 8] == chosen, t.result
plain = model.generate(ids, max_new_tokens=4, do_sample=False, pad_token_id=0)
assert plain[0, 3:].tolist() != [5, 6, 7, 8]
with torch.no_grad():
    with tfdbg_cli.trace(model, ids) as t:
        mlp = t["transformer.h.0.mlp.c_proj/addmm"].value
        out = t.module("transformer.h.0.mlp").output
        block = t.module("transformer.h.0").output
        before = (block[0] if isinstance(block, tuple) else block).clone()
        (block[0] if isinstance(block, tuple) else block)[:, -1] = 0
        attention = t.module("transformer.h.1.ln_1").input
assert torch.equal(mlp.view_as(out), out)
assert not attention[:, -1].any() and before[:, -1].any()
assert not torch.equal(t.result.logits, model(ids).logits)
print("done")
"""


def test_generation(tmp_path):
    pytest.importorskip("transformers")
    script = tmp_path / "generation.py"
    script.write_text(GENERATION)
    for program in ([str(script)], ["-m", "tfdbg_cli", "--batch", "-c", "run -n", str(script)]):
        ran = python_in(tmp_path, *program)
        assert ran.returncode == 0, ran.stderr[-2000:]
        assert "done" in ran.stdout
