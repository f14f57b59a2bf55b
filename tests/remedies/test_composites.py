"""One function in place of several ops, and what keeps them within the range of their dtype.

Each program is bad in step 1. The loss and the gradients that it gets with the first remedy are
those of the program with the better expression.
"""

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
from samples import sample

PROGRAMS = {
    "torch": """
        import torch
        torch.manual_seed(0)
        x = torch.randn(4, 8).abs() + 0.1
        y = torch.randn(4, 8).abs() + 0.1
        for step in range(3):
            a = (x * (FACTOR if step == 1 else 1.0)).requires_grad_()
            b = y.clone().requires_grad_()
            loss = (EXPRESSION * SCALE).mean() + 0 * b.sum()
            loss.backward()
            print(step, float(loss.detach()), *(float(each.grad.abs().sum()) for each in (a, b)))
        """,
    "jax": """
        import jax
        import jax.numpy as jnp
        x, y = (jnp.abs(jax.random.normal(jax.random.key(at), (4, 8))) + 0.1 for at in (0, 1))
        @jax.jit
        def step_of(a, b):
            def loss_of(a, b):
                return (EXPRESSION * SCALE).mean()
            loss, found = jax.value_and_grad(loss_of, (0, 1))(a, b)
            return loss, *(jnp.abs(each).sum() for each in found)
        for step in range(3):
            print(step, *map(float, step_of(x * (FACTOR if step == 1 else 1.0), y)))
        """,
    "tensorflow": """
        import tensorflow as tf
        x, y = (tf.abs(tf.random.stateless_normal((4, 8), (at, 1))) + 0.1 for at in (0, 1))
        @tf.function
        def step_of(a, b):
            with tf.GradientTape() as tape:
                tape.watch([a, b])
                loss = tf.reduce_mean(EXPRESSION * SCALE) + 0 * tf.reduce_sum(b)
            return loss, *(tf.reduce_sum(tf.abs(each)) for each in tape.gradient(loss, [a, b]))
        for step in range(3):
            print(step, *map(float, step_of(x * (FACTOR if step == 1 else 1.0), y)))
        """,
}
# Engine, factor of the bad step, scale of the result, expression, the better one.
CASES = {
    "hypot": (
        *("torch", "3e25", "1e-25", "torch.sqrt(a * a + b ** 2)"),
        "torch.hypot(a, b)",
    ),
    "logaddexp": (
        *("torch", "200.0", "1.0", "(a.exp() + torch.exp(b)).log()"),
        "torch.logaddexp(a, b)",
    ),
    "logsumexp": (
        *("torch", "200.0", "1.0", "torch.log(torch.exp(a).sum(-1))"),
        "torch.logsumexp(a, -1)",
    ),
    "log_softmax": (
        *("torch", "200.0", "1.0", "torch.log(a.softmax(dim=-1))"),
        "torch.log_softmax(a, dim=-1)",
    ),
    "cosine": (
        *("torch", "0.0", "1.0"),
        "(a * b).sum(-1) / (((a * a).sum(-1)).sqrt() * ((b * b).sum(-1)).sqrt())",
        "torch.nn.functional.cosine_similarity(a, b)",
    ),
    "scaled": (
        *("torch", "15000.0", "1.0", "(a.half() @ b.half().T / 64).float()"),
        "((a.half() / 64) @ b.half().T).float()",
    ),
    "mean of squares": (
        *("torch", "500.0", "1e-3", "torch.sqrt((a.half() * a.half()).mean(-1)).float()"),
        "torch.sqrt((a.half().float() * a.half().float()).mean(-1)).half().float()",
    ),
    "expm1": (
        *("torch", "1e-9", "1.0", "a / (torch.exp(a) - 1)"),
        "a / (torch.expm1(a))",
    ),
    "log1p": (
        *("torch", "1e-9", "1.0", "a / torch.log(1 + a)"),
        "a / torch.log1p(a)",
    ),
    "hypot, JAX": (
        *("jax", "3e25", "1e-25", "jnp.sqrt(a * a + b * b)"),
        "jnp.hypot(a, b)",
    ),
    "logaddexp, JAX": (
        *("jax", "200.0", "1.0", "jnp.log(jnp.exp(a) + jnp.exp(b))"),
        "jnp.logaddexp(a, b)",
    ),
    "logsumexp, TF": (
        *("tensorflow", "200.0", "1.0", "tf.math.log(tf.reduce_sum(tf.exp(a), -1))"),
        "tf.reduce_logsumexp(a, -1)",
    ),
    "scaled, TF": (
        *("tensorflow", "15000.0", "1.0"),
        "tf.cast(tf.cast(a, 'half') @ tf.transpose(tf.cast(b, 'half')) / 64, 'float')",
        "tf.cast((tf.cast(a, 'half') / 64) @ tf.transpose(tf.cast(b, 'half')), 'float')",
    ),
}


@pytest.mark.parametrize(
    "name", [*sample([pytest.param(each, marks=needs(case[0])) for each, case in CASES.items()], 4)]
)
def test_the_program_goes_on_as_with_the_better_expression(name: str, tmp_path: Path) -> None:
    engine, factor, scale, expression, better = CASES[name]
    text = dedent(PROGRAMS[engine]).replace("FACTOR", factor).replace("SCALE", scale)
    (tmp_path / "train.py").write_text(text.replace("EXPRESSION", expression))
    (tmp_path / "changed.py").write_text(text.replace("EXPRESSION", better))
    commands = ("config set level values", "run -f", "fix --json", "fix 1 --go")
    flags = [part for each in commands for part in ("-c", each)]
    done = debugger_in(tmp_path, "--batch", *flags, "train.py")
    assert " with the change." in done.stdout, done.stdout
    now, expected = _rows(done.stdout), _rows(python_in(tmp_path, "changed.py").stdout)
    assert len(now) == 3
    np.testing.assert_allclose(now, expected, rtol=2e-3)
    tried = [json.loads(each) for each in done.stdout.splitlines() if each.startswith('{"change"')]
    if tried[0]["patch"]:  # then it is that expression
        assert tried[0]["change"] in better
        (tmp_path / "one.patch").write_text(tried[0]["patch"])
        subprocess.run(["git", "apply", "-p1", "one.patch"], cwd=tmp_path, check=True)
        assert (tmp_path / "train.py").read_text() == (tmp_path / "changed.py").read_text()


@pytest.mark.parametrize("more", ["", " + (e > 2).float().mean()"])
def test_what_else_reads_the_parts_keeps_them(more: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = dedent(
        """
        import torch
        w = torch.ones((), requires_grad=True)
        for step in range(3):
            e = torch.exp(torch.arange(4.0) * w * (60 if step == 1 else 1))
            loss = torch.log(e.sum(-1))
            (loss + w).backward()
        """
    )
    (tmp_path / "train.py").write_text(text.replace("e.sum(-1))", f"e.sum(-1)){more}"))
    flags = ("-c", "config set level values", "-c", "run -f", "-c", "fix")
    out = debugger_in(tmp_path, "--batch", *flags, "train.py").stdout
    assert "It began in [exp]" in out
    assert ("logsumexp in place of" in out) == (not more)


def _rows(out: str) -> list[list[float]]:
    rows = re.findall(r"^\d(?: (?:-?[\d.]\S*|-?inf|nan)){3}$", out, re.MULTILINE)
    return [[float(x) for x in row.split()] for row in rows]
