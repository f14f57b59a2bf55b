"""Ops between runs at the level of modules: those that no run uses aren't recorded."""

import re

import pytest
from modules_kit import alike, first_bad, line_of

UNUSED = """
import sys
import torch
from torch import nn

bad = int(sys.argv[1])
torch.manual_seed(0)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), 0.1)


def prepare(x):
    return torch.log(x)


for step in range(80):
    made = prepare(torch.full((3, 4), 0.0 if step == bad else 1.0))
    try:
        made[5]
    except IndexError as error:
        print("LEFT", str(error)[:20])
    loss = net(made if step >= 70 else torch.ones(3, 4)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print("LEFT", loss.item())
"""


@pytest.mark.parametrize(("bad", "maker"), [(70, "Input"), (75, "full")])
def test_the_first_one_that_is_used_is_told_exactly(bad, maker, programs, tmp_path):
    path = tmp_path / "unused.py"
    path.write_text(UNUSED)
    _, done, exact = alike(programs, path, str(bad))
    assert first_bad(done) == first_bad(exact) == "-inf log:0"
    assert line_of(done)
    assert f"run #{bad + 1}:" in done.out
    # Ops of a place are recorded from the time on at which a run has used one.
    assert f"From:  [{maker}]" in done.out, done.out
    assert "From:  [full]" in exact.out


AVERAGE = """
import sys
import torch
from torch import nn

bad = int(sys.argv[1])
torch.manual_seed(0)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), 0.01)
average = torch.zeros(2, 4)
for step in range(80):
    with torch.no_grad():
        average[0].mul_(float("inf") if step == bad else 0.9).add_(net.weight[0], alpha=0.1)
        average[1] += 1
    given = average if step >= 70 else torch.ones(2, 4)
    loss = net(given / 100).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("LEFT", average.double().sum().item(), loss.item())
"""


@pytest.mark.parametrize("bad", [75, 100])
def test_what_is_written_between_runs_is_told_once_it_is_used(bad, programs, tmp_path):
    path = tmp_path / "average.py"
    path.write_text(AVERAGE)
    _, done, exact = alike(programs, path, str(bad))
    if bad < 80:
        assert first_bad(done) == first_bad(exact)
        assert "inf mul_" in first_bad(done)
        assert line_of(done)


# Both dispatch modes are on where a run ends in inference mode.
INFERENCE = """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 1)
for step in range(60):
    with torch.inference_mode():
        x = torch.randn(3, 4)
        out = net(x)
        out = out if step < 55 else net(x * 1e30 * 1e30)
        print("LEFT", out.sum().item())
    print("LEFT", out.clone().mul(3).sum().item())
"""


def test_ops_in_inference_mode_are_told_apart(programs, tmp_path):
    path = tmp_path / "inference.py"
    path.write_text(INFERENCE)
    _, done, exact = alike(programs, path)
    assert first_bad(done) == first_bad(exact) == "-inf mul_1:0"


WRITES = """
import copy
import sys
import torch
from torch import nn

bad = 75
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
other = copy.deepcopy(net)
opt = torch.optim.SGD(net.parameters(), 0.01)


def write(step):
    factor = float("inf") if step == bad else 0.5
    {write}


for step in range(80):
    x = torch.randn(3, 4)
    loss = (net(x) - {target}).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        write(step)
        if step % {every} == {every} - 1:
            print("LEFT", other(torch.randn(3, 4)).sum().item())
    print("LEFT", loss.item())
"""
EACH = "for a, b in zip(other.parameters(), net.parameters()): "


@pytest.mark.parametrize(
    ("write", "target", "every", "told"),
    [
        ("for p in net.parameters(): p.data.mul_(factor * 2)", "0.0", 100, "0.weight:0 mul_"),
        ("net.state_dict()['2.weight'].mul_(factor)", "0.0", 100, "2.weight:0 mul_"),
        (f"{EACH}a.mul_(factor).add_(b)", "other(x).detach()", 100, "other.0.weight:0 add_"),
        (f"{EACH}a.data.copy_(a * factor + b)", "0.0", 20, "other.0.weight:0 copy_"),
        (f"{EACH}a.mul_(factor).add_(b)", "0.0", 80, "other.0.weight:0 add_"),
        ("torch._foreach_mul_([*net.parameters()], factor * 2)", "0.0", 100, "0.weight:0 _foreach"),
    ],
)
def test_weights_that_were_written_between_runs(write, target, every, told, programs, tmp_path):
    path = tmp_path / "writes.py"
    path.write_text(WRITES.format(write=write, target=target, every=every))
    _, done, exact = alike(programs, path)
    weight, op = told.split()
    for text in (done.out, exact.out):
        assert f"Why:   it came in with the weights ({weight})" in text, text
        assert re.search(rf"{op}\S* \(writes.py:16\) wrote to it before this run", text), text


KEPT = """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 3)
opt = torch.optim.SGD(net.parameters(), 0.1)
for step in range(4):
    x = torch.ones(2, 4)
    loss = (net(x) / (step < 2)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    kept = torch.ones(8, 3).mean(0)
    copy = kept.detach()
    print("LEFT", loss.item())
"""


def test_what_was_made_before_the_run_isnt_called_an_op_of_it(programs, tmp_path):
    path = tmp_path / "kept.py"
    path.write_text(KEPT)
    _, done, exact = alike(programs, path)
    for out in (done.out, exact.out):
        assert "spread to loss = mean:0, " in out, out
        assert "kept = " not in out
        assert "copy = " not in out
