"""`ni -t` and `li` say with the same words whose line a gradient's node shows, of all engines."""

from __future__ import annotations

import re
import textwrap

import pytest
from examples_kit import needs
from program_server import debugger_in

# Programs of which a gradient is bad and nothing before it, and the words for its node's line.
FORWARD, OWN, OF_GRAPH = "Forward op called at", "Called at", "Made at"
_SESSION = """
    {}
    x = tf.placeholder(tf.float32, [3], name="x")
    y = x * 1e30 * 1e30
    g = tf.gradients(y, x)[0]
    with tf.Session() as session:
        session.run(g, {{x: [0.0, 0.0, 0.0]}})
"""
_V1 = "import tensorflow.compat.v1 as tf; tf.disable_v2_behavior()"
_TAPE = """
    import tensorflow as tf
    {}
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.sqrt(x)
        return tape.gradient(y, x)
    step(tf.zeros(3))
"""
PROGRAMS = {
    "numpy": (_SESSION.format("from tfdbg_cli.engines import numpy as tf"), OF_GRAPH),
    "sessions": (_SESSION.format(_V1), OF_GRAPH),
    "functions": (_TAPE.format("@tf.function"), OWN),
    "eager": (_TAPE.format(""), OWN),
    "torch": (
        """
        import torch
        x = torch.zeros(3, requires_grad=True)
        torch.sqrt(x).sum().backward()
        """,
        FORWARD,
    ),
    "jax": (
        """
        import jax
        @jax.jit
        def step(x):
            return jax.grad(lambda x: (x * 1e30 * 1e30).sum())(x)
        step(jax.numpy.zeros(3))
        """,
        FORWARD,
    ),
    "mlx": (
        """
        import mlx.core as mx
        mx.eval(mx.grad(lambda x: mx.sqrt(x).sum())(mx.zeros(3)))
        """,
        FORWARD,
    ),
}


@pytest.mark.parametrize(
    "engine",
    [
        "numpy",
        *(
            pytest.param(name, marks=needs("tensorflow"))
            for name in ("sessions", "functions", "eager")
        ),
        pytest.param("torch", marks=needs("torch")),
        pytest.param("jax", marks=needs("jax")),
        pytest.param("mlx", marks=needs("mlx")),
    ],
)
def test_both_commands_have_the_same_words(engine, tmp_path):
    text, words = PROGRAMS[engine]
    (tmp_path / "program.py").write_text(textwrap.dedent(text))

    def printed(*commands):
        options = [part for each in ("run -f has_inf_or_nan", *commands) for part in ("-c", each)]
        done = debugger_in(tmp_path, "--batch", *options, "program.py")
        assert done.returncode == 0, done.stderr
        return done.stdout

    began = re.search(r"^It began in \[\S+\] (gradients/\S+):0", printed(), re.MULTILINE)
    out = printed(f"ni -t {began[1]}", f"li --to-first-bad {began[1]}")
    made = re.findall(r"^ *((?:Forward op )?(?:called|made) at):? \S", out, re.M | re.I)
    assert made == [words, words], out
