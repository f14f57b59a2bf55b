"""What happens inside of a ``shard_map``: values of all its devices, kept as one array each.

The array of a value begins with one axis for each manual axis of the mesh: its length is that of
the mesh's axis, or 1 where JAX knows the value to be the same along it. Each op inside is done by
a ``shard_map`` of its own over such arrays.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec

from tfdbg_cli.engines.jax.private import ShardMap, partition_spec, varying_axes

__all__ = ["DivergingDevices", "Shards"]

_MOST_NAMED = 4
# Equation -> what does it; the equation is held, so that its id is no other's. A function's jaxpr
# is the same in each of its runs.
_MADE: OrderedDict[tuple[int, str], tuple[Any, Callable[..., Any]]] = OrderedDict()
_MOST_MADE = 4096


class DivergingDevices(Exception):
    """The devices go different ways."""


class Shards:
    """The inside of one ``shard_map``.

    Args:
        equation: it.
        parts: what it consists of.
    """

    def __init__(self, equation: Any, parts: ShardMap) -> None:
        self._equation, self._parts = equation, parts
        self.depth = len(parts.axes)

    def _varying(self, aval: Any) -> Collection[str]:
        """The axes along which a value may differ."""
        return varying_axes(aval) if self._parts.is_checked else self._parts.axes

    def _spec(self, aval: Any) -> PartitionSpec:
        varying = self._varying(aval)
        return partition_spec(axis if axis in varying else None for axis in self._parts.axes)

    def _do(
        self,
        name: str,
        equation: Any,
        function: Callable[..., Sequence[Any]],
        inputs: Sequence[PartitionSpec],
        outputs: Sequence[PartitionSpec],
        values: Sequence[Any],
    ) -> Sequence[Any]:
        key = (id(equation), name)
        if key not in _MADE:
            whole = self._parts.make(function, (*inputs,), [*outputs])
            _MADE[key] = equation, jax.jit(whole)
            if len(_MADE) > _MOST_MADE:
                _MADE.popitem(last=False)
        made: Sequence[Any] = _MADE[key][1](*values)
        return made

    def enter(self, values: Sequence[Any]) -> Sequence[Any]:
        """What each device gets of what the ``shard_map`` is given."""
        inner = [self._spec(each.aval) for each in self._parts.jaxpr.invars]
        lead = (None,) * self.depth
        return self._do(
            "enter",
            self._equation,
            lambda *given: [each[lead] for each in given],
            self._parts.inputs,
            inner,
            values,
        )

    def leave(self, values: Sequence[Any]) -> Sequence[Any]:
        """What it gives, of what its devices do."""
        inner = [self._spec(each.aval) for each in self._parts.jaxpr.outvars]
        first = (0,) * self.depth
        return self._do(
            "leave",
            self._equation,
            lambda *made: [each[first] for each in made],
            inner,
            self._parts.outputs,
            values,
        )

    def compute(
        self,
        equation: Any,
        operands: Sequence[Any],
        function: Callable[..., Sequence[Any]],
        values: Sequence[Any],
    ) -> Sequence[Any]:
        """One equation inside, on all devices.

        Args:
            equation: it.
            operands: what it gets, those of its operands that aren't written down.
            function: does it on one of them.
            values: of the operands.
        """
        lead, first = (None,) * self.depth, (0,) * self.depth
        return self._do(
            "",
            equation,
            lambda *given: [each[lead] for each in function(*(one[first] for one in given))],
            [self._spec(each.aval) for each in operands],
            [self._spec(each.aval) for each in equation.outvars],
            values,
        )

    def spread(self, value: Any) -> Any:
        """A value that is written down: each device has it."""
        return np.broadcast_to(np.asarray(value), self.shape(value))

    def shape(self, aval: Any) -> tuple[int, ...]:
        """Of the array of a value, from what is known of it on one device."""
        varying = self._varying(aval)
        lead = [self._parts.sizes[axis] if axis in varying else 1 for axis in self._parts.axes]
        return (*lead, *np.shape(aval))

    def agreed(self, value: Any) -> Any:
        """The one value that all devices have.

        Raises:
            DivergingDevices: they have different ones.
        """
        values = np.asarray(value).reshape(-1)
        if (values != values[0]).any():
            raise DivergingDevices
        return values[0]

    def note(self, array: Any) -> str:
        """What the first indices of an array stand for, and in which shards it is bad."""
        lead = array.shape[: self.depth] if isinstance(array, np.ndarray) else ()
        names = [
            axis if many == self._parts.sizes[axis] else f"{axis} (all the same)"
            for axis, many in zip(self._parts.axes, lead, strict=False)
        ]
        few = (
            "first of its indices is"
            if len(names) == 1
            else f"first {len(names)} of its indices are"
        )
        text = f"by shard: the {few} {', '.join(names)}"
        if not names or not math.prod(array.shape):
            return text if names else ""
        try:
            bad = ~np.isfinite(array.reshape(*lead, -1)).all(axis=-1)
        except TypeError:
            return text
        places = [str([int(each) for each in place]) for place in np.argwhere(bad)]
        if places:
            more = f" and {len(places) - _MOST_NAMED} more" if len(places) > _MOST_NAMED else ""
            text += f"; nan or infinite in {', '.join(places[:_MOST_NAMED])}{more}"
        return text
