"""Functions over four devices, each called plainly and debugged; prints what was seen as JSON."""

import inspect
import json
import sys
import time
from pathlib import Path

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

sys.path.insert(0, str(Path(__file__).parent))
from jax_kit import Found, bits, twins_computing, waiting, watched

try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map

KNOWN = inspect.signature(shard_map).parameters
UNCHECKED = {"check_vma" if "check_vma" in KNOWN else "check_rep": False}
MESH = Mesh(np.array(jax.devices()).reshape(2, 2), ("a", "b"))
X = np.arange(1.0, 17, dtype=np.float32).reshape(4, 4)
CASES = {}


def case(outputs, inputs=None, **options):
    """A function of one device's part of `X`."""

    def add(function):
        options.setdefault("mesh", MESH)
        made = shard_map(function, in_specs=inputs or P("a", "b"), out_specs=outputs, **options)
        CASES[function.__name__] = made
        return function

    return add


@case((P("b"), P(None, "b")))
def collectives(x):
    y = jnp.log(x - 9 * lax.axis_index("a"))
    z = lax.ppermute(lax.psum(y, "a"), "b", [(0, 1), (1, 0)])
    jax.debug.print("{}", x[0, 0])

    def body(c, r):
        return c + lax.pmean(r, "b"), c * 2

    return lax.scan(body, z[0], z)


@case(P(None, "b"), **UNCHECKED)
def unchecked(x):
    return lax.psum_scatter(lax.all_gather(x, "a", tiled=True), "a", tiled=True)


@case(P("a", "b"), **UNCHECKED)
def diverging(x):
    x = lax.while_loop(lambda v: jnp.sum(v) < 100, lambda v: v * 2, x)
    return lax.cond(lax.axis_index("a") > 0, jnp.sin, jnp.cos, x)


@case(P("a", "b"), **UNCHECKED)
def same_way(x):
    x, _ = lax.while_loop(lambda v: v[1] < 2, lambda v: (v[0] * 2, v[1] + 1), (x, 0))
    return lax.cond(lax.psum(1, "a") > 1, jnp.sin, jnp.cos, x)


@case(P("a", "b"), **UNCHECKED)
def keys(x):
    key = jax.random.fold_in(jax.random.key(0), lax.axis_index("a"))
    return x + jax.random.bits(key, x.shape) + np.array([1, 2], np.float32)


@case(P("a", "b"))
def calling_back(x):
    return jax.pure_callback(np.negative, jax.ShapeDtypeStruct(x.shape, x.dtype), jnp.sin(x))


@case(P(None, "b"), mesh=Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("a", "b")))
def one_device(x):
    return lax.psum(x, "a")


if "axis_names" in KNOWN:

    @case(P(), P("a"), axis_names={"a"})
    def one_axis(x):
        return lax.psum(jnp.exp(x), "a")


def training(x):
    return jax.grad(lambda x: CASES["collectives"](x)[1].sum())(x)


def seen(function):
    """What a debugged call shows; the result is that of a plain one."""
    function = jax.jit(function)
    plain = bits(function(X))
    with watched() as hosts:
        assert bits(function(X)) == plain
    (end,) = hosts.ends
    data = end.dump.data()
    return {
        "tensors": [f"{each.tensor_name} {list(each.shape)}" for each in data],
        "notes": {each.tensor_name: each.note for each in data if each.note},
        "details": [text for _, text in end.dump.run_info().details],
    }


@case((P(None, "b"), P("a", "b")))
def swallowing(x):
    logs = lax.scan(lambda c, row: (c, jnp.maximum(jnp.log(row), -1)), x[0], x)[1]
    return lax.psum(logs, "a"), x * 2


def found(results):
    """What the level of ops finds that no result shows."""
    function = jax.jit(CASES["swallowing"], donate_argnums=0)

    def call(x):
        given = jax.device_put(x, NamedSharding(MESH, P("a", "b")))
        values = function(given)
        assert given.is_deleted()
        return values

    values = plain = call(X)
    with waiting(level="ops", results=results) as hosts, twins_computing() as trusted:
        end = time.monotonic() + 60
        while results == "twin" and True not in trusted and time.monotonic() < end:
            values = call(X)
        assert [each.sharding for each in values] == [each.sharding for each in plain]
        assert bits(values) == bits(plain)
        while not hosts.ends and time.monotonic() < end:
            call(np.where(X == 13, 0, X))
    datum = Found(hosts).datum
    return [datum.tensor_name, datum.note, dict(hosts.dump().run_info().details)]


seen_by_name = {name: seen(each) for name, each in [*CASES.items(), ("training", training)]}
print(json.dumps(seen_by_name | {f"results {each}": found(each) for each in ("own", "twin")}))
