"""The host of a program: what its engine tells of runs, and asks about them."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.run_info import RunError
from tfdbg_cli.engines.base import Adapter, Capture, ProgramRun, RunAction, RunHost, SteppedRun
from tfdbg_cli.sessions.director.runs import Decision, StartedRun, describe_end

__all__ = ["NOT_STEPPED", "NOT_TIMED", "ProgramHost"]

#: Said of a run that somebody wanted to step through.
NOT_STEPPED = "This kind of run can't be stepped through: it was a debugged one."
#: Said of a run that somebody wanted to time.
NOT_TIMED = "This kind of run can't be timed: it was a debugged one."


class ProgramHost(RunHost):
    """A `RunHost`, made of what is done at the two ends of any run."""

    _adapter: Adapter

    @abstractmethod
    def increment_run_call_count(self) -> int:
        """Count one more run; its number."""

    @abstractmethod
    def begin(self, run: StartedRun) -> Decision:
        """Decide what to do with a run.

        Raises:
            SystemExit: the user ended the program.
        """

    @abstractmethod
    def step(self, stepper: SteppedRun, info: RunInfo) -> Any:
        """Let the user go through a run, for as long as the user likes."""

    @abstractmethod
    def end(self, decision: Decision, capture: Capture, error: RunError | None) -> None:
        """A run is over that was debugged, or has failed; its error is still to be raised.

        Args:
            decision: what was done with it.
            capture: what came of it.
            error: its error in plain words.

        Raises:
            SystemExit: the user ended the program.
        """

    def is_ignored(self) -> bool:
        """Whether runs on this thread aren't asked about."""
        return False

    def open_run(self, run: ProgramRun) -> Decision:
        count = self.increment_run_call_count()

        def describe() -> RunInfo:
            made = run.describe()
            made.call_count, made.engine, made.kind = count, self._adapter.engine_name, run.kind
            made.unit, made.whose = "program", run.whose
            made.can_profile, made.can_step = run.can_profile, run.can_step
            return made

        started = StartedRun(count, describe, run.kind, run.whose)
        if self.is_ignored():
            return Decision(started)
        decision = self.begin(started)
        if decision.action == RunAction.PROFILE_RUN and not run.can_profile:
            decision.action, decision.note = RunAction.DEBUG_RUN, NOT_TIMED
        elif decision.action == RunAction.INVOKE_STEPPER and not run.can_step:
            decision.action = RunAction.DEBUG_RUN
            decision.note = f"{NOT_STEPPED} {run.no_stepper}".rstrip()
        decision.conduct = lambda stepper: self.step(stepper, started.info)
        return decision

    def close_run(self, run: Decision, capture: Capture) -> None:
        is_debugged = run.action != RunAction.NON_DEBUG_RUN
        if not is_debugged and (capture.error is None or self.is_ignored()):
            return  # nothing to tell, and no reason to describe it
        if run.note and capture.dump is not None:
            capture.dump.warnings.append(run.note)
        error = None
        if capture.dump is not None or capture.error is not None:  # there is something to show
            describe_end(self._adapter, capture, run.info)
            error = run.info.error
        self.end(run, capture, error)
