"""The twins of compiled functions, which are compiled while the program goes on."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

import jax
import numpy as np

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.common.interpreter.threads import OwnThread
from tfdbg_cli.engines.jax.private import writes_to_arguments
from tfdbg_cli.engines.jax.twins.checks import Checks, checks_of, places_bad
from tfdbg_cli.engines.jax.twins.health import BAD, CUT, MOST_ITERATIONS, health_of, obstacle
from tfdbg_cli.engines.jax.twins.loops import is_inexact

__all__ = ["Twin", "Twins"]

# With ever other placements of what it gets, a function's twin would be compiled ever again.
_MOST_PLACEMENTS = 4


class Twin:
    """Tells whether something bad is in what a function gets and computes.

    Attributes:
        refusal: why it doesn't; empty: it does, or will.
        excused: by a filter and what it leaves out the flags that say nothing to it.
        places_bad: a nan or an infinity is written down in the function.
    """

    def __init__(self) -> None:
        self.refusal = ""
        self.places_bad = False
        self.excused: dict[tuple[str, str], set[int]] = {}
        self._function: Callable[..., Any] | None = None
        self._is_made = threading.Event()

    @property
    def lack(self) -> str:
        """Why it tells nothing by now; empty: it does."""
        if self.refusal or self._is_made.is_set():
            return self.refusal
        return "its twin is still being compiled"

    def trace(
        self, closed: Any, values: Sequence[Any], results: Sequence[Any]
    ) -> Callable[[], Any] | None:
        """Get it ready to be compiled, on the program's thread, whose settings it has.

        Args:
            closed: the function's jaxpr.
            values: what it was called with.
            results: what it has returned.

        Returns:
            What compiles it; ``None``: nothing is to be compiled.
        """
        jaxpr = closed.jaxpr
        if why := self._obstacle(jaxpr):
            self.refuse(why)
            return None
        self.places_bad = places_bad(jaxpr)
        told = [is_inexact(each.aval) for each in jaxpr.outvars]
        checks = checks_of(jaxpr, told)
        if not checks.are_needed and not checks.inputs:  # all that is bad shows in what it returns
            self._is_made.set()
            return None
        lowered = self._lower(checks, closed, values, results)
        return lambda: self._compile(lowered)

    def _obstacle(self, jaxpr: Any) -> str:
        """Why there can be none; empty: there can be."""
        if jax.process_count() > 1:  # all of them would have to have it at the same time
            return "the program is one of several processes"
        if writes_to_arguments(jaxpr):
            return "it writes to mutable arrays"
        return obstacle(jaxpr)

    def _lower(
        self, checks: Checks, closed: Any, values: Sequence[Any], results: Sequence[Any]
    ) -> Any:
        def tfdbg_cli_health(*given: Sequence[Any]) -> Any:
            return health_of(checks, *given)

        return jax.jit(tfdbg_cli_health).lower(closed.consts, values, results)

    def refuse(self, why: str) -> None:
        """Tell nothing."""
        self.refusal, self._function = why, None
        self._is_made.set()

    def _compile(self, lowered: Any) -> None:
        try:
            self._function = lowered.compile()
        except Exception as error:
            self.refuse(f"its twin can't be compiled: {one_line(error)}")
        self._is_made.set()

    def wait(self, seconds: float) -> None:
        """Wait for it to be compiled, so long at most."""
        self._is_made.wait(seconds)

    def flags(self, constants: Sequence[Any], values: Sequence[Any], results: Sequence[Any]) -> Any:
        """Compute it: which of its flags are set; ``None``: it has none, by now or at all.

        Args:
            constants: of the function's jaxpr.
            values: what it was called with.
            results: what it has returned.
        """
        if self._function is None:
            return None
        return self._function(constants, values, results)

    def bad(self, flags: Any) -> set[int]:
        """The places of the flags that tell of something bad; they are waited for."""
        found = jax.device_get(flags)
        if (found & CUT).any():
            self.refuse(f"a loop of its twin was not at its end after {MOST_ITERATIONS} iterations")
        return {*np.flatnonzero(found & BAD).tolist()}


T = TypeVar("T", bound=Twin)


class Twins(Generic[T]):
    """Those of a program's functions, all of one kind."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Any, dict[Any, T]] = weakref.WeakKeyDictionary()
        self._waiting: deque[Callable[[], Any]] = deque()
        self._lock = threading.Lock()
        self._worker: OwnThread | None = None

    def known(self, closed: Any, placement: Hashable) -> T | None:
        """The twin of a function, if there is one; see `of`."""
        return self._known.get(closed.jaxpr, {}).get(placement)

    def of(
        self,
        closed: Any,
        placement: Hashable,
        make: Callable[[], T],
        values: Sequence[Any],
        results: Sequence[Any],
        patience: float,
    ) -> T:
        """The twin of a function; a new one is compiled while the program goes on.

        Args:
            closed: its jaxpr.
            placement: on which devices it computes, and what else tells its twins apart.
            make: a new one.
            values: what it was called with.
            results: what it has returned.
            patience: a new one is waited for so many seconds.
        """
        by_placement = self._known.setdefault(closed.jaxpr, {})
        found = by_placement.get(placement)
        if found is None:
            found = make()
            if len(by_placement) == _MOST_PLACEMENTS:
                found.refuse("it is compiled again, or its arguments are on other devices")
                return found
            by_placement[placement] = found
            try:
                work = found.trace(closed, values, results)
            except Exception as error:
                pass_on(error)
                found.refuse(f"its twin can't be made: {one_line(error)}")
                return found
            if work is not None:
                self._do(work)
                found.wait(patience)
        return found

    def _do(self, work: Callable[[], Any]) -> None:
        with self._lock:
            self._waiting.append(work)
            if self._worker is not None:
                return
            self._worker = OwnThread(self._compile)
        # XLA aborts the process if it ends in the middle of its work.
        atexit.register(self._worker.join)

    def _compile(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._worker = None
                    return
                work = self._waiting.popleft()
            work()
