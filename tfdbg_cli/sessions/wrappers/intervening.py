"""Blocks of the user's become interventions, of sessions that are debugged and of others."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from tfdbg_cli.engines.base import Engine
from tfdbg_cli.sessions.debugger.debugger import Debugger
from tfdbg_cli.sessions.wrappers.framework import BaseDebugWrapperSession
from tfdbg_cli.sessions.wrappers.hosts import host_of
from tfdbg_cli.sessions.wrappers.interventions import ACTIVE, LOCK, Intervention
from tfdbg_cli.sessions.wrappers.requests import (
    OnRunEndRequest,
    OnRunEndResponse,
    OnRunStartAction,
    OnRunStartRequest,
    OnRunStartResponse,
    OnSessionInitAction,
    OnSessionInitRequest,
    OnSessionInitResponse,
)

__all__ = ["intervene"]

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
    with LOCK:
        ACTIVE.setdefault(session, []).append(intervention)
        _patch(engine)

    def end() -> None:
        with LOCK:
            found = ACTIVE.get(session, [])
            if intervention in found:
                found.remove(intervention)
            if not found:
                ACTIVE.pop(session, None)
            _unpatch(engine)

    ending = contextlib.ExitStack()  # closed once more, it does nothing
    ending.callback(end)
    return ending.close


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
    for debugger in list(Debugger.instances):
        if engine_name in debugger.engines:
            return host_of(debugger, session)
    found = getattr(session, "_tfdbg_bystander", None)
    if found is None:
        # On the session, as the debugger's own wrapper: they live and die together.
        found = session._tfdbg_bystander = PassThroughWrapper(session)
    return found


class PassThroughWrapper(BaseDebugWrapperSession):
    """Stands for a session that nobody debugs."""

    def on_session_init(self, request: OnSessionInitRequest) -> OnSessionInitResponse:
        """Go on."""
        return OnSessionInitResponse(OnSessionInitAction.PROCEED)

    def on_run_start(self, request: OnRunStartRequest) -> OnRunStartResponse:
        """Leave the run alone."""
        return OnRunStartResponse(OnRunStartAction.NON_DEBUG_RUN)

    def on_run_end(self, request: OnRunEndRequest) -> OnRunEndResponse:
        """Nothing to do."""
        return OnRunEndResponse()
