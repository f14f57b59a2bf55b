"""Training steps of JAX and optax: ``mlp`` or ``attention``."""

import statistics
import sys
import time

import jax
import jax.numpy as jnp
import optax

name, steps = sys.argv[1], int(sys.argv[2])
keys = jax.random.split(jax.random.key(0), 9)


def weights(at, width):
    """A matrix."""
    return 0.05 * jax.random.normal(keys[at], (width, width))


def mlp(params, x):
    """Three layers."""
    for at in range(3):
        x = jax.nn.relu(x @ params[f"w{at}"])
    return jnp.log(1 + (x**2).mean())


def attention(params, x):
    """Four layers of one head."""
    for at in range(4):
        queries, keys = x @ params[f"q{at}"], x @ params[f"k{at}"]
        shares = jax.nn.softmax(queries @ keys.swapaxes(1, 2) / 11)
        x = x + jax.nn.gelu(shares @ (x @ params[f"v{at}"]) @ params[f"o{at}"])
    return jnp.log(1 + (x**2).mean())


if name == "mlp":
    loss_of, x = mlp, jax.random.normal(keys[5], (256, 512))
    params = {f"w{at}": weights(at, 512) for at in range(3)}
else:
    loss_of, x = attention, jax.random.normal(keys[5], (16, 64, 128))
    params = {f"{kind}{at}": weights(j, 128) for at in range(4) for j, kind in enumerate("qkvo")}
optimizer = optax.adam(1e-3)
state = optimizer.init(params)


@jax.jit
def step(params, state, x):
    """One."""
    loss, gradients = jax.value_and_grad(loss_of)(params, x)
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, loss


times = []
for _ in range(steps):
    began = time.perf_counter()
    params, state, loss = step(params, state, x)
    loss = float(loss)
    times.append(time.perf_counter() - began)
print(f"MS {1e3 * statistics.median(times[steps // 4 :]):.4f} loss {loss:.9g}")
