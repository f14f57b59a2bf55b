"""Unmodified training scripts with a planted bug: the right op, its iteration and its line."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from jax_kit import Found, bits, program, waiting
from samples import sample

from tfdbg_cli.filters.origins import origin_of_nonfinite

pytest.importorskip("optax")

ROOT = Path(__file__).parents[3]

OPTAX = """\
import jax, jax.numpy as jnp, optax
keys = jax.random.split(jax.random.key(0))
params = {"hidden": {"w": jax.random.normal(keys[0], (3, 4)), "b": jnp.zeros(4)},
          "out": {"w": jax.random.normal(keys[1], (4, 1))}}

def loss_fn(params, x, y):
    h = jnp.tanh(x @ params["hidden"]["w"] + params["hidden"]["b"])
    p = jax.nn.sigmoid(h @ params["out"]["w"])
    return jnp.mean((p - y) ** 2) + 0 * jnp.sum(jnp.log(y))  # bad

tx = optax.sgd(0.1)
state = tx.init(params)

@jax.jit
def train_step(params, state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    updates, state = tx.update(grads, state)
    return optax.apply_updates(params, updates), state, loss

for i in range(5):
    x = jnp.full((2, 3), 0.1 * i)
    params, state, loss = train_step(params, state, x, jnp.full((2, 1), float(i != 3)))
    print(loss)
final = params
"""

# No forward value is bad: the square root has no slope at 0.
LINEN = """\
import jax, jax.numpy as jnp, optax
import flax.linen as nn

class CNN(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.tanh(nn.Conv(2, (3, 3))(x))
        x = x.reshape(len(x), -1)
        x = jnp.sqrt(jnp.sum(x ** 2, -1, keepdims=True))  # bad
        return nn.Dense(1)(x)

model = CNN()
params = model.init(jax.random.key(0), jnp.ones((1, 4, 4, 1)))

@jax.jit
def step(params, x):
    grads = jax.grad(lambda p: jnp.sum(model.apply(p, x)))(params)
    return jax.tree.map(lambda p, g: p - 0.001 * g, params, grads)

for i in range(3):
    params = step(params, jnp.full((1, 4, 4, 1), float(i)))
final = params
"""

NNX = """\
import jax, jax.numpy as jnp, optax
from flax import nnx

class Block(nnx.Module):
    def __init__(self, rngs):
        self.qkv = nnx.Linear(4, 12, rngs=rngs)
        self.out = nnx.Linear(4, 4, rngs=rngs)

    def __call__(self, x, mask):
        q, k, v = jnp.split(self.qkv(x), 3, -1)
        scores = jnp.where(mask, q @ k.T, -jnp.inf)
        weights = jnp.exp(scores - scores.max(-1, keepdims=True))  # bad
        return self.out(weights / weights.sum(-1, keepdims=True) @ v)

model = Block(nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)

@nnx.jit
def step(model, optimizer, x, mask):
    loss, grads = nnx.value_and_grad(lambda m: jnp.mean(m(x, mask) ** 2))(model)
    optimizer.update(model, grads)
    return loss

for i in range(3):
    step(model, optimizer, jnp.ones((3, 4)), jnp.tri(3, dtype=bool) & (i < 2))
final = nnx.state(model, nnx.Param)
"""

# The optimizer divides by the norm of gradients that are 0.
EQUINOX = """\
import equinox as eqx, jax, jax.numpy as jnp

model = eqx.nn.MLP(2, 1, 4, 1, key=jax.random.key(0))

def update(gradient):
    return 0.1 * gradient / jnp.linalg.norm(gradient)  # bad

@eqx.filter_jit
def step(model, x):
    grads = eqx.filter_grad(lambda m: jnp.mean(jax.vmap(m)(x)) * x[0, 0])(model)
    changes = jax.tree.map(lambda g: -update(g), grads)
    return eqx.apply_updates(model, changes)

for i in range(3):
    model = step(model, jnp.full((3, 2), float(i < 2)))
final = eqx.filter(model, eqx.is_array)
"""

SCAN = """\
import jax, jax.numpy as jnp, optax
params = {"w": jnp.eye(2), "u": jnp.ones((2, 2)) * 0.1}

def run(params, xs):
    def cell(h, x):
        h = jnp.tanh(h @ params["w"] + x @ params["u"])
        return h, jnp.log(x + 1)  # bad

    h, logs = jax.lax.scan(cell, jnp.zeros(2), xs)
    return jnp.sum(h) + jnp.mean(logs)

tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.01))
state = tx.init(params)

