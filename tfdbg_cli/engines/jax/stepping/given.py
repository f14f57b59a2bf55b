"""Values that somebody gives: those that can stand for a tensor."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from tfdbg_cli.engines.jax.plans.values import as_array, is_key

__all__ = ["device_value", "elements_dtype", "elements_shape", "given_array"]


def elements_shape(aval: Any) -> tuple[int, ...]:
    """The shape of what stands for a tensor; see `elements_dtype`."""
    if is_key(aval):
        aval = jax.eval_shape(jax.random.key_data, aval)
    return tuple(getattr(aval, "shape", ()))


def elements_dtype(aval: Any) -> np.dtype[Any]:
    """The dtype of what stands for a tensor: of random keys that of what they are made of.

    Args:
        aval: what is known of the tensor.
    """
    return np.dtype(np.uint32 if is_key(aval) else getattr(aval, "dtype", type(aval)))


def given_array(value: Any) -> Any:
    """What somebody gives for a tensor, read if JAX holds it."""
    return as_array(value) if isinstance(value, jax.Array) else value


def device_value(array: np.ndarray[Any, Any], aval: Any, sharding: Any = None) -> Any:
    """What stands for a tensor in the ops that read it.

    Args:
        array: of `elements_dtype` and `elements_shape`.
        aval: what is known of the tensor.
        sharding: where it is to be; ``None``: where JAX puts it.
    """
    made = jnp.asarray(array)
    if is_key(aval):
        made = jax.random.wrap_key_data(made, impl=_impl(aval))
    return jax.device_put(made, sharding) if sharding is not None else made


def _impl(aval: Any) -> Any:
    """Which generator keys are of; JAX says it of arrays alone."""
    found: list[Any] = []

    def ask(key: Any) -> Any:
        found.append(jax.random.key_impl(key))
        return key

    jax.eval_shape(ask, aval)
    return found[0]
