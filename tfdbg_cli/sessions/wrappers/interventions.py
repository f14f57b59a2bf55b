"""Blocks of the user's that are applied to every run of a session, whoever asks for the run."""

from __future__ import annotations

import dataclasses
import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any

from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.engines.base import Capture, Engine, RunCall, SteppedRun, Watch

__all__ = ["Intervention", "applied", "intervene"]

#: Drives a run as far as it likes; what is left of it is done afterwards.
Intervention = Callable[[SteppedRun, Callable[[], RunInfo]], None]

_lock = threading.RLock()
_active: weakref.WeakKeyDictionary[Any, list[Intervention]] = weakref.WeakKeyDictionary()
#: Engine name -> how many interventions need its patches, and what takes them off.
_patches: dict[str, tuple[int, Callable[[], None]]] = {}


def intervene(session: Any, engine: Engine, intervention: Intervention) -> Callable[[], None]:
    """Apply something to each run that is asked of a session from now on.

    Works for sessions that are debugged and for those that nobody has wrapped.

    Args:
        session: the framework's own.
        engine: of the session.
        intervention: gets each run at its beginning. What it raises is raised to whoever asked for
            the run.

    Returns:
        A function that ends it; it may be called more than once.
    """
    with _lock:
        _active.setdefault(session, []).append(intervention)
        _patch(engine)
    ended = False

    def end() -> None:
        nonlocal ended
        with _lock:
            if ended:
                return
            ended = True
            found = _active.get(session, [])
            if intervention in found:
                found.remove(intervention)
            if not found:
                _active.pop(session, None)
            _unpatch(engine)

    return end


def applied(session: Any, call: RunCall, info: Callable[[], RunInfo]) -> RunCall:
    """A run with the interventions of its session, if it has any.

    A run that can't be stepped through is left as it is.
    """
    with _lock:
        found = list(_active.get(session, ())) if _active else []
    make = call.stepper
    if not found or make is None:
        return call

    def perform() -> Capture:
        try:
            run = make()
        except NotImplementedError:
            return Capture(call.run(), None)
        for intervention in found:
            intervention(run, info)
        return run.finish()

    def plainly() -> Any:
        capture = perform()
        if capture.error is not None:
            raise capture.error
        return capture.value

    def debug(watch: Watch) -> Capture:
        return perform()

    return dataclasses.replace(call, run=plainly, debug=debug, plain=None)


def _patch(engine: Engine) -> None:
    if engine.name in _patches:
        count, undo = _patches[engine.name]
    else:
        count, undo = 0, engine.install(functools.partial(_taker, engine.name))
    _patches[engine.name] = (count + 1, undo)


def _unpatch(engine: Engine) -> None:
    count, undo = _patches[engine.name]
    if count == 1:
        del _patches[engine.name]
        undo()
    else:
        _patches[engine.name] = (count - 1, undo)


def _taker(engine_name: str, session: Any) -> Any:
    """What takes the runs of a session: its debugger, if there is one, or somebody idle."""
    # Both make use of `applied`.
    from tfdbg_cli.sessions.debugger.debugger import Debugger
    from tfdbg_cli.sessions.wrappers.pass_through import PassThroughWrapper

    for debugger in list(Debugger.instances):
        if engine_name in debugger.engines:
            return debugger.wrap(session)
    found = getattr(session, "_tfdbg_bystander", None)
    if found is None:
        # On the session, as the debugger's own wrapper: they live and die together.
        found = session._tfdbg_bystander = PassThroughWrapper(session)
    return found
