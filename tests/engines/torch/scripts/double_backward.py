"""A penalty on the norm of a gradient, which is differentiated again.

Three training runs: ``FBBS`` (``autograd.grad`` for the penalty, then ``backward``).
"""

import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(3, 8), nn.Softplus(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(critic.parameters(), lr=0.02)

for x in torch.randn(3, 8, 3):
    x.requires_grad_()
    optimizer.zero_grad()
    score = critic(x)
    (gradient,) = torch.autograd.grad(score.sum(), x, create_graph=True)
    penalty = (gradient.norm(dim=1) - 1).pow(2).mean()
    loss = score.mean() + 10 * penalty
    loss.backward()
    optimizer.step()

total = sum(p.detach().double().sum().item() for p in critic.parameters())
print(f"loss {loss.item():.9g}, parameters {total!r}")
