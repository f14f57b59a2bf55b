"""A small classifier in JAX that learns, until its loss is NaN.

    python examples/debug_jax.py
    python -m tfdbg_cli examples/debug_jax.py

Then: ``run -f``. With ``--stable`` the loss is computed from the logits.
"""

import argparse

import jax
import jax.numpy as jnp

SIZES = [16, 32, 4]


def blobs(key):
    """Points around four centers, and whose they are."""
    centers, noise, which = jax.random.split(key, 3)
    labels = jax.random.randint(which, (64,), 0, SIZES[-1])
    places = 3 * jax.random.normal(centers, (SIZES[-1], SIZES[0]))
    points = places[labels] + jax.random.normal(noise, (64, SIZES[0]))
    return points, jax.nn.one_hot(labels, SIZES[-1])


def make(key):
    """The parameters of each layer."""
    keys = jax.random.split(key, len(SIZES) - 1)
    return {
        f"layer_{at}": {
            "kernel": jax.random.normal(keys[at], (SIZES[at], SIZES[at + 1])) / SIZES[at] ** 0.5,
            "bias": jnp.zeros(SIZES[at + 1]),
        }
        for at in range(len(SIZES) - 1)
    }


def model(params, points):
    """The logits."""
    with jax.named_scope("hidden"):
        hidden = points @ params["layer_0"]["kernel"] + params["layer_0"]["bias"]
        hidden = jax.nn.relu(hidden)
    with jax.named_scope("out"):
        return hidden @ params["layer_1"]["kernel"] + params["layer_1"]["bias"]


def cross_entropy(wanted, logits):
    """The bug: a probability may be 0, and log(0) is -inf."""
    return -jnp.mean(jnp.sum(wanted * jnp.log(jax.nn.softmax(logits)), axis=-1))


def stable_cross_entropy(wanted, logits):
    """The same from the logits."""
    return -jnp.mean(jnp.sum(wanted * jax.nn.log_softmax(logits), axis=-1))


def main():
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--max-steps", type=int, default=20)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--stable", action="store_true", help="compute the loss from the logits")
    options = parser.parse_args()
    measure = stable_cross_entropy if options.stable else cross_entropy

    def loss_fn(params, points, wanted):
        return measure(wanted, model(params, points))

    @jax.jit
    def train_step(params, points, wanted):
        loss, grads = jax.value_and_grad(loss_fn)(params, points, wanted)
        rate = options.learning_rate
        return jax.tree.map(lambda value, grad: value - rate * grad, params, grads), loss

    params = make(jax.random.key(0))
    points, wanted = blobs(jax.random.key(1))
    for step in range(options.max_steps):
        params, loss = train_step(params, (1 + step) * points, wanted)
        print(f"step {step}: loss {loss:.4f}")


if __name__ == "__main__":
    main()
