"""Gradients that are clipped, and steps with a closure: looked at for little, told as exactly."""

import pytest
from modules_kit import first_bad, line_of, lines_left, watched

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
    given = program, fault, way
    plain = programs.plain(*given)
    done, exact = (
        watched(programs, *given, level=level, name="origin_of_nonfinite", more=("lt",))
        for level in ("modules", "values")
    )
    assert lines_left(plain) == lines_left(exact) == lines_left(done) != [], done.out + done.err
    assert line_of(done) == line_of(exact)
    assert [line for line in plain.err.splitlines() if "told" in line] == [
        line for line in done.err.splitlines() if "told" in line
    ]
    assert FAULTS[fault] in first_bad(done)
    assert FAULTS[fault] in first_bad(exact)
    is_clipping_bad = fault != "update"
    assert ("foreach_norm" in done.out) is is_clipping_bad  # otherwise its ops aren't recorded
    assert "foreach_norm" in exact.out
