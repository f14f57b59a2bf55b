"""The run director: decides what is done with each run, and stops at its two ends."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.run.choices import RunChoice
from tfdbg_cli.commands.service import CommandService
from tfdbg_cli.commands.shell.history import History
from tfdbg_cli.commands.units import describe_run
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.program_facts import program_facts
from tfdbg_cli.dumps.dump import Dump, RunInfo
from tfdbg_cli.dumps.joined import JoinedDump
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_folder.states import States
from tfdbg_cli.dumps.run_info import RunError
from tfdbg_cli.engines.base import (
    Adapter,
    Capture,
    KnowsSeed,
    ProgramAdapter,
    RunAction,
    RunCall,
    SteppedRun,
    Watch,
)
from tfdbg_cli.sessions.debugger.debugger import Debugger
from tfdbg_cli.sessions.director.first_screens import FirstScreens
from tfdbg_cli.sessions.director.following import NumberFollower
from tfdbg_cli.sessions.director.magnitudes import MagnitudeSampler
from tfdbg_cli.sessions.director.program_host import ProgramHost
from tfdbg_cli.sessions.director.runs import Decision, StartedRun
from tfdbg_cli.sessions.director.stepping import RunWalk, stop_in
from tfdbg_cli.sessions.ranks.interface import Agreement, SingleRank, Verdict

if TYPE_CHECKING:
    from tfdbg_cli.sessions.debugger.last_run import LastRun

__all__ = ["RunDirector"]


class RunDirector(ProgramHost):
    """Knows what was chosen for the runs of one session, or of a program, and stops at them.

    Program engines call it themselves; the wrappers of sessions ask it at the two ends of a run.

    Args:
        debugger: what all sessions share: the choice, filters, ranks, the UI.
        adapter: of the session or the program.

    Attributes:
        number: which session of the program this is; 0: wrapped by hand, or no session.
    """

    def __init__(self, debugger: Debugger, adapter: Adapter) -> None:
        self.debugger = debugger
        self.tracks = debugger.tracks
        self.number = 0
        self._adapter = adapter
        self._is_program = isinstance(adapter, ProgramAdapter)
        self._numbers = itertools.count(1)
        self._last_dump: Dump | None = None
        self._states = States()
        self._rank_run = ""  # what the ranks call the run that was started last
        self._magnitudes = MagnitudeSampler(debugger.tracks)
        self._first_screens = FirstScreens(debugger, self._magnitudes)
        self._following = NumberFollower(debugger.tracks, self._followed_run)

    # The start of a run.

    def increment_run_call_count(self) -> int:
        return next(self._numbers)

    def is_ignored(self) -> bool:
        return self.debugger.is_off

    def begin(self, run: StartedRun) -> Decision:
        """Stop, unless what was chosen before covers this run too."""
        with self.debugger.lock:
            choice = self._chosen(run)
            return Decision(run) if choice is None else self._decide(run, choice)

    def _chosen(self, run: StartedRun) -> RunChoice | None:
        """What was chosen for a run, now or before; ``None``: nothing is asked of it."""
        debugger = self.debugger
        debugger.run_count += 1
        debugger.waiting.run_started(debugger.run_count, run.kind)
        debugger.meet(self._adapter)
        ranks = debugger.ranks
        self._rank_run = ranks.run_started(run.kind)
        if ranks.news():  # the leader has stopped where this rank would not have
            debugger.is_detached = False
            debugger.choice = None
        if debugger.waiting.is_interrupted and not self._stops_at_end():
            debugger.choice = None
        if debugger.is_ended:
            raise SystemExit(1)
        if debugger.is_detached:
            return None
        if debugger.choice is None and ranks.may_stop():
            context = self._context("run-start", run.info)
            debugger.choose(
                debugger.stop(
                    context,
                    title=f"run-start: {self._label()}{describe_run(context.run_info)}",
                    title_role="start",
                    initial_command="run_info",
                ),
                debugger.run_count,
            )
        choice = debugger.choice
        return choice if choice is not None and run.kind.startswith(choice.kind) else None

    def _decide(self, run: StartedRun, choice: RunChoice) -> Decision:
        """What a choice means for the run that starts now; counts it."""
        debugger = self.debugger
        self._forget()
        if debugger.last_run is not None and self._is_program:
            debugger.last_run.forget()  # what there is of this one is the last, from now on
        debugger.countdown -= 1
        if not choice.is_debug or (debugger.countdown > 0 and not choice.keeps):
            if not choice.is_debug and debugger.countdown <= 0:
                debugger.choice = None
            return Decision(run)
        debugger.ranks.opened(self._rank_run)
        if choice.is_profile:
            return Decision(run, RunAction.PROFILE_RUN)
        if choice.is_stepper:
            if not debugger.ranks.is_joined:
                return Decision(run, RunAction.INVOKE_STEPPER)
            debugger.note("A run of several processes can't be stepped through.")
        return Decision(run, RunAction.DEBUG_RUN, self._watch(choice))

    @property
    def is_idle(self) -> bool:
        """Whether nothing is asked for that a run could lead to a stop by."""
        debugger = self.debugger
        return (debugger.is_off or debugger.is_detached) and type(debugger.ranks) is SingleRank

    def when_wanted(self, wake: Callable[[], None]) -> None:
        self.debugger.when_wanted(wake)

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

    # The middle of a run.

    def step(self, stepper: SteppedRun, info: RunInfo) -> None:
        self.walk_through(RunWalk(stepper, info))

    def walk_through(self, through: RunWalk) -> None:
        """Stop in the middle of a run, for as long as the user likes.

        Raises:
            SystemExit: the user ended the program.
        """
        debugger = self.debugger
        # While an open-ended run goes on, so do the program's other threads.
        held = contextlib.nullcontext() if through.run.is_open_ended else debugger.lock
        with held:
            context = self._context("stepper", through.run_info)
            context.describe_error = self._adapter.describe_error
            action = stop_in(debugger, context, through, self._label())
            if action.is_discarded:
                debugger.choice = None
                if not self._is_program:  # its run-start comes again
                    debugger.run_count -= 1
            if action.exit is not None:
                debugger.choose(action.exit, debugger.run_count + 1)

    # The end of a run.

    def end(self, decision: Decision, capture: Capture, error: RunError | None) -> None:
        """Stop at the run that the choice is about, and at every run that failed."""
        debugger = self.debugger
        with debugger.lock:
            if debugger.is_detached:
                return
            if debugger.last_run is not None and not debugger.waiting.is_interrupted:
                self._keep(debugger.last_run, decision.run.number, capture, error)
                return
            choice = debugger.choice
            failed = error is not None
            is_plain = decision.action == RunAction.NON_DEBUG_RUN
            if not failed and (is_plain or choice is None):
                return
            is_profile = decision.action == RunAction.PROFILE_RUN
            dump: Dump | None = capture.dump
            initial, role = self._first_screen(decision, choice, capture, error)
            is_numbered = debugger.ranks.is_joined or (choice is not None and choice.keeps)
            debugger.store.number = decision.run.number if is_numbered else 0
            is_passing = not failed and initial.startswith(("lt -f", "why -f", "compare "))
            verdict = Verdict(bool(initial), is_passing, error)
            agreed = debugger.ranks.agree(self._rank_run, verdict)
            if not agreed.stops:
                self._pass_by(choice, capture)
                return
            if dump is None and capture.make_dump is not None:
                dump = capture.make_dump()
            if not initial and (agreed.passing or agreed.errors):  # on another rank
                initial, role = self._first_screens.of_filter(choice), "error"
            elif not initial:  # Ctrl-C while the others were waited for
                initial, role = "lt", "end"
            if dump is not None and debugger.ranks.is_joined:
                _add_details(dump, debugger.ranks.details())
            if dump is not None and (run_info := dump.run_info()) is not None:
                run_info.program = self._program()
            self._mark(dump, is_bad=failed or is_passing)
            # Only what somebody is going to look at is ever written.
            if isinstance(dump, MemoryDump):
                dump, note = debugger.store.bound(dump, self._states)
                capture.dump = None
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
                return
            info = dump.run_info() if dump is not None else None
            if info is None:
                info = RunInfo(call_count=decision.run.number, error=error)
            context = self._context("profile" if is_profile else "run-end", info, dump)
            context.replace = capture.replace if capture.may_replace else None
            self._stop_at_end(context, initial, role, agreed)

    def _first_screen(
        self,
        decision: Decision,
        choice: RunChoice | None,
        capture: Capture,
        error: RunError | None,
    ) -> tuple[str, str]:
        """See `FirstScreens.of`; the magnitudes of a run that was waited for are kept."""
        screen = self._first_screens.of(choice, decision.action, capture, error)
        if choice is not None and choice.filter_name and error is None:
            self._magnitudes.see(decision.run, capture, is_stop=bool(screen[0]))
        return screen

    def _pass_by(self, choice: RunChoice | None, capture: Capture) -> None:
        """There is no stop at a run; under ``run -k`` it is kept."""
        if choice is None or not choice.keeps:
            return
        dump, capture.dump = capture.dump, None
        if dump is None or self.debugger.store.has_failed:  # which was told
            return
        if (info := dump.run_info()) is not None:
            info.program = self._program()
        self.debugger.store.retain(dump, self._states)
        self.debugger.store.release(dump)

    def _keep(
        self, last_run: LastRun, number: int, capture: Capture, error: RunError | None
    ) -> None:
        """A run of ``--post-mortem`` is over: it may be the last one."""
        info = capture.dump.run_info() if capture.dump is not None else None
        if info is None:
            info = RunInfo(call_count=number, error=error)
        info.program = self._program()
        dump, capture.dump = capture.dump, None
        last_run.keep(self._context("post-mortem", info, dump), self._label())

    def _program(self) -> list[tuple[str, str]]:
        """See `RunInfo.program`: what random numbers began with, too, where the engine can tell."""
        seed = self._adapter.seed() if isinstance(self._adapter, KnowsSeed) else None
        return [*program_facts(), *([] if seed is None else [("Seed", seed)])]

    def _mark(self, dump: Dump | None, *, is_bad: bool) -> None:
        """Note the stop among the numbers over runs, which the dump knows from now on."""
        info = dump.run_info() if dump is not None else None
        tracks = self.debugger.tracks
        if info is not None:
            tracks.mark(info.number or info.call_count, is_bad=is_bad)
            info.tracks = tracks

    def followed(self) -> frozenset[str]:
        """What the expressions of ``track`` name."""
        nodes = self._following.nodes()
        return frozenset() if nodes and self.debugger.is_detached else nodes

    def follow(self, number: int, dump: Dump) -> None:
        """Note what is asked for by ``track`` of a run of a program."""
        self._following.evaluate(self._context("run-end", RunInfo(), dump), number)

    def note_run(self, call: RunCall, capture: Capture, number: int) -> None:
        """Note the loss of a session's run, and what is asked for by ``track``."""
        if not self.debugger.is_detached:
            self._following.note(call, capture, number)

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
        title = f"run-end: {self._label()}{what}{describe_run(context.run_info)}"
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
        keeps = debugger.store.keep
        return debugger.context(mode, info, dump, tracks=debugger.tracks, keeps_dumps=keeps)

    def _forget(self) -> None:
        """The tensors of the last run are no longer asked for."""
        self.debugger.store.release(self._last_dump)
        self._last_dump = None


def _add_details(dump: Dump, details: list[tuple[str, str]]) -> None:
    info = dump.run_info()
    if info is not None:
        info.details = [*info.details, *details]
