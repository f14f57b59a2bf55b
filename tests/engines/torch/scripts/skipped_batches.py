"""A loop that gives up batches whose loss is too large.

Nothing marks a batch that was skipped, so its forward pass is part of the next step. Four training
runs: ``FBS``, ``FFBS``, ``FBS``, ``FFBS``.
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scales = [1, 100, 1, 1, 100, 1]

skipped = 0
for scale in scales:
    loss = F.mse_loss(model(scale * torch.randn(8, 4)), torch.randn(8, 2))
    if loss > 10:
        skipped += 1
        continue
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

print(f"loss {loss.item():.9g}, skipped {skipped}")
