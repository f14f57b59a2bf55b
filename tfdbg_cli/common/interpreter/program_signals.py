"""What is caught while the program waits: errors of its signal handlers, and our own."""

from __future__ import annotations

import functools
import signal
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, TypeVar

from tfdbg_cli.common.caught import keep
from tfdbg_cli.common.interpreter.signal_gate import at_a_stop, uninterrupted

__all__ = ["PassedOn", "contained", "pass_on", "with_program_signals"]

T = TypeVar("T")

# `signal.getsignal` makes an enum's member of each number: 150 µs for all of them.
_getsignal: Callable[[int], Any] = vars(signal)["_signal"].getsignal


class PassedOn(SystemExit):
    """A handler of the program's has raised in the middle of a stop: the stop is to end.

    A SystemExit, because event loops let only that and KeyboardInterrupt through.
    """


@at_a_stop
def with_program_signals(ask: Callable[[], T]) -> T:
    """Do something that waits for a person; the program's signal handlers work as they would.

    What one of them raises ends the wait, wherever it is (`PassedOn` passes through what catches
    failures of ours and restores the terminal on its way), and is raised here.

    Args:
        ask: waits for the person.

    Raises:
        BaseException: what a handler of the program has raised, or ``ask``.
    """
    stand_in = _StandIn()
    try:
        with stand_in:
            answer = ask()
    except BaseException:
        if stand_in.error is None:
            raise
    if stand_in.error is None:
        return answer
    try:
        raise stand_in.error
    finally:
        stand_in.error = None
        for number in stand_in.late:
            signal.raise_signal(number)


class _StandIn:
    """Stands in for the program's handlers, and puts them back where they are still its own.

    Attributes:
        error: what one of them has raised.
        late: signals that came after that, which are still to be handled.
    """

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.late: list[int] = []
        self._before: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._is_open = False

    @uninterrupted
    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # the handlers run in that one, in code of the program's
        self._is_open = True
        for number in signal.valid_signals():
            before = signal.getsignal(number)
            if callable(before) and before is not signal.default_int_handler:
                self._before[number] = before
                signal.signal(number, self._handle)

    @uninterrupted
    def __exit__(self, *error: object) -> None:
        for number, before in self._before.items():
            if signal.getsignal(number) == self._handle:
                signal.signal(number, before)
        self._is_open = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        before = self._before[number]
        if not self._is_open:  # the program has kept what it took for its own handler
            before(number, frame)
        elif self.error is not None:
            self.late.append(number)
        else:
            try:
                before(number, frame)
            except BaseException as error:
                if number == signal.SIGINT and isinstance(error, KeyboardInterrupt):
                    raise  # a Ctrl-C at the prompt
                self.error = error
            if self.error is not None:
                # What we were at is no context of the program's error.
                _forget_context(self.error)
                raise PassedOn


def _forget_context(error: BaseException) -> None:
    """Take out of an error's contexts what the debugger was handling when the signal came."""
    handled = sys.exc_info()[1]
    while handled is not None and error.__context__ is not None:
        if error.__context__ is handled:
            error.__context__ = None
            return
        error = error.__context__


def pass_on(error: BaseException) -> None:
    """To be called where failures of the debugger's are caught: `errors` shows them.

    Raises:
        BaseException: the error, if a signal handler of the program's has raised it.
    """
    if _is_from_handler(error):
        raise error
    # Cleaning up, as argparse does, may fail where the signal has left things half done.
    before = error.__context__
    while before is not None:
        if isinstance(before, PassedOn):
            raise before
        before = before.__context__
    keep(error)


class _Containment:
    """``with contained:`` is left where an `Exception` is raised within: the lines behind it go on.

    A per-op path is better off with ``except Exception as error: pass_on(error)``, which costs
    nothing as long as nothing fails.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> bool:
        if not isinstance(error, Exception):
            return False
        pass_on(error)
        return True


contained = _Containment()


def _is_from_handler(error: BaseException) -> bool:
    codes = {_StandIn._handle.__code__}
    for number, handler in enumerate(map(_getsignal, range(1, signal.NSIG)), 1):
        if callable(handler) and handler is not signal.default_int_handler:
            codes.update(_codes_of(signal.getsignal(number)))
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def _codes_of(handler: Any) -> set[CodeType]:
    """The code of a handler: a function, a method, a partial, or an object that can be called."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    for found in (handler, vars(type(handler)).get("__call__")):
        code = getattr(getattr(found, "__func__", found), "__code__", None)
        if isinstance(code, CodeType):
            return {code}
    return set()
