"""Runs that the program itself cuts short."""

import subprocess
import sys
import textwrap

import pytest

GUARDED_LOOP = """
    import sys
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(6):
        output = model(torch.randn(3, 4))
        if step == 3:
            output = output * 0
        loss = torch.log(output.abs()).mean()
        if not torch.isfinite(loss):
            print("not finite in step", step)
            {reaction}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("reaction", "status"),
    [("sys.exit(3)", 3), ("break", 0), ("raise FloatingPointError('loss')", 1)],
    ids=["exit", "break", "raise"],
)
def test_the_program_stops_at_a_bad_loss_before_we_do(tmp_path, reaction, status):
    script = tmp_path / "guarded.py"
    script.write_text(textwrap.dedent(GUARDED_LOOP.format(reaction=reaction)))
    commands = ["-c", "run -f has_inf_or_nan", "-c", "run_info"]
    done = subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", "--batch", *commands, str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert "training run #4" in done.stdout
    assert "log:0" in done.stdout
    assert "Unfinished:" in done.stdout
    assert "no tensor passed" not in done.stderr
    assert ("FloatingPointError: loss" in done.stderr) == (status == 1)
