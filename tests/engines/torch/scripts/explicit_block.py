"""The author says what a run is: two steps and a look at the result.

Two blocks, ``FBSFBSF`` each; nothing outside of them is a run.
"""

import torch
import torch.nn.functional as F
from torch import nn

import tfdbg_cli

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for _ in range(2):
    with tfdbg_cli.run():
        for x, y in zip(torch.randn(2, 8, 4), torch.randn(2, 8, 2), strict=True):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            output = model(torch.ones(1, 4))

print(f"loss {loss.item():.9g}, output {output.tolist()}")
