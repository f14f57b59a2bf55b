"""Runs watched at the borders of their modules: gradients that are made outside of modules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from modules_kit import HEAD, TAIL, alike, all_bad, first_bad, frames, lines_left, watched


def _with_root(folder: Path, total: str) -> Path:
    """A program whose loss is a root of the squares' sum or mean, and of 0 in step 2."""
    path = folder / "program.py"
    path.write_text(
        f"{HEAD}    def forward(self, x):\n        return x * self.weight\n{TAIL}".replace(
            "return F.cross_entropy(out, y)",
            f"return (out * (0.0 if STEP == 2 else 1.0)).square().{total}().sqrt()",
        )
    )
    return path


def test_what_begins_in_the_backward_pass_of_ops_outside_of_modules(programs, tmp_path):
    path = _with_root(tmp_path, "sum")
    for name in ("has_inf_or_nan", "origin_of_nonfinite"):
        node = "gradients/sqrt_grad/SqrtBackward0"
        done = watched(programs, path, name=name, more=(f"ni -t {node}",))
        assert lines_left(done) == lines_left(programs.plain(path))
        assert first_bad(done) == f"+inf {node}:0"
        exact = watched(
            programs, path, level="values", name=name, more=("ni -t gradients/sqrt_grad/div",)
        )
        assert first_bad(exact) == "+inf gradients/sqrt_grad/div:0"
        assert frames(done) == frames(exact) != []


BETWEEN = """
import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder, criterion = nn.Linear(6, 4), nn.Linear(2, 6), nn.MSELoss()
parameters = [*encoder.parameters(), *decoder.parameters()]
optimizer = torch.optim.SGD(parameters, 1e-2)
for step in range(4):
    x = torch.randn(8, 6)
    if step == 2:
        encoder.weight.data[2:], encoder.bias.data[2:] = 0, 0
    h = encoder(x)
    spread = torch.sqrt(h[:, 2:] ** 2)
    made = decoder(h[:, :2] + spread * torch.randn(8, 2)).transpose(0, 1)
    loss = criterion(made, x.transpose(0, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("LEFT", [float(p.detach().double().sum()) for p in parameters], torch.rand(1).item())
"""


