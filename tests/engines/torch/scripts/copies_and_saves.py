"""Models and activations are copied, pickled and saved in the middle of the loop.

Three training runs: ``FBS``. Nothing of a debugger is in what was saved.
"""

import copy
import io
import pickle

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
average = copy.deepcopy(model)
sizes = []

for x, y in zip(torch.randn(3, 8, 4), torch.randn(3, 8, 2), strict=True):
    optimizer.zero_grad()
    output = model(x)
    kept = copy.deepcopy(output.detach())
    file = io.BytesIO()
    torch.save({"output": output, "input": x}, file)
    sizes.append(len(pickle.dumps(output.detach())))
    loss = F.mse_loss(output, y)
    loss.backward()
    gradients = copy.deepcopy([p.grad for p in model.parameters()])
    optimizer.step()

    whole = io.BytesIO()
    torch.save({"model": model, "optimizer": optimizer.state_dict()}, whole)
    whole.seek(0)
    again = torch.load(whole, weights_only=False)["model"]
    for p, q in zip(average.parameters(), again.parameters(), strict=True):
        p.data.lerp_(q.data, 0.5)
    file.seek(0)
    saved = torch.load(file)["output"]
    assert torch.equal(saved, kept) and vars(output) == vars(saved) == {}
    assert all(not vars(p) for p in again.parameters())

total = sum(p.detach().double().sum().item() for p in average.parameters())
norm = sum(g.norm().item() for g in gradients)
print(f"loss {loss.item():.9g}, sizes {sizes}, gradients {norm:.9g}, average {total!r}")
