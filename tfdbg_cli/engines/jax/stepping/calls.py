"""Makes calls that somebody goes through."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.base import CannotStep, Capture, SteppedRun
from tfdbg_cli.engines.jax.private import NAMES, compiled_function
from tfdbg_cli.engines.jax.runs.calls import Call, FunctionCall
from tfdbg_cli.engines.jax.runs.errors import show_errors_program_only
from tfdbg_cli.engines.jax.stepping.stepper import CallStepper
from tfdbg_cli.engines.kit.patching.patches import PatchSet
from tfdbg_cli.engines.kit.replayed import PromptedRun

__all__ = ["InterceptedCall", "PromptedCall", "Trap", "intercept", "stepper_of"]


class Trap:
    """Takes the calls of compiled functions that a function makes, instead of whoever debugs.

    Attributes:
        calls: that were made.
        result: what the next call returns; ``None``: it is made.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.result: tuple[Any] | None = None
        self._thread = threading.get_ident()

    def is_here(self) -> bool:
        """Whether what this thread does goes into it."""
        return self._thread == threading.get_ident()

    def call(self, call: Call, plain: Callable[[], Any]) -> Any:
        """The function calls a compiled one."""
        if self.result is not None:
            return self.result[0]
        call.keep()
        self.calls.append(call)
        try:
            call.result = plain()
        except Exception as error:
            show_errors_program_only(error)
            call.error = error
            raise
        return call.result


class _FunctionStepper(CallStepper):
    """Goes through the one call that a function of the program's makes.

    Args:
        call: it.
        real: of the function.
        again: calls the function, with another result of the call.
    """

    def __init__(self, call: Call, real: Capture, again: Callable[[Any], Any]) -> None:
        super().__init__(call)
        self._real_outside, self._again = real, again

    @property
    def real(self) -> Capture:
        return self._real_outside

    def _finished(self) -> Capture:
        capture = super()._finished()
        if capture.value is self._call.result or capture.error is self._call.error is not None:
            return Capture(self._real_outside.value, capture.dump, self._real_outside.error)
        if capture.error is None:
            capture.value = self._again(capture.value)
        return capture


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

    Raises:
        CannotStep: it calls several compiled functions, or does what can't be compiled.
    """
    value, error = None, None
    try:
        value = go_in(lambda: function(*args, **kwargs))
    except Exception as raised:
        error = raised
    if len(trap.calls) > 1:
        names = ", ".join(call.title for call in trap.calls[:3])
        raise CannotStep(
            f"This call makes {len(trap.calls)} calls of compiled functions: {names}.",
            "Step through one of them.",
        )
    if not trap.calls:
        return _traced(function, args, kwargs, value, error)
    (call,) = trap.calls
    if call.result is value and call.error is error:
        return CallStepper(call)

    def again(result: Any) -> Any:
        trap.result = (result,)
        try:
            return go_in(lambda: function(*args, **kwargs))
        finally:
            trap.result = None

    return _FunctionStepper(call, Capture(value, None, error), again)


def _traced(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    value: Any,
    error: BaseException | None,
) -> SteppedRun:
    """Goes through a function that isn't compiled, as it would be if it were."""
    call = FunctionCall(jax.jit(function), args, kwargs)
    call.keep()
    call.result, call.error = value, error
    try:
        return CallStepper(call)
    except CannotStep:
        raise
    except Exception as failure:
        text = str(failure).partition("\n")[0].rstrip(".")
        raise CannotStep(
            f"This function can't be stepped through op by op: {text}.",
            "Call a function that jax.jit can compile.",
        ) from failure


class PromptedCall(PromptedRun):
    """A run of the program that a person steps through, within its call."""

    def made(self, call: Call) -> Capture | None:
        """A call was made: what it is to return, or to raise; ``None``: what it has."""
        return None if self._is_done else self.conducted(lambda: CallStepper(call))


class InterceptedCall:
    """Calls a function as it was meant to be.

    Args:
        original: the method that does.
        function: the framework's object.
    """

    def __init__(self, original: Callable[..., Any], function: Any) -> None:
        self._original, self.function = original, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def intercept(
    function: Any,
    around: Callable[[Callable[..., Any], Any, Any], Any],
    is_tracing: Callable[[], bool],
) -> Callable[[], None]:
    """Let calls of a function by the program go through another one; see `StepsCalls.intercept`."""
    if not isinstance(function, compiled_function):
        raise UserError("Only functions made by jax.jit can be intercepted.")
    inside = threading.local()

    def replaced(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(called: Any, /, *args: Any, **kwargs: Any) -> Any:
            if called is not function or is_tracing() or getattr(inside, "is_on", False):
                return original(called, *args, **kwargs)
            inside.is_on = True
            try:
                return around(InterceptedCall(original, called), args, kwargs)
            finally:
                inside.is_on = False

        return call

    patches = PatchSet(NAMES.framework)
    with patches.together():
        patches.replace(compiled_function, "__call__", replaced, wraps=False)
    return patches.undo
