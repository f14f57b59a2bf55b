"""Each parameter has an optimizer that steps as soon as its gradient is there.

Four training runs, one for each backward: ``FBSS``.
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}


def update(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(update)

for x, y in zip(torch.randn(4, 8, 4), torch.randn(4, 8, 2), strict=True):
    loss = F.mse_loss(model(x), y)
    loss.backward()

total = sum(p.detach().double().sum().item() for p in model.parameters())
print(f"loss {loss.item():.9g}, parameters {total!r}")
