"""Loops that may never end when they are computed in another way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from tfdbg_cli.engines.jax.private import inner_jaxprs

__all__ = ["has_shard_map", "has_unsure", "is_inexact", "is_unsure", "variables"]


def is_unsure(equation: Any) -> bool:
    """Whether it is a loop whose end depends on numbers that may differ in their last bits."""
    if equation.primitive.name != "while":
        return False
    params = equation.params
    tests, own = params["cond_nconsts"], params["body_nconsts"]
    body = params["body_jaxpr"].jaxpr
    found, is_inexact = _behind(params["cond_jaxpr"].jaxpr, (0,))
    wanted = {at - tests for at in found if at >= tests}
    while not is_inexact:
        found, is_inexact = _behind(body, [*wanted])
        more = wanted | {at - own for at in found if at >= own}
        if more == wanted:
            break
        wanted = more
    return is_inexact


def has_unsure(jaxpr: Any) -> bool:
    """Whether there is such a loop in a jaxpr."""
    return any(is_unsure(each) or any(map(has_unsure, inner_jaxprs(each))) for each in jaxpr.eqns)


def has_shard_map(jaxpr: Any) -> bool:
    """Whether there is a ``shard_map`` in a jaxpr."""
    return any(
        each.primitive.name == "shard_map" or any(map(has_shard_map, inner_jaxprs(each)))
        for each in jaxpr.eqns
    )


def is_inexact(aval: Any) -> bool:
    """Whether there may be something bad in it."""
    dtype = getattr(aval, "dtype", None)
    if dtype is None or hasattr(aval, "inner_aval"):  # a mutable array: what is read of it counts
        return False
    return bool(jax.numpy.issubdtype(dtype, np.inexact))


def variables(operands: Sequence[Any]) -> list[Any]:
    """Those that are no literals."""
    return [each for each in operands if not isinstance(each, core.Literal)]


def _behind(jaxpr: Any, results: Sequence[int]) -> tuple[list[int], bool]:
    """The arguments that some results depend on, and whether numbers that aren't exact do so."""
    wanted = {*variables([jaxpr.outvars[at] for at in results])}
    for equation in reversed(jaxpr.eqns):
        if not wanted.isdisjoint(equation.outvars):
            wanted.update(variables(equation.invars))
    return (
        [at for at, each in enumerate(jaxpr.invars) if each in wanted],
        any(is_inexact(each.aval) for each in wanted),
    )
