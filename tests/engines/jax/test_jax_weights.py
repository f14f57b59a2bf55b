"""Which arguments of a function are called parameters: those that training makes new ones of."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_kit import watched

W = {"in": np.full((4, 3), 0.1, "f"), "out": np.full((3, 4), 0.1, "f")}
ONE = np.full((4, 4), 0.1, "f")
X = np.ones((8, 4), "f")


def coded(w, x):
    return jnp.tanh(x @ w["in"]) @ w["out"]


def error(w, x):
    return jnp.mean((coded(w, x) - x) ** 2)


def descent(w, g):
    return jax.tree.map(lambda a, b: a - 0.1 * b, w, g)


def autoencoder(w, x):
    def loss(w):
        return error(w, x), coded(w, x)

    (value, made), g = jax.value_and_grad(loss, has_aux=True)(w)
    return descent(w, g), value, made


def averaged(w, stats, batch):
    stats = {"mean": 0.9 * stats["mean"] + 0.1 * batch["x"].mean(0)}
    value, g = jax.value_and_grad(lambda w: error(w, batch["x"] - stats["mean"]))(w)
    return {"w": descent(w, g), "stats": stats, "loss": value}


def momentum(state, x):
    w, m = state
    m = descent(jax.tree.map(lambda m: -0.9 * m, m), jax.grad(error)(w, x))
    return descent(w, m), m


def square(w, x):
    value, g = jax.value_and_grad(lambda w: jnp.sum(jnp.tanh(x @ w) ** 2))(w)
    return value, w - 0.1 * g, x @ w


def epoch(w, xs):
    return jax.lax.scan(lambda w, x: (descent(w, jax.grad(error)(w, x)), x), w, xs)


CASES = {
    "an autoencoder, which gives another batch": (autoencoder, (W, X), {"w"}),
    "averages of batches": (averaged, (W, {"mean": X[0]}, {"x": X}), {"w", "stats"}),
    "weights and momentum in a tuple": (momentum, ((W, W), X), {"state"}),
    "a batch of the shape of the weights": (square, (ONE, ONE), {"w"}),
    "only gradients": (jax.grad(error), (W, X), {"w"}),
    "an epoch, which gives its batches back": (epoch, (W, np.stack([X, X])), {"w"}),
    "an update alone": (descent, (W, W), set()),
    "a batch that is made another": (lambda x: x - x.mean(0), (X,), set()),
    "steps of a simulation": (lambda x, v: (x + 0.1 * v, v - 0.1 * x), (X, X), set()),
}


@pytest.mark.parametrize("name", CASES)
def test_parameters(name):
    function, args, expected = CASES[name]
    with watched() as hosts:
        jax.jit(function)(*args)
    (nodes,) = [end.dump.graph().nodes.values() for end in hosts.ends]
    named = {"Parameter": set(), "Argument": set()}
    for node in nodes:
        if node.op_type in named:
            named[node.op_type].add(node.name.partition("/")[0])
    assert named["Parameter"] == expected
    assert not named["Argument"] & expected
