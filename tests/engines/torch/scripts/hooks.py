"""Every kind of hook: on modules before and after, on gradients, on parameters, on the optimizer.

Three training runs: ``FBS``.
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
seen = []


def note(name, tensor):
    seen.append(f"{name} {tensor.detach().abs().sum().item():.6g}")


def scale_input(module, arguments):
    return (arguments[0] * 2,)


def clip_gradient(gradient):
    note("clipped", gradient)
    return gradient.clamp(-0.01, 0.01)


model[0].register_forward_pre_hook(scale_input)
model[1].register_forward_hook(lambda module, arguments, output: note("relu", output))
model[2].register_full_backward_hook(lambda module, inputs, outputs: note("head", outputs[0]))
model[2].weight.register_hook(clip_gradient)
model[0].weight.register_post_accumulate_grad_hook(lambda p: note("weight", p.grad))
optimizer.register_step_post_hook(lambda *_: note("bias", model[2].bias))

for x, y in zip(torch.randn(3, 8, 4), torch.randn(3, 8, 2), strict=True):
    optimizer.zero_grad()
    hidden = model(x)
    hidden.register_hook(lambda gradient: note("output", gradient))
    loss = F.mse_loss(hidden, y)
    loss.backward()
    optimizer.step()

total = sum(p.detach().double().sum().item() for p in model.parameters())
print("; ".join(seen))
print(f"loss {loss.item():.9g}, parameters {total!r}")
