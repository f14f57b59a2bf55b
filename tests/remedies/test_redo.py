"""Ops that are computed again from the values of a dump give the bits of the run."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

import pytest
from causes_kit import write_cases
from examples_kit import needs
from program_server import debugger_in

sys.path.insert(0, str(Path(__file__).parent))
from table import ENGINES, program_of

FILTER = Path(__file__).parent / "redo_filter.py"
# Calls of functions of the program's, reads of variables, memory that was written to.
_MOST_LEFT_OUT = 4


# What draws random numbers isn't drawn again: neither gives other numbers.
RANDOM = {
    "numpy": """
        from tfdbg_cli.engines import numpy as tf
        x = tf.random_uniform([20]) + tf.truncated_normal([20])
        with tf.Session() as session:
            for _ in range(2):
                session.run(tf.multiply(x, 2.0))
    """,
    "torch": """
        import torch
        import tfdbg_cli
        for _ in range(2):
            with tfdbg_cli.run():
                x = torch.rand(20) + torch.randn(20) + torch.normal(0.0, torch.ones(20))
                x = torch.nn.functional.dropout(x, 0.5) + torch.bernoulli(torch.full((20,), 0.5))
                x = x * torch.nn.functional.rrelu(x, training=True) + torch.randperm(20)
                x = x.exponential_() + torch.multinomial(torch.ones(20), 20)
                y = x * torch.poisson(torch.ones(20))
    """,
    "tensorflow": """
        import tensorflow as tf
        @tf.function
        def f(x):
            x = x + tf.random.normal([20]) + tf.random.truncated_normal([20])
            x = tf.random.shuffle(x) + tf.random.stateless_uniform([20], [1, 2])
            x = tf.nn.dropout(x, 0.5) + tf.random.gamma([20], 1.0) + tf.random.poisson([20], 1.0)
            return x * tf.cast(tf.random.categorical(tf.ones((1, 20)), 20)[0], tf.float32)
        for _ in range(2):
            f(tf.ones(20))
    """,
    "jax": """
        import jax
        @jax.jit
        def f(key, x):
            one, two, three = jax.random.split(key, 3)
            x = x + jax.random.normal(one, (20,)) + jax.random.bernoulli(two, 0.5, (20,))
            return jax.random.permutation(three, x) * jax.random.gamma(one, 2.0, (20,))
        for seed in range(2):
            f(jax.random.key(seed), jax.numpy.ones(20))
    """,
}


@pytest.mark.parametrize("engine", [each for each in ENGINES if each != "onnx"])
def test_random_numbers_are_those_of_the_run(engine: str, tmp_path: Path) -> None:
    pytest.importorskip(engine)
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(RANDOM[engine]))
    told = redone(program)
    assert len(told) == 2
    assert all(done for done, _ in told)


@pytest.mark.parametrize(
    "engine",
    [
        "numpy",
        pytest.param("torch", marks=needs("torch")),
        pytest.param("tensorflow", marks=needs("tensorflow")),
        pytest.param("jax", marks=needs("jax")),
        pytest.param("onnx", marks=needs("onnxruntime", "onnx")),
    ],
)
def test_an_op_computed_again_gives_the_same(engine: str, tmp_path: Path) -> None:
    program = write_cases(tmp_path, engine, program_of(engine))
    count = program.read_text().count("\n    (")
    told = redone(program)
    assert len(told) >= count
    assert sum(total for _, total in told) - sum(done for done, _ in told) <= _MOST_LEFT_OUT
    assert sum(done for done, _ in told) >= count


def redone(program: Path) -> list[tuple[int, int]]:
    """How many ops of each run were computed again, and how many there are."""
    options = ("--batch", "--filters", str(FILTER), "-c", "run -f redone")
    done = debugger_in(program.parent, *options, str(program))
    assert "Traceback" not in done.stderr, done.stderr
    assert not re.findall(r"^other .*$", done.stderr, re.M)
    return [(int(a), int(b)) for a, b in re.findall(r"^redone (\d+) of (\d+)$", done.stderr, re.M)]
