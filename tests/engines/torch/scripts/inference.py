"""Predictions under ``no_grad`` and under ``inference_mode``.

Four inference runs, one for each call: ``F``.
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).eval()

predicted = []
with torch.no_grad():
    for batch in torch.randn(2, 5, 4):
        predicted.append(model(batch).softmax(1).argmax(1))
with torch.inference_mode():
    for batch in torch.randn(2, 5, 4):
        predicted.append(model(batch).softmax(1).argmax(1))

print("classes", torch.cat(predicted).tolist())
