"""The wrapper session that hands control to a person at run-start and run-end."""

from __future__ import annotations

import atexit
from typing import Any

from tfdbg_cli.dumps.dump import Predicate, RunInfo
from tfdbg_cli.dumps.remote.systems import is_remote
from tfdbg_cli.engines.base import Capture, RunCall
from tfdbg_cli.sessions.debugger.debugger import Debugger
from tfdbg_cli.sessions.debugger.storage import check_dump_root
from tfdbg_cli.sessions.director.director import RunDirector
from tfdbg_cli.sessions.director.runs import Decision, StartedRun
from tfdbg_cli.sessions.wrappers.framework import (
    BaseDebugWrapperSession,
    OnRunEndRequest,
    OnRunEndResponse,
    OnRunStartRequest,
    OnRunStartResponse,
    OnSessionInitAction,
    OnSessionInitRequest,
    OnSessionInitResponse,
)
from tfdbg_cli.sessions.wrappers.node_stepper import NodeStepper

__all__ = ["LocalCLIDebugWrapperSession"]

# The names that the original gave to its UIs.
_UI_TYPES = {"curses": "screen", "prompt_toolkit": "line"}


class LocalCLIDebugWrapperSession(BaseDebugWrapperSession):
    """A session that stops before and after its runs and asks what to do.

    Args:
        sess: a session of TensorFlow or of the NumPy engine.
        dump_root: folder for what doesn't fit in memory; must be empty or absent. In place of an
            address (``gs://...``) a temporary folder is used.
        log_usage: taken for the original's sake; nothing is logged.
        ui_type: ``auto``, ``screen`` (or ``curses``), ``line``, ``readline``, ``plain``.
        thread_name_filter: only runs on threads whose name begins with a match of this regex stop.
        config_file_path: settings file; default: the user's own.
        pass_through_operrors: errors of a run are raised without an error screen.
        debugger: share everything with other sessions (the launcher does).

    Raises:
        TypeError: ``sess`` is not a session that an engine knows.
        ValueError: ``dump_root`` is a file or not empty, or there is no such ``ui_type``.
    """

    def __init__(
        self,
        sess: Any,
        dump_root: str | None = None,
        log_usage: bool = True,
        ui_type: str = "auto",
        thread_name_filter: str | None = None,
        config_file_path: str | bool | None = None,
        pass_through_operrors: bool = False,
        debugger: Debugger | None = None,
    ) -> None:
        if is_remote(dump_root):
            dump_root = None  # nothing stays there after the program's end
        if dump_root is not None:
            check_dump_root(dump_root)
        if debugger is None:
            debugger = Debugger.listening()  # people at other terminals debug all sessions
        if debugger is None:
            from tfdbg_cli.ui.choose import KINDS

            kind = _UI_TYPES.get(ui_type, ui_type)
            if kind not in KINDS:
                raise ValueError(f"Invalid ui_type: '{ui_type}'. There are {', '.join(KINDS)}.")
            debugger = Debugger(
                ui=kind, dump_root=dump_root, config_path=str(config_file_path or "") or None
            )
            atexit.register(debugger.close)
        self.debugger = debugger
        super().__init__(
            sess,
            thread_name_filter=thread_name_filter,
            pass_through_operrors=pass_through_operrors,
        )
        #: Decides about the runs.
        self.director = RunDirector(debugger, self._adapter)

    def add_tensor_filter(self, filter_name: str, tensor_filter: Predicate) -> None:
        """Add a filter for ``run -f`` and ``lt -f``.

        Args:
            filter_name: its name.
            tensor_filter: ``f(datum, tensor) -> bool``.

        Raises:
            TypeError: the name is not a str, or the filter can't be called.
            ValueError: the name is empty.
        """
        self.debugger.filters.add(filter_name, tensor_filter)

    def on_session_init(self, request: OnSessionInitRequest) -> OnSessionInitResponse:
        """Nothing to decide."""
        return OnSessionInitResponse(OnSessionInitAction.PROCEED)

    def on_run_start(self, request: OnRunStartRequest) -> OnRunStartResponse:
        """Stop, unless what was chosen before covers this run too."""
        run = StartedRun(
            request.run_call_count, lambda: request.run_info, request.kind, self._whose
        )
        decision = self.director.begin(run)
        return OnRunStartResponse(decision.action, watch=decision.watch)

    def on_run_end(self, request: OnRunEndRequest) -> OnRunEndResponse:
        """Stop at the run that the choice is about, and at every run that failed."""
        run = StartedRun(self.run_call_count, RunInfo, whose=self._whose)
        decision = Decision(run, request.performed_action)
        self.director.end(decision, request.capture, request.error)
        return OnRunEndResponse()

    def invoke_node_stepper(
        self, node_stepper: NodeStepper, restore_variable_values_on_exit: bool = True
    ) -> None:
        """Stop in the middle of the run, for as long as the user likes.

        Raises:
            SystemExit: the user ended the program.
        """
        self.director.walk_through(node_stepper)

    def _step_through(self, call: RunCall, request: OnRunStartRequest) -> Capture | RunCall:
        try:
            return super()._step_through(call, request)
        except BaseException:
            self.debugger.choice = None  # it was about this run, which has no end to tell of
            raise

    def followed(self) -> frozenset[str]:
        """What the expressions of ``track`` name."""
        return self.director.followed()

    def note_run(self, call: RunCall, capture: Capture) -> None:
        """Note the loss of a session's run, and what is asked for by ``track``."""
        self.director.note_run(call, capture, self.run_call_count)

    def is_ignored(self) -> bool:
        return self.debugger.is_off or super().is_ignored()

    @property
    def _whose(self) -> str:
        number = self.director.number
        return f"session {number}" if number > 1 else ""
