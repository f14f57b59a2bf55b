"""Evaluations whose author forgot ``no_grad``, after a call in training mode that led to nothing.

Twice: a training run (``FBS``), then inference runs (``F``): the call without consequences, and two
of the model in evaluation mode, though the program still has the result of the former.
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(16, 4)

for _ in range(2):
    model.train()
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    out = model(x)
    model.eval()
    for batch in x.split(8):
        out = model(batch)

print(f"out {out.sum().item():.9g}")
