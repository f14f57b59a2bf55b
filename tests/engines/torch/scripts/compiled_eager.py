"""``torch.compile`` with a backend that runs the captured graph as it is.

Four training runs: ``FBS``.
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
compiled = torch.compile(model, backend="eager")

for x, y in zip(torch.randn(4, 8, 4), torch.randn(4, 8, 2), strict=True):
    optimizer.zero_grad()
    loss = F.mse_loss(compiled(x), y)
    loss.backward()
    optimizer.step()

total = sum(p.detach().double().sum().item() for p in model.parameters())
print(f"loss {loss.item():.9g}, parameters {total!r}")
