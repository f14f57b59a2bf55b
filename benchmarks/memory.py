"""The most memory that training takes, alone and while a bad tensor is waited for.

Whole processes: what a process has used once it often keeps.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import Row, Table

#: The most that waiting may add at the level that the debugger chooses.
GOAL = 1.05
LEVELS = ("auto", "modules", "ops", "values")
#: Holds every intermediate of an optimizer written in Python: ten times the parameters.
HUGE = ("TensorFlow 2, eager", "values")
_END = """
import resource
from pathlib import Path
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
if "torch" in globals() and torch.cuda.is_available():
    peak = torch.cuda.max_memory_allocated()
Path(__file__).with_suffix(".peak").write_text(str(peak))
"""
_TORCH = """
import torch
torch.set_num_threads(1)
torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Sequential(*[torch.nn.Linear({size}, {size}) for _ in range(12)]).to(device)
optimizer = torch.optim.{optimizer}(model.parameters(), lr=1e-3)
for _ in range(4):
    model(torch.randn(4, {size}, device=device)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
_TENSORFLOW = """
import tensorflow as tf
tf.random.set_seed(0)
weights = [tf.Variable(tf.random.normal(({size}, {size})) * 0.01) for _ in range(10)]
optimizer = tf.keras.optimizers.Adam(1e-3)
optimizer.build(weights)
{decorator}
def step(x):
    with tf.GradientTape() as tape:
        for weight in weights:
            x = tf.tanh(x @ weight)
        loss = tf.reduce_mean(x * x)
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
for _ in range(4):
    step(tf.ones((4, {size})))
"""
_JAX = """
import functools, jax, jax.numpy as jnp, optax
def loss(weights, x):
    for weight in weights:
        x = jnp.tanh(x @ weight)
    return (x * x).mean()
keys = jax.random.split(jax.random.PRNGKey(0), 10)
weights = [jax.random.normal(key, ({size}, {size})) * 0.01 for key in keys]
adam = optax.adam(1e-3)
state = adam.init(weights)
@functools.partial(jax.jit, donate_argnums={donated})
def step(weights, state, x):
    updates, state = adam.update(jax.grad(loss)(weights, x), state)
    return optax.apply_updates(weights, updates), state
for _ in range(4):
    weights, state = step(weights, state, jnp.ones((4, {size})))
jax.block_until_ready(weights)
"""
#: Name -> program, and how wide its layers are.
PROGRAMS = {
    "PyTorch, SGD": (_TORCH.replace("{optimizer}", "SGD"), 5000),
    "PyTorch, Adam": (_TORCH.replace("{optimizer}", "Adam"), 3500),
    "TensorFlow 2, tf.function": (_TENSORFLOW.replace("{decorator}", "@tf.function"), 4000),
    "TensorFlow 2, eager": (_TENSORFLOW.replace("{decorator}", ""), 4000),
    "JAX": (_JAX.replace("{donated}", "()"), 4000),
    "JAX, donated": (_JAX.replace("{donated}", "(0, 1)"), 4000),
}


def peak(name, level=None, scale=1.0):
    """The bytes that a program takes at most: of this machine's memory, or of its GPU's.

    Args:
        name: of the program.
        level: of waiting; ``None``: alone.
        scale: of how wide its layers are.
    """
    program, size = PROGRAMS[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.py")
        path.write_text(program.replace("{size}", str(int(size * scale))) + _END)
        commands = ("-c", f"config set level {level}", "-c", "run -f has_inf_or_nan")
        debugger = () if level is None else ("-m", "tfdbg_cli", "--batch", *commands)
        # The peak of whoever starts a process is where its own begins.
        starter = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
        homes = dict.fromkeys(("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"), folder)
        subprocess.run(
            [sys.executable, "-c", starter, sys.executable, *debugger, str(path)],
            env=os.environ | homes,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return int(path.with_suffix(".peak").read_text())


def tables(quick):
    """One table."""
    rows = []
    for name in PROGRAMS:
        scale = 0.5 if quick else 1.0
        plain = peak(name, scale=scale)
        for level in LEVELS:
            if (name, level) == HUGE:
                continue
            ours = peak(name, level, scale)
            goal = GOAL if level == "auto" else None
            rows.append(
                Row(f"{name}: {level}", ours / 1e6, "", plain / 1e6, ratio=ours / plain, goal=goal)
            )
    return [
        Table(
            "Peak of a training whose parameters take most of the memory",
            rows,
            "MB",
            "alone",
            ratio="of the peak alone",
        )
    ]
