"""Computes what a jaxpr computes, and whether something bad is in it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jax import lax
from jax import numpy as jnp
from jax.extend import core

from tfdbg_cli.engines.jax.plans.ops import CALLBACKS, equation_function
from tfdbg_cli.engines.jax.plans.plan import called_jaxpr, value_of
from tfdbg_cli.engines.jax.plans.values import chosen
from tfdbg_cli.engines.jax.private import inner_jaxprs, partition_spec, scan_counts, shard_map_of
from tfdbg_cli.engines.jax.twins.checks import CheckedEquation, Checks
from tfdbg_cli.engines.jax.twins.loops import has_unsure, is_inexact, is_unsure

__all__ = ["BAD", "CUT", "MOST_ITERATIONS", "health_of", "obstacle", "results_and_health"]


#: Set in a flag: something bad was seen, and a loop was not done to its end.
BAD, CUT = 1, 2
_FINE = np.uint8(0)
#: So many iterations of a loop whose end depends on numbers that may differ in their last bits.
MOST_ITERATIONS = 10_000


def obstacle(jaxpr: Any) -> str:
    """Why a function must not be computed a second time beside the program; empty: it may be."""
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name in CALLBACKS:
            return f"it calls {name}, which is not called twice"
        # Inside of a shard_map loops aren't left: its devices may wait for each other.
        is_entered = name != "shard_map" and (name in _WAYS or called_jaxpr(equation) is not None)
        for inner in inner_jaxprs(equation):
            if not is_entered and has_unsure(inner):
                return f"there is a loop in its {name} that might not end another time"
            if found := obstacle(inner):
                return found
    return ""


def health_of(
    checks: Checks, constants: Sequence[Any], values: Sequence[Any], results: Sequence[Any]
) -> Any:
    """Flags (`BAD`, `CUT`) for each place to look at in what a jaxpr gets and computes.

    Args:
        checks: of the jaxpr.
        constants: of it.
        values: its arguments.
        results: what it has returned: that isn't computed again.
    """
    given = [*constants, *values]
    flags = [_is_bad(given[at]) for at in checks.inputs]
    _compute(checks, constants, values, flags, _FINE, results)
    return jnp.stack(flags)


def results_and_health(
    checks: Checks, constants: Sequence[Any], values: Sequence[Any]
) -> tuple[list[Any], Any]:
    """What a jaxpr returns, and flags as those of `health_of`; the last one is of what it returns.

    Args:
        checks: of the jaxpr.
        constants: of it.
        values: its arguments.
    """
    given = [*constants, *values]
    flags = [_is_bad(given[at]) for at in checks.inputs]
    made = _compute(checks, constants, values, flags, _FINE)
    returned = [_is_bad(each) for each in made if is_inexact(each)]
    return made, jnp.stack([*flags, _any([_FINE, *returned])])


def _compute(
    checks: Checks,
    constants: Sequence[Any],
    values: Sequence[Any],
    flags: list[Any],
    none: Any,
    results: Sequence[Any] = (),
) -> list[Any]:
    """What a jaxpr returns, ``None`` for what nobody uses; its flags are added to others.

    ``none`` is a flag with nothing set; of the type that all have in the ``shard_map`` around it.
    """
    jaxpr = checks.jaxpr
    pairs = zip(jaxpr.outvars, results, strict=bool(results))
    returned = {
        variable: value
        for variable, value in pairs
        if value is not None and not isinstance(variable, core.Literal)
    }
    known = dict(zip(jaxpr.constvars, constants, strict=True))
    known.update(zip(jaxpr.invars, values, strict=True))
    for checked in checks.equations:
        equation = checked.equation
        inputs = [_read(known, each) for each in equation.invars]
        called = called_jaxpr(equation)
        if called is not None:
            params = equation.params
            if params.get("prevent_cse") and params.get("differentiated"):
                # What is computed twice to save memory mustn't be made one with the first time.
                inputs = lax.optimization_barrier(inputs)  # type: ignore[no-untyped-call]
            known_results = [returned.get(each) for each in equation.outvars]
            made = _compute(checked.bodies[0], called.consts, inputs, flags, none, known_results)
        elif checked.bodies and (checked.is_needed or checked.has_unsure or equation.effects):
            made, found = _WAYS[equation.primitive.name](checked, inputs, none)
            flags += found
        else:
            made = _op(jaxpr, equation, known)
        flags += [_is_bad(made[slot]) for slot in checked.slots]
        for variable, value in zip(equation.outvars, made, strict=True):
            known[variable] = returned.get(variable, value)
    return [_read(known, each) for each in jaxpr.outvars]


def _read(known: Mapping[Any, Any], operand: Any) -> Any:
    if not isinstance(operand, core.Literal):
        return known.get(operand)
    value = value_of(operand)
    # A number of the program's own takes the type of what it meets, so do loops that it goes into.
    return jnp.asarray(value.item()) if getattr(operand.aval, "weak_type", False) else value


def _op(jaxpr: Any, equation: Any, known: Mapping[Any, Any]) -> list[Any]:
    given, function = equation_function(jaxpr, equation)
    return [*function(*(known[each] for each in given))]


def _scan(
    checked: CheckedEquation, inputs: Sequence[Any], none: Any
) -> tuple[list[Any], list[Any]]:
    params, (body,) = checked.equation.params, checked.bodies
    constants, count = scan_counts(params)
    held, begin = inputs[:constants], inputs[constants : constants + count]

    def again(going: Any, given: Sequence[Any]) -> Any:
        flag, carried = going
        flags = [flag]
        made = _compute(body, params["jaxpr"].consts, [*held, *carried, *given], flags, none)
        return (_any(flags), made[:count]), made[count:]

    (flag, carried), collected = lax.scan(
        again,
        (jnp.asarray(none), list(begin)),
        list(inputs[constants + count :]),
        params["length"],
        params["reverse"],
        params.get("unroll", 1),
    )
    return [*carried, *collected], [flag]


def _while(
    checked: CheckedEquation, inputs: Sequence[Any], none: Any
) -> tuple[list[Any], list[Any]]:
    params, (test, body) = checked.equation.params, checked.bodies
    tests = params["cond_nconsts"]
    begin = tests + params["body_nconsts"]
    may_not_end = is_unsure(checked.equation)
    is_batch = bool(test.jaxpr.outvars[0].aval.shape)

    def tested(carried: Sequence[Any], flags: list[Any]) -> Any:
        given = [*inputs[:tests], *carried]
        (made,) = _compute(test, params["cond_jaxpr"].consts, given, flags, none)
        return made

    def is_going(going: Any) -> Any:
        done, _, carried = going
        goes = jnp.any(tested(carried, []))
        return jnp.logical_and(goes, done < MOST_ITERATIONS) if may_not_end else goes

    def again(going: Any) -> Any:
        done, flag, carried = going
        flags = [flag]
        # What somebody looks at in the test is looked at here; without that it isn't done again.
        goes = tested(carried, flags) if is_batch or test.are_needed else None
        given = [*inputs[tests:begin], *carried]
        made = _compute(body, params["body_jaxpr"].consts, given, flags, none)
        if is_batch:  # those of a batch that are through stay as they are
            made = [chosen(goes, new, old) for new, old in zip(made, carried, strict=True)]
        return done + 1 if may_not_end else done, _any(flags), made

    done, flag, carried = lax.while_loop(
        is_going, again, (jnp.int32(0), jnp.asarray(none), list(inputs[begin:]))
    )
    flags = [flag]
    if test.are_needed:
        tested(carried, flags)
    if may_not_end:
        flags.append(_flag(done < MOST_ITERATIONS, CUT))
    return carried, [_any(flags)]


def _condition(
    checked: CheckedEquation, inputs: Sequence[Any], none: Any
) -> tuple[list[Any], list[Any]]:
    branches = [
        functools.partial(_branch, body, closed.consts, none)
        for body, closed in zip(checked.bodies, checked.equation.params["branches"], strict=True)
    ]
    flag, made = lax.switch(inputs[0], branches, *inputs[1:])
    return made, [flag]


def _branch(
    body: Checks, constants: Sequence[Any], none: Any, *values: Any
) -> tuple[Any, list[Any]]:
    flags = [jnp.asarray(none)]
    made = _compute(body, constants, values, flags, none)
    return _any(flags), made


def _shard_map(
    checked: CheckedEquation, inputs: Sequence[Any], none: Any
) -> tuple[list[Any], list[Any]]:
    del none
    parts, (body,) = shard_map_of(checked.equation), checked.bodies
    assert parts is not None

    def inside(*values: Any) -> tuple[list[Any], Any]:
        # A zero that JAX takes for one that differs along all axes, as what is looked at may.
        none = (lax.axis_index(parts.axes) * 0).astype(jnp.uint8)
        flags: list[Any] = [none]
        made = _compute(body, getattr(parts.jaxpr, "consts", ()), values, flags, none)
        return made, jnp.stack([each | none for each in flags])[None]

    places = [*parts.outputs], partition_spec([parts.axes])
    made, found = parts.make(inside, (*parts.inputs,), places)(*inputs)
    return made, [*jnp.max(found, axis=0)[1:]]  # of all devices


_WAYS: dict[str, Callable[[CheckedEquation, Sequence[Any], Any], tuple[list[Any], list[Any]]]] = {
    "cond": _condition,
    "scan": _scan,
    "shard_map": _shard_map,
    "while": _while,
}


def _any(flags: Sequence[Any]) -> Any:
    return functools.reduce(jnp.bitwise_or, flags)


def _is_bad(value: Any) -> Any:
    if not value.size:
        return _FINE
    if jnp.iscomplexobj(value):
        return _flag(jnp.all(jnp.isfinite(value)), BAD)
    if jnp.dtype(value.dtype).itemsize == 1:  # float8: not all backends know of them
        value = jnp.asarray(value, jnp.float32)
    # XLA makes less of a reduction of truths: this one is a fifth faster on a CPU.
    return _flag(jnp.isfinite(jnp.max(jnp.abs(value))), BAD)


def _flag(is_fine: Any, flag: int) -> Any:
    return jnp.where(is_fine, _FINE, np.uint8(flag))
