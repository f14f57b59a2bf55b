"""Norms as an optimizer gets them: clipping, the scale of a gradient scaler, steps left out."""

from __future__ import annotations

import json
import math
import re

import pytest

# Prints the norms that clipping has found, the scales and the parameters.
PROGRAM = """
import json
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), 0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=100)
x, y = torch.rand(16, 4), torch.rand(16, 1)
told = []
for run in range(20):
    loss = (net(x) - y).square().mean() * (FACTOR)
    optimizer.zero_grad()
    STEP
print("TOLD", json.dumps([*map(str, told)]), sum(p.sum().item() for p in net.parameters()))
"""
CLIP = """loss.backward()
    told.append(clip_grad_norm_(net.parameters(), 1.0).item())
    optimizer.step()"""
SCALED = """scaler.scale(loss).backward()
    UNSCALE
    told.append(nn.utils.clip_grad_norm_(net.parameters(), 1.0).item())
    scaler.step(optimizer)
    scaler.update()"""


@pytest.fixture
def ask(programs, tmp_path):
    def ask(*commands, step=CLIP, factor="1", unscale="scaler.unscale_(optimizer)"):
        path = tmp_path / "program.py"
        text = PROGRAM.replace("STEP", step).replace("FACTOR", factor).replace("UNSCALE", unscale)
        path.write_text(text)
        alone = programs.plain(path)
        done = programs.debugged("--batch", *(f"-c{each}" for each in commands), path)
        before, after = (
            [line for line in each.out.splitlines() if line.startswith("TOLD")]
            for each in (alone, done)
        )
        assert before and before == after, alone.err + done.err
        return done.out, [*map(float, json.loads(before[0][5 : before[0].index("]") + 1]))]

    return ask


def test_the_share_of_clipped_runs_is_told(ask):
    out, norms = ask("run -t 20", "run_info", factor="100 if run % 4 else 1e-3")
    share = 100 * sum(norm > 1 for norm in norms) / len(norms)
    assert 0 < share < 100
    assert f"Clipped:   at norm 1 in {share:.3g} % of 20 runs; the norm of this one was " in out
    shown = re.search(r"the norm of this one was (\S+)", out)[1]
    assert float(shown) == pytest.approx(norms[-1], rel=1e-4)


@pytest.mark.parametrize("level", ["values", "ops", "modules"])
def test_a_norm_that_overflows_loses_the_step(ask, level):
    out, norms = ask(f"config set level {level}", "run -f", factor="1e22 if run == 9 else 1e-3")
    assert math.isinf(norms[9])
    assert "foreach_norm" in out
    assert (
        "Clipped: at norm 1 in 10 % of 10 runs; the norm of this one was inf: "
        "finite gradients became 0, so the step lost them"
    ) in out


def test_a_scale_that_falls_is_told(ask):
    out, _ = ask("run -t 12", "run_info", step=SCALED, factor="1e37 if run in (5, 6, 7, 11) else 1")
    told = re.search(r"Scale: +(.*)", out)[1]
    assert told == (
        "128, halved 3 times in 10 runs, 4 of 12 steps left out, this one, too: "
        "a gradient was infinite or nan"
    )


def test_a_stop_at_a_scaled_loss_that_overflows_says_that_the_step_was_left_out(ask):
    out, _ = ask("run -f", "run_info", step=SCALED, factor="1e37 if run == 3 else 1")
    stop, info = re.findall(r"^Scale: +(.*)$", out, re.MULTILINE)
    assert stop == info == "1024, 1 of 4 steps left out: a gradient was infinite or nan"


def test_a_scale_that_stays_is_told_without_more(ask):
    out, _ = ask("run -t 4", "run_info", step=SCALED)
    assert re.search(r"^Scale: +1024$", out, re.MULTILINE)


def test_clipping_before_unscaling_is_told(ask):
    said = "before unscaling: the gradients still had the factor 1024."
    out, _ = ask("run -t 3", "run_info", step=SCALED, unscale="pass")
    assert said in out
    out, _ = ask("run -t 3", "run_info", step=SCALED)
    assert said not in out


def test_elements_that_are_clipped_are_told(ask):
    step = """loss.backward()
    nn.utils.clip_grad_value_(net.parameters(), 0.25)
    optimizer.step()"""
    out, _ = ask("run -t 4", "run_info", step=step)
    assert "Clipped:   element by element at 0.25 in 4 runs" in out


def test_the_norms_of_a_step_are_those_after_clipping(ask):
    out, norms = ask("track --norms", "run -t 10", "track", factor="100")
    last = float(re.search(r"  grad_norm  .* (\S+) at run 10", out)[1])
    assert last == pytest.approx(norms[9], rel=1e-3)
    assert float(re.search(r"  step_norm  .* (\S+) at run 10", out)[1]) == pytest.approx(
        1, rel=1e-3
    )
    assert "step_norm.0" in out


def test_norms_that_are_no_longer_followed_are_gone(ask):
    out, _ = ask("track --norms", "run -t 5", "track -d norms", "track")
    assert "step_norm" not in out[out.index("no longer followed") :]


def test_a_program_without_clipping_and_scaling_hears_nothing_of_it(ask):
    out, _ = ask("run -t 5", "run_info", "track", step="loss.backward(); optimizer.step()")
    assert "Clipped" not in out and "Scale:" not in out
    assert "clip_norm" not in out and "loss_scale" not in out


def test_parameters_without_a_gradient_are_told(ask):
    out, _ = ask("run", "run_info", step="loss.backward(); optimizer.step()")
    assert "No gradient" not in out
    step = "net[0](x).sum().backward(); optimizer.step()"
    out, _ = ask("run -t 2", "run_info", step=step)
    assert re.search(r"No gradient: +2.weight, 2.bias \(2 of 4 parameters\)", out)
    # All were thrown away: nobody can tell.
    step = "loss.backward(); optimizer.step(); optimizer.zero_grad()"
    assert "No gradient" not in ask("run", "run_info", step=step)[0]
