"""Warnings have the file, line and module that they have alone, whatever is done of them."""

import pytest
from breakers_kit import EVERY_RUN, Both

WAYS = {
    "not watched": (),
    "everything": EVERY_RUN,
    "records": ("config set level ops", "run -f origin_of_nonfinite"),
    "modules": ("config set level modules", "run -f origin_of_nonfinite"),
    "check": ("--check", "origin_of_nonfinite"),
    "steps": ("s", "exit") * 4,
}

PROGRAM = """
import warnings
from torch.utils.checkpoint import checkpoint

class Own(nn.Module):
    def __init__(self, depth=0):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.inner = Own(depth - 1) if depth else None

    def forward(self, x, level):
        if self.inner is not None:
            return self.inner(x * self.weight, level)
        warnings.warn(f"at level {level}", RuntimeWarning, stacklevel=level)
        return x * self.weight

class Step(torch.optim.SGD):
    def step(self, closure=None):
        for level in (1, 2, 3):
            warnings.warn(f"step at level {level}", stacklevel=level)
        return super().step(closure)

class Real(nn.Module):
    def forward(self, x):
        return x.to(torch.float32)

torch.set_warn_always(True)
net, own, one = nn.Linear(3, 3), Own(2), torch.ones(1, 3)
to_real, pair = nn.Sequential(Real(), nn.Flatten(0)), torch.ones(3, dtype=torch.complex64)
weights = torch.ones(3, requires_grad=True)

def wrong_order():
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    torch.optim.lr_scheduler.StepLR(optimizer, 1).step()

def backward():
    loss = net(torch.ones(1, 3)).sum()
    torch.autograd.backward(loss, grad_variables=torch.ones(()))

def complex_backward():
    x = torch.ones(3, requires_grad=True)
    (torch.complex(x, x).to(torch.float32) * weights).sum().backward()

def step():
    optimizer = Step(net.parameters(), lr=0.1)
    net(one).sum().backward()
    optimizer.step()

class Odd(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        warnings.warn("in a backward pass")
        return pair.to(torch.float32)[0] + g

SOURCES = {
    "kernel": lambda: pair.to(torch.float32),
    "kernel in a module": lambda: to_real(pair),
    "binding": lambda: torch.ones(2, 3, 4).T,
    "function": lambda: F.mse_loss(net(one), torch.ones(3)),
    "function of a module": lambda: nn.MSELoss()(net(one), torch.ones(3)),
    "inner function": lambda: F.softmax(net(one)),
    "inner function of a module": lambda: nn.Softmax()(net(one)),
    "scheduler": wrong_order,
    "deprecated argument": backward,
    "complex": complex_backward,
    "sparse": lambda: torch.eye(2).to_sparse_csr(),
    "checkpoint": lambda: checkpoint(net, one.clone().requires_grad_()).sum().backward(),
    "own function": lambda: Odd.apply(weights.clone()).sum().backward(),
    "own optimizer": step,
    **{f"level {n}": lambda n=n: own(one, n) for n in (1, 2, 3, 4, 5, 8, 11)},
}

def shown(message, category, filename, lineno, file=None, line=None):
    tell("    ", category.__name__, filename.rpartition("/")[2], lineno, str(message)[:30])

warnings.showwarning = shown
LINE = SOURCES["kernel"].__code__.co_firstlineno
FILTERS = {
    "default": lambda: warnings.simplefilter("default"),
    "always": lambda: warnings.simplefilter("always"),
    "once": lambda: warnings.simplefilter("once"),
    "module": lambda: warnings.simplefilter("module"),
    "error here": lambda: warnings.filterwarnings("error", module="__main__"),
    "error in it": lambda: warnings.filterwarnings("error", module="torch"),
    "not here": lambda: warnings.filterwarnings("ignore", module="__main__"),
    "not in it": lambda: warnings.filterwarnings("ignore", module=r"torch\\\\..*"),
    "a line": lambda: warnings.filterwarnings("ignore", lineno=LINE),
}
for name, put in FILTERS.items():
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        put()
        tell(name)
        for source, give in SOURCES.items():
            tell("  ", source)
            for _ in range(2):
                try:
                    give()
                except Warning as warning:
                    tell("     raised", type(warning).__name__)
"""


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_program_sees_the_same_warnings(both: Both, way: tuple[str, ...]) -> None:
    both.compare(both.write(PROGRAM.replace("\\\\", "\\")), *way)


def test_warnings_are_printed_as_alone(both: Both) -> None:
    """With the program's own line beneath."""
    program = """
        tell(torch.ones(1, dtype=torch.complex64).to(torch.float32))
        tell(F.mse_loss(torch.ones(1, 3), torch.ones(3)))
        train(Net())
        """
    both.compare(both.write(program), "run -f has_inf_or_nan")


@pytest.mark.parametrize("way", ["everything", "records", "modules"])
def test_the_stack_that_anomaly_mode_prints(both: Both, way: str) -> None:
    """The program's alone, whatever is recorded, also inside of a model."""
    path = both.write(
        """
        class Root(nn.Module):
            def forward(self, x):
                return torch.sqrt(x) * 0

        model = nn.Sequential(nn.Linear(4, 2), nn.ReLU(), Root())
        torch.optim.SGD(model.parameters(), lr=0.1)
        nn.init.constant_(model[0].bias, -9)
        with torch.autograd.set_detect_anomaly(True):
            model(torch.randn(3, 4)).sum().backward()
        """
    )
    alone, done = (
        each.err.partition("Triggered internally")[0]
        for each in (both.alone(path), both.debugged(path, *WAYS[way]))
    )
    begin = f'File "{path}", line 11, in <module>'  # alone, the server of tests is above that
    assert done.partition(begin)[1:] == alone.partition(begin)[1:]
    assert "in forward" in done and "tfdbg_cli" not in done
