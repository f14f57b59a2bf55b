"""Small trainings that are stepped through."""

import torch
import torch.nn.functional as F
from torch_kit import Mlp


def train(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def problem(make_optimizer, make_model=Mlp, size=6):
    def make():
        model = make_model()
        return model, make_optimizer(model.parameters()), torch.randn(5, size), torch.arange(5) % 3

    return make


OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    "foreach": lambda parameters: torch.optim.Adam(parameters, lr=0.01, foreach=True),
    "fused": lambda parameters: torch.optim.SGD(parameters, lr=0.1, fused=True),
}
