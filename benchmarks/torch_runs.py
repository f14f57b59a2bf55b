"""A training step of three models: plain, at each level of `run -f`, with PyTorch's own tools."""

import contextlib
import warnings

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.harness import Row, Table, interleaved_in, main, profile
from benchmarks.waiting import waiting
from tfdbg_cli.engines.torch.engine import ENGINE


class Block(nn.Module):
    """Two convolutions around which the input is carried."""

    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)

    def forward(self, x):
        hidden = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(x + self.norm2(self.conv2(hidden)))


def mlp():
    model = nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    )
    return model, torch.optim.Adam(model.parameters()), torch.randn(128, 784), 8


def resnet():
    stem = [nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU()]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)]
    model = nn.Sequential(*stem, *(Block(32) for _ in range(4)), *head)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    return model, optimizer, torch.randn(16, 3, 32, 32), 1


def transformer():
    layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
    model = nn.Sequential(encoder, nn.Flatten(), nn.Linear(64 * 256, 10))
    return model, torch.optim.AdamW(model.parameters()), torch.randn(8, 64, 256), 1


class Clones(TorchDispatchMode):
    """Keeps a copy of every output, as whoever can't tell what is overwritten has to."""

    def __init__(self):
        super().__init__()
        self.kept = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.kept.append(tensor.clone())
        return result


class Nothing(TorchDispatchMode):
    """Sees every output, and looks at none: less it can't cost to watch op by op in Python."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def debugged(is_debugging=True, **settings):
    """Under the debugger with these settings."""
    return waiting(ENGINE, is_debugging, **settings)


@contextlib.contextmanager
def debug_mode(keeps_outputs):
    """PyTorch's log of ops."""
    from torch.utils._debug_mode import DebugMode

    mode = DebugMode()
    with mode, mode.record_outputs() if keeps_outputs else contextlib.nullcontext():
        yield


LEVELS = {
    "plain": contextlib.nullcontext,
    "under the debugger, no run watched": lambda: debugged(is_debugging=False),
    "run -f: modules": lambda: debugged(level="modules"),
    "run -f: op records": lambda: debugged(level="ops"),
    "run -f: everything": lambda: debugged(level="values"),
    "a dispatch mode that does nothing": Nothing,
    "a copy of every output": Clones,
    "anomaly mode": lambda: torch.autograd.detect_anomaly(check_nan=True),
    "DebugMode": lambda: debug_mode(keeps_outputs=False),
    "DebugMode, outputs kept": lambda: debug_mode(keeps_outputs=True),
}


#: The most that a step may take, by level, as a multiple of the plain one, for each model.
GOALS = {
    "run -f: modules": (1.25, 1.05, 1.03),
    "run -f: op records": (2.1, 1.20, 1.45),
    "run -f: everything": (2.4, 1.4, 1.6),
}
MODELS = (mlp, resnet, transformer)


def prepared(make):
    """A training step of a model, and how many of them a round takes."""
    torch.manual_seed(0)
    model, optimizer, x, steps = make()
    target = torch.randint(0, 10, x.shape[:1])
    criterion = nn.CrossEntropyLoss()

    def step():
        loss = criterion(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step, steps


def measure(make, rounds):
    """What the steps of one model take at all levels.

    A level is entered for a round's steps; the first one under it makes what stays, untimed.
    """
    step, steps = prepared(make)
    return interleaved_in(LEVELS, step, rounds, steps)


def tables(quick):
    """A table for each model, with a row for each level."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="Anomaly Detection")
    made = []
    for number, make in enumerate(MODELS):
        sample = measure(make, 3 if quick else 15)
        plain = sample.seconds("plain")
        table = Table(
            f"A training step: {make.__name__}",
            [],
            floor="plain (ms)",
            ratio="multiple of plain",
            note="The last rows are PyTorch's own tools.",
        )
        for name in list(LEVELS)[1:]:
            goal = GOALS[name][number] if name in GOALS else None
            ratio = sample.ratio(name, "plain")
            row = Row(name, 1e3 * sample.seconds(name), floor=1e3 * plain, ratio=ratio, goal=goal)
            if table.misses(row):
                with LEVELS[name]():
                    step, steps = prepared(make)
                    step()
                    row.profile = profile(step, steps)
            table.rows.append(row)
        made.append(table)
    return made


if __name__ == "__main__":
    main(tables)
