"""A second thread evaluates copies of the model while the main thread trains it.

Five training runs (``FBS``), those of the main thread; what the other thread computes is in none
of them.
"""

import copy
import queue
import threading

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
held_out = torch.randn(32, 4)
snapshots, scores = queue.Queue(), []


def evaluate():
    while (snapshot := snapshots.get()) is not None:
        with torch.no_grad():
            scores.append(snapshot(held_out).mean().item())


evaluator = threading.Thread(target=evaluate)
evaluator.start()
for x, y in zip(torch.randn(5, 8, 4), torch.randn(5, 8, 1), strict=True):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    snapshots.put(copy.deepcopy(model).eval())
snapshots.put(None)
evaluator.join()

print(f"loss {loss.item():.9g}, scores {[f'{score:.9g}' for score in scores]}")
