"""Remedies that change several ops of one line, as those of a hand-written binary cross entropy."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from examples_kit import needs
from program_server import debugger_in, python_in

# Step 2 is bad by both logarithms. What stands for the loss is the same by logits.
PROGRAMS = {
    "torch": (
        """
        import torch
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step in range(4):
            x = torch.randn(8, 3)
            y = (x.sum(1, keepdim=True) > 0.5).float()
            optimizer.zero_grad()
            z = model(x * (400 if step == 2 else 1))
            p = torch.sigmoid(z)
            loss = -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()
            loss.backward()
            optimizer.step()
            norm = sum(w.grad.norm() for w in model.parameters())
            print(step, float(loss.detach()), float(norm))
        """,
        "-(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()",
        "torch.nn.functional.binary_cross_entropy_with_logits(z, y)",
    ),
    "tensorflow": (
        """
        import tensorflow as tf
        w = tf.Variable(tf.ones((3, 1)))
        @tf.function
        def train(x, y):
            with tf.GradientTape() as tape:
                z = x @ w
                p = tf.sigmoid(z)
                loss = -tf.reduce_mean(y * tf.math.log(p) + (1 - y) * tf.math.log(1 - p))
            g = tape.gradient(loss, w)
            w.assign_sub(0.1 * g)
            return loss, tf.norm(g)
        for step in range(4):
            x = tf.random.stateless_normal((8, 3), (step, 1)) * (400.0 if step == 2 else 1.0)
            y = tf.cast(tf.reduce_sum(x, 1, keepdims=True) > 200, tf.float32)
            print(step, *map(float, train(x, y)))
        """,
        "-tf.reduce_mean(y * tf.math.log(p) + (1 - y) * tf.math.log(1 - p))",
        "tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, z))",
    ),
    "jax": (
        """
        import jax
        import jax.numpy as jnp
        @jax.jit
        def train(w, x, y):
            def loss_of(w):
                z = x @ w
                p = jax.nn.sigmoid(z)
                return -(y * jnp.log(p) + (1 - y) * jnp.log(1 - p)).mean()
            loss, g = jax.value_and_grad(loss_of)(w)
            return w - 0.1 * g, loss, jnp.linalg.norm(g)
        w = jnp.ones(3)
        for step in range(4):
            x = jax.random.normal(jax.random.key(step), (8, 3)) * (400 if step == 2 else 1)
            y = (x.sum(1) > 200).astype(jnp.float32)
            w, loss, norm = train(w, x, y)
            print(step, float(loss), float(norm))
        """,
        "-(y * jnp.log(p) + (1 - y) * jnp.log(1 - p)).mean()",
        "-(y * jax.nn.log_sigmoid(z) + (1 - y) * jax.nn.log_sigmoid(-z)).mean()",
    ),
}


@pytest.fixture(params=[pytest.param(each, marks=needs(each)) for each in PROGRAMS])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str, str]:
    text, loss, logits = PROGRAMS[request.param]
    (tmp_path / "train.py").write_text(dedent(text))
    return tmp_path, loss, logits


_RUN = ("--batch", "-c", "config set level values", "-c", "run -f")


def test_the_loss_of_logits_is_foretold(program: tuple[Path, str, str]) -> None:
    folder, loss, logits = program
    done = debugger_in(folder, *_RUN, "-c", "fix 1 --go", "train.py")
    assert "Tried: BCE with logits in place of log(p) and log(1 - p): clean to the loss, grad" in (
        done.stdout
    )
    text = (folder / "train.py").read_text()
    (folder / "changed.py").write_text(text.replace(loss, logits))
    now, expected = _rows(done.stdout)[2], _rows(python_in(folder, "changed.py").stdout)[2]
    np.testing.assert_allclose(now, expected, rtol=1e-3)


def test_both_are_changed_by_one_patch(program: tuple[Path, str, str]) -> None:
    folder, _, _ = program
    done = debugger_in(folder, *_RUN, "-c", "fix --json", "train.py")
    tried = [json.loads(each) for each in done.stdout.splitlines() if each.startswith('{"change"')]
    clean = [each for each in tried if each["clean"] and each["patch"]]
    assert clean, done.stdout
    assert len(re.findall("1e-12", clean[0]["change"])) == 2
    (folder / "both.patch").write_text(clean[0]["patch"])
    subprocess.run(["git", "apply", "-p1", "both.patch"], cwd=folder, check=True)
    after = _rows(python_in(folder, "train.py").stdout)
    assert np.isfinite(after).all()
    np.testing.assert_allclose(after[2][1], clean[0]["loss"], rtol=1e-5)


def _rows(out: str) -> list[list[float]]:
    rows = re.findall(r"^\d(?: (?:-?[\d.]\S*|-?inf|nan)){2}$", out, re.MULTILINE)
    return [[float(x) for x in row.split()] for row in rows]


# A softmax that is written by hand; step 1 is bad.
SOFTMAX = {
    "torch": """
        import torch
        w = torch.eye(3, requires_grad=True)
        for step in range(3):
            z = torch.tensor([[1.0, 2.0, 3.0], [3.0, 1.0, 0.0]]) @ w * (60 if step == 1 else 1)
            e = torch.exp(z)
            p = e / e.sum(-1, keepdim=True)
            loss = (p[:, 0] - 0.3).square().mean()
            loss.backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
                w.grad = None
            print(step, float(w.detach().sum()), float(loss.detach()))
        """,
    "tensorflow": """
        import tensorflow as tf
        @tf.function
        def step_of(x):
            z = tf.constant([[1.0, 2.0, 3.0], [3.0, 1.0, 0.0]]) * x
            e = tf.exp(z)
            p = e / tf.reduce_sum(e, -1, keepdims=True)
            return tf.reduce_mean((p[:, 0] - 0.3) ** 2), tf.reduce_sum(p)
        for step in range(3):
            loss, total = step_of(tf.constant(60.0 if step == 1 else 1.0))
            print(step, float(total), float(loss))
        """,
    "jax": """
        import jax
        import jax.numpy as jnp
        @jax.jit
        def step_of(x):
            z = jnp.array([[1.0, 2.0, 3.0], [3.0, 1.0, 0.0]]) * x
            e = jnp.exp(z)
            p = e / e.sum(-1, keepdims=True)
            return ((p[:, 0] - 0.3) ** 2).mean(), p.sum()
        for step in range(3):
            loss, total = step_of(60.0 if step == 1 else 1.0)
            print(step, float(total), float(loss))
        """,
}


@pytest.mark.parametrize("engine", [pytest.param(each, marks=needs(each)) for each in SOFTMAX])
def test_the_maximum_is_subtracted_from_a_softmax_by_hand(engine: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(dedent(SOFTMAX[engine]))
    done = debugger_in(tmp_path, *_RUN, "-c", "fix --json", "train.py")
    tried = [json.loads(each) for each in done.stdout.splitlines() if each.startswith('{"change"')]
    assert tried, done.stdout
    assert tried[0]["clean"], tried
    (tmp_path / "one.patch").write_text(tried[0]["patch"])
    subprocess.run(["git", "apply", "-p1", "one.patch"], cwd=tmp_path, check=True)
    after = _rows(python_in(tmp_path, "train.py").stdout)
    assert np.isfinite(after).all()
    if engine == "torch":
        assert np.isclose(tried[0]["loss"], after[1][2], rtol=1e-4)
    else:  # without gradients nobody knows which of the numbers is the loss
        assert tried[0]["loss"] is None
    assert "max" in tried[0]["change"]


# Logits that the loss uses once more: their other gradients stay.
USED_TWICE = {
    "log softmax": ("-torch.log(torch.softmax(z, -1)).mean()", "-torch.log_softmax(z, -1).mean()"),
    "log sigmoid": (
        "-torch.log(torch.sigmoid(z)).mean()",
        "-torch.nn.functional.logsigmoid(z).mean()",
    ),
    "log sum exp": ("torch.log(torch.exp(z).sum(-1)).mean()", "torch.logsumexp(z, -1).mean()"),
}


@pytest.mark.parametrize("form", [pytest.param(each, marks=needs("torch")) for each in USED_TWICE])
def test_gradients_from_elsewhere_stay(form: str, tmp_path: Path) -> None:
    loss, stable = USED_TWICE[form]
    text = """
        import torch
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        for step in range(4):
            z = model(torch.randn(8, 4) * (400 if step == 2 else 1))
            loss = LOSS + z.square().mean() * 1e-4
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(step, float(loss.detach()), float(model.weight.detach().square().sum()))
        """
    for name, form_of_loss in (("train.py", loss), ("changed.py", stable)):
        (tmp_path / name).write_text(dedent(text.replace("LOSS", form_of_loss)))
    done = debugger_in(tmp_path, *_RUN, "-c", "fix 1 --go", "train.py")
    assert " with the change." in done.stdout, done.stdout
    now, expected = _rows(done.stdout), _rows(python_in(tmp_path, "changed.py").stdout)
    np.testing.assert_allclose(now[2:], expected[2:], rtol=1e-4)


# A call in a function of two layers, which checkpointing computes once more; step 2 is bad.
SEVERAL = {
    "torch": """
        import torch
        from torch.utils.checkpoint import checkpoint
        torch.manual_seed(0)
        def block(w, x):
            return torch.relu(x * torch.rsqrt(x.var(-1, keepdim=True)) @ w)
        weights = [(0.1 * torch.randn(6, 6)).requires_grad_() for _ in range(2)]
        optimizer = torch.optim.SGD(weights, 0.01)
        for step in range(4):
            x = torch.randn(4, 6)
            x[1] = 0.0 if step == 2 else x[1]
            for w in weights:
                x = x + checkpoint(block, w, x, use_reentrant=False)
            loss = x.sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(step, float(loss.detach()), float(weights[0].detach().sum()))
    """,
    "jax": """
        import jax
        import jax.numpy as jnp
        @jax.checkpoint
        def block(w, x):
            return jax.nn.relu(x * jax.lax.rsqrt(x.var(-1, keepdims=True)) @ w)
        def loss_of(weights, x):
            for w in weights:
                x = x + block(w, x)
            return x.sum()
        @jax.jit
        def train(weights, x):
            loss, gradients = jax.value_and_grad(loss_of)(weights, x)
            return [w - 0.01 * g for w, g in zip(weights, gradients)], loss
        weights = [0.1 * jax.random.normal(jax.random.key(at), (6, 6)) for at in range(2)]
        for step in range(4):
            x = jax.random.normal(jax.random.key(step), (4, 6))
            x = x.at[1].set(0.0) if step == 2 else x
            weights, loss = train(weights, x)
            print(step, float(loss), float(weights[0].sum()))
    """,
}


@pytest.mark.parametrize("engine", [pytest.param(each, marks=needs(each)) for each in SEVERAL])
def test_a_call_that_was_made_several_times_is_changed_as_one(tmp_path: Path, engine: str) -> None:
    (tmp_path / "train.py").write_text(dedent(SEVERAL[engine]))
    done = debugger_in(tmp_path, *_RUN, "-c", "fix --json", "-c", "lt -t rsqrt", "train.py")
    tried = [json.loads(each) for each in done.stdout.splitlines() if each.startswith('{"change"')]
    assert tried, done.stdout
    assert "True) + 1e-12)" in tried[0]["change"] or "True) + 1e-12)" in tried[1]["change"], tried
    assert all(each["clean"] for each in tried if each["patch"]), tried
    assert re.search(r"recompute/rsqrt\S*:0$", done.stdout, re.MULTILINE), done.stdout
    (tmp_path / "one.patch").write_text(tried[0]["patch"])
    subprocess.run(["git", "apply", "-p1", "one.patch"], cwd=tmp_path, check=True)
    after = _rows(python_in(tmp_path, "train.py").stdout)
    assert np.isfinite(after).all()
    np.testing.assert_allclose(after[2][1], tried[0]["loss"], rtol=1e-5)
