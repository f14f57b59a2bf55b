"""A report of a training step that went bad."""

import subprocess
import sys

from report_kit import read_report

PROGRAM = """
import torch

torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(3):
    x = torch.ones(2, 4)
    out = model(x)
    loss = torch.log(out * 0 + max(1 - step, 0)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("done")
"""


def test_it_tells_of_a_training_step(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tfdbg_cli", "--batch", "--report", "page.html"),
            *("-c", "run -f origin_of_nonfinite", str(path)),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.stdout.endswith("done\n"), done
    page = read_report((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "training run #2" in page.text or "training #2" in page.text, page.text[:300]
    assert "the logarithm of 0 at" in page.text
    assert "✗     loss = torch.log(" in page.text
    assert "Seed3 (torch.initial_seed())" in page.text
    assert "PyTorch2" in page.text
    assert any("log" in title for title in page.titles)
