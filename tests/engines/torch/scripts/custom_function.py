"""An op with a hand-written gradient: rounding that lets the gradient through.

Four training runs: ``FBS``.
"""

import torch
import torch.nn.functional as F
from torch import nn


class Round(torch.autograd.Function):
    """Rounds to multiples of a step; its gradient is clipped to inputs between -1 and 1."""

    @staticmethod
    def forward(ctx, x, step):
        ctx.save_for_backward(x)
        return (x / step).round() * step

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (x.abs() <= 1), None


class Quantized(nn.Module):
    """A linear layer with rounded weights."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x):
        return F.linear(x, Round.apply(self.linear.weight, 0.125), self.linear.bias)


torch.manual_seed(0)
model = Quantized()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for x, y in zip(torch.randn(4, 8, 4), torch.randn(4, 8, 2), strict=True):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()

total = sum(p.detach().double().sum().item() for p in model.parameters())
print(f"loss {loss.item():.9g}, parameters {total!r}")
