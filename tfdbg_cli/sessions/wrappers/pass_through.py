"""A wrapper session that lets every run go by; interventions are applied to them all the same."""

from __future__ import annotations

from tfdbg_cli.sessions.wrappers.framework import BaseDebugWrapperSession
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

__all__ = ["PassThroughWrapper"]


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
