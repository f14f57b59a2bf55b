"""JAX programs of which two variants make a pair: ``jax_pairs.py MODEL VARIANT``."""

import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np

MODEL, VARIANT = sys.argv[1:]
RANDOM = np.random.default_rng(1)


def norm(x):
    if VARIANT == "norm_by_hand":
        middle = x.sum(-1, keepdims=True) / x.shape[-1]
        spread = ((x - middle) ** 2).sum(-1, keepdims=True) / x.shape[-1]
    else:
        middle, spread = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - middle) / jnp.sqrt(spread + (1e-1 if VARIANT == "eps" else 1e-5))


def attention(x, w):
    q, k, v = (x @ each for each in w)
    is_einsum = VARIANT == "einsum"
    scores = jnp.einsum("btd,bsd->bts", q, k) if is_einsum else q @ k.swapaxes(-1, -2)
    scores = scores / (8 if VARIANT == "scale" else 8**0.5)
    if VARIANT == "softmax_by_hand":
        exps = jnp.exp(scores - scores.max(-1, keepdims=True))
        chances = exps / exps.sum(-1, keepdims=True)
    else:
        chances = jax.nn.softmax(scores, -2 if VARIANT == "axis" else -1)
    return chances @ v


def loss_of(weights, x, y):
    projections, head = weights
    if VARIANT == "bf16":
        low = functools.partial(jax.tree.map, lambda each: each.astype(jnp.bfloat16))
        h = norm(x + attention(low(x), low(projections)).astype(jnp.float32))
    elif VARIANT == "remat":
        h = norm(x + jax.checkpoint(attention)(x, projections))
    else:
        h = norm(x + attention(x, projections))
    h = jax.nn.gelu(h, approximate=VARIANT != "gelu")
    scores = h.mean(1) @ head
    if VARIANT == "vmap":
        scores = jax.vmap(lambda each: each.mean(0) @ head)(h)
    found = -jnp.take_along_axis(jax.nn.log_softmax(scores), y[:, None], 1)
    return found.sum() / len(y) if VARIANT == "mean_by_sum" else found.mean()


@functools.partial(jax.jit, donate_argnums=0)
def step(weights, x, y):
    gradients = jax.grad(loss_of)(weights, x, y)
    if VARIANT == "clip":
        gradients = jax.tree.map(lambda each: jnp.clip(each, -0.01, 0.01), gradients)
    rate = 0.2 if VARIANT == "rate" else 0.1
    if VARIANT == "sign":
        return jax.tree.map(lambda w, g: w + rate * g, weights, gradients)
    if VARIANT == "update_by_add":
        return jax.tree.map(lambda w, g: w + (-rate) * g, weights, gradients)
    return jax.tree.map(lambda w, g: w - rate * g, weights, gradients)


def transformer():
    projections = [np.float32(RANDOM.normal(size=(8, 8))) for _ in range(3)]
    weights = projections, np.float32(RANDOM.normal(size=(8, 3)))
    for _ in range(3):
        x = np.float32(RANDOM.normal(size=(4, 6, 8)))
        weights = step(weights, x, RANDOM.integers(0, 3, 4))


transformer()
