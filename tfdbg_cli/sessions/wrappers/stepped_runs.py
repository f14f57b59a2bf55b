"""The end of a stepped run, and runs that were made before they were asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.engines.base import CannotStep, Capture, RunCall, SteppedRun

__all__ = ["finished", "once_made"]


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
