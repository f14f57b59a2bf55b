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


def attack(w, x):
    return jax.lax.fori_loop(0, 3, lambda _, a: a + jnp.sign(jax.grad(error, 1)(w, a)), x)


def scaled(state, batch):
    x = batch["x"] / 255
    value, g = jax.value_and_grad(error)(state["w"], x)
    return {"w": descent(state["w"], g), "last": x, "rate": state["rate"]}, {"x": x, "loss": value}


CASES = {
    "an autoencoder, which gives another batch": (autoencoder, (W, X), {"w"}),
    "averages of batches": (averaged, (W, {"mean": X[0]}, {"x": X}), {"w"}),
    "weights and momentum in a tuple": (momentum, ((W, W), X), {"state"}),
    "an array that may be a batch": (square, (ONE, ONE), set()),
    "a batch that is made worse": (attack, (W, X), set()),
    "a rate, and a batch with a new one": (
        scaled,
        ({"w": W, "last": X, "rate": np.float32(1)}, {"x": X}),
        {"state/w"},
    ),
    "only gradients": (jax.grad(error), (W, X), {"w"}),
    "an epoch, which gives its batches back": (epoch, (W, np.stack([X, X])), {"w"}),
    "an update alone": (descent, (W, W), set()),
    "a batch that is made another": (lambda x: x - x.mean(0), (X,), set()),
    "steps of a simulation": (lambda x, v: (x + 0.1 * v, v - 0.1 * x), (X, X), set()),
}


def is_of(name, expected):
    return any(name.startswith(each) and name[len(each) :][:1] in ("", "/") for each in expected)


@pytest.mark.parametrize("name", CASES)
def test_parameters(name):
    function, args, expected = CASES[name]
    with watched() as hosts:
        jax.jit(function)(*args)
    (nodes,) = [end.dump.graph().nodes.values() for end in hosts.ends]
    named = {"Parameter": set(), "Argument": set()}
    for node in nodes:
        if node.op_type in named:
            named[node.op_type].add(node.name)
    assert {name for name in named["Parameter"] if is_of(name, expected)} == named["Parameter"]
    assert not {name for name in named["Argument"] if is_of(name, expected)}
