"""The wrapper session as the host of a program: what its engine tells of runs, and asks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from tfdbg_cli.dumps.dump import Dump, RunInfo
from tfdbg_cli.dumps.series.tracks import Tracks
from tfdbg_cli.engines.base import Adapter, Capture, ProgramAdapter, ProgramRun, SteppedRun, Watch
from tfdbg_cli.sessions.compat.node_stepper import NodeStepper
from tfdbg_cli.sessions.wrappers.open_run import NOT_STEPPED, NOT_TIMED, OpenRun
from tfdbg_cli.sessions.wrappers.requests import (
    OnRunStartAction,
    OnRunStartRequest,
    OnRunStartResponse,
)

__all__ = ["ProgramHost"]


class ProgramHost(ABC):
    """A `RunHost`, made of what a wrapper session does at the two ends of any run."""

    _adapter: Adapter

    @abstractmethod
    def increment_run_call_count(self) -> int:
        """Count one more run."""

    @abstractmethod
    def invoke_node_stepper(
        self, node_stepper: NodeStepper, restore_variable_values_on_exit: bool = True
    ) -> Any:
        """Called for a run that is to be stepped through."""

    @abstractmethod
    def _begin(self, request: OnRunStartRequest) -> OnRunStartResponse:
        """Ask what to do with a run."""

    @abstractmethod
    def _end(
        self, action: str, capture: Capture, info: RunInfo, response: OnRunStartResponse
    ) -> None:
        """Tell of a run; its error is still to be raised."""

    @abstractmethod
    def _other_thread(self) -> bool:
        """Whether runs on this thread aren't asked about."""

    @property
    def is_idle(self) -> bool:
        """Whether nobody wants to know of runs at the moment: engines may keep out of the way."""
        return False

    def when_wanted(self, wake: Callable[[], None]) -> None:
        """Call a function as soon as somebody does again."""

    @property
    def tracks(self) -> Tracks | None:
        """Where numbers over runs go; ``None``: nobody wants any."""
        return None

    def followed(self) -> frozenset[str]:
        """The nodes whose values are asked for at the end of each run."""
        return frozenset()

    def follow(self, number: int, dump: Dump) -> None:
        """The values of a run that is over."""

    def expected_watch(self) -> Watch | None:
        """What the next run will be watched for, if it is known now that it will be."""
        return None

    def gave_up(self, reason: str) -> None:
        """The engine has failed, and nothing is watched any more."""

    @property
    def is_program(self) -> bool:
        """Whether it stands for a program, and not for a session among others."""
        return isinstance(self._adapter, ProgramAdapter)

    def open_run(self, run: ProgramRun) -> OpenRun:
        """A run of an engine without sessions begins: what is to be done with it?

        The engine does as `OpenRun.action` says and calls `close_run` at the end.

        Raises:
            SystemExit: the user ended the program.
        """
        count = self.increment_run_call_count()

        def info() -> RunInfo:
            made = run.describe()
            made.call_count, made.engine, made.kind = count, self._adapter.engine_name, run.kind
            made.unit = "program"
            made.can_profile, made.can_step = run.can_profile, run.can_step
            return made

        request = OnRunStartRequest(None, None, None, None, count, False, info, run.kind)
        if self._other_thread():
            return OpenRun(request, OnRunStartResponse(OnRunStartAction.NON_DEBUG_RUN))
        response = self._begin(request)
        action = response.action
        if (action == OnRunStartAction.PROFILE_RUN and not run.can_profile) or (
            action == OnRunStartAction.INVOKE_STEPPER and not run.can_step
        ):
            response.action = OnRunStartAction.DEBUG_RUN

        def conduct(stepper: SteppedRun) -> None:
            self.invoke_node_stepper(NodeStepper.of(stepper, request.run_info))

        opened = OpenRun(request, response, conduct)
        if action != response.action and action == OnRunStartAction.INVOKE_STEPPER:
            opened.note = f"{NOT_STEPPED} {run.no_stepper}".rstrip()
        elif action != response.action:
            opened.note = NOT_TIMED
        return opened

    def close_run(self, run: OpenRun, capture: Capture) -> None:
        """The run is at its end; its error, if it has one, is the caller's to raise.

        Raises:
            SystemExit: the user ended the program.
        """
        debugged = run.action != OnRunStartAction.NON_DEBUG_RUN
        if not debugged and (capture.error is None or self._other_thread()):
            return  # nothing to tell, and no reason to describe it
        if run.note and capture.dump is not None:
            capture.dump.warnings.append(run.note)
        # It is described only if there is something to show of it.
        is_shown = capture.dump is not None or capture.error is not None
        info = run.request.run_info if is_shown else RunInfo()
        self._end(run.action, capture, info, run.response)
