"""Gradients of three micro-batches are summed before each step.

Three training runs: ``FFBFFBFFBS`` (the second F of each pair is the loss module).
"""

import torch
from torch import nn

ACCUMULATION = 3

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
inputs, targets = torch.randn(9, 4, 6), torch.randn(9, 4, 1)

for i, (x, y) in enumerate(zip(inputs, targets, strict=True), 1):
    loss = criterion(model(x), y) / ACCUMULATION
    loss.backward()
    if i % ACCUMULATION == 0:
        optimizer.step()
        optimizer.zero_grad()

total = sum(p.detach().double().sum().item() for p in model.parameters())
print(f"loss {loss.item():.9g}, parameters {total!r}")
