"""A run at its two ends, as the director knows it: what it is, what is done with it."""

from __future__ import annotations

from collections.abc import Callable

from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_info import measured_as
from tfdbg_cli.engines.base import Adapter, Capture, RunAction, SteppedRun, Watch

__all__ = ["Decision", "StartedRun", "describe_end"]


class StartedRun:
    """A run that begins.

    Args:
        number: of the runs of its session, or of the program; the first one is 1.
        describe: makes its description, which is not needed of most runs.
        kind: in two words, where an engine has several.
        whose: see `RunInfo.whose`.

    Attributes:
        measured_as: see `RunInfo.measured_as`.
    """

    def __init__(
        self, number: int, describe: Callable[[], RunInfo], kind: str = "run", whose: str = ""
    ) -> None:
        self.number = number
        self.kind = kind
        self.measured_as = measured_as(kind, whose)
        self._info: RunInfo | Callable[[], RunInfo] = describe

    @property
    def info(self) -> RunInfo:
        """Its description, which is completed at its end."""
        if callable(self._info):
            self._info = self._info()  # what describes it, and holds all of it, is let go of
        return self._info


class Decision:
    """What is to be done with a run; the `RunHandle` of a run that is a stretch of a program.

    Args:
        run: the run.
        action: one of `RunAction`'s.
        watch: which tensors to keep, if it is to be debugged.

    Attributes:
        conduct: drives a stepper through the run for as long as the user likes, for
            `RunAction.INVOKE_STEPPER`. What isn't done when it returns, the program does.
        note: what its dump is to say of how the run was done; empty: nothing.
    """

    def __init__(
        self, run: StartedRun, action: str = RunAction.NON_DEBUG_RUN, watch: Watch | None = None
    ) -> None:
        self.run = run
        self.action = action
        self.watch = watch or Watch()
        self.conduct: Callable[[SteppedRun], None] = lambda stepper: None
        self.note = ""

    @property
    def info(self) -> RunInfo:
        """The description of the run."""
        return self.run.info


def describe_end(adapter: Adapter, capture: Capture, info: RunInfo) -> None:
    """Complete the description of a run that is over, and give it to its dump.

    Args:
        adapter: of the run's session or program.
        capture: what came of the run. After an error it has a dump in any case.
        info: its description.
    """
    if capture.error is not None:
        info.error = capture.late or adapter.describe_error(capture.error)
        if capture.dump is None:
            # The graph, at least, is there to look at.
            capture.dump = MemoryDump(adapter.graph)
            capture.dump.warnings.append("The run was not debugged: its tensors aren't known.")
    if capture.dump is not None:
        capture.dump.set_run_info(info)
