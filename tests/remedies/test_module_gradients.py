"""Remedies for gradients that are seen between modules only, as PyTorch's waiting runs are."""

from __future__ import annotations

import json
import math
import re
import subprocess
import textwrap
from pathlib import Path

import pytest
from examples_kit import needs
from program_server import debugger_in, python_in

pytestmark = needs("torch")

# Step 2 is the bad one; each step prints its loss and the norm of the gradient.
_TRAIN = """
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(4):
        x = torch.rand(8, 3)
        if step == 2:
            x[1] = 0
        optimizer.zero_grad()
        h = model(x)
        h.retain_grad()
        {loss}
        print(f"min {{h.grad.min():g}}, max {{h.grad.max():g}}")
        print(step, loss.item(), sum(float(w.grad.norm()) for w in model.parameters()))
        optimizer.step()
"""
_MODEL = """
    import torch
    torch.manual_seed(0)
    class End(torch.nn.Module):
        def forward(self, h):
            return {end}
    model = torch.nn.Sequential(torch.nn.Linear(3, 4, bias=False), End())
"""
PROGRAMS = {
    # Autograd's nodes between the loss and a module.
    "outside": (
        "h",
        "loss = torch.sqrt((h * h).sum(-1)).mean(); loss.backward()",
        "clean to the loss, gradients too",
    ),
    # One of the ops writes to its input.
    "in place": (
        "h",
        "loss = torch.sqrt(h.pow(2).sum(-1)).mul(1).add_(1).mean(); loss.backward()",
        "clean to the loss, gradients too",
    ),
    # The ops of a module that was done again, whose gradient came from outside.
    "inside": (
        "torch.sqrt((h * h).sum(-1))",
        "loss = h.mean(); loss.backward()",
        "clean to the loss, gradients too",
    ),
    # All of it, the loss too.
    "loss inside": (
        "torch.sqrt((h * h).sum(-1)).mean()",
        "loss = h; loss.backward()",
        "clean to the loss, gradients too",
    ),
    # where() hides the bad value from the loss, not from the gradient.
    "where": (
        "torch.where(h != 0, torch.log(h * h), torch.zeros_like(h))",
        "loss = h.mean(); loss.backward()",
        "gradients clean; the loss is as it was",
    ),
    # The backward pass begins with a gradient of the program's own.
    "scaled": (
        "h",
        "loss = torch.sqrt((h * h).sum(-1)).mean(); loss.backward(torch.tensor(128.0))",
        "clean to the loss, gradients too",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_between_modules_are_computed_again(name: str, tmp_path: Path) -> None:
    end, loss, then = PROGRAMS[name]
    program = tmp_path / "train.py"
    text = textwrap.dedent(_MODEL).format(end=end) + textwrap.dedent(_TRAIN).format(loss=loss)
    program.write_text(text)
    typed = (
        "config set level modules",
        "run -f",
        "fix --json",
        "fix 1",
        "fix 1 --apply change.patch",
    )
    commands = [part for each in typed for part in ("-c", each)]
    done = debugger_in(tmp_path, "--batch", *commands, "train.py")
    assert "Traceback" not in done.stderr, done.stderr
    found = [json.loads(each) for each in done.stdout.splitlines() if each.startswith('{"change"')]
    assert found[0]["then"].startswith(then), done.stdout
    assert math.isnan(_numbers(done.stdout)[2][1])
    subprocess.run(["git", "apply", "-p1", "change.patch"], cwd=tmp_path, check=True)
    out = python_in(tmp_path, "train.py").stdout
    after, norm = _numbers(out)[2]
    assert math.isfinite(norm)
    if found[0]["loss"] is not None:
        assert after == pytest.approx(found[0]["loss"], rel=1e-5)
    if end == "h":  # what comes back to the module was computed
        foretold = re.search(r"gradients/(?:Sequential|0/mm):0 .*→  clean  (min .*)", done.stdout)
        assert foretold is not None, done.stdout
        assert foretold[1] == re.findall(r"^min .*", out, re.MULTILINE)[2]


def _numbers(out: str) -> dict[int, tuple[float, float]]:
    rows = [each.split() for each in out.splitlines() if each[:2] in ("0 ", "1 ", "2 ", "3 ")]
    return {int(row[0]): (float(row[1]), float(row[2])) for row in rows if len(row) == 3}
