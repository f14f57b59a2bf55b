"""The program has dispatch modes of its own: they see what they would see alone.

Three training runs: ``FBS`` inside a FlopCounterMode, ``FBS`` inside a mode that counts ops, and
``FFFBS`` with such a mode around a part of it.
"""

from collections import Counter

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode


class CountOps(TorchDispatchMode):
    """Counts the ops that reach it."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.counts[str(func)] += 1
        return func(*args, **(kwargs or {}))


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = list(zip(torch.randn(3, 8, 4), torch.randn(3, 8, 2), strict=True))


def step(x, y):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


with FlopCounterMode(display=False) as flops:
    step(*data[0])
with CountOps() as whole:
    step(*data[1])
# A mode that is entered when a run is open and left before it ends.
optimizer.zero_grad()
hidden = model[0](data[2][0])
with CountOps() as part:
    output = model[2](model[1](hidden))
loss = F.mse_loss(output, data[2][1])
loss.backward()
optimizer.step()

print(f"flops {flops.get_total_flops()}")
for counts in (whole.counts, part.counts):
    print(f"ops {sum(counts.values())}: {dict(sorted(counts.items()))}")
print(f"loss {loss.item():.9g}")
