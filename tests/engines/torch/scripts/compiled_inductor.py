"""``torch.compile`` as it comes: kernels by Inductor.

Four training runs: ``FBS``. The loss is printed with five digits: kernels that are fused add up in
another order than those of eager mode, in which a debugged run is computed.
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
compiled = torch.compile(model)

for x, y in zip(torch.randn(4, 8, 4), torch.randn(4, 8, 2), strict=True):
    optimizer.zero_grad()
    loss = F.mse_loss(compiled(x), y)
    loss.backward()
    optimizer.step()

print(f"loss {loss.item():.5g}")
