"""Copies of arrays, and how much memory is left for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax import numpy as jnp

from tfdbg_cli.common.memory import spare_memory
from tfdbg_cli.dumps.dump import CannotRedo
from tfdbg_cli.engines.jax.plans.values import is_key, is_spread
from tfdbg_cli.engines.jax.private import is_committed, unchecked
from tfdbg_cli.engines.kit.fitting import stands_for

__all__ = ["array_like", "copied_arrays", "spare_bytes"]


def spare_bytes(size: int) -> int:
    """Bytes that are left where arrays are; a large number if nobody knows."""
    devices = jax.local_devices()
    stats = [found for each in devices if (found := each.memory_stats()) is not None]
    left = [each["bytes_limit"] - each["bytes_in_use"] for each in stats if "bytes_limit" in each]
    return min(left, default=spare_memory(4 * size))


def array_like(name: str, value: Any, array: Any) -> Any:
    """A computed value as an array that is where another one is, and of its type, weak or not.

    Args:
        name: of the tensor.
        value: a NumPy array.
        array: the other one; stays as it is.

    Raises:
        CannotRedo: the value can't be such an array.
    """
    if is_key(array) or is_spread(array):
        raise CannotRedo(f"{name} holds random keys, or is with several processes")
    return array.at[...].set(stands_for(name, value, array))


def copied_arrays(tree: Any) -> Any:
    """A tree whose arrays are copies of another one's; what was one array is one again."""
    with unchecked():  # what is bad is copied as it is
        return _copied(tree)


def _copied(tree: Any) -> Any:
    leaves, structure = jax.tree.flatten(tree)
    arrays = {id(leaf): leaf for leaf in leaves if isinstance(leaf, jax.Array)}
    copies: dict[int, Any] = {}
    together: dict[Any, list[Any]] = {}
    for each in arrays.values():
        if is_key(each) or len(each.devices()) != 1:
            copies[id(each)] = _copy(each)
        else:  # one by one they take ten times as long
            together.setdefault((each.sharding, is_committed(each)), []).append(each)
    for several in together.values():
        copies.update(zip(map(id, several), _copy_all(several), strict=True))
    return jax.tree.unflatten(structure, [copies.get(id(leaf), leaf) for leaf in leaves])


@jax.jit
def _copy_all(arrays: Sequence[Any]) -> list[Any]:
    return [jnp.copy(each) for each in arrays]


def _copy(array: Any) -> Any:
    if is_spread(array):  # nobody else may copy it now
        parts = _copied([shard.data for shard in array.addressable_shards])
        return jax.make_array_from_single_device_arrays(array.shape, array.sharding, parts)
    if is_key(array):
        data = jnp.copy(jax.random.key_data(array))
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(array))
    return jnp.copy(array)
