"""Two epochs of training, each followed by a validation under ``no_grad``.

Three training runs (``FBS``), two inference runs (``F``), and the same again.
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
train_set = [(torch.randn(16, 6), torch.randint(3, (16,))) for _ in range(3)]
valid_set = [(torch.randn(16, 6), torch.randint(3, (16,))) for _ in range(2)]

for _ in range(2):
    model.train()
    for x, y in train_set:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        correct = sum((model(x).argmax(1) == y).sum().item() for x, y in valid_set)

print(f"loss {loss.item():.9g}, correct {correct} of 32")
