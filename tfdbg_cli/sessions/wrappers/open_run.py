"""Runs between beginning and end, and runs that were made before they were asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.engines.base import CannotStep, Capture, RunCall, SteppedRun, Watch
from tfdbg_cli.sessions.wrappers.requests import OnRunStartRequest, OnRunStartResponse

__all__ = ["NOT_STEPPED", "NOT_TIMED", "OpenRun", "finished", "once_made"]

#: Said of a run that somebody wanted to step through.
NOT_STEPPED = "This kind of run can't be stepped through: it was a debugged one."
NOT_TIMED = "This kind of run can't be timed: it was a debugged one."


class OpenRun:
    """A run between its beginning and its end, as an engine without sessions holds it.

    It is the `RunHandle` of engines whose runs are stretches of the program.

    Attributes:
        request: what was asked at its beginning.
        response: the answer.
        conduct: to be called if the action is to step through the run: it drives the stepper that
            it is given for as long as the user likes. What isn't done when it returns, the program
            does.
        note: what its dump is to say of how the run was done; empty: nothing.
    """

    def __init__(
        self,
        request: OnRunStartRequest,
        response: OnRunStartResponse,
        conduct: Callable[[SteppedRun], None] = lambda stepper: None,
    ) -> None:
        self.request = request
        self.response = response
        self.conduct = conduct
        self.note = ""

    @property
    def action(self) -> str:
        """One of `OnRunStartAction`."""
        return self.response.action

    @property
    def info(self) -> RunInfo:
        """Its description."""
        return self.request.run_info

    @property
    def watch(self) -> Watch:
        """Which tensors to keep, if it is to be debugged."""
        return self.response.watch()


def finished(stepper: SteppedRun) -> Capture:
    """The end of a stepped run; the program has its result, whatever becomes of overrides."""
    try:
        return stepper.finish()
    except Exception as failure:  # of ours: what the run raises is in the capture
        if stepper.real is None:
            raise
        capture = stepper.discard() or stepper.real
        if capture.dump is not None:
            capture.dump.warnings.append(
                f"The overrides are lost ({one_line(failure)}): this is the run without them."
            )
        return capture


def once_made(call: RunCall, capture: Capture, again: Callable[[], SteppedRun | None]) -> RunCall:
    """A run that was made already and can't be made twice: whatever is asked, it gives that.

    Args:
        call: the run.
        capture: what it has given.
        again: makes a stepper that goes through it; ``None``: it can't.
    """

    def run() -> Any:
        if capture.error is not None:
            raise capture.error
        return capture.value

    def stepper() -> SteppedRun:
        made = again()
        if made is None:
            raise CannotStep("This run was made already.")
        return made

    return RunCall(
        call.fetches,
        call.feeds,
        run,
        lambda watch: capture,
        stepper=stepper,
        runner=call.runner,
    )
