"""What one tensor at the border of a module tells of another: nothing bad is overlooked by it."""

from __future__ import annotations

import math
import re

import pytest
import torch
from modules_kit import first_bad, lines_left, watched
from torch import nn

from tfdbg_cli.engines.torch.modules.facts import Facts
from tfdbg_cli.engines.torch.runs.exact_check import are_clean

BAD = [math.nan, math.inf, -math.inf]
#: Modules, and the shape of what they get.
MODULES = {
    "linear": (lambda: nn.Linear(3, 2), (4, 3)),
    "linear without bias": (lambda: nn.Linear(3, 2, bias=False), (2, 2, 3)),
    "convolution": (lambda: nn.Conv2d(2, 3, 3, padding=1), (1, 2, 4, 3)),
    "convolution in steps": (lambda: nn.Conv2d(2, 3, 2, stride=2), (1, 2, 4, 3)),
    "pointwise convolution in steps": (lambda: nn.Conv2d(2, 3, 1, stride=2), (1, 2, 4, 4)),
    "convolution with holes": (lambda: nn.Conv1d(2, 2, 3, padding=2, dilation=2), (1, 2, 7)),
    "convolution that reads far beyond": (lambda: nn.Conv1d(2, 2, 2, padding=3), (1, 2, 4)),
    "convolution in groups": (lambda: nn.Conv1d(4, 4, 3, groups=2), (2, 4, 5)),
    "convolution of a circle": (
        lambda: nn.Conv1d(2, 2, 3, padding=1, padding_mode="circular"),
        (1, 2, 4),
    ),
    "convolution to the same size": (lambda: nn.Conv1d(2, 2, 3, padding="same"), (1, 2, 4)),
    "batch norm": (lambda: nn.BatchNorm1d(3), (4, 3)),
    "batch norm of all time": (lambda: nn.BatchNorm2d(2, momentum=None), (2, 2, 2, 2)),
    "batch norm that learns nothing": (lambda: nn.BatchNorm1d(3, momentum=0.0), (4, 3)),
    "batch norm without averages": (lambda: nn.BatchNorm1d(3, track_running_stats=False), (4, 3)),
    "batch norm in evaluation": (lambda: nn.BatchNorm1d(3).eval(), (4, 3)),
    "layer norm": (lambda: nn.LayerNorm(3), (4, 3)),
    "layer norm without bias": (lambda: nn.LayerNorm((2, 3), bias=False), (2, 2, 3)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (2, 4, 3)),
    "dropout": (lambda: nn.Dropout(0.5), (4, 3)),
    "dropout of all": (lambda: nn.Dropout(1.0), (4, 3)),
    "dropout of channels": (lambda: nn.Dropout2d(0.5), (2, 3, 2, 2)),
    "dropout in place": (lambda: nn.Dropout(0.5, inplace=True), (4, 3)),
    "pooling": (lambda: nn.AdaptiveAvgPool2d(2), (2, 2, 5, 3)),
    "flattening": (nn.Flatten, (2, 2, 3)),
    "nothing": (nn.Identity, (2, 3)),
    "relu": (nn.ReLU, (2, 3)),
    "maximum": (lambda: nn.MaxPool1d(2), (1, 2, 4)),
    "hooked": (lambda: hooked(nn.Linear(3, 2)), (4, 3)),
    "replaced": (lambda: replaced(nn.Linear(3, 2)), (4, 3)),
    "cleaned": (lambda: cleaned(nn.Linear(3, 2)), (4, 3)),
}
HANDING_BACK = {
    "dropout",
    "dropout of all",
    "dropout of channels",
    "pooling",
    "flattening",
    "nothing",
}
NOTHING_TOLD = {"relu", "maximum", "hooked", "replaced"}


