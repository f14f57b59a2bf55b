"""The loop of every tutorial: forward, backward, step.

Five training runs, one for each step: ``FFBS`` (the second F is the loss module).
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
inputs, labels = torch.randn(5, 16, 6), torch.randint(3, (5, 16))

for x, y in zip(inputs, labels, strict=True):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()

total = sum(p.detach().double().sum().item() for p in model.parameters())
print(f"loss {loss.item():.9g}, parameters {total!r}")
