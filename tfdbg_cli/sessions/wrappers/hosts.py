"""Who asks the debugger about runs: of a program its director, of a session a wrapper around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfdbg_cli.engines.base import ProgramAdapter
from tfdbg_cli.engines.registry import engine_for
from tfdbg_cli.sessions.debugger.debugger import Debugger
from tfdbg_cli.sessions.director.director import RunDirector

if TYPE_CHECKING:
    from tfdbg_cli.sessions.wrappers.local_cli import LocalCLIDebugWrapperSession

__all__ = ["host_of"]


def host_of(debugger: Debugger, session: Any) -> RunDirector | LocalCLIDebugWrapperSession:
    """What asks a debugger about the runs of a session or a program; the same one each time."""
    with debugger.lock:
        found: RunDirector | LocalCLIDebugWrapperSession | None
        found = getattr(session, "_tfdbg_host", None)
        if found is None or found.debugger is not debugger:
            engine = engine_for(session)
            adapter = engine.adapt(session) if engine is not None else None
            if isinstance(adapter, ProgramAdapter):
                found = RunDirector(debugger, adapter)
            else:
                from tfdbg_cli.sessions.wrappers.local_cli import LocalCLIDebugWrapperSession

                found = LocalCLIDebugWrapperSession(session, debugger=debugger)
                debugger.session_count += 1
                found.director.number = debugger.session_count
            # On the session and not in a table of ours: they live and die together.
            session._tfdbg_host = found
        return found