@pytest.fixture(autouse=True)
def one_thread():
    """What is this small takes longer on several."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(count)


def hooked(module):
    module.register_forward_hook(lambda module, given, returned: returned.nan_to_num(0, 0, 0))
    return module


def replaced(module):
    original = module.forward
    module.forward = lambda x: original(x).nan_to_num(0, 0, 0)
    return module


def cleaned(module):
    module.weight.register_hook(lambda gradient: gradient.nan_to_num(0, 0, 0))
    return module


def is_bad(tensor):
    return not bool(torch.isfinite(tensor).all())


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", MODULES)
def test_what_a_module_shows_of_what_it_gets(name, bad):
    make, shape = MODULES[name]
    for at in range(math.prod(shape)):
        torch.manual_seed(at)
        module = make()
        facts = Facts(module)
        x = torch.randn(shape)
        x.view(-1)[at] = bad
        if facts.shows(module):
            assert is_bad(module(x)), at
        averages = facts.averages(module)
        if averages:
            module(x)
            assert is_bad(torch.stack([module.running_mean, module.running_var])), at
    assert not (facts.shows(module) and name in NOTHING_TOLD)
    assert not averages or name in ("batch norm", "batch norm of all time")


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", MODULES)
def test_what_the_gradient_of_a_parameter_tells_of_another(name, bad):
    make, shape = MODULES[name]
    count = make()(torch.randn(shape)).numel()
    for at in range(count):
        torch.manual_seed(at)
        module = make()
        teller = Facts(module).teller(module)
        if teller is None:
            break
        y = module(torch.randn(shape))
        gradient = torch.randn(y.shape)
        gradient.view(-1)[at] = bad
        y.backward(gradient)
        assert is_bad(teller.grad), at
    assert teller is None or name not in (NOTHING_TOLD | {"cleaned"})
    assert teller is not None or not name.startswith("layer norm")


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", MODULES)
def test_what_the_gradient_of_what_a_module_gets_tells(name, bad):
    make, shape = MODULES[name]
    hands_back = Facts(make()).hands_back(make())
    for at in range(make()(torch.randn(shape)).numel() if hands_back else 0):
        torch.manual_seed(at)
        x = torch.randn(shape, requires_grad=True)
        y = make()(x)
        gradient = torch.randn(y.shape)
        gradient.view(-1)[at] = bad
        y.backward(gradient)
        assert is_bad(x.grad), at
    assert hands_back == (name in HANDING_BACK)


def test_many_tensors_are_judged_at_one_look():
    good = [torch.ones(3), torch.ones(2, dtype=torch.float16), nn.Parameter(torch.ones(1))]
    assert are_clean([]) and are_clean(good)
    for bad in (torch.tensor([1.0, math.nan]), torch.tensor([math.inf, -math.inf])):
        assert not are_clean([*good, bad])
    # Nobody knows, as yet.
    assert not are_clean([torch.tensor([3e38, 3e38])])
    assert not are_clean([*good, torch.ones(2).to_sparse()])


#: Modules, and what makes something bad at the border of one that vanishes right after it. The
#: first runs are good, so that it is known by then what tells of what.
VANISHING = {
    "negative infinity before a relu": """
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 3)
    def forward(self, x):
        if STEP == 3:
            x = x - 3e38
        return self.two(F.relu(self.one(x * (3e5 if STEP == 3 else 1))))
""",
    "what another module shows else": """
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.ReLU(), nn.Linear(4, 3)
    def forward(self, x):
        y = self.one(x * float("inf") if STEP == 3 else x)
        return self.two(y if STEP != 3 else torch.zeros_like(y))
""",
    "averages that are not made": """
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.BatchNorm1d(4), nn.Linear(4, 3)
    def forward(self, x):
        self.one.train(STEP != 3)
        y = self.one(x * float("inf") if STEP == 3 else x)
        return self.two(y.nan_to_num(0, 0, 0))
""",
    "a gradient that is masked": """
class Mask(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, gradient):
        return gradient.nan_to_num(0, 0, 0)
class Bad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, gradient):
        return torch.log(gradient * 0.0) if STEP == 3 else gradient
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.ReLU(), nn.Linear(4, 3)
    def forward(self, x):
        return self.two(Bad.apply(self.one(Mask.apply(x))))
""",
    "a gradient that no parameter has": """
class Bad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, gradient):
        return torch.log(gradient * 0.0) if STEP == 3 else gradient
class Mask(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, gradient):
        return gradient.nan_to_num(0, 0, 0)
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 3)
    def forward(self, x):
        return self.two(Bad.apply(self.one(Mask.apply(x))))
""",
}
VANISHING["a gradient that some parameters have"] = VANISHING["a gradient that no parameter has"]
PROGRAM = """
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
STEP = 0

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
    def forward(self, x):
        return self.inner(x)
{inner}
net = Net()
opt = torch.optim.SGD(net.parameters(), 0.1)
for STEP in range(6):
    x = torch.randn(5, 4, requires_grad=True)
    loss = F.cross_entropy(net(x), torch.zeros(5, dtype=torch.long))
    opt.zero_grad()
    {backward}
    opt.step()
print("LEFT", sum(float(each.detach().sum()) for each in net.parameters()))
"""


@pytest.mark.parametrize("shape", VANISHING)
def test_what_vanishes_after_a_border_is_found_though_it_is_told_of_otherwise(
    shape, programs, tmp_path
):
    path = tmp_path / "program.py"
    backward = "loss.backward()"
    if shape == "a gradient that no parameter has":
        backward = "torch.autograd.grad(loss, x) if STEP == 3 else loss.backward()"
    elif shape == "a gradient that some parameters have":
        backward = "loss.backward(inputs=[x] if STEP == 3 else None)"
    path.write_text(PROGRAM.format(inner=VANISHING[shape], backward=backward))
    exact = watched(programs, path, level="values")
    done = watched(programs, path)
    assert lines_left(done) == lines_left(programs.plain(path)), done.out + done.err
    assert first_bad(done) == first_bad(exact), done.out
    number = re.compile(r"run-end: training run #(\d+)")
    assert number.findall(done.out) == number.findall(exact.out) == ["4"]