def train(params, state, xs):
    loss, grads = jax.value_and_grad(run)(params, xs)
    updates, state = tx.update(grads, state, params)
    return optax.apply_updates(params, updates), state, loss

train = jax.jit(train, donate_argnums=(0, 1))
for i in range(3):
    xs = jnp.ones((20, 2)).at[17, 1].set(1.0 - (i == 2) * 3)
    params, state, loss = train(params, state, xs)
final = params
"""

SCRIPTS = {
    "optax": (OPTAX, "has_inf_or_nan", r"log", 0, "params/hidden/w"),
    "linen": (LINEN, "has_inf_or_nan", "CNN/div", 0, "params/params/Conv_0/kernel"),
    "nnx": (NNX, "origin_of_nonfinite", "Block/sub", 0, "model/qkv/kernel"),
    "equinox": (EQUINOX, "has_inf_or_nan", "div_1", 0, "model/layers/0/weight"),
    "scan": (SCAN, "has_inf_or_nan", "scan/log", 17, "params/w"),
}


@pytest.mark.parametrize("name", [*sample(SCRIPTS, ("optax", "scan"))])
def test_a_script_is_stopped_at_the_op_that_is_to_blame(tmp_path, name):
    text, filter_name, node, execution, parameter = SCRIPTS[name]
    if name == "nnx":
        if jax.__version_info__ < (0, 6):
            pytest.skip("its Flax updates in another way")
        if jax.__version_info__ < (0, 7):  # its Flax names no scopes
            node = "sub"
    path = tmp_path / "train.py"
    plain = program(path, text)
    with waiting(filter_name) as hosts:
        debugged = program(path, text)
    assert bits(debugged["final"]) == bits(plain["final"])
    found = Found(hosts, filter_name)
    assert found.node == node, [d.node_name for d in found.dump.data()]
    assert found.execution == execution
    assert found.file == str(path)
    assert text.splitlines()[found.line - 1].endswith("# bad")
    assert found.dump.graph().nodes[parameter].op_type == "Parameter"
    assert found.dump.run_info().kind == "training run"
    assert origin_of_nonfinite(found.datum, found.datum.get_tensor(), found.dump)


# TensorFlow, which Keras imports where it is installed, takes long, and isn't used.
KERAS = """\
import os, sys
sys.modules["tensorflow"] = None
os.environ["KERAS_BACKEND"] = "jax"
import keras, numpy as np
keras.utils.set_random_seed(0)
model = keras.Sequential([
    keras.Input((3,)), keras.layers.Dense(4, activation="relu", name="hidden"),
    keras.layers.Lambda(lambda x: keras.ops.log(x), name="logarithm"),  # bad
    keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.ones((4, 3)), np.ones((4, 1)), batch_size=2, epochs=1, verbose=0)
for variable in model.variables:
    print(np.asarray(variable.value).tobytes().hex())
"""


def test_keras_on_jax_under_the_launcher(tmp_path):
    pytest.importorskip("keras")
    script = tmp_path / "train.py"
    script.write_text(KERAS)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }

    def start(*words):
        done = subprocess.run(
            [sys.executable, *words, script],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout

    plain = start()
    commands = ("run -f has_inf_or_nan", "lt", "run_info")
    options = [word for each in commands for word in ("-c", each)]
    debugged = start("-m", "tfdbg_cli", "--batch", *options)
    assert debugged.endswith(plain)
    assert "run-end: training run #1: JAXTrainer.train_step" in debugged
    assert "It began in [log] logarithm/log:0" in debugged
    assert "train.py:8" in debugged
    assert " hidden/kernel:0" in debugged.replace("sequential/", "")
