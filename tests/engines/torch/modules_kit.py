"""Programs whose runs are watched at the borders of their modules, and what is read off."""

from __future__ import annotations

import re
from pathlib import Path

from program_server import Done, Programs

__all__ = [
    "HEAD",
    "TAIL",
    "alike",
    "all_bad",
    "first_bad",
    "frames",
    "line_of",
    "lines_left",
    "watched",
]

HEAD = """
import random
from collections import Counter, deque
from types import SimpleNamespace
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
random.seed(0)
np.random.seed(0)
STEP = 0


class Bad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return torch.log(gradient * 0.0) if STEP == 2 else gradient


class Net(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.fc1 = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.5)
        self.inner = inner
        self.fc2 = nn.Linear(8, 3)

    def forward(self, x):
        return self.fc2(self.inner(self.drop(self.norm(self.fc1(x)))))


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))
        self.register_buffer("seen", torch.zeros(8))
        self.calls = 0

"""
TAIL = """

def criterion(out, y):
    return F.cross_entropy(out, y)


net = Net(Inner())
opt = torch.optim.Adam(net.parameters(), 1e-2)
for STEP in range(4):
    x, y = torch.randn(6, 4), torch.randint(0, 3, (6,))
    loss = criterion(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
state = [float(p.detach().double().sum()) for p in net.state_dict().values()]
print("LEFT", state, net.inner.calls, torch.rand(1).item(), random.random(), np.random.rand())
"""


def lines_left(done: Done) -> list[str]:
    return [line for line in done.out.splitlines() if line.startswith(("LEFT", "CALLED"))]


def watched(
    programs: Programs,
    *program: str | Path,
    level: str = "modules",
    name: str = "has_inf_or_nan",
    more: tuple[str, ...] = (),
) -> Done:
    """A program under `run -f`, to the first bad run."""
    commands = [f"config set level {level}", f"run -f {name}", "run_info", *more, "exit"]
    options = [part for command in commands for part in ("-c", command)]
    return programs.debugged("--batch", "--engine", "torch", *options, *program)


def alike(
    programs: Programs, *program: str | Path, more: tuple[str, ...] = ()
) -> tuple[Done, Done, Done]:
    """A program alone, watched at the borders of its modules, and with all values.

    It leaves the same behind, and the same line is to blame.
    """
    plain = programs.plain(*program)
    done, exact = (
        watched(programs, *program, level=level, name="origin_of_nonfinite", more=more)
        for level in ("modules", "values")
    )
    assert lines_left(plain) == lines_left(exact) == lines_left(done) != [], done.out + done.err
    assert line_of(done) == line_of(exact)
    return plain, done, exact


def first_bad(done: Done) -> str:
    """Health and name of the first bad tensor."""
    found = re.search(r"\d+ (nan|[+-]inf)[^\n]*? +(\S+:\d+)$", done.out, re.MULTILINE)
    assert found is not None, done.out + done.err
    return " ".join(found.groups())


def line_of(done: Done) -> str:
    """The line of the user's that the verdict names."""
    return "".join(re.findall(r"^Line:.*", done.out, re.MULTILINE)[:1])


def all_bad(done: Done) -> list[str]:
    """The names of all tensors that are listed."""
    listed = done.out.partition("dumped tensor(s) passing filter")[2].partition("\n--- ")[0]
    return re.findall(r" (\S+:\d+)$", listed, re.MULTILINE)


def frames(done: Done) -> list[tuple[str, str]]:
    """Line and function of the user's frames of a traceback."""
    stack = done.out.partition("--- ni -t")[2]
    return re.findall(r"Line: +(\d+)\s+Function: (\S+)", stack)
