"""Updates that are written by hand belong to the run whose gradients they use."""

import re

import pytest

HEAD = """
import torch

torch.manual_seed(0)
w, v = torch.randn(3, requires_grad=True), torch.zeros(3)


def update(lr):
    with torch.no_grad():
        v.add_(w.grad ** 2)
        w.sub_(lr * w.grad / v.sqrt())  # 0/0 in the first step
        w.grad = None


@torch.no_grad()
def decorated(lr):
    v.add_(w.grad ** 2)
    w.sub_(lr * w.grad / v.sqrt())
    w.grad = None


for step in range(3):
    x = torch.randn(8, 3)
    x[:, 1] = 0
    loss = ((x @ w) ** 2).mean()
    loss.backward()
    total = loss.item()
"""
BLOCK = """
    with torch.no_grad():
        print("loss", total)
    with torch.no_grad():
        v += w.grad ** 2
        w -= 0.1 * w.grad / v.sqrt()
        w.grad = None
"""
UPDATES = {"block": BLOCK, "function": "\n    update(0.1)\n", "decorated": "\n    decorated(0.1)\n"}
END = '    print("done", step, loss.item(), w.tolist(), flush=True)\n'

NO_BLOCK = """
    if step > 100:
        with torch.no_grad():
            print("never")
    w.data -= 0.1 * w.grad
    w.grad = None
"""


def debugged(programs, path, update, *commands):
    """The output under the debugger, and that of the program alone."""
    path.write_text(HEAD + update + END)
    plain = programs.plain(path)
    words = [word for command in commands for word in ("-c", command)]
    done = programs.debugged("--batch", *words, path)
    assert done.status == plain.status == 0, done.err
    lines = [text for text in done.out.splitlines() if text.startswith(("done", "loss"))]
    assert lines == plain.out.splitlines()
    return done.out


@pytest.mark.parametrize("kind", UPDATES)
def test_the_update_belongs_to_the_run(programs, tmp_path, kind):
    path = tmp_path / "update.py"
    commands = ("run -f origin_of_nonfinite", "ri", "run", "ri", "run", "ri", "run")
    out = debugged(programs, path, UPDATES[kind], *commands)
    first = out.partition("done 0")[0]
    assert "run-end: gradient run #1: backward()" in first
    assert re.findall(r"^\[.* (\S+):0$", first, re.M) == ["div"]
    assert "loss = mean:0" in first
    assert re.findall(r"^Gradient run #(\d)", out, re.M) == ["1", "2", "3"]
    assert "Unfinished" not in out


def test_a_forward_pass_before_anybody_knew_that_there_is_no_update(programs, tmp_path):
    commands = ("run", "lt", "run", "lt", "run")
    out = debugged(programs, tmp_path / "none.py", NO_BLOCK, *commands)
    second = out.split("--- lt ---")[2]
    names = re.findall(r"^\[.* (\S+):0$", second, re.M)
    assert {"mv", "mean", "gradients/mv_grad/mv"} <= set(names)
    assert names.count("mv") == 1
