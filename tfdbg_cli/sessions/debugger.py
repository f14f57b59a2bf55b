"""The debugger of one process: what all its debugged sessions share."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfdbg_cli.commands.builtin import make_registry
from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.history import History, default_history_path
from tfdbg_cli.commands.reply import Leave
from tfdbg_cli.commands.run import ExitChoice, RunChoice
from tfdbg_cli.commands.service import CommandService
from tfdbg_cli.filters.registry import FilterRegistry, load_filters
from tfdbg_cli.sessions.storage import DumpStore
from tfdbg_cli.sessions.waiting import Waiting
from tfdbg_cli.settings import Settings, default_config_path
from tfdbg_cli.tensors.measurements import halt as halt_measurements
from tfdbg_cli.ui.base import CommandQueue, UserInterface
from tfdbg_cli.ui.choose import make_ui

__all__ = ["Debugger"]


class Debugger:
    """Settings, filters, queue, UI, and the choice that holds for the next runs.

    Args:
        ui: kind of UI, see `tfdbg_cli.ui.choose.KINDS`.
        commands: the queue of ``-c``.
        batch: nobody is there to ask.
        color, mouse, theme: of the UI; ``None``: as the settings say.
        dump_root: where dumps go; default: a temporary folder.
        keep_dumps: the dumps of the runs that stopped stay, one run folder each.
        dump_limit: bytes of tensors held in memory; a larger dump goes to a run folder.
        filters: Python files with tensor filters.
        config_path: settings file; ``None``: the user's own.

    Raises:
        UserError: a filters file can't be used, or ``dump_root`` can't.
    """

    def __init__(
        self,
        *,
        ui: str = "auto",
        commands: Sequence[str] = (),
        batch: bool = False,
        color: bool = True,
        mouse: bool | None = None,
        theme: str | None = None,
        dump_root: str | None = None,
        keep_dumps: bool = False,
        dump_limit: int | None = None,
        filters: Sequence[str] = (),
        config_path: str | None = None,
    ) -> None:
        self.settings = Settings(Path(config_path) if config_path else default_config_path())
        self.history = History(None if batch else default_history_path())
        self.queue = CommandQueue(commands, batch=batch)
        self.registry = make_registry()
        self.filters = FilterRegistry()
        for path in filters:
            load_filters(path, self.filters)
        self.store = DumpStore(dump_root, keep_dumps, dump_limit)
        #: What `eval -o` stored.
        self.names: dict[str, Any] = {}
        self.stops = 0
        self.run_count = 0
        self.session_count = 0
        self.lock = threading.RLock()
        self._ui_options = {"color": color, "mouse": mouse, "theme": theme, "batch": batch}
        self._ui_kind = ui
        self._ui: UserInterface | None = None
        self._notes: list[str] = []
        self._reported_filters: set[str] = set()
        #: The choice that holds for the next runs; ``None``: stop at the next run-start.
        self.choice: RunChoice | None = None
        #: How many runs are still to pass before the one that the choice is about.
        self.countdown = 0
        self.is_detached = False
        self.is_ended = False
        self.waiting = Waiting()

    def wrap(self, session: Any) -> Any:
        """The wrapper of a session of any engine; the same one each time."""
        from tfdbg_cli.sessions.local_cli import LocalCLIDebugWrapperSession

        with self.lock:
            found = getattr(session, "_tfdbg_wrapper", None)
            if found is None or found.debugger is not self:
                self.session_count += 1
                found = LocalCLIDebugWrapperSession(session, debugger=self)
                found.number = self.session_count
                # On the session and not in a table of ours: they live and die together.
                session._tfdbg_wrapper = found
            return found

    def note(self, text: str) -> None:
        """A line to show at the next stop."""
        if len(self._notes) < 20:
            self._notes.append(text)

    def report_filter(self, name: str, run: str, failures: Sequence[str]) -> None:
        """A filter raised in a run: say so at once, the first time, and at the next stop."""
        if name in self._reported_filters:
            return
        self._reported_filters.add(name)
        more = f" (and {len(failures) - 1} more tensors)" if len(failures) > 1 else ""
        text = f'The filter "{name}" raised in {run} at {failures[0]}{more}; the run goes on.'
        print(f"tfdbg: {text}", file=sys.stderr)
        self.note(text)

    def stop(self, context: Context, *, title: str, title_role: str, initial_command: str) -> Any:
        """Give control to the user.

        Returns:
            The token of the command that ended the stop (`RunChoice` or `ExitChoice`).
        """
        self.waiting.end()
        self.stops += 1
        context.is_first_stop = self.stops == 1
        context.extra["notes"], self._notes = self._notes, []
        service = CommandService(
            context,
            title=title,
            title_role=title_role,
            initial_command=initial_command,
            history=self.history,
        )
        if self._ui is None:
            self._ui = make_ui(self._ui_kind, self.settings, **self._ui_options)  # type: ignore[arg-type]
        try:
            leave: Leave = self._ui.interact(service, self.queue)
        finally:
            halt_measurements()  # nothing goes on behind the program's back
        return leave.action

    def choose(self, action: Any, next_run: int) -> None:
        """Take over what a stop decided.

        Raises:
            SystemExit: the user ended the program.
        """
        if isinstance(action, RunChoice):
            self.choice = action
            self.countdown = action.times
            if self._ui is not None and not self.queue.batch:
                self.waiting.begin(action, next_run, self._ui)
            return
        self.is_detached = True
        self.choice = None
        if isinstance(action, ExitChoice) and action.ends_program:
            self.is_ended = True
            raise SystemExit(1)

    def close(self) -> None:
        """The program is at its end: let go of the UI and of temporary dumps."""
        self.waiting.end()
        if self._ui is not None:
            self._ui.close()
        self.store.close()
