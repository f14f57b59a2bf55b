"""The host of a program: what its engine tells of runs, and asks about them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from tfdbg_cli.dumps.dump import Dump, RunInfo
from tfdbg_cli.dumps.run_info import RunError
from tfdbg_cli.dumps.series.tracks import Tracks
from tfdbg_cli.engines.base import Adapter, Capture, ProgramRun, RunAction, SteppedRun, Watch
from tfdbg_cli.sessions.director.runs import Decision, StartedRun, describe_end

__all__ = ["NOT_STEPPED", "NOT_TIMED", "ProgramHost"]

#: Said of a run that somebody wanted to step through.
NOT_STEPPED = "This kind of run can't be stepped through: it was a debugged one."
#: Said of a run that somebody wanted to time.
NOT_TIMED = "This kind of run can't be timed: it was a debugged one."


class ProgramHost(ABC):
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

    def open_run(self, run: ProgramRun) -> Decision:
        """A run of an engine without sessions begins: what is to be done with it?

        The engine does as `Decision.action` says and calls `close_run` at the end.

        Raises:
            SystemExit: the user ended the program.
        """
        count = self.increment_run_call_count()

        def describe() -> RunInfo:
            made = run.describe()
            made.call_count, made.engine, made.kind = count, self._adapter.engine_name, run.kind
            made.unit = "program"
            made.can_profile, made.can_step = run.can_profile, run.can_step
            return made

        started = StartedRun(count, describe, run.kind)
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
        """The run is at its end; its error, if it has one, is the caller's to raise.

        Raises:
            SystemExit: the user ended the program.
        """
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
