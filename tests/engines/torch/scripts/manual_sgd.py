"""Gradient descent on two bare tensors: no module, no optimizer.

Five gradient runs, one for each backward: ``B``. The forward pass is in the run's prologue.
"""

import torch

torch.manual_seed(0)
x = torch.randn(20, 3)
y = x @ torch.tensor([1.0, -2.0, 0.5]) + 0.3
w = torch.zeros(3, requires_grad=True)
b = torch.zeros((), requires_grad=True)

for _ in range(5):
    loss = ((x @ w + b - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        b -= 0.1 * b.grad
    w.grad = b.grad = None

print(f"loss {loss.item():.9g}, w {w.tolist()}, b {b.item():.9g}")
