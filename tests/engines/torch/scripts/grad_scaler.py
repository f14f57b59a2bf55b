"""Mixed precision whose loss scale is too large at first: the scaler skips some steps.

Eight training runs, one for each iteration, skipped or not: ``FBS``.
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
x, y = torch.randn(8, 32, 8), torch.randn(8, 32, 1)

skipped = 0
for inputs, targets in zip(x, y, strict=True):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = F.mse_loss(model(inputs), targets)
    scaler.scale(loss).backward()
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    skipped += scaler.get_scale() < before

assert 0 < skipped < 8
total = sum(p.detach().double().sum().item() for p in model.parameters())
print(f"loss {loss.item():.9g}, skipped {skipped}, parameters {total!r}")