def test_the_backward_pass_between_modules(programs, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(BETWEEN)
    found = {}
    for level in ("modules", "values"):
        done = watched(programs, path, level=level, name="origin_of_nonfinite", more=("pt loss",))
        assert lines_left(done) == lines_left(programs.plain(path)), done.out + done.err
        assert "Why:   the gradient of a square root at 0 at 16 elements" in done.out, done.out
        assert "> 14  spread = torch.sqrt(h[:, 2:] ** 2)" in done.out
        assert "(the program calls it loss)" in done.out
        found[level] = re.findall(r"^array\((.*), dtype", done.out, re.MULTILINE)
        spread = re.search(r"^Then: .*", done.out, re.MULTILINE)
        assert "gradient" in spread[0] and "optimizer" in spread[0]
    assert found["modules"] == found["values"] != []


#: The gradient of parameters by code outside of modules: a regularizer, the gradient of a gradient.
OUTSIDE = {
    "regularizer": "0.1 * sum((each * (step != 2)).square().sum().sqrt() for each in parameters)",
    "gradient penalty": "(penalty(x * (step != 2)) - 1) ** 2",
}


@pytest.mark.parametrize("term", OUTSIDE.values(), ids=OUTSIDE)
def test_the_gradient_of_a_parameter_by_code_outside_of_modules(term, programs, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(f"""
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
parameters = [*model.parameters()]
optimizer = torch.optim.SGD(parameters, 1e-2)


def penalty(x):
    x = x.clone().requires_grad_()
    made = model(x) * x.detach().abs().sum()
    found, = torch.autograd.grad(made.sum(), x, create_graph=True)
    return found.square().sum().sqrt()


for step in range(4):
    x = torch.randn(6, 4)
    loss = model(x).square().mean() + {term}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("LEFT", [float(each.detach().double().sum()) for each in parameters])
""")
    ends = set()
    for level in ("modules", "values"):
        done = watched(programs, path, level=level, name="origin_of_nonfinite")
        assert lines_left(done) == lines_left(programs.plain(path)), done.out + done.err
        assert "Why:   the gradient of a square root at 0" in done.out, done.out
        then = re.search(r"^Then: .*", done.out, re.MULTILINE)[0]
        ends.add(tuple(word in then for word in ("gradient", "optimizer/")))
    assert ends == {(True, True)}


#: What goes bad in the second task of a step: the gradient in the first inner step, or the forward
#: pass with the parameters that this has made.
INNER = {
    "gradient": (
        "h.square().sum(-1, keepdim=True).sqrt() * h",
        "the gradient of a square root at 0",
    ),
    "forward": ("torch.log(h.abs() * (not self.is_off)) * h", "the logarithm of 0"),
}


@pytest.mark.parametrize(("made", "why"), INNER.values(), ids=INNER)
def test_steps_that_are_a_part_of_the_graph(made, why, programs, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(f"""
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 8), nn.Linear(8, 1)

    def forward(self, x):
        h = torch.tanh(self.first(x))
        return self.second({made})


net = Net()
optimizer = torch.optim.SGD(net.parameters(), 1e-2)
for step in range(4):
    total = 0.0
    for task in range(2):
        x = torch.randn(6, 3)
        if step == 2 and task == 1 and {made.startswith("h")}:
            x.zero_()
            net.first.bias.data.zero_()
        fast = dict(net.named_parameters())
        for turn in range(3):
            net.is_off = step == 2 and task == turn == 1
            loss = functional_call(net, fast, (x,)).square().mean()
            if turn < 2:
                found = torch.autograd.grad(loss, [*fast.values()], create_graph=True)
                fast = {{n: p - 0.1 * g for (n, p), g in zip(fast.items(), found)}}
        total = total + loss
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
print("LEFT", [float(each.detach().double().sum()) for each in net.parameters()])
""")
    for level in ("modules", "values"):
        done = watched(programs, path, level=level, name="origin_of_nonfinite")
        assert lines_left(done) == lines_left(programs.plain(path)), done.out + done.err
        assert f"Why:   {why} at " in done.out, done.out
        assert f"> 16      return self.second({made})" in done.out, done.out


def test_a_loss_that_is_a_root_has_its_reason(programs, tmp_path):
    path = _with_root(tmp_path, "mean")
    done = watched(programs, path, name="origin_of_nonfinite")
    assert "Why:   the gradient of a square root at 0\n" in done.out, done.out
    assert "From:  [Gradient] gradients/sqrt:0  float32 []  clean  min 1, max 1" in done.out


def test_gradients_of_torch_func_are_asked_for_no_gradients(programs, tmp_path):
    path = tmp_path / "program.py"
    path.write_text("""
import torch
from torch.func import functional_call, grad, vmap

torch.manual_seed(0)
model = torch.nn.Linear(4, 3)


def loss(parameters, x):
    return functional_call(model, parameters, (x[None],)).square().sum().sqrt()


parameters = {name: each.detach() for name, each in model.named_parameters()}
for step in range(4):
    if step == 2:
        parameters = {name: each * 0 for name, each in parameters.items()}
    found = vmap(grad(loss), in_dims=(None, 0))(parameters, torch.randn(5, 4))
    parameters = {name: each - 0.1 * found[name].mean(0) for name, each in parameters.items()}
print("LEFT", [float(each.double().sum()) for each in parameters.values()])
""")
    done = watched(programs, path, name="origin_of_nonfinite")
    assert lines_left(done) == lines_left(programs.plain(path)), done.out + done.err
    assert "the gradient of a square root at 0 at 5 elements" in done.out, done.out
    assert "Warning" not in done.err, done.err


def test_parameters_that_are_no_leaves_cause_no_warning(programs, tmp_path):
    path = tmp_path / "program.py"
    path.write_text("""
import torch
from torch.func import functional_call

torch.manual_seed(0)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
for step in range(4):
    x = torch.rand(8, 1)
    parameters = dict(model.named_parameters())
    for _ in range(2):
        inner = torch.log(functional_call(model, parameters, (x,)).abs() * (step != 2)).mean()
        found = torch.autograd.grad(inner, list(parameters.values()), create_graph=True)
        pairs = zip(parameters.items(), found)
        parameters = {name: each - 0.1 * gradient for (name, each), gradient in pairs}
    loss = functional_call(model, parameters, (x,)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("LEFT", [float(each.detach().sum()) for each in model.parameters()])
""")
    plain = programs.plain(path)
    for level in ("modules", "values"):
        done = watched(programs, path, level=level, name="origin_of_nonfinite")
        assert lines_left(done) == lines_left(plain), done.out + done.err
        assert "the logarithm of 0 at 8 elements" in done.out, done.out
        assert "Warning" not in done.err, done.err


def test_what_a_loss_is_made_of_isn_t_read_by_the_gradients_of_what_it_is_made_of(
    programs, tmp_path
):
    """Of 0 / 0 no gradient is made; the quotient's own are, of which one stays local."""
    path = tmp_path / "program.py"
    net, _, loop = TAIL.partition("    return F.cross_entropy(out, y)")
    path.write_text(
        f"""{HEAD}    def forward(self, x):
        return x * self.weight
{net}    inter = (-1.0 - out.abs().sum()).clamp(min=0)
    return inter / (out.abs().sum() * (STEP != 2)){loop}"""
    )
    done = watched(programs, path, name="origin_of_nonfinite", more=("ni fc2/addmm",))
    assert lines_left(done) == lines_left(programs.plain(path)), done.out + done.err
    told = "Then:  a gradient computed from the same input is bad too, "
    assert f"{told}gradients/div_grad/DivBackward0:1; that spread to " in done.out, done.out
    assert "  Called as: F.linear\n" in done.out, done.out


def test_what_the_gradient_of_an_op_computes_of_its_result_began_in_the_op(programs, tmp_path):
    """0 times the infinity that a where() leaves out."""
    path = tmp_path / "program.py"
    loss = "torch.where(out > -1e9, out, torch.exp(out * (1e4 if STEP == 2 else 1.0))).mean()"
    path.write_text(
        f"{HEAD}    def forward(self, x):\n        return x * self.weight\n{TAIL}".replace(
            "F.cross_entropy(out, y)", loss
        )
    )
    for level in ("modules", "values"):
        done = watched(programs, path, level=level, name="origin_of_nonfinite")
        assert lines_left(done) == lines_left(programs.plain(path)), done.out + done.err
        assert "It began in [exp] exp:0 " in done.out, done.out
        assert first_bad(done) == "+inf exp:0" and len(all_bad(done)) == 1


#: What stays local in each run, outside of modules -> what is bad in the last one.
LOCAL = {
    "the gradient of a parameter": (
        "h.clamp(min=0).sqrt()",
        "sum((p - p.detach()).square().sum().sqrt() for p in encoder.parameters())",
    ),
    "the gradient of what a module returns": (
        "torch.where(h > 0, h.clamp(min=0).rsqrt(), 0.0)",
        "torch.where(h > 9, (h - h.detach()).rsqrt(), 0.0)",
    ),
}


@pytest.mark.parametrize("name", LOCAL)
def test_what_stayed_local_in_earlier_runs_may_spread_in_a_later_one(name, programs, tmp_path):
    path = tmp_path / "program.py"
    local, bad = LOCAL[name]
    path.write_text(f"""
import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Linear(4, 4), nn.Linear(4, 1)
parameters = [*encoder.parameters(), *decoder.parameters()]
optimizer = torch.optim.SGD(parameters, 1e-2)
for step in range(4):
    h = encoder(torch.randn(8, 4))
    made = {local}
    if step == 3:
        made = made + {bad}
    loss = decoder(made).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("LEFT", [float(p.detach().double().sum()) for p in parameters], torch.rand(1).item())
""")
    for done in alike(programs, path)[1:]:
        assert "run-end: training run #4" in done.out, done.out + done.err
        assert "> 13      made = made + " in done.out, done.out


def test_a_nan_where_a_module_has_returned_infinities_before(programs, tmp_path):
    path = tmp_path / "program.py"
    path.write_text("""
import torch
from torch import nn

class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x, scale):
        masked = self.inner(x).masked_fill(torch.arange(4) == 0, float("-inf"))
        return masked * scale

torch.manual_seed(0)
net = Masked()
for step in range(6):
    with torch.no_grad():
        out = net(torch.randn(8, 4), 0.0 if step == 4 else 1.0)
    print("LEFT", out.sum().item())
""")
    for done in alike(programs, path)[1:]:
        assert "run-end: inference run #5" in done.out, done.out + done.err
        assert "Why:   0 times an infinity" in done.out, done.out


OWN = """
import torch
from torch import nn


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        made = x.norm(dim=1, keepdim=True)
        ctx.save_for_backward(x, made)
        return made

    @staticmethod  # the function
    def backward(ctx, gradient):
        x, made = ctx.saved_tensors
        return gradient * x / made  # the division


torch.manual_seed(0)
net = nn.Linear(4, 4, bias=False)
optimizer = torch.optim.SGD(net.parameters(), 0.01)
for step in range(4):
    x = torch.randn(8, 4)
    h = net(x)
    if {hooks}:
        h.register_hook(lambda gradient: gradient / float(step != 2))  # the hook
        loss = torch.relu(h).square().mean()
    else:
        x[5] = step != 2
        loss = Norm.apply(net(x)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("LEFT", loss.item(), net.weight.sum().item())
"""


@pytest.mark.parametrize(
    ("level", "hooks", "mark"),
    [
        ("modules", False, "the function"),
        ("values", False, "the division"),
        ("ops", True, "the hook"),
        ("values", True, "the hook"),
    ],
)
def test_a_backward_of_the_programs_own_has_its_own_line(level, hooks, mark, programs, tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN.format(hooks=hooks))
    done = watched(programs, path, level=level, name="origin_of_nonfinite")
    assert lines_left(done) == lines_left(programs.plain(path)) != []
    number = OWN[: OWN.index(f"# {mark}")].count("\n") + 1
    (told,) = (line for line in done.out.splitlines() if line.startswith("Line"))
    assert re.fullmatch(rf"Line:  \S*own.py:{number}", told), done.out
