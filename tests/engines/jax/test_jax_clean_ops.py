"""What is called clean makes nothing bad of what is finite, at the ends of each dtype."""

import jax
import numpy as np
import pytest

from tfdbg_cli.engines.jax.twins.checks import _CLEAN, _makes_nothing_bad

TOP = {name: float(jax.numpy.finfo(name).max) for name in ("float16", "bfloat16", "float32")}
TINY = {name: float(jax.numpy.finfo(name).smallest_subnormal) for name in TOP}
UNARY = sorted(name for name in _CLEAN if hasattr(jax.lax, name))


def ends(dtype):
    """Numbers at the ends of a dtype."""
    if dtype == "complex64":
        top = TOP["float32"]
        parts = [top, -top, 1.0, 0.0, 1e30, -100.0, 1e-45]
        return jax.numpy.array([complex(a, b) for a in parts for b in parts], dtype)
    top, tiny = TOP[dtype], TINY[dtype]
    return jax.numpy.array([top, -top, tiny, -tiny, 0.0, -0.0, 1, -1, 100, -100], dtype)


@pytest.mark.parametrize("dtype", [*TOP, "complex64"])
def test_an_op_that_is_called_clean_is_clean(dtype):
    tried = []
    for name in UNARY:
        try:
            (equation,) = jax.make_jaxpr(getattr(jax.lax, name))(ends(dtype)).eqns
            made = getattr(jax.lax, name)(ends(dtype))
        except (TypeError, ValueError):
            continue  # it takes more, or other numbers, or is several ops
        if _makes_nothing_bad(equation):
            tried.append(name)
            for each in jax.tree.leaves(made):
                if jax.numpy.issubdtype(each.dtype, np.inexact):
                    assert jax.numpy.isfinite(each).all(), name
    assert len(tried) > 4, tried
