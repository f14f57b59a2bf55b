"""Updates that are written by hand belong to the run whose gradients they use."""

import re

import pytest

HEAD = """
import torch

torch.manual_seed(0)
w, v = torch.randn(3, requires_grad=True), torch.zeros(3)
u = torch.zeros(3, requires_grad=True)


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


def one(p, lr):
    if p is u:
        u.add_(1)
        return
    v.add_(p.grad ** 2)
    p.sub_(lr * p.grad / v.sqrt())
    p.grad = None


def sgd(lr, params):
    with torch.no_grad():
        for p in params:
            one(p, lr)


def helper(lr):
    sgd(lr, [w])


@torch.no_grad()
def decorated_one(p, lr):
    one(p, lr)


def each(params, lr):
    for p in params:
        decorated_one(p, lr)


class Trainer:
    def update(self, lr):
        self.inner(lr)

    def inner(self, lr):
        sgd(lr, [w])

    def step(self, loss, lr):
        loss.backward()
        self.update(lr)


def data(params, lr):
    for p in params:
        v.add_(p.grad ** 2)
        p.data.add_(p.grad / v.sqrt(), alpha=-lr)
        p.grad = None


for step in range(3):
    x = torch.randn(8, 3)
    x[:, 1] = 0
    loss = ((x @ w) ** 2).mean()
    BACKWARD
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
UPDATES = {
    "block": BLOCK,
    "function": "\n    update(0.1)\n",
    "decorated": "\n    decorated(0.1)\n",
    "deep": "\n    helper(0.1)\n",
    "method": "\n    pass\n",
}
# Where it ends is known when something else is done.
OPEN_UPDATES = {
    "data": """
    v += w.grad ** 2
    w.data -= (
        0.1 * w.grad
        / v.sqrt()
    )
    w.grad = None
""",
    "assigned": """
    v += w.grad ** 2
    w.data = w.data - 0.1 * w.grad / v.sqrt()
    w.grad = None
""",
    "in a function": "\n    data([w], 0.1)\n",
    "block by block": """
    for p in (u, w):
        with torch.no_grad():
            one(p, 0.1)
""",
    "call by call": "\n    each([u, w], 0.1)\n",
}
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
    backward = "Trainer().step(loss, 0.1)" if "pass" in update else "loss.backward()"
    path.write_text(HEAD.replace("BACKWARD", backward) + update + END)
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


@pytest.mark.parametrize("kind", OPEN_UPDATES)
def test_an_update_of_data_belongs_to_the_run(programs, tmp_path, kind):
    commands = ("run -f origin_of_nonfinite", "ri", "run", "ri", "lt", "run", "ri", "run")
    out = debugged(programs, tmp_path / "data.py", OPEN_UPDATES[kind], *commands)
    first, _, rest = out.partition("--- run-end: gradient run #1: backward() ---")
    assert "done 0" in first and "done 1" not in first
    stop, _, rest = rest.partition("done 1")
    assert re.findall(r"^\[.* (\S+):0$", stop, re.M) == ["div"]
    assert "loss = mean:0" in stop
    # What comes after the update is the next run's.
    names = re.findall(r"^\[.* (\S+):0$", rest.partition("--- lt ---")[2], re.M)
    assert {"randn", "mv", "mean", "gradients/mv_grad/mv", "div"} <= set(names)
    assert names.count("mean") == 1
    assert re.findall(r"^Gradient run #(\d)", out, re.M) == ["1", "2", "3"]
    assert "Unfinished" not in out


def test_a_forward_pass_before_anybody_knew_that_there_is_no_update(programs, tmp_path):
    commands = ("run", "lt", "run", "lt", "run")
    out = debugged(programs, tmp_path / "none.py", NO_BLOCK, *commands)
    second = out.split("--- lt ---")[2]
    names = re.findall(r"^\[.* (\S+):0$", second, re.M)
    assert {"mv", "mean", "gradients/mv_grad/mv"} <= set(names)
    assert names.count("mv") == 1
