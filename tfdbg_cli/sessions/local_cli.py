"""The wrapper session that hands control to a person at run-start and run-end."""

from __future__ import annotations

import atexit
import threading
from typing import Any

from tfdbg_cli.commands.context import Context, compile_regex
from tfdbg_cli.commands.parsing import quoted
from tfdbg_cli.commands.run import RunChoice, describe_run
from tfdbg_cli.dumps.dump import Datum, Dump, Predicate, RunInfo
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.errors import UserError, one_line
from tfdbg_cli.sessions.debugger import Debugger
from tfdbg_cli.sessions.framework import (
    BaseDebugWrapperSession,
    OnRunEndRequest,
    OnRunEndResponse,
    OnRunStartAction,
    OnRunStartRequest,
    OnRunStartResponse,
    OnSessionInitAction,
    OnSessionInitRequest,
    OnSessionInitResponse,
)
from tfdbg_cli.sessions.storage import check_dump_root

__all__ = ["LocalCLIDebugWrapperSession"]

# The names that the original gave to its UIs.
_UI_TYPES = {"curses": "screen", "prompt_toolkit": "line"}


class LocalCLIDebugWrapperSession(BaseDebugWrapperSession):
    """A session that stops before and after its runs and asks what to do.

    Args:
        sess: a session of TensorFlow or of the NumPy engine.
        dump_root: folder for what doesn't fit in memory; must be empty or absent.
        log_usage: taken for the original's sake; nothing is logged.
        ui_type: ``auto``, ``screen`` (or ``curses``), ``line``, ``readline``, ``plain``.
        thread_name_filter: only runs on threads whose name this regex is found in stop.
        config_file_path: settings file; default: the user's own.
        pass_through_operrors: errors of a run are raised without an error screen.
        debugger: share everything with other sessions (the launcher does).

    Raises:
        TypeError: ``sess`` is no session that an engine knows.
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
        if dump_root is not None:
            check_dump_root(dump_root)
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
        self._last_dump: Dump | None = None
        #: Which session of the program this is; 0: wrapped by hand.
        self.number = 0
        super().__init__(
            sess,
            thread_name_filter=thread_name_filter,
            pass_through_operrors=pass_through_operrors,
        )

    def add_tensor_filter(self, filter_name: str, tensor_filter: Predicate) -> None:
        """Add a filter for ``run -f`` and ``lt -f``.

        Args:
            filter_name: its name.
            tensor_filter: ``f(datum, tensor) -> bool``.

        Raises:
            TypeError: the name is no str, or the filter can't be called.
            ValueError: the name is empty.
        """
        self.debugger.filters.add(filter_name, tensor_filter)

    def on_session_init(self, request: OnSessionInitRequest) -> OnSessionInitResponse:
        """Nothing to decide."""
        return OnSessionInitResponse(OnSessionInitAction.PROCEED)

    def on_run_start(self, request: OnRunStartRequest) -> OnRunStartResponse:
        """Stop, unless what was chosen before covers this run too."""
        debugger = self.debugger
        with debugger.lock:
            debugger.run_count += 1
            if debugger.is_ended:
                raise SystemExit(1)
            if debugger.is_detached:
                return OnRunStartResponse(OnRunStartAction.NON_DEBUG_RUN)
            if debugger.choice is None:
                context = self._context("run-start", request.run_info)
                debugger.choose(
                    debugger.stop(
                        context,
                        title=f"run-start: {self._label()}{describe_run(context)}",
                        title_role="start",
                        initial_command="run_info",
                    )
                )
            choice = debugger.choice
            if choice is None:
                return OnRunStartResponse(OnRunStartAction.NON_DEBUG_RUN)
            self._forget()
            return self._response(choice)

    def _response(self, choice: RunChoice) -> OnRunStartResponse:
        """What a choice means for the run that starts now; counts it."""
        debugger = self.debugger
        debugger.countdown -= 1
        if not choice.is_debug or debugger.countdown > 0:
            if not choice.is_debug and debugger.countdown <= 0:
                debugger.choice = None
            return OnRunStartResponse(OnRunStartAction.NON_DEBUG_RUN)
        return OnRunStartResponse(
            OnRunStartAction.DEBUG_RUN,
            node_name_regex_allowlist=choice.node_name,
            op_type_regex_allowlist=choice.op_type,
            tensor_dtype_regex_allowlist=choice.tensor_dtype,
        )

    def on_run_end(self, request: OnRunEndRequest) -> OnRunEndResponse:
        """Stop at the run that the choice is about, and at every run that failed."""
        debugger = self.debugger
        response = OnRunEndResponse()
        with debugger.lock:
            if debugger.is_detached:
                return response
            choice = debugger.choice
            failed = request.error is not None
            is_debug = request.performed_action == OnRunStartAction.DEBUG_RUN
            if not failed and (not is_debug or choice is None):
                return response
            dump: Dump | None = request.dump
            initial, role = "lt", "end"
            if failed:
                initial, role = "error", "error"
            elif choice is not None and choice.filter_name:
                assert dump is not None
                if not self._passes(choice, dump):
                    return response
                initial, role = f"lt -f {quoted(choice.filter_name)}", "error"
                if choice.exclude:
                    initial += f" -fenn {quoted(choice.exclude)}"
            # Only what somebody is going to look at is ever written.
            if isinstance(dump, MemoryDump):
                dump, note = debugger.store.bound(dump)
                request.dump = None
                if note:
                    debugger.note(note)
            if dump is not None:
                kept = debugger.store.retain(dump)
                if kept:
                    debugger.note(kept)
            info = dump.run_info() if dump is not None else None
            if info is None:
                info = RunInfo(call_count=self.run_call_count, error=request.error)
            self._stop_at_end(info, dump, initial, role)
        return response

    def _stop_at_end(self, info: RunInfo, dump: Dump | None, initial: str, role: str) -> None:
        debugger = self.debugger
        debugger.choice = None
        self._last_dump = dump
        context = self._context("run-end", info, dump)
        debugger.choose(
            debugger.stop(
                context,
                title=f"run-end: {self._label()}{describe_run(context)}",
                title_role=role,
                initial_command=initial,
            )
        )

    def _passes(self, choice: RunChoice, dump: Dump) -> bool:
        """Whether some tensor passes the filter; a filter that raises is noted and passed over."""
        failures: list[str] = []

        def failed(datum: Datum, error: Exception) -> None:
            failures.append(f"{datum.tensor_name}: {one_line(error)}")

        try:
            predicate = self.debugger.filters.predicate(choice.filter_name)
            exclude = compile_regex(choice.exclude, "-fenn") if choice.exclude else None
            found = dump.find(predicate, first_n=1, exclude=exclude, on_error=failed)
        except UserError as error:
            self.debugger.note(str(error))
            return True
        if failures:
            info = dump.run_info()
            run = f"run #{info.call_count}" if info is not None else "a run"
            self.debugger.report_filter(choice.filter_name, run, failures)
        return bool(found)

    def _label(self) -> str:
        """Which session and thread a stop belongs to, where there is more than one."""
        parts = []
        if self.debugger.session_count > 1:
            parts.append(f"session {self.number}")
        thread = threading.current_thread()
        if thread is not threading.main_thread():
            parts.append(thread.name)
        return f"{', '.join(parts)}: " if parts else ""

    def _context(self, mode: str, info: RunInfo, dump: Dump | None = None) -> Context:
        debugger = self.debugger
        return Context(
            mode,
            debugger.registry,
            debugger.filters,
            debugger.settings,
            info,
            dump,
            names=debugger.names,
        )

    def _forget(self) -> None:
        """The program runs on: the tensors of the last run are no longer asked for."""
        self.debugger.store.release(self._last_dump)
        self._last_dump = None
