"""Predictions whose author forgot ``no_grad``; there is no optimizer.

Three inference runs, one for each call: ``F``.
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

predicted = [model(batch).softmax(1) for batch in torch.randn(3, 5, 4)]

print(f"mean {torch.cat(predicted).max(1).values.mean().item():.9g}")
