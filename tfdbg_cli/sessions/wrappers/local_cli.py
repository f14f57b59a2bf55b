"""The wrapper session that hands control to a person at run-start and run-end."""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Callable
from typing import Any

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.run.control import RunChoice, describe_run
from tfdbg_cli.commands.service import CommandService
from tfdbg_cli.commands.shell.history import History
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.program_facts import program_facts
from tfdbg_cli.dumps.dump import Dump, Predicate, RunInfo
from tfdbg_cli.dumps.joined import JoinedDump
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.remote.systems import is_remote
from tfdbg_cli.dumps.run_folder.states import States
from tfdbg_cli.dumps.series.tracks import Tracks
from tfdbg_cli.engines.base import Capture, KnowsSeed, RunCall, Watch
from tfdbg_cli.sessions.compat.node_stepper import NodeStepper
from tfdbg_cli.sessions.debugger.debugger import Debugger
from tfdbg_cli.sessions.debugger.last_run import LastRun
from tfdbg_cli.sessions.debugger.storage import check_dump_root
from tfdbg_cli.sessions.ranks.interface import Agreement, SingleRank, Verdict
from tfdbg_cli.sessions.wrappers.first_screens import FirstScreens
from tfdbg_cli.sessions.wrappers.following import Following
from tfdbg_cli.sessions.wrappers.framework import (
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
from tfdbg_cli.sessions.wrappers.stepping import stop_in

__all__ = ["LocalCLIDebugWrapperSession", "wrapper_of"]

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
        self._last_dump: Dump | None = None
        self._states = States()
        self._rank_run = ""  # what the ranks call the run that was started last
        self._first_screens = FirstScreens(debugger)
        self._following = Following(debugger.tracks, self._followed_run)
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
            TypeError: the name is not a str, or the filter can't be called.
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
            debugger.waiting.run_started(debugger.run_count, request.kind)
            debugger.meet(self._adapter)
            ranks = debugger.ranks
            self._rank_run = ranks.run_started(request.kind)
            if ranks.news():  # the leader has stopped where this rank would not have
                debugger.is_detached = False
                debugger.choice = None
            if debugger.waiting.is_interrupted and not self._stops_at_end():
                debugger.choice = None
            if debugger.is_ended:
                raise SystemExit(1)
            if debugger.is_detached:
                return OnRunStartResponse(OnRunStartAction.NON_DEBUG_RUN)
            if debugger.choice is not None and not _is_of_kind(request.kind, debugger.choice.kind):
                return OnRunStartResponse(OnRunStartAction.NON_DEBUG_RUN)
            if debugger.choice is None:
                if not ranks.may_stop():
                    return OnRunStartResponse(OnRunStartAction.NON_DEBUG_RUN)
                context = self._context("run-start", request.run_info)
                debugger.choose(
                    debugger.stop(
                        context,
                        title=f"run-start: {self._label()}{describe_run(context)}",
                        title_role="start",
                        initial_command="run_info",
                    ),
                    debugger.run_count,
                )
            choice = debugger.choice
            if choice is None:
                return OnRunStartResponse(OnRunStartAction.NON_DEBUG_RUN)
            if not _is_of_kind(request.kind, choice.kind):
                return OnRunStartResponse(OnRunStartAction.NON_DEBUG_RUN)
            self._forget()
            if debugger.last_run is not None and self.is_program:
                debugger.last_run.forget()  # what there is of this one is the last, from now on
            response = self._response(choice)
            if response.action != OnRunStartAction.NON_DEBUG_RUN:
                ranks.opened(self._rank_run)
            return response

    @property
    def is_idle(self) -> bool:
        """Whether nothing is asked for that a run could lead to a stop by."""
        debugger = self.debugger
        return (debugger.is_off or debugger.is_detached) and type(debugger.ranks) is SingleRank

    def when_wanted(self, wake: Callable[[], None]) -> None:
        self.debugger.when_wanted(wake)

    @property
    def tracks(self) -> Tracks:
        """Those of all sessions."""
        return self.debugger.tracks

    def expected_watch(self) -> Watch | None:
        """What the next run will be watched for, if it is known now that it will be.

        An engine without sessions may so record what the program does before the run begins.
        """
        debugger = self.debugger
        choice = debugger.choice
        if debugger.is_off or debugger.is_detached:
            return None
        if choice is None and not debugger.stops:
            choice = self._announced()
        if choice is None:
            return None
        is_watched = choice.is_debug and not choice.is_profile and not choice.is_stepper
        if not is_watched or (debugger.countdown > 1 and not choice.keeps):
            return None
        return self._watch(choice)

    def _response(self, choice: RunChoice) -> OnRunStartResponse:
        """What a choice means for the run that starts now; counts it."""
        debugger = self.debugger
        debugger.countdown -= 1
        if not choice.is_debug or (debugger.countdown > 0 and not choice.keeps):
            if not choice.is_debug and debugger.countdown <= 0:
                debugger.choice = None
            return OnRunStartResponse(OnRunStartAction.NON_DEBUG_RUN)
        if choice.is_profile:
            return OnRunStartResponse(OnRunStartAction.PROFILE_RUN)
        if choice.is_stepper:
            if not debugger.ranks.is_joined:
                return OnRunStartResponse(OnRunStartAction.INVOKE_STEPPER)
            debugger.note("A run of several processes can't be stepped through.")
        return OnRunStartResponse(OnRunStartAction.DEBUG_RUN, watch=self._watch(choice))

    def _announced(self) -> RunChoice | None:
        """What the first command of the queue asks for, if that is a run."""
        words = self.debugger.queue.peek().split(maxsplit=1)
        if not words or words[0] not in ("run", "r"):
            return None
        context = self._context("run-start", RunInfo(kind="training run"))
        service = CommandService(
            context, title="", title_role="", initial_command="", history=History(None)
        )
        leave = service.run(self.debugger.queue.peek()).leave
        action = leave.action if leave is not None else None
        return action if isinstance(action, RunChoice) and action.times == 1 else None

    def _watch(self, choice: RunChoice) -> Watch:
        predicate = None
        if choice.filter_name:
            with contextlib.suppress(UserError):  # it is told of at the run's end
                predicate = self.debugger.filters.predicate(choice.filter_name)
        # An engine that knows what the name stands for need not ask the filter.
        is_replaced = self.debugger.filters.is_replaced(choice.filter_name)
        return Watch(
            choice.node_name,
            choice.op_type,
            choice.tensor_dtype,
            filter_name="" if is_replaced else choice.filter_name,
            exclude=choice.exclude,
            predicate=predicate,
            limit=self.debugger.store.renew_limit(),
        )

    def invoke_node_stepper(
        self, node_stepper: NodeStepper, restore_variable_values_on_exit: bool = True
    ) -> None:
        """Stop in the middle of the run, for as long as the user likes.

        Raises:
            SystemExit: the user ended the program.
        """
        debugger = self.debugger
        # While an open-ended run goes on, so do the program's other threads.
        held = contextlib.nullcontext() if node_stepper.run.is_open_ended else debugger.lock
        with held:
            context = self._context("stepper", node_stepper.run_info)
            context.describe_error = self._adapter.describe_error
            action = stop_in(debugger, context, node_stepper, self._label())
            if action.is_discarded:
                debugger.choice = None
                if not self.is_program:  # its run-start comes again
                    debugger.run_count -= 1
            if action.exit is not None:
                debugger.choose(action.exit, debugger.run_count + 1)

    def _step_through(self, call: RunCall, request: OnRunStartRequest) -> Capture | RunCall:
        try:
            return super()._step_through(call, request)
        except BaseException:
            self.debugger.choice = None  # it was about this run, which has no end to tell of
            raise

    def on_run_end(self, request: OnRunEndRequest) -> OnRunEndResponse:
        """Stop at the run that the choice is about, and at every run that failed."""
        debugger = self.debugger
        response = OnRunEndResponse()
        with debugger.lock:
            if debugger.is_detached:
                return response
            if debugger.last_run is not None and not debugger.waiting.is_interrupted:
                self._keep(debugger.last_run, request)
                return response
            choice = debugger.choice
            failed = request.error is not None
            is_plain = request.performed_action == OnRunStartAction.NON_DEBUG_RUN
            if not failed and (is_plain or choice is None):
                return response
            is_profile = request.performed_action == OnRunStartAction.PROFILE_RUN
            dump: Dump | None = request.dump
            initial, role = self._first_screens.of(choice, dump, request)
            is_numbered = debugger.ranks.is_joined or (choice is not None and choice.keeps)
            debugger.store.number = self.run_call_count if is_numbered else 0
            is_passing = not failed and initial.startswith(("lt -f", "why -f", "compare "))
            verdict = Verdict(bool(initial), is_passing, request.error)
            agreed = debugger.ranks.agree(self._rank_run, verdict)
            if not agreed.stops:
                self._pass_by(choice, request)
                return response
            if dump is None and request.make_dump is not None:
                dump = request.make_dump()
            if not initial and (agreed.passing or agreed.errors):  # on another rank
                initial, role = self._first_screens.of_filter(choice), "error"
            elif not initial:  # Ctrl-C while the others were waited for
                initial, role = "lt", "end"
            if dump is not None and debugger.ranks.is_joined:
                _add_details(dump, debugger.ranks.details())
            if dump is not None and (run_info := dump.run_info()) is not None:
                run_info.program = [*program_facts(), *self._seed()]
            self._mark(dump, is_bad=failed or is_passing)
            # Only what somebody is going to look at is ever written.
            if isinstance(dump, MemoryDump):
                dump, note = debugger.store.bound(dump, self._states)
                request.dump = None
                if note:
                    debugger.note(note)
            if dump is not None:
                kept = debugger.store.retain(dump, self._states)
                if kept:
                    debugger.note(kept)
            dump = debugger.ranks.share(self._rank_run, dump, agreed)
            if debugger.ranks.is_silent and failed:
                debugger.choice = None  # the leader can't be waited for: it may wait for this rank
                self._last_dump = dump
                return response
            info = dump.run_info() if dump is not None else None
            if info is None:
                info = RunInfo(call_count=self.run_call_count, error=request.error)
            context = self._context("profile" if is_profile else "run-end", info, dump)
            self._stop_at_end(context, initial, role, agreed)
        return response

    def _pass_by(self, choice: RunChoice | None, request: OnRunEndRequest) -> None:
        """There is no stop at a run; under ``run -k`` it is kept."""
        if choice is None or not choice.keeps:
            return
        dump, request.dump = request.dump, None
        if dump is None or self.debugger.store.has_failed:  # which was told
            return
        if (info := dump.run_info()) is not None:
            info.program = [*program_facts(), *self._seed()]
        self.debugger.store.retain(dump, self._states)
        self.debugger.store.release(dump)

    def _keep(self, last_run: LastRun, request: OnRunEndRequest) -> None:
        """A run of ``--post-mortem`` is over: it may be the last one."""
        info = request.dump.run_info() if request.dump is not None else None
        if info is None:
            info = RunInfo(call_count=self.run_call_count, error=request.error)
        info.program = [*program_facts(), *self._seed()]
        dump, request.dump = request.dump, None
        last_run.keep(self._context("post-mortem", info, dump), self._label())

    def _seed(self) -> list[tuple[str, str]]:
        """What random numbers began with, where the engine can tell."""
        seed = self._adapter.seed() if isinstance(self._adapter, KnowsSeed) else None
        return [] if seed is None else [("Seed", seed)]

    def _mark(self, dump: Dump | None, *, is_bad: bool) -> None:
        """Note the stop among the numbers over runs, which the dump knows from now on."""
        info = dump.run_info() if dump is not None else None
        tracks = self.debugger.tracks
        if info is not None:
            tracks.mark(info.number or info.call_count, is_bad=is_bad)
            info.tracks = tracks

    def followed(self) -> frozenset[str]:
        """What the expressions of ``track`` name."""
        return frozenset() if self.debugger.is_detached else self._following.nodes()

    def follow(self, number: int, dump: Dump) -> None:
        """Note what is asked for by ``track`` of a run of a program."""
        self._following.evaluate(self._context("run-end", RunInfo(), dump), number)

    def note_run(self, call: RunCall, capture: Capture) -> None:
        """Note the loss of a session's run, and what is asked for by ``track``."""
        if not self.debugger.is_detached:
            self._following.note(call, capture, self.run_call_count)

    def _followed_run(self, dump: Dump | None, call: RunCall) -> Context:
        return self._context("run-end", RunInfo(fetches=call.fetches, feeds=call.feeds), dump)

    def gave_up(self, reason: str) -> None:
        self.debugger.ranks.give_up(reason)

    def _stop_at_end(self, context: Context, initial: str, role: str, agreed: Agreement) -> None:
        debugger = self.debugger
        choice, debugger.choice = debugger.choice, None
        self._last_dump = context.dump
        what = "profile of " if context.mode == "profile" else ""
        if debugger.ranks.is_joined:
            first = self._first_screens.first_rank(context.dump, choice)
            what = f"{agreed.describe(first)}{what}"
            about = [first] if first is not None else [*sorted(agreed.errors), *agreed.passing]
            if about and isinstance(context.dump, JoinedDump):
                context.dump.focus = about[0]
        title = f"run-end: {self._label()}{what}{describe_run(context)}"
        try:
            action = debugger.stop(context, title=title, title_role=role, initial_command=initial)
        finally:
            if not debugger.looks_back:
                self._forget()  # also where no other run comes: the program's memory is its own
        debugger.choose(action, debugger.run_count + 1)

    def _stops_at_end(self) -> bool:
        """Whether the run that starts now is one that `on_run_end` can stop after."""
        choice = self.debugger.choice
        if choice is None or not choice.is_debug:
            return False
        return choice.keeps or self.debugger.countdown <= 1

    def _other_thread(self) -> bool:
        """Whether a run is nobody's business: the debugger is off, or it is another thread's."""
        return self.debugger.is_off or super()._other_thread()

    def _label(self) -> str:
        """Which session and thread a stop belongs to, where there is more than one."""
        parts = []
        if self.debugger.session_count > 1 and self.number:
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
            tracks=debugger.tracks,
            keeps_dumps=debugger.store.keep,
        )

    def _forget(self) -> None:
        """The tensors of the last run are no longer asked for."""
        self.debugger.store.release(self._last_dump)
        self._last_dump = None


def _add_details(dump: Dump, details: list[tuple[str, str]]) -> None:
    info = dump.run_info()
    if info is not None:
        info.details = [*info.details, *details]


def _is_of_kind(kind: str, wanted: str) -> bool:
    """Whether a choice is about runs of a kind; an empty wish is about all."""
    return kind.startswith(wanted)


def wrapper_of(debugger: Debugger, session: Any) -> LocalCLIDebugWrapperSession:
    """A debugger's wrapper of a session of any engine; the same one each time."""
    with debugger.lock:
        found: LocalCLIDebugWrapperSession | None = getattr(session, "_tfdbg_wrapper", None)
        if found is None or found.debugger is not debugger:
            found = LocalCLIDebugWrapperSession(session, debugger=debugger)
            if not found.is_program:
                debugger.session_count += 1
                found.number = debugger.session_count
            # On the session and not in a table of ours: they live and die together.
            session._tfdbg_wrapper = found
        return found
