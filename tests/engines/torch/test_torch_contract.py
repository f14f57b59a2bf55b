"""What every engine promises, of programs that use PyTorch."""

import torch

from tfdbg_cli.engines.torch.engine import ENGINE
from tfdbg_cli.testing.engine_contract import EngineContract, EngineProgram


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))

    def reset(self):
        self.register_buffer("v", torch.tensor([3.0, 4.0]))
        self.stream = torch.Generator().manual_seed(7)

    def forward(self, x, how=""):
        product = x * self.v
        if how == "fail":
            return product.view(3)
        if how == "interrupt":
            raise KeyboardInterrupt
        if how == "swallow":
            torch.sqrt(product)
        noise = torch.randn(2, generator=self.stream)
        total = product + noise
        result = total * self.weight
        result.mul_(2)
        self.v += 1
        return result


# Modules have names of their own as long as the process lives: there is one.
net = Net()


class InferenceProgram(EngineProgram):
    engine = ENGINE
    product, noise, total, result = "mul:0", "randn:0", "add:0", "mul_:0"
    given = "input/x:0"
    error, failing = RuntimeError, "view"
    bad, reason = "sqrt:0", "the square root of a negative number"
    keeps_values = False  # it holds references and sees what is written while a run lasts

    def __init__(self):
        net.reset()

    def run(self, given):
        with torch.no_grad():
            return net(torch.tensor(given))

    def swallow(self, given):
        with torch.no_grad():
            return net(torch.tensor(given), "swallow")

    def fail(self, given):
        net(torch.tensor(given), "fail")

    def interrupt(self, given):
        net(torch.tensor(given), "interrupt")

    def array(self, result):
        return result.detach().numpy()

    def value(self):
        return net.v.numpy()


class TrainingProgram(InferenceProgram):
    """The steps of an optimizer are the ends of the runs."""

    bad = ""  # the inference has it, too

    def __init__(self):
        super().__init__()
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0)

    def run(self, given):
        result = net(torch.tensor(given))
        self.optimizer.zero_grad()
        result.sum().backward()
        self.optimizer.step()
        return result


class TestInference(EngineContract):
    def make(self):
        return InferenceProgram()


class TestTraining(EngineContract):
    def make(self):
        return TrainingProgram()
