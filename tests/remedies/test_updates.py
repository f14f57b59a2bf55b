"""Remedies for the step of an optimizer: its gradients, its eps, the scale of the loss."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest
from program_server import debugger_in

pytest.importorskip("torch")

# Part of a step in float16, and the beginning of its first remedies.
STEPS = {
    "clipped at the usual norm": (
        "torch.optim.SGD(model.parameters(), lr=10.0)",
        """
        (model(x.half()).float() * (1e4 if step == 5 else 1e-3)).sum().backward()
        optimizer.step()
        """,
        ["the gradients clipped at norm 0.00", "the gradients clipped at norm 1 (it is 7.6"],
    ),
    "a larger eps": (
        "torch.optim.Adam(model.parameters(), lr=1e-3)",
        """
        (model(x.half()) * 1e-4).sum().backward()
        optimizer.step()
        """,
        ["an eps of 1e-4 for the optimizer"],
    ),
    "a smaller loss scale": (
        "torch.optim.SGD(model.parameters(), lr=0.1)",
        """
        with torch.autocast("cpu", torch.float16):
            loss = (model.float()(x) * 3).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        """,
        ["a loss scale of 4096 in place of 65536", "a loss scale of 256 in place of 65536"],
    ),
}


def test_a_gradient_that_leaves_float16_outside_of_modules(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        dedent(
            """
            import torch
            torch.manual_seed(0)
            model, x = torch.nn.Linear(8, 4), torch.randn(2, 8)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
            for step in range(3):
                optimizer.zero_grad()
                with torch.autocast("cpu", torch.float16):
                    loss = model(x).float().square().mean()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """
        )
    )
    commands = ("config set level modules", "run -f has_inf_or_nan")
    flags = [part for each in commands for part in ("-c", each)]
    out = debugger_in(tmp_path, "--batch", *flags, "train.py").stdout
    assert "[ToCopyBackward0]" in out
    assert "Why:   float16 overflows at" in out
    assert "Tried: a loss scale of 65536 in place of 1048576: clean to the end of the forw" in out


@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_clean(name: str, tmp_path: Path) -> None:
    optimizer, step, expected = STEPS[name]
    lines = [
        "import torch",
        "torch.manual_seed(0)",
        "model, x = torch.nn.Linear(8, 4).half(), torch.randn(2, 8)",
        "scaler = torch.amp.GradScaler('cpu')",
        f"optimizer = {optimizer}",
        "for step in range(8):",
        "    optimizer.zero_grad()",
        *(f"    {line}" for line in dedent(step).strip().splitlines()),
    ]
    (tmp_path / "train.py").write_text("\n".join(lines))
    commands = ("config set level values", "track --norms", "run -f has_inf_or_nan", "fix --json")
    flags = [part for each in commands for part in ("-c", each)]
    done = debugger_in(tmp_path, "--batch", *flags, "train.py")
    tried = [json.loads(each) for each in done.stdout.splitlines() if each.startswith('{"change"')]
    assert len(tried) >= len(expected), done.stdout
    for each, begin in zip(tried, expected, strict=False):
        assert each["change"].startswith(begin)
        assert each["clean"]
