"""Calls that twins make in place of the program's functions."""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from typing import Any

import jax

from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.engines.jax.plans.values import distance
from tfdbg_cli.engines.jax.private import compiler_options, is_committed
from tfdbg_cli.engines.jax.runs.calls import Call
from tfdbg_cli.engines.jax.twins.results import ResultsTwin, TwinResult
from tfdbg_cli.engines.jax.twins.twins import Twins

__all__ = ["InPlace"]


class InPlace:
    """The twins of a program's functions that compute all that these return.

    A twin makes calls where it has made one before, beside the function, and what they have
    returned was alike.
    """

    def __init__(self) -> None:
        self._twins: Twins[ResultsTwin] = Twins()
        # To trace another one, which may fail, is the program's business.
        self._trusted: weakref.WeakSet[Any] = weakref.WeakSet()

    def ready(self, call: Call) -> ResultsTwin | None:
        """The twin that can make a call; ``None``: there is none, by now or at all."""
        if call.function is None or call.function not in self._trusted or _is_checked():
            return None
        with contained:
            found = self._twins.known(call.jaxpr, _placement(call))
            return found if found is not None and found.is_trusted and not found.refusal else None
        return None

    def twin(self, call: Call, patience: float) -> ResultsTwin:
        """The twin for calls like one that is over; a new one is compiled from now on.

        Args:
            call: it.
            patience: a new one is waited for so many seconds.
        """
        function = call.function
        if function is None:
            return _refused("it isn't called by the program itself")
        if _is_checked():
            return _refused("jax_debug_nans is on")
        return self._twins.of(
            call.jaxpr,
            _placement(call),
            lambda: ResultsTwin(compiler_options(function)),
            call.given(),
            call.outputs,
            patience,
        )

    def try_out(self, twin: ResultsTwin, call: Call) -> TwinResult | None:
        """Let a twin make a call that is over; see whether it returns the like.

        ``None``: all that may be bad shows in what the function returns, so that it isn't needed.
        """
        if not twin.can_compute:
            return None
        computed = twin.compute(call.jaxpr.consts, call.copies())
        if not twin.is_trusted:
            twin.trust(computed, call.values(), call.outputs)
            if twin.is_trusted:
                pairs = zip(call.outputs, computed.results, strict=True)
                twin.distance = max((distance(*each) for each in pairs), default=0.0)
                self._trusted.add(call.function)
        return computed


def _placement(call: Call) -> Hashable:
    """What tells twins of one jaxpr apart."""
    values = ((getattr(each, "sharding", None), is_committed(each)) for each in call.given())
    config: Any = jax.config
    return (weakref.ref(call.function), config.jax_default_device, *values)


def _refused(why: str) -> ResultsTwin:
    twin = ResultsTwin(None)
    twin.refuse(why)
    return twin


def _is_checked() -> bool:
    """Whether JAX looks at what functions return, and calls them once more."""
    config: Any = jax.config
    return bool(config.jax_debug_nans or config.jax_debug_infs)
