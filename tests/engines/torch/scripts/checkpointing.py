"""Activations that are computed again in backward, by both kinds of checkpoint.

Four training runs: ``FBS``.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class Stack(nn.Module):
    """Two blocks; the first is checkpointed reentrantly, the second is not."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(4, 8)
        self.first = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.2))
        self.second = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.2))
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        x = self.embed(x)
        x = checkpoint(self.first, x, use_reentrant=True)
        x = checkpoint(self.second, x, use_reentrant=False)
        return self.head(x)


torch.manual_seed(0)
model = Stack()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

for x, y in zip(torch.randn(4, 8, 4), torch.randn(4, 8, 1), strict=True):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()

total = sum(p.detach().double().sum().item() for p in model.parameters())
print(f"loss {loss.item():.9g}, parameters {total!r}")
