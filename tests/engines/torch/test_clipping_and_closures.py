"""Gradients that are clipped, and steps with a closure: looked at for little, told as exactly."""

import pytest
from modules_kit import alike, first_bad, line_of

CLIPPED = """
import sys
import warnings
import torch
from torch import nn

fault, way = sys.argv[1:]
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
opt = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)

def closure():
    x = torch.randn(8, 4)
    loss = net(x).square().mean()
    if step == 2 and fault in ("norm", "error"):
        loss = loss * 1e30  # each gradient is finite, and their norm is not
    if step == 2 and fault == "gradient":
        loss = (loss - loss.detach()).sqrt()
    warnings.warn("told", stacklevel=2)
    opt.zero_grad()
    loss.backward()
    try:
        norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0, error_if_nonfinite=fault == "error")
        print("LEFT", norm.item())
    except RuntimeError as error:
        print("LEFT", str(error)[:20])
    if step == 2 and fault == "update":
        opt.param_groups[0]["lr"] = float("inf")
    return loss

for step in range(4):
    if way == "closure":
        print("LEFT", opt.step(closure=closure).item())
    else:
        closure()
        print("LEFT", opt.step(None))
print("LEFT", [float(each.detach().double().sum()) for each in net.parameters()])
"""
# Where the op is that begins it.
FAULTS = {
    "norm": "inf foreach_norm:0",
    "error": "inf foreach_norm:0",
    "gradient": "inf gradients/sqrt_grad/",
    "update": "inf optimizer/",
}


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "clipped.py"
    path.write_text(CLIPPED)
    return path


@pytest.mark.parametrize("way", ["closure", "none"])
@pytest.mark.parametrize("fault", FAULTS)
def test_what_began_it_is_told_as_at_the_level_of_values(fault, way, program, programs):
    plain, done, exact = alike(programs, program, fault, way, more=("lt",))
    assert [line for line in plain.err.splitlines() if "told" in line] == [
        line for line in done.err.splitlines() if "told" in line
    ]
    assert FAULTS[fault] in first_bad(done)
    assert FAULTS[fault] in first_bad(exact)
    is_clipping_bad = fault != "update"
    assert ("foreach_norm" in done.out) is is_clipping_bad  # otherwise its ops aren't recorded
    assert "foreach_norm" in exact.out


LIMITS = """
import sys
import torch
from torch import nn

limit = float(sys.argv[1])
torch.manual_seed(0)
net = nn.Linear(4, 3)
opt = torch.optim.SGD(net.parameters(), 0.1)
for step in range(4):
    loss = net(torch.randn(8, 4)).square().mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), limit if step == 2 else 1.0)
    opt.step()
    print("LEFT", loss.item())
"""
NESTED = """
import torch
from torch import nn

torch.manual_seed(0)
nets = [nn.Linear(4, 1) for _ in range(2)]
opts = [torch.optim.SGD(net.parameters(), 0.1) for net in nets]

def loss_of(at, factor=1.0):
    opts[at].zero_grad()
    loss = nets[at](torch.randn(8, 4)).square().mean() * factor
    loss.backward()
    return loss

def closure():
    inner = opts[1].step(lambda: loss_of(1))
    return inner + loss_of(0, float("nan") if step == 2 else 1.0)

for step in range(4):
    print("LEFT", opts[0].step(closure).item())
"""
HOOKED = """
import sys
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), 0.1)

def closure():
    opt.zero_grad()
    loss = net(torch.randn(8, 4)).square().mean()
    loss.backward()
    opt.param_groups[0]["lr"] = float("inf") if step == 2 else 0.1
    return loss

def hook(optimizer, args, kwargs):
    print("LEFT", [each is closure for each in args], {k: v is closure for k, v in kwargs.items()})

opt.register_step_pre_hook(hook)
opt.register_step_post_hook(hook)
for step in range(4):
    print("LEFT", (opt.step(closure=closure) if step % 2 else opt.step(closure)).item())
"""


@pytest.mark.parametrize(
    ("text", "given", "bad"),
    [
        pytest.param(LIMITS, ["nan"], "nan mul:0", id="limit"),
        pytest.param(LIMITS, ["-inf"], "inf mul:0", id="negative"),
        pytest.param(NESTED, [], "nan mul", id="closure in a closure"),
        pytest.param(HOOKED, [], "inf optimizer/", id="hooks get the closure"),
    ],
)
def test_limits_closures_and_hooks_of_all_kinds(text, given, bad, tmp_path, programs):
    path = tmp_path / "special.py"
    path.write_text(text)
    _, done, exact = alike(programs, path, *given)
    assert line_of(done)
    assert bad in first_bad(done)
    assert first_bad(done) == first_bad(exact)
