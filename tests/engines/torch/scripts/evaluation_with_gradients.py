"""An evaluation whose author forgot ``no_grad`` while the optimizer is alive.

Its calls are told by what becomes of them: the program drops all results, so that no backward pass
can be for them. Three times: two inference runs (``F``) and a training run (``FBS``).
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
held_out = torch.randn(2, 8, 4)

for x, y in zip(torch.randn(3, 8, 4), torch.randn(3, 8, 2), strict=True):
    score = sum(model(batch).mean().item() for batch in held_out)
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()

print(f"loss {loss.item():.9g}, score {score:.9g}")
