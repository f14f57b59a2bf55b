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
from samples import night

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
        pytest.param("tensorflow", marks=[*needs("tensorflow"), night]),
        pytest.param("jax", marks=[*needs("jax"), night]),
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


@pytest.mark.tensorflow
def test_tensorflows_ops_outside_of_functions(tmp_path: Path) -> None:
    """Those whose arguments TensorFlow's Python functions call otherwise are among them."""
    pytest.importorskip("tensorflow")
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import tensorflow as tf
            x, many = tf.Variable([[1.0, 2.0], [3.0, 4.0]]), []
            with tf.GradientTape() as tape:
                for made in (
                    tf.reduce_sum(x, 1),
                    tf.reduce_mean(x, 0),
                    tf.reduce_max(x),
                    tf.reduce_prod(x, 1),
                    tf.gather(x, [1, 0]),
                    tf.concat([x, x], 0),
                    tf.expand_dims(x, 0),
                    tf.tile(x, [2, 1]),
                    tf.argmax(x, 1),
                    tf.cast(x, tf.float16),
                    tf.pad(x, [[1, 1], [0, 0]]),
                    tf.slice(x, [0, 0], [1, 2]),
                    tf.reverse(x, [0]),
                    tf.cumsum(x, 1),
                    tf.stack([x, x]),
                    tf.split(x, 2),
                    tf.one_hot([1, 0], 3),
                    tf.transpose(x),
                    tf.matmul(x, x, transpose_b=True),
                    tf.where(x > 2, x, 0.0),
                    tf.clip_by_value(x, 1, 3),
                    tf.nn.softmax(x),
                    tf.norm(x, axis=1),
                    tf.math.top_k(x, 1),
                    tf.reduce_any(x > 3, 0),
                ):
                    many.append(made)
                loss = tf.reduce_sum(many[0]) + tf.reduce_sum(many[16])
            x.assign_sub(0.1 * tape.gradient(loss, x))
            """
        )
    )
    (first, *_) = redone(program)
    done, total = first
    assert total > 25
    assert total - done <= _MOST_LEFT_OUT


def redone(program: Path) -> list[tuple[int, int]]:
    """How many ops of each run were computed again, and how many there are."""
    options = ("--batch", "--filters", str(FILTER), "-c", "run -f redone")
    done = debugger_in(program.parent, *options, str(program))
    assert "Traceback" not in done.stderr, done.stderr
    # TensorFlow's Cholesky, where it fails, leaves what was in memory above the diagonal.
    assert not re.findall(r"^other (?!.*\(Cholesky\)).*$", done.stderr, re.M)
    return [(int(a), int(b)) for a, b in re.findall(r"^redone (\d+) of (\d+)$", done.stderr, re.M)]
