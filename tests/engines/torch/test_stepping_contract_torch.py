"""PyTorch's stepper keeps what every stepper promises."""

import torch
import torch.nn.functional as F
from stepping_kit import stepper_of

from tfdbg_cli.testing.stepper_contract import FailingProgram, SteppedProgram, StepperContract


def run(x, v):
    product = x * v
    noise = torch.rand(2)
    result = (product + noise) * 2
    v.add_(1)
    return result


def look_up(indices):
    return F.embedding(indices + 1, torch.arange(6.0).reshape(3, 2)) * 2


class TorchProgram(SteppedProgram):
    product, noise, total, result, variable = "mul:0", "rand:0", "add:0", "mul_1:0", "input/v"

    def __init__(self):
        torch.manual_seed(5)
        self.x, self.v = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])

    def plain(self):
        return run(self.x, self.v)

    def stepper(self):
        return stepper_of(run, self.x, self.v)

    def value(self):
        return self.v

    def draw(self):
        return torch.rand(3)

    def array(self, value):
        return value.detach().clone().numpy()

    def fail(self):
        stepper = stepper_of(look_up, torch.tensor([0, 2]))
        return FailingProgram(stepper, "embedding", "add:0", [0, 1], [[0, 2], [4, 6]])

    def fail_plainly(self):
        look_up(torch.tensor([0, 2]))


class TestTorchSteps(StepperContract):
    def make(self):
        return TorchProgram()
