"""Switching the debugger on and off from inside a program, and by a signal."""

from __future__ import annotations

import atexit
import functools
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import FrameType
from typing import Any

from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.engines.base import ProgramEngine, StepsCalls, TellsUse
from tfdbg_cli.engines.registry import engine_for, imported
from tfdbg_cli.front.engine_watch import EngineWatch
from tfdbg_cli.sessions.debugger.debugger import Debugger

__all__ = [
    "catch_signal",
    "disable",
    "enable",
    "listen",
    "listen_for_signal",
    "run",
    "set_trace",
    "signal_number",
    "wrap",
]


def _watch() -> EngineWatch:
    """The process's debugger: the launcher's, or one that is made now."""
    found = EngineWatch.current
    if found is None:
        found = EngineWatch(Debugger())
        atexit.register(_finish, found)
        found.start()
    return found


def _finish(watch: EngineWatch) -> None:
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if isinstance(error, BaseException):
        watch.debugger.outcome = one_line(error)
    watch.finish()


def enable() -> None:
    """Debug the runs of all sessions, of every framework that is or will be imported.

    Works in any script; what was chosen before `disable` holds again.
    """
    for debugger in Debugger.instances:
        debugger.is_off = False
    _watch().turn(True)


def disable() -> None:
    """Run all sessions as without the debugger, until `enable` or `set_trace`.

    Sessions that aren't wrapped by hand then go straight to the framework; those that are cost one
    test a run.
    """
    for debugger in Debugger.instances:
        debugger.is_off = True
    if EngineWatch.current is not None:
        EngineWatch.current.turn(False)


def set_trace() -> None:
    """Stop at the next run of any session, also after a detach or `disable`.

    Works in any script, under the launcher and without it. Where people attach from other
    terminals, the stop waits for somebody.
    """
    enable()
    for debugger in Debugger.instances:
        debugger.request_stop(waits=True)


def run(name: str = "") -> AbstractContextManager[None]:
    """Make a block one run of the debugger: ``with tfdbg_cli.run():``; or a function: ``@run()``.

    For programs whose runs are stretches of what they do (PyTorch); others have sessions. Works
    under the launcher and without it; a block in a block, or in a module's call, belongs to the
    outer one.

    Args:
        name: what the run is called on the screens.
    """
    _watch()
    engines = [engine for engine in imported() if isinstance(engine, ProgramEngine)]
    used = [each for each in engines if not isinstance(each, TellsUse) or each.has_computed()]
    return _blocks(used or engines, name)


@contextmanager
def _blocks(engines: Sequence[ProgramEngine], name: str) -> Iterator[None]:
    """A block of each engine at once: which of them the program is going to use, nobody knows."""
    with ExitStack() as stack:
        for engine in engines:
            stack.enter_context(engine.block(name))
        yield


def wrap(thing: Any) -> Any:
    """Debug something by hand.

    Args:
        thing: a session of TensorFlow or of the NumPy engine; a PyTorch module; or a function
            whose every call is to be a run, e.g. one training step.

    Returns:
        The wrapper of a session; a module as it is, with the program's PyTorch runs debugged from
        now on; a function that does the same as the one given.

    Raises:
        TypeError: it is none of these.
    """
    if engine_for(thing) is not None:
        from tfdbg_cli.sessions.wrappers.local_cli import LocalCLIDebugWrapperSession

        return LocalCLIDebugWrapperSession(thing)
    if any(isinstance(engine, StepsCalls) and engine.is_module(thing) for engine in imported()):
        enable()
        return thing
    if not callable(thing):
        raise TypeError(f"Expected a session, a module or a function; got type {type(thing)}")

    @functools.wraps(thing)
    def debugged(*args: Any, **kwargs: Any) -> Any:
        with run(getattr(thing, "__name__", "")):
            return thing(*args, **kwargs)

    return debugged


def listen(address: str | int, *, wait: bool = True) -> str:
    """Let people attach to this program from other terminals, as ``--listen`` does.

    Args:
        address: ``[HOST:]PORT`` or ``unix:PATH``; port 0 takes one that is free.
        wait: whether the next run waits for somebody. Otherwise the program runs without stops
            until somebody attaches.

    Returns:
        The command that attaches.

    Raises:
        UserError: it can't listen there, or it listens already.
    """
    invitation = _watch().debugger.listen(str(address), wait=wait)
    enable()
    return invitation


def signal_number(name: str) -> int:
    """The number of a signal.

    Args:
        name: ``USR1`` or ``SIGUSR1``.

    Raises:
        UserError: there is none of that name, or a program can't handle it.
    """
    wanted = name.upper().removeprefix("SIG")
    found = getattr(signal, f"SIG{wanted}", None)
    if not isinstance(found, signal.Signals) or wanted in {"KILL", "STOP"}:
        raise UserError(f'There is no signal "{name}" to listen for.', "Write USR1, for example.")
    return int(found)


def listen_for_signal(number: int | None = None) -> None:
    """Let a signal stop the program at the end of its run, as `set_trace` does.

    Until it comes, sessions run as without the debugger, unless that was switched on before.

    Args:
        number: the signal; default: SIGUSR1.

    Raises:
        UserError: the program has a handler for it, or this is not its main thread.
    """
    catch_signal(signal_number("USR1") if number is None else number)
    if EngineWatch.current is None:
        _watch().turn(False)


def catch_signal(number: int) -> None:
    """Install the handler alone, for a process that has its `EngineWatch` or will have it.

    Raises:
        UserError: the program has a handler for it, or this is not its main thread.
    """
    name = signal.Signals(number).name
    if signal.getsignal(number) not in (signal.SIG_DFL, _signalled):
        raise UserError(f"The program handles {name} itself.", "Use another signal.")
    try:
        signal.signal(number, _signalled)
    except (ValueError, OSError) as error:
        raise UserError(f"{name} can't be listened for: {error}.") from None


def _signalled(number: int, frame: FrameType | None) -> None:
    set_trace()
