"""Going through a call op by op, with other values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from examples_kit import debug, screens
from jax import lax
from jax_kit import bits

import tfdbg_cli
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.jax.engine import ENGINE
from tfdbg_cli.stepping.walk import Walk
from tfdbg_cli.tracing.errors import OutOfOrderError


def _ones(*shape):
    return jnp.ones(shape)


def test_what_was_not_changed_is_what_the_compiled_function_gave():
    @jax.jit
    def function(x):
        return {"kept": jnp.exp(x) / jnp.sum(jnp.exp(x)), "changed": jnp.log(x) * 2}

    x = jnp.linspace(1, 2, 100)
    plain = function(x)
    stepper = ENGINE.call_stepper(function, [x], {})
    stepper.reach("log:0")
    stepper.override("log:0", np.ones(100))
    result = stepper.finish().value
    assert bits(result["kept"]) == bits(plain["kept"])
    assert result["changed"].tolist() == [2.0] * 100


def test_gradients_are_those_of_the_rest():
    function = jax.jit(lambda x: (jnp.log(x) ** 2).sum())
    stepper = ENGINE.call_stepper(function, [jnp.array([1.0, 4.0])], {})
    with pytest.raises(KeyError):
        stepper.gradient("log:0")
    stepper.reach("log:0")
    assert stepper.gradient("log:0").tolist() == pytest.approx([0, 2 * np.log(4)])
    whole = ENGINE.call_stepper(jax.jit(jnp.log), [_ones(2)], {})
    whole.reach("log:0")
    with pytest.raises(UserError, match="returns no floating-point number"):
        whole.gradient("log:0")


def test_a_function_is_of_the_framework_whose_arrays_it_gets():
    torch = pytest.importorskip("torch")
    given = {"layers": [(jnp.array([1.0, 4.0]),)]}
    with tfdbg_cli.trace(lambda p: jnp.log(p["layers"][0][0]).sum(), given) as t:
        assert t["log:0"].value.tolist() == [0, np.log(np.float32(4))]
    with tfdbg_cli.trace(lambda p: p["x"].log(), {"x": torch.ones(2)}) as t:
        assert t["log:0"].value.tolist() == [0, 0]


def test_gradients_that_are_set():
    def function(x):
        inner = jnp.log(x)
        return (jnp.sin(inner) * inner).sum()

    with tfdbg_cli.trace(function, jnp.array([1.0, 4.0])) as t:
        t["log:0"].grad = np.array([8, 8])
        of_x, of_log = t["x:0"].grad, t["log:0"].grad
    assert (of_x.tolist(), of_log.tolist()) == ([8, 2], [8, 8])
    with tfdbg_cli.trace(function, jnp.array([1.0, 4.0])) as t:
        t["sin:0"].grad[:] = 0  # the other way to the logarithm stays
        of_log = t["log:0"].grad
        assert of_log.tolist() == np.sin(np.log([1, 4], dtype=np.float32)).tolist()
        with pytest.raises(UserError, match="that of log:0 was made with it"):
            t["sin:0"].grad = np.ones(2)
        with pytest.raises(UserError, match="shape"):
            t["log:0"].grad = np.ones(3)


def test_a_loop_is_one_step_or_its_iterations():
    function = jax.jit(lambda x: lax.scan(lambda c, v: (c + v, c * v), 0.0, x)[1] * 2)
    stepper = ENGINE.call_stepper(function, [jnp.arange(1.0, 4)], {})
    stepper.reach("scan:1")
    assert [d.get_tensor().tolist() for d in stepper.dump().by_node("scan/mul")] == [0, 2, 9]
    stepper.back()
    assert stepper.advance(iteration=True).is_partial
    assert stepper.advance(iteration=True).is_partial
    assert [d.get_tensor().tolist() for d in stepper.dump().by_node("scan/mul")] == [0, 2]
    assert not stepper.has("scan:1")
    carry = next(name for name in stepper.steps[0].members if name in ("scan/c", "scan/carry"))
    # What the next iteration gets, and what it makes.
    stepper.override(f"{carry}:0", 10)
    stepper.back()
    stepper.override("scan/mul:0", 5)
    assert list(stepper.overrides) == [f"{carry}:0 (#2)", "scan/mul:0 (#1)"]
    assert stepper.original("scan/mul:0 (#1)") == 2
    stepper.advance(iteration=True)
    with pytest.raises(UserError, match=r"scan/mul:0 \(#1\) is done"):
        stepper.take_back("scan/mul:0 (#1)")
    assert not stepper.advance(iteration=True).is_partial
    assert stepper.value("scan/mul:0") == 30
    assert stepper.finish().value.tolist() == [0, 10, 60]


def _nested(x):
    def outer(c, v):
        def inner(d, w):
            return d + v, jnp.log(d * v + w)

        c, logs = lax.scan(inner, c, jnp.arange(3.0))
        c = lax.cond(c > 6, jnp.sqrt, lambda c: c * 2, c)
        return c, logs

    x, logs = lax.scan(outer, x, jnp.arange(1.0, 5))
    return lax.while_loop(lambda v: v < 100, lambda v: v + 50, x), logs


def _stepped(overridden=()):
    """A stepper of nested loops, in which some values are overridden."""
    walk = Walk(ENGINE.call_stepper(jax.jit(_nested), [jnp.float32(1)], {}))
    for name, value in overridden:
        walk.override(name, value)
    return walk, walk.stepper


def test_any_value_in_nested_loops_can_be_overridden():
    inner = "scan/scan/log:0"
    plain = np.asarray(_nested(jnp.float32(1))[1])
    walk, stepper = _stepped([(f"{inner} (#7)", 9)])
    with pytest.raises(UserError, match=r"log:0 has 12 value\(s\) at most"):
        stepper.override(f"{inner} (#12)", 1)
    at = walk.index("scan")
    if at:  # not every JAX has something before it
        with pytest.raises(UserError, match=r"has a value in each iteration of scan"):
            stepper.override(inner, 1)
        walk.step(at)
    assert (stepper.position, walk.letters(at)) == (at, "O")
    walk.step(iteration=True)
    stepper.override(inner, 5)  # the next one
    assert list(stepper.overrides) == [f"{inner} (#7)", f"{inner} (#3)"]
    assert (stepper.has(f"{inner} (#2)"), stepper.has(f"{inner} (#4)")) == (True, False)
    with pytest.raises(UserError, match=r"\(#2\) is done"):
        stepper.override(f"{inner} (#2)", 1)
    walk.step()
    assert stepper.original(f"{inner} (#7)") == plain.flat[7]
    expected = plain.copy()
    expected.flat[[3, 7]] = 5, 9
    # What a later step has read goes back by itself, to before the loop.
    assert [step.node for step in walk.override(f"{inner} (#0)", 3)] == ["scan"]
    expected.flat[0] = 3
    assert stepper.finish().value[1].tolist() == expected.tolist()


def test_a_branch_in_a_loop_counts_the_values_that_it_makes():
    walk, stepper = _stepped()
    walk.step(walk.index("scan") + 1)
    sides = [
        len(stepper.dump().by_node(f"scan/cond/branch_{at}/{op}"))
        for at, op in ((0, "mul"), (1, "sqrt"))
    ]
    assert sides == [1, 3]  # of four iterations
    # It is that of the third iteration, and what comes after depends on it.
    walk.override("scan/cond/branch_1/sqrt:0 (#1)", 100)
    _, logs = stepper.finish().value
    assert logs[3].tolist() == np.log(100 * 4 + np.array([0, 17, 34], np.float32)).tolist()


def test_the_next_value_of_a_while_is_meant_where_it_is_the_next_step():
    walk, stepper = _stepped([("while/add:0 (#1)", 90)])
    with pytest.raises(UserError, match="in each iteration of while"):
        stepper.override("while/add:0", 1)
    walk.step(walk.index("while"))
    stepper.override("while/add:0", 20)
    assert list(stepper.overrides) == ["while/add:0 (#1)", "while/add:0 (#0)"]
    assert stepper.finish().value[0] == 140


def test_random_keys_and_what_the_call_was_given():
    @jax.jit
    def draw(key, x):
        ours, _ = jax.random.split(key)
        return jax.random.normal(ours, (2,)) + x

    keys = jax.random.split(jax.random.key(3))
    walk = Walk(ENGINE.call_stepper(draw, [jax.random.key(0), jnp.float32(1)], {}))
    assert walk.source("x:0") == "client"
    walk.override("x:0", 0)
    walk.step(1)
    made = walk.stepper.steps[0].outputs[0]
    assert walk.source(made) == "handle"
    with pytest.raises(UserError, match=r"has the shape \[2, 2\]"):
        walk.override(made, [1, 2])
    walk.override(made, np.asarray(jax.random.key_data(keys)))
    assert bits(walk.stepper.finish().value) == bits(jax.random.normal(keys[0], (2,)))
    with tfdbg_cli.trace(draw, jax.random.key(0), jnp.float32(0)) as t:
        t["key:0"].value = jax.random.key(3)
    assert bits(t.result) == bits(jax.random.normal(keys[0], (2,)))


def test_blocks_know_the_values_of_loops():
    function = jax.jit(_nested)
    with tfdbg_cli.trace(function, jnp.float32(1), keep=True) as t:
        t["scan/scan/log:0 (#1)"].value = 7
        logs = t["scan:1"].value
        assert t["scan/scan/log:0 (#2)"].value == logs.flat[2]
        assert logs.flat[1] == 7
        with pytest.raises(OutOfOrderError, match="scan has used it already"):
            t["scan/scan/log:0 (#2)"].value = 1


def test_a_value_of_a_loop_at_the_prompt(tmp_path):
    script = tmp_path / "nested.py"
    script.write_text(
        "import jax, jax.numpy as jnp\n"
        "body = lambda c, v: (c, jnp.log(c * v))\n"
        "f = jax.jit(lambda x: jax.lax.scan(body, x, jnp.arange(3.0))[1])\n"
        "print(f(jnp.float32(1)).tolist())\n"
    )
    log = "override -n 0 scan/log -np.ones((), np.float32)"
    done = debug(
        [
            "invoke_stepper",
            log,
            "override",
            "step -i",
            "step",
            "pt 'scan/log:0 (#0)'",
            "exit",
            "run",
        ],
        str(script),
    )
    shown = screens(done.out)
    assert "scan/log:0 (#0) is overridden." in shown[log]
    assert "  scan/log:0 (#0)" in shown["override"]
    assert "array(-1., dtype=float32)" in shown["pt 'scan/log:0 (#0)'"]
    assert f"[-1.0, 0.0, {float(np.log(np.float32(2)))}]" in done.out


def test_what_a_branch_makes_can_be_overridden():
    function = jax.jit(lambda x: lax.cond(x.sum() > 0, lambda x: jnp.log(x) * 2, jnp.exp, x))
    stepper = ENGINE.call_stepper(function, [_ones(2)], {})
    stepper.override("cond/branch_1/log:0", [1, 2])
    with pytest.raises(UserError, match="shape"):
        stepper.override("cond/branch_1/mul:0", [1, 2, 3])
    assert stepper.reach("cond:0")
    assert stepper.value("cond:0").tolist() == [2, 4]
    with pytest.raises(UserError, match=r"was used in cond\."):
        stepper.override("cond/branch_1/log:0", [1, 1])
    assert stepper.finish().value.tolist() == [2, 4]


def test_any_function_that_could_be_compiled():
    stepper = ENGINE.call_stepper(lambda x: jnp.log(x) + 1, [_ones(2)], {})
    assert stepper.reach("log:0")
    stepper.override("log:0", [1, 2])
    assert stepper.finish().value.tolist() == [2, 3]
