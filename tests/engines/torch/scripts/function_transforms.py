"""``vmap``, ``jvp``, ``jacrev`` and ``functional_call``: gradients of each sample, and more.

Two gradient runs (``B``): the gradients of all samples, and the Jacobian. A directional derivative
by ``jvp`` has no backward.
"""

import torch
from torch import nn
from torch.func import grad, jacrev, jvp, vmap

torch.manual_seed(0)
weights = {"w": torch.randn(4, 3), "b": torch.zeros(3)}
x, y = torch.randn(6, 4), torch.randn(6, 3)


def predict(weights, x):
    return torch.tanh(x @ weights["w"] + weights["b"])


def loss(weights, x, y):
    return nn.functional.mse_loss(predict(weights, x), y)


per_sample = vmap(grad(loss), in_dims=(None, 0, 0))(weights, x, y)
norms = per_sample["w"].flatten(1).norm(dim=1)
_, slope = jvp(lambda x: predict(weights, x), (x,), (torch.ones_like(x),))
jacobian = jacrev(predict, argnums=1)(weights, x[0])

print(f"norms {norms.tolist()}")
print(f"slope {slope.sum().item():.9g}, jacobian {jacobian.sum().item():.9g}")
