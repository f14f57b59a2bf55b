"""What is said of ops doesn't depend on when somebody looks: after each of them, or at the end."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_kit import capture

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
        with run.recorder.on_thread():
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


PROGRAMS = [
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
    then, now = _told(program, _at_the_end), _told(program, _at_each_op)
    assert [node[0] for node in then[0]] == [node[0] for node in now[0]]
    for one, other in zip(then[0], now[0], strict=True):
        assert one == other
    assert then[1:] == now[1:]


def test_nothing_is_put_into_words_before_somebody_looks():
    with capture() as run:
        torch.ones(3).exp().sum()
        raw = run.recorder.ops.raw
        assert [record.name for record in raw] == ["", "", ""]
        assert run.recorder.op_count == 3
        assert [record.name for record in run.recorder.ops.records] == ["ones", "exp", "sum"]
        torch.ones(3)
        assert raw[-1].name == ""
    assert raw[-1].name == "ones_1"
