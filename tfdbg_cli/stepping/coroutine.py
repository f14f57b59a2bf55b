"""Two pieces of code that take turns on one thread."""

from __future__ import annotations

import contextvars
import functools
import importlib
import importlib.util
import operator
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.interpreter.recursion import lift

__all__ = ["Coroutine"]

# A strand's stack ends where it began, and below are the frames of whoever resumes it now. PyTorch
# notes the innermost 64 native frames of each error: reading on beyond the end of the stack, it
# takes leftovers for frames and may crash the process. So many calls in C keep that end away.
_AWAY: Sequence[Callable[..., Any]] = (operator.call,) * 64
# Until Python 3.11 they count for the recursion limit.
_COUNTED = len(_AWAY) if sys.version_info < (3, 12) else 0


@functools.cache
def _is_installed() -> bool:
    return importlib.util.find_spec("greenlet") is not None


class Coroutine:
    """A function that runs on the calling thread, and can be left in the middle.

    Whoever calls `resume` waits until the function calls `pause` or is done. The function starts
    with the context variables of whoever resumes it first, and what it has set of them by its end
    is set for whoever resumed it last: as if it had been called plainly. Trace and profile
    functions of the thread see both.

    Args:
        function: is called without arguments at the first `resume`.

    Raises:
        UserError: the package ``greenlet`` isn't installed.
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self._library = _library()
        self._thread = threading.get_ident()
        self._function: Callable[[], Any] | None = function
        self._resumer: Any = None
        self._context: contextvars.Context | None = None
        self._greenlet = self._library.greenlet(self._run)

    @staticmethod
    def is_possible() -> bool:
        """Whether the package that this needs is installed."""
        return "greenlet" in sys.modules or _is_installed()

    @property
    def is_started(self) -> bool:
        """Whether the function has begun."""
        return self._context is not None

    @property
    def is_current(self) -> bool:
        """Whether it is the function that runs now, and on this thread."""
        return self._library.getcurrent() is self._greenlet

    @property
    def is_done(self) -> bool:
        """Whether the function has returned or raised."""
        return bool(self._greenlet.dead)

    def resume(self, value: Any = None) -> Any:
        """Let the function go on until it pauses or is done.

        Args:
            value: what its `pause` returns; of no meaning the first time.

        Returns:
            What it gave to `pause`, or what it has returned: see `is_done`.

        Raises:
            BaseException: what it has raised.
            RuntimeError: it is done, or another thread calls.
        """
        if self.is_done:
            raise RuntimeError("A strand that is done can't be resumed.")
        return self._switch(self._greenlet.switch, value)

    def pause(self, value: Any = None) -> Any:
        """Let whoever resumed the function go on; to be called by the function.

        Args:
            value: what its `resume` returns.

        Returns:
            What the next `resume` is given.

        Raises:
            GreenletExit: the strand is closed.
        """
        if self._library.getcurrent() is not self._greenlet:
            raise RuntimeError("Only the strand itself can pause.")
        resumer, self._resumer = self._resumer, None
        return resumer.switch(value)

    def close(self) -> None:
        """Let the function end where it has paused: its ``finally`` blocks are run.

        Raises:
            BaseException: what the function raises meanwhile.
            RuntimeError: it doesn't end, but pauses again; or another thread calls.
        """
        if not self.is_started or self.is_done:
            return
        self._switch(self._greenlet.throw, self._library.GreenletExit)
        if not self.is_done:
            raise RuntimeError("The strand has paused while it was being closed.")

    def forget(self) -> None:
        """Let go of a function that never begins: it mostly refers to the strand."""
        self._function, self._greenlet = None, self._library.greenlet()

    def _run(self) -> Any:
        function, self._function = self._function, None
        assert function is not None
        lift(_COUNTED)
        try:
            return _AWAY[0](*_AWAY[1:], function)
        finally:
            lift(-_COUNTED)

    def _switch(self, switch: Callable[[Any], Any], value: Any) -> Any:
        if threading.get_ident() != self._thread:
            raise RuntimeError("A strand is resumed on the thread that it was made on.")
        self._resumer = self._greenlet.parent = self._library.getcurrent()
        if self._context is None:
            self._context = self._greenlet.gr_context = contextvars.copy_context()
            value = ()
            switch = self._start
        try:
            return switch(value)
        finally:
            if self.is_done:
                self._hand_over()

    def _start(self, nothing: tuple[()]) -> Any:
        return self._greenlet.switch(*nothing)

    def _hand_over(self) -> None:
        """Set the context variables that the function has set."""
        context, self._context = self._context, contextvars.Context()
        current = contextvars.copy_context()
        for variable, value in (context or {}).items():
            if variable not in current or current[variable] is not value:
                variable.set(value)


def _library() -> Any:
    if (found := sys.modules.get("greenlet")) is not None:
        return found
    try:
        return importlib.import_module("greenlet")
    except ImportError:
        raise UserError(
            "Stepping through a program needs the package greenlet.", "Try: pip install greenlet"
        ) from None
