"""The stop in the middle of a run."""

from __future__ import annotations

import atexit

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.run.choices import ExitChoice, StepperExit
from tfdbg_cli.commands.units import describe_run
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.engines.base import Capture, SteppedRun
from tfdbg_cli.sessions.debugger.debugger import Debugger
from tfdbg_cli.stepping.walk import Walk

__all__ = ["RunWalk", "breakpoint_in", "stop_in"]


class RunWalk:
    """A walk through one run.

    Args:
        run: the run.
        run_info: what it is.

    Attributes:
        walk: moves through it.
        is_discarded: the run was given up.
        instead: what it gives all the same then, if that is known.
    """

    def __init__(self, run: SteppedRun, run_info: RunInfo) -> None:
        self.run = run
        self.run_info = run_info
        self.walk = Walk(run)
        self.is_discarded = False
        self.instead: Capture | None = None

    def discard(self) -> None:
        """Give the run up, as if it had never begun.

        TensorFlow's variables are as before it; what Python functions and queues have given, and
        the random numbers that were drawn, are gone.

        Raises:
            UserError: what was done can't be taken back.
        """
        self.instead = self.run.discard()
        self.is_discarded = True


def stop_in(
    debugger: Debugger,
    context: Context,
    through: RunWalk,
    label: str = "",
    *,
    may_discard: bool = True,
) -> StepperExit:
    """Give control to the user, who moves through a run.

    Args:
        debugger: whose UI it is.
        context: of the stop, in the mode ``stepper``.
        through: the run.
        label: in front of the title.
        may_discard: whether the run may be given up.
    """
    context.walk = through.walk
    if may_discard:
        context.discard = _refuse_discard if through.run.is_open_ended else through.discard
    context.refresh()
    action = debugger.stop(
        context,
        title=f"stepper: {label}{describe_run(context.run_info)}",
        title_role="start",
        initial_command="where",
    )
    if isinstance(action, StepperExit):
        return action
    return StepperExit(exit=action if isinstance(action, ExitChoice) else None)


def _refuse_discard() -> None:
    """A program that waits in the middle of a run.

    Raises:
        UserError: always.
    """
    raise UserError(
        "The program is in the middle of this run and can't be taken back.",
        "restore removes overrides that nothing has read yet; exit lets the run go on.",
    )


def breakpoint_in(stepper: SteppedRun, run_info: RunInfo) -> None:
    """Stop in the middle of a run that somebody else drives; what the user does holds for it.

    Raises:
        SystemExit: the user ended the program.
    """
    debugger = next(iter(Debugger.instances), None)
    if debugger is None:
        debugger = Debugger()
        atexit.register(debugger.close)
    if debugger.is_off or debugger.is_detached:
        return
    context = debugger.context("stepper", run_info)
    found = stop_in(debugger, context, RunWalk(stepper, run_info), may_discard=False)
    if found.exit is not None:
        debugger.choose(found.exit, debugger.run_count + 1)
