"""``track --norms`` in programs without PyTorch: the numbers that come of the steps themselves."""

import csv
import itertools
import json

import numpy as np
import pytest

# Each prints the weights of its two layers before each step of gradient descent, and in the end.
NUMPY = """
import json
import numpy as np
from tfdbg_cli.engines import numpy as tf

rng = np.random.RandomState(0)
x = tf.placeholder(tf.float32, (8, 4), name="x")
with tf.name_scope("first"):
    w1 = tf.Variable(rng.randn(4, 3).astype("f4"), name="w")
    h = tf.nn.relu(tf.matmul(x, w1))
with tf.name_scope("second"):
    w2 = tf.Variable(rng.randn(3, 1).astype("f4"), name="w")
    loss = tf.reduce_mean(tf.square(tf.matmul(h, w2)))
grads = tf.gradients(loss, [w1, w2])
with tf.control_dependencies(grads):
    step = [tf.assign_sub(w, tf.multiply(grad, 0.1)) for w, grad in zip((w1, w2), grads)]
session = tf.Session()
session.run(tf.global_variables_initializer())
values = []
for number in range(6):
    values.append([session.run(w).tolist() for w in (w1, w2)])
    session.run(step, {x: rng.randn(8, 4)})
values.append([session.run(w).tolist() for w in (w1, w2)])
print(json.dumps(values))
"""
SESSION = """
import json
import numpy as np
import tensorflow.compat.v1 as tf

rng = np.random.RandomState(0)
with tf.Graph().as_default():
    x = tf.placeholder(tf.float32, (8, 4), name="x")
    with tf.variable_scope("first"):
        w1 = tf.get_variable("w", initializer=rng.randn(4, 3).astype("f4"), use_resource=True)
        h = tf.nn.relu(tf.matmul(x, w1))
    with tf.variable_scope("second"):
        w2 = tf.get_variable("w", initializer=rng.randn(3, 1).astype("f4"), use_resource=False)
        loss = tf.reduce_mean(tf.square(tf.matmul(h, w2)))
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        values = []
        for number in range(6):
            values.append([w.eval().tolist() for w in (w1, w2)])
            session.run(step, {x: rng.randn(8, 4)})
        values.append([w.eval().tolist() for w in (w1, w2)])
print(json.dumps(values))
"""
KERAS = """
import json
import keras
import numpy as np

keras.utils.set_random_seed(0)
layers = keras.layers
model = keras.Sequential(
    [
        layers.Input((4,)),
        layers.Dense(3, activation="relu", use_bias=False, name="first"),
        layers.Dense(1, use_bias=False, name="second"),
    ]
)
model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
rng = np.random.RandomState(0)
values = []
for number in range(6):
    values.append([np.asarray(w).tolist() for w in model.get_weights()])
    model.train_on_batch(rng.randn(8, 4), np.zeros((8, 1)))
values.append([np.asarray(w).tolist() for w in model.get_weights()])
print(json.dumps(values))
"""
JAX = """
import json
import jax
import jax.numpy as jnp
import numpy as np
import optax

rng = np.random.RandomState(0)
params = {
    "first": {"w": jnp.asarray(rng.randn(4, 3), jnp.float32)},
    "second": {"w": jnp.asarray(rng.randn(3, 1), jnp.float32)},
}
tx = optax.sgd(0.1)
state = tx.init(params)


def loss(params, x):
    h = jax.nn.relu(x @ params["first"]["w"])
    return jnp.mean((h @ params["second"]["w"]) ** 2)


@jax.jit
def step(params, state, x):
    updates, state = tx.update(jax.grad(loss)(params, x), state, params)
    return optax.apply_updates(params, updates), state


values = []
for number in range(6):
    values.append([np.asarray(params[name]["w"]).tolist() for name in ("first", "second")])
    params, state = step(params, state, jnp.asarray(rng.randn(8, 4), jnp.float32))
values.append([np.asarray(params[name]["w"]).tolist() for name in ("first", "second")])
print(json.dumps(values))
"""
PLAIN, SCOPED, PYTREE = (
    [f"{above}{name}" for name in ("first", "second")] for above in ("", "sequential/", "params/")
)
TF2, XLA = pytest.mark.tensorflow, pytest.mark.jax


@pytest.mark.parametrize(
    ("modules", "program", "layers", "runs"),
    [
        # There reading a weight is a run, too.
        pytest.param((), NUMPY, PLAIN, (4, 9), id="numpy"),
        pytest.param(("tensorflow",), SESSION, PLAIN, (4, 9), marks=TF2, id="session"),
        pytest.param(("tensorflow", "keras"), KERAS, SCOPED, (2, 3), marks=TF2, id="keras"),
        pytest.param(("jax", "optax"), JAX, PYTREE, (2, 3), marks=XLA, id="jax"),
    ],
)
def test_norms_are_those_of_the_steps(runner, tmp_path, modules, program, layers, runs):
    script = runner.write("train.py", program)
    out = tmp_path / "norms.csv"
    commands = (f"run -t {runs[0]}", "track --norms", f"run -t {runs[1]}", f"plot --save {out}")
    arguments = ["-m", "tfdbg_cli", "--batch"]
    arguments += [word for command in commands for word in ("-c", command)]
    if modules:
        done = runner.forked(modules, *arguments, script)
    else:
        done = runner.python(*arguments, script)
    assert done.status == 0, done.stderr
    assert "norms are followed" in done.stdout
    values = [[np.array(w) for w in step] for step in json.loads(done.stdout.splitlines()[-1])]
    expected = {"grad_norm": [], "param_norm": []}
    for before, after in itertools.pairwise(values):
        grads = [(one - other) / 0.1 for one, other in zip(before, after, strict=True)]
        for what, tensors in (("grad_norm", grads), ("param_norm", before)):
            norms = [np.linalg.norm(each) for each in tensors]
            expected[what].append(np.hypot.reduce(norms))
            for layer, norm in zip(layers, norms, strict=True):
                expected.setdefault(f"{what}.{layer}", []).append(norm)
    found = {}
    with out.open() as file:
        for row in csv.DictReader(file):
            if row["name"].partition(".")[0] in ("grad_norm", "param_norm"):
                found.setdefault(row["name"], []).append(float(row["value"]))
    assert {"grad_norm", "param_norm", f"param_norm.{layers[0]}"} <= set(found)
    for name, numbers in found.items():
        wanted = expected[name]
        at = [int(np.argmin(np.abs(np.subtract(wanted, number)))) for number in numbers]
        np.testing.assert_allclose(numbers, [wanted[each] for each in at], rtol=2e-3)
        # One step after the other; where a weight is read, its norm is told again.
        assert [*dict.fromkeys(at)] == list(range(at[0], at[-1] + 1)), name
        assert len(set(at)) >= 3
