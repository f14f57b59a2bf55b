"""Backward passes and what breaks them: checkpoints, custom functions, hooks, threads."""

import threading

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_kit import Mlp, capture, on_thread

from tfdbg_cli.dumps.sources import own_frame


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


def phases(run):
    return {name: node.attributes.get("_phase", "") for name, node in run.nodes.items()}


def test_gradients_are_named_after_the_op_that_they_are_of():
    model = Mlp()
    with capture() as run:
        model(torch.ones(4, 6)).sum().backward()
    assert {"gradients/fc2/addmm_grad/mm", "gradients/fc2/addmm_grad/mm_1"} <= set(run.nodes)
    assert "gradients/norm/native_batch_norm_grad/native_batch_norm_backward" in run.nodes
    assert "gradients/fc1.weight/AccumulateGrad/detach" in run.nodes
    assert "gradients/ones_like" in run.nodes
    found = phases(run)
    assert all(found[name] == "backward" for name in found if name.startswith("gradients/"))


def test_the_gradient_of_a_parameter_is_a_value_of_its_own():
    model = nn.Linear(2, 1)
    with capture() as run:
        model(torch.ones(1, 2)).sum().backward()
    value = run.value("gradients/weight/AccumulateGrad/detach:0")
    assert value.tolist() == model.weight.grad.tolist()


def test_gradients_that_add_up():
    w = torch.ones(2, requires_grad=True)
    with capture() as run:
        for _ in range(2):
            (w * 3).sum().backward()
    node = run.nodes["gradients/w/AccumulateGrad/add_"]
    assert node.inputs[0] == "gradients/w/AccumulateGrad/detach:0"
    assert run.value("gradients/w/AccumulateGrad/detach:0").tolist() == [3, 3]
    assert run.value("gradients/w/AccumulateGrad/add_:0").tolist() == [6, 6]


def test_a_gradient_of_an_earlier_run_is_a_leaf():
    model = nn.Linear(2, 1)
    model(torch.ones(1, 2)).sum().backward()
    with capture() as run:
        model(torch.ones(1, 2)).sum().backward()
    node = run.nodes["gradients/weight/AccumulateGrad/add_"]
    assert node.inputs[0] == "input/weight.grad:0"


def test_a_custom_function_is_named_by_its_class():
    x = torch.ones(3, requires_grad=True)
    with capture() as run:
        Square.apply(x).sum().backward()
    assert run.nodes["mul"].inputs == ("input/x:0", "input/x:0")
    assert run.nodes["gradients/SquareBackward/mul"].attributes["_forward_node"] == "mul"
    assert run.value("gradients/x/AccumulateGrad/detach:0").tolist() == [2, 2, 2]


def test_a_custom_function_in_a_module():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = Part()

        def forward(self, x):
            return self.part(x)

    class Part(nn.Module):
        def forward(self, x):
            return Square.apply(x)

    x = torch.ones(3, requires_grad=True)
    with capture() as run:
        Net()(x).sum().backward()
    assert "Net.part/mul" in run.nodes
    assert "gradients/Net.part/SquareBackward/mul" in run.nodes


def test_hooks_have_a_scope_of_their_own():
    x = torch.ones(3, requires_grad=True)
    with capture() as run:
        y = x.exp()
        y.register_hook(lambda grad: grad * 3)
        y.sum().backward()
    hooks = [node for name, node in run.nodes.items() if "/hook/" in name]
    assert [node.op_type for node in hooks] == ["mul"]
    assert own_frame(hooks[0].frames).function == "<lambda>"
    assert run.value("gradients/exp_grad/mul:0").tolist() == pytest.approx([3 * 2.7182817] * 3)


def test_hooks_of_modules():
    model = Mlp()
    seen = []
    model.fc1.register_forward_hook(lambda module, args, out: out * 2)
    model.fc1.register_full_backward_hook(lambda module, grads, outs: seen.append(outs[0].sum()))
    x = torch.ones(4, 6, requires_grad=True)
    with capture() as run:
        model(x).sum().backward()
    assert run.nodes["fc1/mul"].attributes["_phase"] == "forward"
    assert seen
    assert [name for name in run.nodes if "/hook/" in name and name.endswith("sum")]


