"""Steps that a gradient scaler leaves out while it looks for its scale are no reason to stop."""

import re

import pytest
from samples import sample

# A float16 gradient of the first net overflows down to a scale of 2048, one of the second to 16384.
PROGRAM = """
import torch
from torch import nn

torch.manual_seed(0)
first, second = nn.Linear(4, 1), nn.Linear(4, 1)
x, SCALE, BATCHES = torch.rand(16, 4), 2.0**17, 10


def loss_of(net, factor=8):
    with torch.autocast("cpu", dtype=torch.float16):
        out = net(x)
    return (out.float() * factor - 1).square().mean()


def norm_of_zeros():
    return (first(x) * 0).square().sum().sqrt()


SETUP
one, other = (torch.optim.SGD(net.parameters(), 0.001) for net in (first, second))
scaler = torch.amp.GradScaler("cpu", init_scale=SCALE)
for batch in range(BATCHES):
    one.zero_grad()
    other.zero_grad()
    loss = loss_of(first)
    STEP
print("told", scaler.get_scale(), *(p.sum().item() for p in first.parameters()))
"""
STEP = """
    scaler.scale(loss).backward()
    scaler.step(one)
    scaler.update()
"""
CLIPPED = STEP.replace(
    "    scaler.step",
    "    scaler.unscale_(one); nn.utils.clip_grad_norm_(first.parameters(), 1.0)\n    scaler.step",
)
ACCUMULATED = """
    for factor in (4, 8, 2):
        scaler.scale(loss_of(first, factor) / 3).backward()
    scaler.step(one)
    scaler.update()
"""
TWO = """
    scaler.scale(loss).backward()
    scaler.scale(loss_of(second, 1)).backward()
    scaler.step(one)
    scaler.step(other)
    scaler.update()
"""
MIXED = """
    scaler.scale(loss).backward()
    (loss_of(second, 1) * 2.0**-9).backward()
    scaler.step(one)
    other.step()
    scaler.update()
"""
BY_HAND = """
    if not batch:
        scale = SCALE
    (loss * scale).backward()
    if all(torch.isfinite(p.grad).all() for p in first.parameters()):
        for p in first.parameters():
            p.grad /= scale
        one.step()
    else:
        scale /= 2
"""
CONVOLVED = """
first = nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 4, 3), nn.Flatten())
x, SCALE = torch.rand(640, 4) * 4, 2.0**14
"""
NORMALIZED = """
first = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8))
x, SCALE = torch.rand(6400, 4), 2.0**16
"""
# The gradient of the difference is float32, and is handed on to a float16 product.
PROMOTED = """
def loss_of(net, factor=8):
    with torch.autocast("cpu", dtype=torch.float16):
        return ((net(x) - torch.ones(16, 1) / 8) * factor).square().mean()
"""
LEVELS = ["values", "ops", "modules"]
PASSED = {
    "plain": ("", STEP),
    "clipped": ("", CLIPPED),
    "accumulated": ("", ACCUMULATED),
    "two optimizers": ("SCALE = 2.0**14", TWO),
    "convolution": (CONVOLVED, STEP),
    "layer norm": (NORMALIZED, STEP),
    "promoted": (PROMOTED, STEP),
}
NOTHING = ": a gradient was infinite or nan$"
STOPS = {
    "forward": (7, "", f"    if batch == 6:\n        loss = loss * 1e39{STEP}", NOTHING),
    "0 / 0": (7, "", f"    if batch == 6:\n        loss = loss + norm_of_zeros(){STEP}", NOTHING),
    "a step of its own": (3, "", MIXED, NOTHING),
    "by hand": (1, "", BY_HAND, None),
    "many in a row": (
        9,
        "SCALE = 2.0**24",
        STEP,
        r"9 runs in a row: run -f passes over 8 at most \(run -f -fenn \^gradients/ leaves",
    ),
    "a low scale": (
        4,
        "SCALE = 4.0",
        f"    loss = loss_of(first, 2000){STEP}",
        r"0\.5, .*; with a scale below 1 run -f passes over none \(run -f -fenn",
    ),
}


@pytest.fixture
def ask(programs, tmp_path):
    def ask(setup, step, *commands):
        path = tmp_path / "program.py"
        path.write_text(PROGRAM.replace("SETUP", setup).replace("    STEP", step.strip("\n")))
        alone = programs.plain(path)
        done = programs.debugged("--batch", *(f"-c{each}" for each in commands), path)
        assert "told" in alone.out, alone.err
        assert alone.out.splitlines()[-1] in done.out
        return done

    return ask


@pytest.mark.parametrize(("name", "level"), [*sample([(n, e) for n in PASSED for e in LEVELS], 4)])
def test_a_search_for_the_scale_is_passed_over(ask, name, level):
    done = ask(*PASSED[name], f"config set level {level}", "run -f")
    assert "run-end" not in done.out
    assert re.search(
        r"no tensor passed origin_of_nonfinite up to the program's end, run \d+; passed over "
        r"[1-8] run\(s\): gradients overflowed, and a gradient scaler left the step out",
        done.err,
    )


@pytest.mark.parametrize(("name", "level"), [*sample([(n, e) for n in STOPS for e in LEVELS], 4)])
def test_what_a_scaler_leaves_out_for_another_reason_is_a_stop(ask, name, level):
    run, setup, step, said = STOPS[name]
    done = ask(setup, step, f"config set level {level}", "run -f")
    assert f"run-end: training run #{run}:" in done.out
    scale = re.search(r"^Scale: (.*)$", done.out, re.MULTILINE)
    assert (scale is None) == (said is None)
    assert said is None or re.search(said, scale[1])
    assert "normal" not in done.out


def test_other_filters_stop_at_it(ask):
    done = ask("", STEP, "run -f has_inf_or_nan")
    assert "run-end: training run #1:" in done.out
    assert (
        "1 of 1 step left out: a gradient was infinite or nan; normal as long as the scale is "
        "too large (run -f passes over such steps)"
    ) in done.out


def test_a_check_says_what_it_has_passed_over(programs, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.replace("SETUP", "").replace("    STEP", STEP.strip("\n")))
    done = programs.debugged("--check", "origin_of_nonfinite", path)
    assert "check origin_of_nonfinite: nothing in 10 run(s)." in done.err
    assert re.search(r"passed over \d run\(s\): gradients overflowed", done.err)


def test_an_overflow_inside_of_a_gradient_is_told_by_a_smaller_one(ask):
    done = ask(*PASSED["convolution"], "run -f has_inf_or_nan")
    assert re.search(
        r"^Why:   an overflow at \d+ elements, the first at \[.*\]: a gradient (256|65536) times "
        r"smaller gives finite numbers\n +Scale the loss less",
        done.out,
        re.MULTILINE,
    )
