"""Twins that programs get their results from: a function and its flags in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from tfdbg_cli.engines.jax.private import is_committed
from tfdbg_cli.engines.jax.twins.checks import Checks
from tfdbg_cli.engines.jax.twins.health import results_and_health
from tfdbg_cli.engines.jax.twins.loops import has_unsure
from tfdbg_cli.engines.jax.twins.twins import Twin

__all__ = ["ResultsTwin", "TwinResult"]


class TwinResult(NamedTuple):
    """What a twin has made of a call.

    Attributes:
        results: what the function would have returned.
        flags: of what is on the way there, for `Twin.bad`.
        is_fine: nothing in the results is bad.
    """

    results: list[Any]
    flags: Any
    is_fine: bool


class ResultsTwin(Twin):
    """Computes what a function returns, and tells whether something bad is in it.

    Args:
        options: that XLA is to compile it with.

    Attributes:
        is_trusted: its results were like those of the function, up to their last bits.
        distance: how far they were apart, as a part of the largest number.
    """

    def __init__(self, options: dict[str, Any] | None) -> None:
        super().__init__()
        self._options = options
        self.is_trusted = False
        self.distance = 0.0

    def _obstacle(self, jaxpr: Any) -> str:
        if found := super()._obstacle(jaxpr):
            return found
        if jaxpr.effects:
            return "it prints"
        return "it has a loop that might not end another time" if has_unsure(jaxpr) else ""

    def _lower(
        self, checks: Checks, closed: Any, values: Sequence[Any], results: Sequence[Any]
    ) -> Any:
        def tfdbg_cli_twin(constants: Sequence[Any], *given: Any) -> Any:
            return results_and_health(checks, constants, given)

        # What the function has used up, and where it has put its results, shows best afterwards.
        used_up = [1 + at for at, value in enumerate(values) if _is_used_up(value)]
        places = [value.sharding for value in results] if any(map(is_committed, results)) else None
        function = jax.jit(
            tfdbg_cli_twin,
            donate_argnums=used_up,
            out_shardings=None if places is None else (places, None),
            compiler_options=self._options,
        )
        return function.lower(closed.consts, *values)

    @property
    def can_compute(self) -> bool:
        """Whether it has been compiled."""
        return self._function is not None

    def compute(self, constants: Sequence[Any], values: Sequence[Any]) -> TwinResult:
        """Compute it, and wait for the flags.

        Args:
            constants: of the function's jaxpr.
            values: what it is called with; it uses up what the function would.
        """
        assert self._function is not None
        results, flags = self._function(constants, *values)
        told = jax.device_get(flags)
        return TwinResult(results, told[:-1], not told[-1])

    def trust(self, computed: TwinResult, values: Sequence[Any], results: Sequence[Any]) -> None:
        """See whether what it has made of a call is like what the function has returned.

        Args:
            computed: it.
            values: what the function was called with.
            results: what it has returned.
        """
        own, made = (
            [_kind_of(each, values) for each in several] for several in (results, computed.results)
        )
        self.is_trusted = own == made
        if not self.is_trusted:
            self.refuse("what its twin returns is of another type or on other devices")


def _kind_of(value: Any, values: Sequence[Any]) -> tuple[Any, ...]:
    """All of an array but its numbers."""
    return (
        *(value.shape, value.dtype, getattr(value, "weak_type", False)),
        *(value.sharding, is_committed(value), getattr(value, "format", None)),
        [value is each for each in values],
    )


def _is_used_up(value: Any) -> bool:
    return isinstance(value, jax.Array) and value.is_deleted()
