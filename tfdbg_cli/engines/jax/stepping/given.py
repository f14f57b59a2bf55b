"""Values that somebody gives: those that can stand for a tensor."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from tfdbg_cli.engines.jax.plans.values import as_array, is_key
from tfdbg_cli.engines.kit.fitting import fitted_array

__all__ = ["device_value", "elements_shape", "fitted"]


def elements_shape(aval: Any) -> tuple[int, ...]:
    """The shape of what `fitted` gives: of random keys that of what they are made of."""
    if is_key(aval):
        aval = jax.eval_shape(jax.random.key_data, aval)
    return tuple(getattr(aval, "shape", ()))


def fitted(tensor_name: str, value: Any, aval: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """A value that a tensor is to have, as the array that it can be.

    Args:
        tensor_name: of the tensor.
        value: what somebody gives.
        aval: what is known of the tensor.
        shape: of its elements.

    Raises:
        UserError: the tensor can't have it.
    """
    dtype = np.dtype(np.uint32 if is_key(aval) else getattr(aval, "dtype", type(aval)))
    given = as_array(value) if isinstance(value, jax.Array) else value
    return fitted_array(tensor_name, given, dtype, shape)


def device_value(array: np.ndarray[Any, Any], aval: Any, sharding: Any = None) -> Any:
    """What stands for a tensor in the ops that read it.

    Args:
        array: of `fitted`.
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
