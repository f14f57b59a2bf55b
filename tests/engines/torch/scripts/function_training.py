"""Gradient descent by ``torch.func`` on a module's parameters, and gradients of each sample.

Five gradient runs: the call of the module is a part of the gradient that asks for it (``FB``).
"""

import torch
from torch import nn
from torch.func import functional_call, grad, grad_and_value, vmap

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
weights = {name: weight.detach() for name, weight in model.named_parameters()}
x, y = torch.randn(16, 4), torch.randn(16, 1)


def loss(weights, x, y):
    return nn.functional.mse_loss(functional_call(model, weights, (x,)), y)


for _ in range(4):
    gradients, value = grad_and_value(loss)(weights, x, y)
    weights = {name: weight - 0.1 * gradients[name] for name, weight in weights.items()}
each = vmap(grad(lambda w, x, y: loss(w, x[None], y[None])), in_dims=(None, 0, 0))(weights, x, y)

print(f"loss {value.item():.9g}, slopes {each['0.weight'].sum().item():.9g}")
