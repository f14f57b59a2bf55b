"""What is said of ops doesn't depend on when somebody looks: after each of them, or at the end."""

from __future__ import annotations

import gc
import threading

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_kit import capture, on_thread

from tfdbg_cli.engines.torch.record.op_record import OpRecord
from tfdbg_cli.engines.torch.runs.exact_check import Verdicts

torch.set_num_threads(1)


def _model():
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


def _optimizer_steps(run):
    for make in (torch.optim.Adam, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=True)):
        model = _model()
        optimizer = make(model.parameters())
        for _ in range(2):
            loss = nn.functional.cross_entropy(model(torch.randn(6, 4)), torch.zeros(6).long())
            optimizer.zero_grad()
            loss.backward()
            run.recorder.enter_phase("optimizer", optimizer)
            optimizer.step()
            run.recorder.leave_phase()


def _closures(run):
    w = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.LBFGS([w], max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = (w - 2).square().sum()
        loss.backward()
        return loss

    run.recorder.enter_phase("optimizer", optimizer)
    optimizer.step(closure)
    run.recorder.leave_phase()


def _views_and_writes(run):
    a = torch.zeros(4, 3)
    part = a[1]
    part.add_(1)
    a.t().mul_(2)
    a.sum()
    with torch.no_grad():
        part.copy_(torch.ones(3))
    (a + part).relu_()
    a.data.exp()


def _saved_by_autograd(run):
    w = torch.ones(3, requires_grad=True)
    y = w.exp().tanh()
    (grad,) = torch.autograd.grad(y.sum(), w, create_graph=True)
    grad.square().sum().backward()


def _hooks_and_functions(run):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2 + 0

    w = torch.ones(3, requires_grad=True)
    y = Double.apply(w)
    y.register_hook(lambda grad: grad * 1)

    def halve(p):
        p.grad.mul_(0.5)

    w.register_post_accumulate_grad_hook(halve)
    (y[:2] * 3).sum().backward()


def _recomputed(run):
    model = _model()
    x = torch.randn(6, 4, requires_grad=True)
    checkpoint(model, x, use_reentrant=False).sum().backward()


def _before_the_run(run):
    run.recorder.look_ahead()
    x = torch.randn(6, 4)
    unused = x + 1
    batch = x * 2
    run.recorder.begin_run()
    _model()(batch).sum()
    del unused


def _errors(run):
    x = torch.ones(2)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            x @ torch.ones(3)
    x.exp()


def _threads(run):
    x = torch.ones(3, requires_grad=True)
    y = x * 2

    def work():
        with on_thread(run.recorder):
            (y.sin() * x).sum().backward()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    y.cos()


def _scripts(run):
    @torch.jit.script
    def scripted(x):
        return torch.tanh(x) * 2 + 1

    scripted(torch.ones(3))


def _lists_and_outs(run):
    a, b = torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)
    joined = torch.cat([a, b, a])
    values, places = torch.topk(joined, 2)
    out = torch.empty(2, 3)
    torch.add(a, b, out=out)
    torch.add(out, b, alpha=3)
    torch._foreach_mul_([a, b], 2.0)
    torch._foreach_add([a, out], [b, b])
    joined[torch.tensor([0, 1])] = 5
    torch.stack([values, places.float()]).unbind()
    a.item() if a.numel() == 1 else a.tolist()
    nn.functional.max_pool2d(torch.randn(1, 1, 4, 4), 2, return_indices=True)


def _made_again(run):
    x = torch.randn(4, 3, requires_grad=True)
    hidden = x.relu().sigmoid().softmax(-1)
    part = hidden.detach()[1:]
    hidden.log().sum().backward()
    x.data.mul_(2)
    (x.data + part[0]).sum()
    x.grad.view(-1).data.add_(1)
    x.grad.exp()
    y = torch.ones(3)
    y.data = torch.zeros(4)
    y.add_(1)
    y.set_(torch.full((2,), 3.0))
    y.exp()


def _out_of_the_ordinary(run):
    class Wrapped(torch.Tensor):
        pass

    a = torch.ones(2, 3)
    b = torch.eye(3).to_sparse() * 2
    b.to_dense().sum()
    torch.tensor([1, 2]).to(torch.complex64).abs()
    (a.as_subclass(Wrapped) * 2).sum()
    a.mul_(2)
    torch.quantize_per_tensor(a, 0.5, 0, torch.qint8).dequantize()
    torch.func.vmap(lambda row: row * 2)(a)
    torch.func.jvp(torch.sin, (a,), (torch.ones_like(a),))
    a.to("meta").exp()
    torch.empty(0).sum()
    a.exp()


PROGRAMS = [
    _lists_and_outs,
    _made_again,
    _out_of_the_ordinary,
    _optimizer_steps,
    _closures,
    _views_and_writes,
    _saved_by_autograd,
    _hooks_and_functions,
    _recomputed,
    _before_the_run,
    _errors,
    _threads,
    _scripts,
]


def _told(program, looks):
    """All that a dump tells of a program that somebody looks at in this way."""
    torch.manual_seed(0)
    with capture() as run:
        looks(run.recorder.ops)
        program(run)
        gc.collect()  # what a class of the program's holds goes at some time
    assert not run.recorder.ops.troubles
    nodes = [
        (
            node.name,
            node.op_type,
            list(node.inputs),
            dict(node.attributes),
            node.device,
            node.frames,
        )
        for node in run.dump.graph().nodes.values()
    ]
    values = [(each.tensor_name, run.dump.value(each).tolist()) for each in run.dump.data()]
    return nodes, repr(values), run.dump.run_info().results


def _at_each_op(ops):
    ops.is_eager = True


def _at_the_end(ops):
    assert not ops.is_eager


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_makes_no_difference_when_somebody_looks(program):
    then, now = (_told(program, looks) for looks in (_at_the_end, _at_each_op))
    assert [node[0] for node in then[0]] == [node[0] for node in now[0]]
    for one, other in zip(then[0], now[0], strict=True):
        assert one == other
    assert then[1:] == now[1:]


def test_nothing_is_put_into_words_before_somebody_looks():
    with capture() as run:
        torch.ones(3).exp().sum()
        raw = run.recorder.ops.raw
        assert [record.name for record in raw] == ["", "", ""]
        assert run.recorder.ops.count == 3
        assert [record.name for record in run.recorder.ops.records] == ["ones", "exp", "sum"]
        torch.ones(3)
        assert run.recorder.ops.raw[-1].name == ""
    assert raw[-1].name == "ones_1"


def _records():
    return [each for each in gc.get_objects() if type(each) is OpRecord]


def test_no_record_is_made_of_an_op_before_somebody_looks():
    before = len(_records())
    with capture(hold=False, check=Verdicts()) as run:
        x = torch.ones(3, 4)
        y = x.relu().mul(2)
        y.add_(x).t().sum()
        torch.cat([x, y]).topk(2)
        assert len(_records()) == before
        assert run.recorder.ops.count == 8
        assert [record.op_type for record in run.recorder.ops.raw][-2:] == ["cat", "topk"]
        assert len(_records()) == before + 8
