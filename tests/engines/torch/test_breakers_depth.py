"""Programs whose calls are nested as deep as they can be go as deep as alone."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from breakers_kit import Both, lines_of
from samples import sample

pytestmark = pytest.mark.torch

WAYS = {
    "each run": ("run",) * 40,
    "ops": ("config set level ops", *("run -f has_inf_or_nan",) * 40),
    "modules": ("config set level modules", *("run -f has_inf_or_nan",) * 40),
    "not looked at": ("run -t 1000",),
    "left alone": ("exit --detach",),
}
# How deep each goes is told for several depths that it begins at, as a call may take more than one
# frame. A program that ends in an error at its limit is one too.
PROGRAM = """
import sys
import torch.utils.checkpoint
sys.setrecursionlimit(300)

class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(2) * 0.1)

    def forward(self, depth):
        return self(depth - 1) if depth else self.w * 1

class Op(Plain):
    def forward(self, depth):
        return self(depth - 1) * 0.5 + self.w if depth else self.w * 1

class Hooked(Op):
    def __init__(self):
        super().__init__()
        self.register_forward_pre_hook(lambda module, args: None)
        self.register_forward_hook(lambda module, args, output: None)

class Saves(Plain):
    def forward(self, depth):
        checkpoint = torch.utils.checkpoint.checkpoint
        return checkpoint(self, depth - 1, use_reentrant=False) if depth else self.w * 1

class Limit(Plain):
    def forward(self, depth):
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(before + 1)
        assert sys.getrecursionlimit() == before + 1
        return self(depth - 1) * 0.5 if depth else self.w * 1

def nested(depth, work):
    return nested(depth - 1, work) if depth else work()

def deepest(work, most):
    # In steps of seven, then of one from the last that was deep enough.
    best = None
    for step in (7, 1):
        for depth in range(step + (best or 0), most, step):
            try:
                work(depth)
            except RecursionError:
                break
            best = depth
    return best

for kind in (Plain, Op, Hooked, Saves):
    model = kind()
    most = [deepest(lambda d: nested(k, lambda: model(d).sum().backward()), 200) for k in range(5)]
    tell(kind.__name__, most)

model, limit = Limit(), sys.getrecursionlimit()
model(40).sum().backward()
tell("limit", sys.getrecursionlimit() - limit)
sys.setrecursionlimit(limit)

def hook(depth):
    def call(gradient):
        if depth:
            with torch.enable_grad():
                x = model.w * 1.0
                x.register_hook(hook(depth - 1))
                x.sum().backward()
        return gradient
    return call

def hooks(depth):
    x = model.w * 1.0
    x.register_hook(hook(depth))
    x.sum().backward()

tell("hooks", deepest(hooks, 60))
tell(digest(model.w.grad), sys.getrecursionlimit())

# With much room at the beginning.
sys.setrecursionlimit(900)
model = Plain()
tell("far", [deepest(lambda depth: model(depth).sum().backward(), 400)])
"""


def depths(line: str) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", line.partition("[")[2])]


@pytest.mark.parametrize("way", [*sample(WAYS, 4)])
def test_calls_go_as_deep_as_alone(both: Both, way: str) -> None:
    path = both.write(PROGRAM)
    # The server of the tests is beneath what it runs.
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
    alone, lines = done.stdout.splitlines(), lines_of(both.debugged(path, *WAYS[way]))
    assert len(lines) == len(alone), lines
    for line, plain in zip(lines, alone, strict=True):
        if not depths(plain):
            assert line == plain
        # At the limit itself a frame of ours may have room that the program hasn't.
        for found, wanted in zip(depths(line), depths(plain), strict=True):
            assert wanted <= found <= wanted + 1, (line, plain)


LOWERS = """
import sys

class Lowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(2))

    def forward(self, depth):
        if depth:
            return self(depth - 1) * 1
        for limit in range(20, 900):
            try:
                sys.setrecursionlimit(limit)
                return self.w * 1
            except RecursionError:
                pass

limit = sys.getrecursionlimit()
with torch.no_grad():
    out = Lowers()(1)
sys.setrecursionlimit(limit)
tell(digest(out))
"""


def test_a_call_may_lower_the_limit_to_where_it_is(both: Both) -> None:
    shown = both.compare(both.write(LOWERS), "run", "lt")
    assert "mul_1:0" in shown, shown
