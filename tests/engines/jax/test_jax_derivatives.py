"""JAX computes derivatives beside the ops of the forward pass: verdicts tell the two apart."""

import re
from pathlib import Path

import pytest
from program_server import Programs, environment

pytest.importorskip("jax")

PROGRAM = """
import jax, jax.numpy as jnp

def loss_of(w, x):
    return LOSS

@jax.jit
def step(w, x):
    RETURN

step(jnp.ones(2), jnp.array([[1.0, 2.0], [3.0, 2.0]]))
"""
BOTH = "l, g = jax.value_and_grad(loss_of)(w, x); return l, w - 0.1 * g"
GRADIENT = "return w - 0.1 * jax.grad(loss_of)(w, x)"
SPREAD = "a gradient computed from the same input is bad too, gradients/"
# Loss, what the step returns, where it began, what the verdict says of the rest.
CASES = {
    "the loss divides 0 by 0": (
        *("jnp.sum((x * w - (x * w).mean(0)) / (x * w).std(0))", BOTH),
        *(r"\[div\] div_1:0 .*\nWhy: +0 / 0", rf"result\[0\].*\n.*{SPREAD}.*result\[1\]"),
    ),
    "an angle to a vector of zeros": (
        *("jnp.sum(jnp.sum(x * w * 0, 1) / jnp.linalg.norm(x * w * 0, axis=1))", BOTH),
        *(r"\[div\] div:0 .*\nWhy: +0 / 0", rf"result\[0\].*\n.*{SPREAD}.*result\[1\]"),
    ),
    "a loss that swallows an infinity": (
        *("w.size / jnp.sum(1 / (w - x[1, 1] / 2))", BOTH),
        *(r"\[div\] div_1:0 .*\nWhy: +a division by 0", rf"{SPREAD}.*result\[1\]"),
    ),
    "a power of a negative number": (
        *("jnp.mean(jnp.power(x @ w - 9, 0.5))", BOTH),
        *(r"\[pow\] pow:0 .*\nWhy: +a power of a negative", rf"result\[0\].*\n.*{SPREAD}.*\[1\]"),
    ),
    "with noise": (
        "jnp.sum(jnp.log(x @ w * 0)) + jax.random.normal(jax.random.fold_in(jax.random.key(1), 2))",
        *(BOTH, r"\[log\] log:0 .*\nWhy: +the logarithm of 0", rf"result\[0\].*\n.*{SPREAD}"),
    ),
    "with dropout": (
        "jnp.sum(jnp.log(x * 0 * jax.random.bernoulli(jax.random.PRNGKey(1), 0.9, w.shape) * w))",
        *(BOTH, r"\[log\] log:0 .*\nWhy: +the logarithm of 0", rf"result\[0\].*\n.*{SPREAD}"),
    ),
    "only the gradient is bad": (
        *("jnp.sum(jnp.sqrt(x @ w - x @ w))", BOTH),
        *(r"\[div\] gradients/div.*\nWhy: +the gradient of a square root at 0", r"result\[1\]"),
    ),
    "the loss isn't returned": (
        *("jnp.sum(jnp.exp(x @ w * 99))", GRADIENT),
        *(r"\[exp\] exp:0 .*\nWhy: +exp of 495", r"gradient|result"),
    ),
    "the gradient of a loss that isn't returned": (
        *("jnp.sum(jnp.sqrt(x @ w - x @ w))", GRADIENT),
        *(r"\[div\] .*\nWhy: +the gradient of a square root at 0", r"result"),
    ),
    "in a loop": (
        "jax.lax.scan(lambda c, x: (c + jnp.log(x - 1).sum() * w[0], c), 0.0, x)[0]",
        *(BOTH, r"\[log\] .*scan/log:0", r"result\[0\]"),
    ),
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(environment(tmp_path_factory.mktemp("derivatives")), ("jax",))


@pytest.mark.parametrize("name", CASES)
def test_where_it_began(programs: Programs, tmp_path: Path, name: str) -> None:
    loss, returned, begin, rest = CASES[name]
    path = tmp_path / "train.py"
    path.write_text(PROGRAM.replace("LOSS", loss).replace("RETURN", returned))
    done = programs.debugged("--batch", "-c", "run -f", path)
    assert re.search(rf"It began in {begin}", done.out), done
    assert re.search(rf"Then: +(?:.*\n)?.*{rest}", done.out), done
