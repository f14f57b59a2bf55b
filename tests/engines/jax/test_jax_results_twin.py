"""With ``results twin`` one compiled function gives a program its results, and the flags."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_kit import Found, bits, twins_computing, waiting

from tfdbg_cli.engines.jax.twins.results import ResultsTwin

LONG = 60.0
ONES = np.ones(8, np.float32)


def _finite(x):
    return jnp.where(jnp.isfinite(x), x, 0)


def _update(params, key, x, *, rate=0.1, times=1):
    key, drawn = jax.random.split(key)
    for _ in range(times):
        noise = jax.random.normal(drawn, x.shape)
        params = {
            name: value - rate * _finite(jnp.log(x)) * noise for name, value in params.items()
        }
    going = lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.abs(c[1])), (0, x))
    return params, key, x, (rate, 1.5, None), going


def _arguments(x=ONES):
    params = {"a": jnp.arange(8.0), "b": jax.device_put(jnp.ones(8), jax.devices()[0])}
    return (params, jax.random.key(0), x), {"rate": 0.5, "times": 2}


def _facts(result, given):
    """All of what a call has returned, and has left of its arguments, but numbers."""
    leaves = jax.tree.leaves(given)
    made = [
        (
            *(each.shape, each.dtype, getattr(each, "weak_type", None)),
            *(each.sharding, each._committed, [each is leaf for leaf in leaves]),
        )
        for each in jax.tree.leaves(result)
    ]
    gone = [leaf.is_deleted() for leaf in leaves if isinstance(leaf, jax.Array)]
    return jax.tree.structure(result), made, gone


def _numbers(result):
    return bits(
        jax.random.key_data(each) if jnp.issubdtype(each.dtype, jax.dtypes.prng_key) else each
        for each in jax.tree.leaves(result)
    )


@pytest.fixture
def computed():
    with twins_computing() as calls:
        yield calls


def _call_until(is_true, call):
    end = time.monotonic() + LONG
    while not is_true() and time.monotonic() < end:
        result = call()
    return result


def test_one_computation_gives_results_and_flags(computed):
    step = jax.jit(_update, donate_argnums=0, static_argnames="times")

    def call(x=ONES):
        args, kwargs = _arguments(x)
        result = step(*args, **kwargs)
        return _facts(result, (args, kwargs["rate"])), result

    facts, plain = call()
    bad = np.where(np.arange(8) == 3, 0, ONES)
    with waiting(level="ops", results="twin") as hosts:
        _call_until(lambda: True in computed, call)
        computed.clear()
        again, result = call()
        assert not hosts.ends
        call(bad)
    assert computed == [True, True]
    assert again == facts
    np.testing.assert_allclose(result[0]["a"], plain[0]["a"], rtol=1e-6)
    found = Found(hosts)
    assert found.node == "log"
    details = dict(found.dump.run_info().details)
    assert details["Level"] == "ops (setting level ops)"
    assert details["Results"].startswith("_update: its twin's (setting results twin), whose last")


def test_where_its_twin_fails_the_function_makes_the_call(monkeypatch):
    step = jax.jit(lambda p, x: p + _finite(jnp.log(x)), donate_argnums=0)
    plain, fails = step(jnp.asarray(ONES), ONES), []
    plainly = ResultsTwin.compute

    def compute(twin, *args):
        made = plainly(twin, *args)
        if twin.is_trusted:
            fails.append(made)
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: no memory")
        return made

    monkeypatch.setattr(ResultsTwin, "compute", compute)

    def call(x=ONES):
        given = jnp.asarray(ONES)
        result = step(given, x)
        assert given.is_deleted()
        return result

    with waiting(level="ops", results="twin") as hosts:
        result = _call_until(lambda: fails, call)
        _call_until(lambda: hosts.ends, lambda: call(np.zeros(8, np.float32)))
    assert bits(result) == bits(plain)
    assert len(fails) == 1
    assert Found(hosts).node == "log"
    told = dict(hosts.dump().run_info().details)["Results"]
    assert told.startswith("<lambda>: its own: its twin can't be computed: ")
    assert told.endswith("RESOURCE_EXHAUSTED: no memory")


def _prints(x):
    jax.debug.callback(lambda: None)
    return _finite(jnp.log(x))


def _searches(x):
    return lax.while_loop(lambda v: v.sum() > 1, lambda v: v * _finite(jnp.log(v / 9)), x)


@pytest.mark.parametrize(
    ("function", "why"),
    [(_prints, "it prints"), (_searches, "it has a loop that might not end another time")],
)
def test_its_own_function_is_called_where_a_twin_must_not_be(function, why, computed):
    compiled = jax.jit(function)
    bad = np.where(np.arange(8) == 3, 0, ONES)
    plain = compiled(bad)
    with waiting(level="ops", results="twin") as hosts:
        result = _call_until(lambda: hosts.ends, lambda: compiled(bad))
    assert not computed
    assert bits(result) == bits(plain)
    assert dict(hosts.dump().run_info().details)["Results"].endswith(f"its own: {why}")


def test_functions_that_share_a_trace_have_twins_of_their_own(computed):
    def step(p, x):
        return p + _finite(jnp.log(x))

    keeping, donating = jax.jit(step), jax.jit(step, donate_argnums=0)
    with waiting(level="ops", results="twin"):
        for function in (keeping, donating, keeping):
            computed.clear()
            _call_until(lambda: True in computed, lambda f=function: f(jnp.asarray(ONES), ONES))
            given = jnp.asarray(ONES)
            function(given, ONES)
            assert given.is_deleted() == (function is donating)
