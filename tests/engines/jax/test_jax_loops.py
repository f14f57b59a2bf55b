"""What is said of nan and infinities that began in loops and branches."""

import re

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax_kit import watched

from tfdbg_cli.commands.graph.verdict import first_origin, verdict
from tfdbg_cli.filters.origins import origin_of_nonfinite


def _dump(function, *args):
    with watched() as hosts:
        jax.block_until_ready(jax.jit(function)(*args))
    return hosts.dump()


def _told(data):
    return [f"{each.tensor_name.removesuffix(':0')} {each.execution}" for each in data]


def _origins(function, *args):
    return _told(_dump(function, *args).find(origin_of_nonfinite))


def _screen(function, *args):
    dump = _dump(function, *args)
    return [each.text.rstrip() for each in verdict(dump, first_origin(dump))]


def _inverses(total, x):
    r = 1 / x
    return jnp.where(jnp.isfinite(r), total + r, total), r


def _nested(rows):
    return lax.scan(lambda total, row: lax.scan(_inverses, total, row), 0.0, rows)


@pytest.mark.parametrize(
    ("function", "given", "expected"),
    [
        (lambda x: lax.scan(_inverses, 0.0, x), [1, 0, 2, -0.0, 4], ["scan/div 1", "scan/div 3"]),
        (_nested, [[1, 0], [-0.0, 4], [1, 0]], [f"scan/scan/div {at}" for at in (1, 2, 5)]),
    ],
)
def test_what_is_stacked_is_made_of_all_iterations(function, given, expected):
    assert _origins(function, jnp.array(given, jnp.float32)) == expected


def test_what_is_bad_in_other_iterations_is_not_what_it_spread_to():
    def body(total, x):
        return total + 1, 1 / (x**2 * 2)  # a finite number of each overflow

    screen = _screen(lambda x: lax.scan(body, 0, x)[1], jnp.array([1.0, 1e25, 2, 1e25, 1e25]))
    assert screen[-1].strip() == "spread to scan/mul:0 (execution 1)"


@pytest.mark.parametrize(
    ("function", "origin"),
    [
        (lambda x: lax.cond(x.sum() > 0, lambda: x * 1, lambda: jnp.log(x)), "branch_0"),
        (lambda x: lax.cond(x.sum() < 0, lambda: jnp.log(x), lambda: x * 1), "branch_1"),
        (lambda x: lax.switch(jnp.int32(1), [lambda: x * 1, lambda: jnp.log(x)]), "branch_1"),
    ],
)
def test_what_a_branch_gives_began_inside_of_it(function, origin):
    assert _origins(function, jnp.array([-1.0, -2.0])) == [f"cond/{origin}/log 0"]


def test_what_nothing_reads_in_a_loop_is_no_end_of_the_run():
    """`jax.grad` leaves the function's own value there; the compiled function doesn't compute it.

    The value overflows in iteration 0, the gradient in iteration 1.
    """

    def body(at, x):
        return x * 1e7 + 0 * jax.grad(lambda x: (x**4).sum())(x)

    def function(x):
        return lax.fori_loop(0, 2, body, x)

    dump = _dump(function, jnp.full(2, 1e10))
    assert _told(dump.find(origin_of_nonfinite)) == ["scan/integer_pow_1 1"]
    assert first_origin(dump).execution == 1
    assert not _origins(lambda x: lax.fori_loop(0, 1, body, x), jnp.full(2, 1e10))


def decided_by_a_loop(x):
    limit = x / x
    return lax.while_loop(lambda c: (limit > 0) & (c < 5), lambda c: c + 1.0, 0.0)


def decided_by_a_branch(x):
    return lax.cond(x / x > 0, lambda: 1.0, lambda: 0.0)


@pytest.mark.parametrize(
    ("function", "compared"), [(decided_by_a_loop, "while/cond/gt"), (decided_by_a_branch, "gt")]
)
def test_a_nan_that_decides_by_a_comparison_what_goes_bad_is_told(function, compared):
    told = "\n".join(_screen(lambda x: 1.0 / function(x), 0.0))
    assert "It began in [div] div_1:0" in told
    assert re.search(r"\nNote:  bad before this, line \d+: div:0 .* 1 nan of 1\n", told)
    assert f"A value that came of it was compared, by [gt] {compared}, and" in told


def test_a_nan_that_is_compared_for_nothing_else_is_not_told():
    told = _screen(lambda x: (1.0 / x, x / x > 0), 0.0)
    assert not any(each.startswith("Note:") for each in told)
