"""Gradients that the program doesn't compile are runs; what is said of them is what is said of
the same ones, compiled."""

import functools
import linecache
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_kit import bits, waiting, watched

from tfdbg_cli.commands.graph.verdict import first_origin
from tfdbg_cli.commands.source.call_in_line import call_in
from tfdbg_cli.dumps.sources import own_frame
from tfdbg_cli.filters.causes.find import cause_of
from tfdbg_cli.filters.lineage import TensorLineage

# Each with what it gets, and the op in which it begins.
LOSSES = {
    "log of 0": (lambda p: jnp.sum(jnp.log(p["w"])), [1.0, 0.0], "log"),
    "root of 0": (lambda p: jnp.sum(jnp.sqrt(p["w"] * 2)), [1.0, 0.0], "div"),
    "norm of 0": (lambda p: jnp.linalg.norm(p["w"]), [0.0, 0.0], "div"),
    "power": (lambda p: jnp.sum(p["w"] ** 0.5), [0.0, 4.0], "pow"),
    "acos": (lambda p: jnp.sum(jnp.arccos(p["w"])), [1.0, 0.5], "rsqrt"),
    "exp": (lambda p: jnp.sum(jnp.exp(p["w"])), [1.0, 100.0], "exp"),
    "scan": (
        lambda p: lax.scan(lambda c, x: (c * x, c), 1e20, jnp.ones(4) * p["w"][0])[0],
        [1e10, 1.0],
        "mul",
    ),
    "compiled inside": (lambda p: jax.jit(lambda x: jnp.sum(jnp.log(x)))(p["w"]), [0.0], "log"),
    "vmap": (lambda p: jnp.sum(jax.vmap(lambda x: 1 / x)(p["w"])), [1.0, 0.0], "div"),
    "branches": (
        lambda p: jnp.sum(jnp.where(p["w"] > 0, jnp.log(p["w"]), 0.0)),
        [1.0, 0.0],
        "log",
    ),
}


# Earlier ones compute what is under vmap past the functions that the debugger sees.
SEES_VMAP = jax.__version_info__ >= (0, 7)
if not SEES_VMAP:
    del LOSSES["vmap"]


def _told(hosts):
    """Where it began, by op, line and call, and why; the names of what comes in and goes out."""
    (end,) = hosts.ends
    dump = end.dump
    origin = first_origin(dump)
    node = dump.graph().nodes[origin.node_name]
    cause = cause_of(TensorLineage.of(dump), origin)
    frame = own_frame(node.frames)
    info = dump.run_info()
    return (
        node.op_type,
        frame.line,
        call_in(linecache.getline(frame.file, frame.line), frame, node.op_type),
        frame.columns is not None,
        cause and (cause.kind, cause.text),
        sorted(info.feeds),
        sorted(info.outputs),
        info.runner,
    )


@pytest.mark.parametrize("name", LOSSES)
def test_it_tells_what_the_compiled_one_tells(name):
    loss, weights, op_type = LOSSES[name]
    p = {"w": jnp.array(weights)}
    plain = bits(jax.value_and_grad(loss)(p))
    told = []
    for compiles in (False, True):
        with waiting() as hosts:
            gradient = jax.value_and_grad(loss)
            result = (jax.jit(gradient) if compiles else gradient)(p)
        told.append(_told(hosts))
        if not compiles:
            assert bits(result) == plain
    assert told[0] == told[1]
    assert told[0][0] == op_type


def test_each_way_to_a_gradient_is_one_run():
    def loss(w, scale=1.0):
        return jnp.sum(jnp.log(w) * scale)

    with watched() as hosts:
        ways = [jax.grad, jax.value_and_grad, jax.jacfwd, jax.jacrev, jax.jacobian, jax.hessian]
        for way in ways:
            way(loss)(jnp.zeros(2), scale=2.0)
            way(functools.partial(loss, scale=3.0))(np.zeros(2, np.float32))
            way(loss, argnums=(0,))(jnp.ones(2))
    infos = [end.dump.run_info() for end in hosts.ends]
    assert [info.kind for info in infos] == ["training run"] * 18
    assert {info.runner for info in infos} == {info.runner for info in infos[:1]}
    assert all("w" in info.feeds for info in infos[::3])


def test_a_compiled_gradient_stands_where_its_function_does():
    def loss(w):
        return jnp.sum(jnp.log(w))

    with watched() as hosts:
        jax.jit(jax.grad(loss))(jnp.ones(2))
    (end,) = hosts.ends
    line = loss.__code__.co_firstlineno
    assert end.dump.run_info().measured_as.endswith(f"(test_jax_gradients.py:{line})")


def test_a_callable_that_is_no_key_and_arrays_that_the_program_drops():
    class Loss:
        __hash__ = None

        def __call__(self, w):
            return jnp.sum(jnp.log(w))

    with waiting() as hosts:
        w = jnp.ones(3)
        gradient = jax.grad(Loss())(w)
        kept = weakref.ref(w), weakref.ref(gradient)
        assert gradient.tolist() == [1, 1, 1]
        del w, gradient
        assert [each() for each in kept] == [None, None]
        jax.grad(Loss())(jnp.zeros(3))
    (end,) = hosts.ends
    assert end.dump.run_info().runner == "Loss"


def test_inside_of_another_run_it_is_part_of_that():
    def loss(w):
        return jnp.sum(jnp.log(w))

    with watched() as hosts:
        jax.jit(lambda w: w - jax.grad(loss)(w))(jnp.ones(2))
        jax.vmap(jax.jit(jax.grad(loss)))(jnp.ones((2, 2)))
    kinds = [end.dump.run_info().kind for end in hosts.ends]
    assert kinds == ["training run"] * (1 + SEES_VMAP)


def test_an_error_of_the_program_is_the_programs():
    def loss(w):
        if w[0] > 0:  # Python decides, as it may where nothing is compiled
            raise ValueError("mine")
        return jnp.sum(w)

    with watched() as hosts:
        assert jax.grad(loss)(jnp.zeros(2)).tolist() == [1, 1]
        with pytest.raises(ValueError, match="mine") as caught:
            jax.grad(loss)(jnp.ones(2))
    assert not [each for each in caught.traceback if "tfdbg_cli/engines" in str(each.path)]
    first, second = hosts.ends
    assert first.dump is not None
    assert "mine" in dict(second.dump.run_info().details)["Unfinished"]
