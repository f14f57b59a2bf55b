"""The filter `unused`, on programs whose parameters get gradients that are 0 in some runs."""

from __future__ import annotations

import re

import pytest
from examples_kit import needs
from program_server import shared
from samples import sample

# In each, the gradient of `idle` is 0 in all runs but every fifth, that of `used` never is.
_TORCH = """
import torch
from torch import nn
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.idle, self.used = nn.Linear(4, 4), nn.Linear(4, 1)
    def forward(self, x, factor):
        return self.used(x + factor * self.idle(x))
net = Net()
optimizer = torch.optim.SGD(net.parameters(), 1e-2)
for run in range(9):
    optimizer.zero_grad()
    net(torch.randn(8, 4), 0.0 if run % 5 else 1.0).square().mean().backward()
    optimizer.step()
"""
_TENSORFLOW = """
import tensorflow as tf
tf.random.set_seed(0)
idle, used = tf.Variable(tf.ones((4, 4)), name="idle"), tf.Variable(tf.ones((4, 1)), name="used")
@tf.function
def step(x, factor):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(((x + factor * (x @ idle)) @ used) ** 2)
    for variable, gradient in zip((idle, used), tape.gradient(loss, (idle, used))):
        variable.assign_sub(0.01 * gradient)
    return loss
for run in range(9):
    step(tf.random.normal((8, 4)), tf.constant(0.0 if run % 5 else 1.0))
"""
_JAX = """
import jax, jax.numpy as jnp
w = {"idle": jnp.ones((4, 4)), "used": jnp.ones((4, 1))}
x = jax.random.normal(jax.random.key(0), (8, 4))
@jax.jit
def step(w, x, factor):
    loss = lambda w: (((x + factor * (x @ w["idle"])) @ w["used"]) ** 2).mean()
    gradients = jax.grad(loss)(w)
    return jax.tree.map(lambda p, g: p - 0.01 * g, w, gradients)
for run in range(9):
    w = step(w, x, 0.0 if run % 5 else 1.0)
"""
_NUMPY = """
import numpy as np
from tfdbg_cli.engines import numpy as tf
x, factor = tf.placeholder(tf.float32, [8, 4], name="x"), tf.placeholder(tf.float32, [], name="f")
idle = tf.Variable(np.ones((4, 4), "f"), name="idle")
used = tf.Variable(np.ones((4, 1), "f"), name="used")
loss = tf.reduce_mean(tf.square(tf.matmul(x + factor * tf.matmul(x, idle), used)))
train = tf.train.AdamOptimizer(0.01).minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for run in range(9):
        session.run(train, {x: np.random.rand(8, 4), factor: 0.0 if run % 5 else 1.0})
"""
_PROGRAMS = {"torch": _TORCH, "tensorflow": _TENSORFLOW, "jax": _JAX, "numpy": _NUMPY}
_ENGINES = [pytest.param(each, marks=needs(each)) for each in _PROGRAMS]


def _debugged(engine, tmp_path, *commands):
    program = tmp_path / "program.py"
    program.write_text(_PROGRAMS[engine])
    words = [word for each in commands for word in ("-c", each)]
    return shared(engine).debugged("--batch", *words, program)


@pytest.mark.parametrize("engine", [*sample(_ENGINES, 2)])
def test_a_gradient_that_is_0_in_several_runs_passes(engine, tmp_path):
    done = _debugged(engine, tmp_path, "run -f unused:3")
    told = re.search(r"^Why: +(.*) was exactly 0 in each of the last 3 runs, since", done.out, re.M)
    assert told, done.out + done.err
    assert "gradient" in told[1]
    assert 'passing filter "unused:3"' in done.out
    assert "used.weight" not in done.out


@pytest.mark.parametrize("engine", _ENGINES)
def test_four_runs_are_no_five(engine, tmp_path):
    done = _debugged(engine, tmp_path, "run -f unused:5")
    assert "no tensor passed unused:5" in done.err, done.out + done.err


@pytest.mark.parametrize("engine", _ENGINES[:1])
def test_what_was_not_waited_for_does_not_count(engine, tmp_path):
    done = _debugged(engine, tmp_path, "run -t 5", "lt -f unused:2")
    assert '0 dumped tensor(s) passing filter "unused:2"' in done.out, done.out


@pytest.mark.parametrize("engine", _ENGINES[:1])
def test_a_check_of_several_filters_counts_runs(engine, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(_PROGRAMS[engine])
    done = shared(engine).debugged("--check", "constant,unused:3", program)
    assert done.status == 3, done.out + done.err
    assert "was exactly 0 in each of the last 3 runs, since run 2" in done.err


@pytest.mark.parametrize("engine", _ENGINES[:1])
def test_a_number_of_runs_is_asked_for(engine, tmp_path):
    done = _debugged(engine, tmp_path, "run -f unused:0")
    assert "A number of runs is a whole number from 1 to 200." in done.err
