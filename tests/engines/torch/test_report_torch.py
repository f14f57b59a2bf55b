"""A report of a training step that went bad."""

from report_kit import report_of

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
    out, page = report_of(tmp_path, PROGRAM, "origin_of_nonfinite")
    assert out.endswith("done\n")
    assert "training run #2" in page.text
    assert "the logarithm of 0 at" in page.text
    assert "✗     loss = torch.log(" in page.text
    assert "Seed3 (torch.initial_seed())" in page.text
    assert "PyTorch2" in page.text
    assert any("log" in title for title in page.titles)
