"""A run of the program, or a call of a function, that somebody steps through."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfdbg_cli.engines.base import SteppedRun
from tfdbg_cli.engines.kit.replayed import PromptedRun
from tfdbg_cli.engines.tensorflow.functions.level import ValuesLevel
from tfdbg_cli.engines.tensorflow.functions.stepping.calls import call_stepper, run_stepper
from tfdbg_cli.engines.tensorflow.functions.stepping.state import CallVariables

__all__ = ["PromptedCall", "Trap", "stepper_of"]


class PromptedCall(PromptedRun):
    """A run of the program that a person steps through: within its call, or when it was made."""

    def call(
        self,
        arguments: Sequence[Any],
        make: Callable[[], Any],
        aside: Callable[[], Callable[[], None]],
    ) -> Any:
        """Make the only call of the run, as somebody wants it; what it returns.

        Args:
            arguments: of the call.
            make: makes it, and lets the watcher see it.
            aside: what is done from now on is no part of the program, until what it returns is
                called.
        """
        self._is_done = True
        capture = None
        back = aside()
        try:
            variables = self._made(lambda: CallVariables(arguments))
        finally:
            back()
        if variables is None:
            return make()
        error: BaseException | None = None
        results = None
        try:
            results = make()
        except Exception as raised:
            error = raised
        if not self._watcher.has_one_call:
            if error is not None:
                raise error
            return results
        back = aside()
        try:
            capture = self.conducted(lambda: call_stepper(self._watcher, variables, error))
        finally:
            back()
        if capture is not None:
            results, error = capture.value, capture.error
        if error is not None:
            raise error
        return results

    def end(self, error: BaseException | None) -> None:
        """The run is at its end, and nothing is recorded any more."""
        if not self._is_done:
            self._is_done = True
            stepper = self._made(lambda: run_stepper(self._watcher, None, error))
            if stepper is not None:
                self._conduct(stepper)


class Trap:
    """Takes the calls of traced functions that a function makes, instead of whoever debugs.

    Args:
        watcher: sees the calls.
        is_traced: the function is a traced one: ops that are executed by themselves belong to
            tracing it.

    Attributes:
        watcher, is_traced: as above.
        variables: as they were before the first call of a traced function.
        results: what the next call returns; ``None``: it is made.
    """

    def __init__(self, watcher: ValuesLevel, is_traced: bool) -> None:
        self.watcher = watcher
        self.is_traced = is_traced
        self._thread = threading.get_ident()
        self.variables: CallVariables | None = None
        self.results: Sequence[Any] | None = None

    def is_here(self) -> bool:
        """Whether what this thread does goes into it."""
        return self._thread == threading.get_ident()

    def run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call the function."""
        if not self.is_traced:
            self.watcher.start()
        try:
            return function(*args, **kwargs)
        finally:
            self.watcher.stop()

    def call(self, arguments: Sequence[Any], make: Callable[[], Any]) -> Any:
        """It calls a traced function."""
        if self.results is not None:
            return list(self.results) or None
        if self.variables is None and self.is_traced:
            self.variables = CallVariables(arguments)
        return make()


def stepper_of(
    trap: Trap,
    go_in: Callable[[Callable[[], Any]], Any],
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> SteppedRun:
    """Call a function; a stepper of the call that was made.

    Args:
        trap: to be seen by.
        go_in: calls something while the trap takes the calls.
        function: what is called.
        args, kwargs: with what.
    """
    value, error = None, None
    try:
        value = go_in(lambda: trap.run(function, args, kwargs))
    except Exception as raised:
        error = raised
    watcher = trap.watcher
    if not (trap.is_traced and trap.variables is not None and watcher.has_one_call):
        return run_stepper(watcher, value, error)
    stepper = call_stepper(watcher, trap.variables, error)

    def returned(results: Sequence[Any]) -> Any:
        trap.results = results
        try:
            return go_in(lambda: trap.run(function, args, kwargs))
        finally:
            trap.results = None

    stepper.returns(value, returned)
    return stepper
