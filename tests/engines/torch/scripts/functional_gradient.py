"""Gradients as functions, by ``torch.func``.

Four gradient runs, one for each call of the gradient: ``B``.
"""

import torch
from torch.func import grad


def energy(position):
    return (position**4).sum() - (position.roll(1) * position).sum()


torch.manual_seed(0)
position = torch.randn(5)
force = grad(energy)
for _ in range(4):
    position = position - 0.05 * force(position)

print(f"energy {energy(position).item():.9g}")
