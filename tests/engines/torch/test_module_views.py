"""What a module has returned is written to through a view of it, outside of any module."""

import pytest
from modules_kit import alike, first_bad, line_of

PROGRAM = """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 6)
opt = torch.optim.SGD(net.parameters(), 0.05)
for step in range(6):
    bad = step == 4
    h = net(torch.randn(8, 4))
    {write}
    loss = {loss}
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("LEFT", loss.item(), net.weight.sum().item())
"""


@pytest.mark.parametrize(
    ("write", "loss"),
    [
        ("h[:, 0] /= torch.zeros(8) if bad else 2.0", "(h * 2).square().mean()"),
        (
            "h[1].copy_(torch.log(h[1] * (0 if bad else 1) + (0 if bad else 9)))",
            "h.square().mean()",
        ),
        ("h.view(-1)[::7].mul_(float('inf') if bad else 1.0)", "torch.tanh(h).sum() + h.sum()"),
        ("h[:, 5] = float('-inf') if bad else 0.0", "torch.logsumexp(h, 0).square().mean()"),
        ("h[0] = float('-inf') if bad else 1.0", "torch.softmax(h, 1).square().sum()"),
    ],
)
def test_the_write_is_part_of_what_follows(write, loss, programs, tmp_path):
    path = tmp_path / "views.py"
    path.write_text(PROGRAM.format(write=write, loss=loss))
    _, done, exact = alike(programs, path)
    assert first_bad(done) == first_bad(exact)
    assert line_of(done) == line_of(exact)
    assert "overwritten since" not in done.out
