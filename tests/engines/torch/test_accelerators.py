"""Nothing waits for a device while a run goes on, and its end does so once.

PyTorch's lazy backend is the device: it computes nothing until somebody reads a value, and counts
how often that happens.
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch._lazy.ts_backend")

LEVELS = {
    "everything": ("config set level values",),
    "op records": ("config set level ops",),
    "modules": ("config set level modules",),
}
PROGRAM = """
import torch
import torch._lazy.metrics as metrics
import torch._lazy.ts_backend

torch._lazy.ts_backend.init()
torch.manual_seed(0)


def waits():
    return sum(metrics.counter_value(n) for n in metrics.counter_names() if n.startswith("Synced"))


net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).to("lazy")
opt = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
opt.register_step_post_hook(lambda *_: print("DURING", waits()))
x = torch.ones(3, 4, device="lazy")
for step in range(5):
    metrics.reset()
    loss = net(x).square().mean() + (torch.log(x[0, 0] * 0) if step == BAD else 0)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("AT THE END", waits())
"""


@pytest.fixture
def program(tmp_path):
    def write(bad):
        path = tmp_path / "lazy_program.py"
        path.write_text(PROGRAM.replace("BAD", str(bad)))
        return path

    return write


def _debugged(programs, path, level):
    commands = [*LEVELS[level], "run -f has_inf_or_nan"]
    given = [part for command in commands for part in ("-c", command)]
    return programs.debugged("--batch", "--engine", "torch", *given, path)


@pytest.mark.parametrize("level", LEVELS)
def test_no_level_waits_for_a_device_but_once_at_the_end(level, programs, program):
    path = program(-1)
    # What is watched at the borders of modules ends with the update: only before it could a module
    # be done again.
    before = 1 if level == "modules" else 0
    assert "AT THE END 0" in programs.plain(path).out
    done = _debugged(programs, path, level)
    assert "no tensor passed has_inf_or_nan up to the program's end, run 5" in done.out + done.err
    during = [line for line in done.out.splitlines() if line.startswith("DURING")]
    ends = [line for line in done.out.splitlines() if line.startswith("AT THE END")]
    assert during == [f"DURING {before}"] * 5
    assert ends == ["AT THE END 1"] * 5


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_bad_there_is_found(level, programs, program):
    done = _debugged(programs, program(3), level)
    assert "run-end: training run #4" in done.out
