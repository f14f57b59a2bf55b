"""The debugger of a notebook: cells run on unless they were asked to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.reply import Leave, Toast
from tfdbg_cli.commands.run.choices import ExitChoice, RunChoice, StepperExit
from tfdbg_cli.commands.service import CommandService
from tfdbg_cli.commands.units import describe_run
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.sessions.debugger.debugger import Debugger
from tfdbg_cli.tensors.measurements import halt as halt_measurements
from tfdbg_cli.ui.base import CommandQueue
from tfdbg_cli.ui.text import TextUI

__all__ = ["CellExit", "NotebookDebugger"]

# What a run-start that nobody stops at decides.
_PLAINLY = RunChoice(is_debug=False)

_MORE = "%tfdbg more shows them"
_MORE_AT_A_STOP = "Enter shows them"


class CellExit(BaseException):
    """A person at a stop ended the cell, as ``exit --end`` ends a program."""

    def _render_traceback_(self) -> list[str]:
        # IPython shows this instead of a traceback.
        return ["tfdbg: the cell was ended at a stop."]


class NotebookDebugger(Debugger):
    """One debugger for all sessions of a notebook.

    Inside `cell`, and from `request_stop` on until they are let go, the runs stop and ask, as those
    of a program do. Elsewhere no run stops: they pass by undebugged until one is asked for with
    `plan`; its first screen is then printed, and its tensors stay for commands.

    Args:
        make_ui: makes what prints and asks, from the settings.

    Attributes:
        service: the commands of the last run that stopped; of none at first.
        is_in_cell: whether a cell runs that stops.
    """

    looks_back = True

    def __init__(self, make_ui: Callable[[Settings], TextUI]) -> None:
        super().__init__()
        self.ui = make_ui(self.settings)
        self._ui = self.ui
        self.ui.more_hint = _MORE
        self.is_in_cell = self._asks = False
        self.last_stop = ""
        self.service = self._service(
            self.context("run-start"),
            title="tfdbg",
            title_role="start",
            initial_command="run_info",
        )

    def _service(self, context: Context, **about: str) -> CommandService:
        return CommandService(context, history=self.history, **about)

    def plan(self, choice: RunChoice | None, queue: CommandQueue | None = None) -> None:
        """Say what the next runs are for.

        Args:
            choice: of `run`; ``None``: nothing.
            queue: commands for the stop that it leads to.
        """
        self.choice, self._asks = choice, False
        self.countdown = choice.times if choice is not None else 0
        self.queue = queue or CommandQueue()

    def request_stop(self, *, waits: bool = False) -> None:
        super().request_stop(waits=waits)
        self._asks = True

    @contextmanager
    def cell(self, commands: Sequence[str], *, batch: bool = False) -> Iterator[None]:
        """Let the runs inside stop and ask; what was planned before no longer holds.

        Args:
            commands: command lines for the stops.
            batch: ask nobody: when the commands are used up, the cell runs on.
        """
        self.plan(None, CommandQueue(commands, batch))
        self.is_in_cell = True
        self.ui.more_hint = _MORE_AT_A_STOP
        try:
            yield
        finally:
            self.waiting.end()
            self.is_in_cell = self.is_detached = self.is_ended = False
            self.ui.more_hint = _MORE
            self.plan(None)

    def stop(self, context: Context, *, title: str, title_role: str, initial_command: str) -> Any:
        about = {"title": title, "title_role": title_role, "initial_command": initial_command}
        if context.dump is not None and context.mode != "stepper":
            self.service = self._service(context, **about)
            self.last_stop = describe_run(context.run_info)
        if self.is_in_cell or self._asks:
            action = super().stop(context, **about)
            if isinstance(action, StepperExit) and action.exit == ExitChoice():
                return StepperExit(action.is_discarded)  # the run is there to look at afterwards
            return action
        if context.mode == "run-start":
            return _PLAINLY
        self.stops += 1
        context.extra["notes"], self._notes = self._notes, []
        try:
            leave = self._announce(context)
        finally:
            halt_measurements()
        return leave.action if leave is not None else _PLAINLY

    def _announce(self, context: Context) -> Leave | None:
        """Print the first screen, and run the commands that wait for this stop."""
        error = context.run_info.error
        if context.dump is None or (error is not None and not context.dump.data()):
            name = f" ({error.type_name})" if error is not None else ""
            what = f"run #{context.run_info.call_count} failed{name}, undebugged"
            text = f"tfdbg: {what}. %tfdbg run, and the cell again, keep its tensors."
            self.ui.print_message(Toast(text, "warning"))
            return None
        self.ui.announce(self.service)
        leave = None
        while leave is None and (command := self.queue.take()) is not None:
            leave = self.ui.execute(self.service, self.queue, command)
        return leave

    def choose(self, action: Any, next_run: int) -> None:
        """Take over what a stop decided.

        Raises:
            CellExit: the user ended the cell.
        """
        if not self.is_in_cell:
            is_run, asks = isinstance(action, RunChoice) and action.is_debug, self._asks
            self.plan(action if is_run else None, self.queue)
            self._asks = asks and is_run
            return
        try:
            super().choose(action, next_run)
        except SystemExit:
            raise CellExit from None