def test_double_backward():
    x = torch.tensor([2.0], requires_grad=True)
    with capture() as run:
        (first,) = torch.autograd.grad(x**3, x, create_graph=True)
        (second,) = torch.autograd.grad(first, x)
    assert second.item() == 12
    assert run.recorder.tensor_name(first).startswith("gradients/pow_grad/mul")
    assert any(name.startswith("gradients/pow_grad/pow_grad/") for name in run.nodes)
    assert not any("gradients/gradients" in name for name in run.nodes)


def test_backward_inside_of_a_module_is_no_recomputation():
    class Force(nn.Module):
        def forward(self, x):
            x = x.detach().requires_grad_()
            (force,) = torch.autograd.grad((x**2).sum(), x)
            return force + 1

    with capture() as run:
        Force()(torch.ones(2))
    found = phases(run)
    assert "recompute" not in found.values()
    assert found["Force/add"] == "forward"
    assert any(name.startswith("gradients/Force/pow_grad/") for name in found)


class Checkpointed(nn.Module):
    def __init__(self, use_reentrant):
        super().__init__()
        self.use_reentrant = use_reentrant
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=self.use_reentrant)

    def inner(self, x):
        return torch.tanh(self.linear(x)) * 2


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpoint_computes_again(use_reentrant):
    model = Checkpointed(use_reentrant)
    x = torch.ones(2, 3, requires_grad=True)
    with capture() as run:
        model(x).sum().backward()
    found = phases(run)
    assert found["linear/addmm"] == "forward"
    assert found["recompute/linear/addmm"] == "recompute"
    assert found["recompute/tanh"] == "recompute"
    assert found["gradients/linear/addmm_grad/mm"] == "backward"
    assert found["gradients/tanh_grad/tanh_backward"] == "backward"
    assert run.value("linear/addmm:0").tolist() == run.value("recompute/linear/addmm:0").tolist()
    frames = run.nodes["recompute/tanh"].frames
    assert own_frame(frames).function == "inner"


def test_a_checkpointed_module_in_a_module():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([Mlp(), nn.Linear(3, 2)])

        def forward(self, x):
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return x

    with capture() as run:
        Net()(torch.ones(4, 6)).sum().backward()
    # What comes last is not needed again.
    for name in ("blocks.0.fc1/addmm", "blocks.0/relu", "blocks.1/t"):
        assert {name, f"recompute/{name}"} <= set(run.nodes), name
    assert run.recorder.ops.failure is None
    assert "gradients/blocks.0.fc1/addmm_grad/mm" in run.nodes


def test_in_place_ops_on_views_of_what_needs_a_gradient():
    w = torch.ones(4, requires_grad=True)
    with capture() as run:
        y = w * 1
        y[:2].mul_(3)
        y.sum().backward()
    assert w.grad.tolist() == [3, 3, 1, 1]
    assert run.value("gradients/w/AccumulateGrad/detach:0").tolist() == [3, 3, 1, 1]
    assert "gradients/mul__grad/mul" in run.nodes


def test_a_thread_that_is_recorded_on_too():
    w = torch.ones(3, requires_grad=True)
    with capture() as run:
        loss = (w * 3).sum()

        def work():
            with on_thread(run.recorder):
                loss.backward()

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert run.nodes["gradients/mul_grad/mul"].attributes["_forward_node"] == "mul"
    assert w.grad.tolist() == [3, 3, 3]


def test_threads_do_not_mix_their_graphs():
    def work(recorder, factor):
        w = torch.full((2,), factor, requires_grad=True)
        with on_thread(recorder):
            for _ in range(20):
                (w * factor).exp().sum().backward()

    with capture() as run:
        threads = [
            threading.Thread(target=work, args=(run.recorder, factor)) for factor in (0.5, 0.25)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    nodes = run.nodes
    assert len(run.of_type("exp")) == 40
    for node in nodes.values():
        if node.name.startswith("gradients/exp") and node.op_type == "mul":
            forward = node.attributes["_forward_node"]
            assert node.name.startswith(f"gradients/{forward}_grad/")
            assert forward in run.dump.graph().ancestors(node.name)
    assert not run.dump.warnings
