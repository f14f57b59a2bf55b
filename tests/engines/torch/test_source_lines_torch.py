"""Ops whose Python frames alone would lead to the wrong line: own backwards, compiled graphs."""

import re

import pytest

BACKWARD = """
import torch


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2  # the forward

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        scale = 1 / x  # the backward
        return g * scale


net = torch.nn.Linear(3, 3)
torch.nn.init.zeros_(net.weight), torch.nn.init.zeros_(net.bias)
loss = Twice.apply(net(torch.ones(2, 3))).sum()  # the call
loss.backward()  # the pass
"""
GRAPHS = """
import sys
import warnings

import torch

warnings.filterwarnings("ignore")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        y = self.linear(x)
        z = torch.log(y * 0)  # the op
        return z + 1


def function(x):
    y = x * 0
    return torch.log(y)  # the op


net, x = Net(), torch.ones(2, 3)
if sys.argv[1] == "script":
    made = torch.jit.script(net)
elif sys.argv[1] == "function":
    script = torch.jit.script(function)
    made = torch.nn.Sequential(net.linear)
    made.forward = lambda x: script(net.linear(x))
else:
    made = torch.export.export(net, (x,)).module()
made(x).sum().backward()  # the call
"""


def shown(programs, path, text, *commands, argument=""):
    """What the commands print after a run that holds something infinite."""
    path.write_text(text)
    words = [word for command in ("run -f has_inf_or_nan", *commands) for word in ("-c", command)]
    done = programs.debugged("--batch", *words, path, *([argument] if argument else []))
    assert done.status == 0, done.err
    return done.out


def texts(output):
    """The marked lines of the program that a stack shows, outermost first."""
    return re.findall(r"^  Text: .*# the (\w+)$", output, re.M)


def test_a_backward_of_the_programs_own(programs, tmp_path):
    path = tmp_path / "own_backward.py"
    name = "gradients/TwiceBackward/reciprocal"
    out = shown(programs, path, BACKWARD, f"ni -t {name}", f"ps {path.name}")
    stack, _, source = out.partition(f"--- ni -t {name} ---")[2].partition("--- source")
    assert texts(stack) == ["pass", "backward", "forward"]
    assert "Gradient of mul, called at:" in stack
    marked = source.partition("# the backward")[2].partition("# the forward")[0]
    assert name in marked.partition("return g * scale")[0]


@pytest.mark.parametrize("kind", ["script", "function", "export"])
def test_graphs_know_their_source(programs, tmp_path, kind):
    out = shown(programs, tmp_path / "graphs.py", GRAPHS, "ni -t log", argument=kind)
    assert texts(out.partition("--- ni -t log ---")[2]) == ["call", "op"]
