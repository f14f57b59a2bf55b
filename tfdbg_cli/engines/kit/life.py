"""What happens to a run of a program from its beginning to its end, and between two runs.

Which events begin and end a run, an engine knows; all that follows from it is here: who is asked,
what looks at the run, what the next run may use of what comes before it, errors, threads, forks,
and failures of our own.

A run goes through these stations:

1. The engine sees the event that begins a run (a model is called, say), and calls `open_run`.
2. The host is asked whether to debug, to profile or to step. A run that nobody debugs is watched
   only if values are followed from run to run.
3. `CapturePolicy.watcher` chooses how closely to look: a `CaptureLevel`. What the program did since
   the last run (it moved the batch, made a mask) was recorded by `_ahead`, and the new level takes
   it over if it can.
4. The engine sees the end, or an error, and calls `close_run`. The level stops first, so that
   nothing of the debugger's own work is recorded. Its `finish` gives a `Capture`: whether the
   filter passed, and a dump, or a function that makes one.
5. The host shows the stop. Then the level is closed in any case, which releases the tensors, and
   `look_ahead` begins to record for the next run.

All of it is done in `busy()`, where events of the framework count as the debugger's, and in
`contained`: if the debugger fails, it stops watching, and the program goes on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, Generic, TypeVar, cast

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.streams import tell_failure
from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.sources import user_frame
from tfdbg_cli.engines.base import (
    Capture,
    Glimpse,
    ProgramRun,
    RunAction,
    RunHandle,
    RunHost,
    Watch,
)
from tfdbg_cli.engines.kit.contain import contain, contained
from tfdbg_cli.engines.kit.description import OpenRun, RunDescription, RunDriver, WatchedProgram
from tfdbg_cli.engines.kit.followed import followed_values
from tfdbg_cli.engines.kit.levels import FULL, CaptureLevel
from tfdbg_cli.engines.kit.policy import CapturePolicy, RunCosts
from tfdbg_cli.engines.kit.run_threads import RunThreads, is_over
from tfdbg_cli.engines.kit.watch_matcher import watch_of

__all__ = ["BLOCK", "RunInputsOf", "RunLife"]

#: The kind of runs that the user marks.
BLOCK = "block"


R = TypeVar("R", bound=OpenRun)

# What `quiet` gives: it is asked for around each op.
_NOTHING = contextlib.nullcontext()

#: What a run gets, by the user's names, or a function that tells.
RunInputsOf = Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None


class RunLife(ABC, Generic[R]):
    """Opens and closes the runs of a program, one at a time.

    An engine's subclass sees the events, calls `open_run` and `close_run`, and says what is
    special about its framework in the methods without a docstring's worth of code here.

    Args:
        program: whose runs they are.
        policy: chooses how closely each is looked at.

    Attributes:
        counts: how many runs of each kind there were.
        can_profile: whether there is a level that times the ops.
        looks_ahead: a run may use what the program does before it, which is recorded therefore.
        no_stepper: why runs can't be stepped through, where that could be mended.
    """

    can_profile = False
    looks_ahead = False
    no_stepper = ""

    def __init__(self, program: WatchedProgram, policy: CapturePolicy) -> None:
        self.counts: dict[str, int] = {}
        self.policy = policy
        self._program = program
        self._run: R | None = None
        self._ahead: CaptureLevel | None = None  # records what the next run may use
        self._ahead_on = 0  # which thread
        self._next: CaptureLevel | None = None  # will be that when the run is over that goes on
        self._shown = 0  # the error that a run has ended with
        self._last: CaptureLevel | None = None
        self._is_busy = False  # we are at a stop, or at work ourselves
        self._is_off = False  # for good
        self._threads = RunThreads()

    # What an engine says of its framework.

    @abstractmethod
    def is_framework_error(self, error: BaseException) -> bool:
        """Whether an error is one of the framework's: the run in which it comes ends with it."""

    def can_step(self) -> bool:
        """Whether runs can be stepped through."""
        return False

    def quiet(self) -> contextlib.AbstractContextManager[Any]:
        """Around work of ours: nothing of the program's is to see it."""
        return _NOTHING

    def is_paused(self) -> bool:
        """Whether what this thread does right now computes nothing, and doesn't count."""
        return False

    def settle(self) -> None:
        """A run may begin: what was left on at the end of the last one is taken off."""

    def timing_level(self, watch: Watch) -> CaptureLevel | None:
        """A level that times the ops; ``None``: there is none."""
        return None

    def drive(self, watcher: CaptureLevel, handle: RunHandle) -> RunDriver | None:
        """Let somebody step through the run that begins."""
        return None

    def follower(self, nodes: frozenset[str]) -> CaptureLevel | None:
        """What sees the values of some nodes in a run that nobody debugs; ``None``: nothing can."""
        watch = watch_of(nodes)
        return self.policy.make(FULL, watch, RunCosts()) if watch is not None else None

    def standing(self, node: str) -> Callable[[], Any] | None:
        """Reads what no op makes, a parameter, say; ``None``: there is none so called."""
        return None

    def closing(self, run: R) -> None:
        """A run is about to be closed, whoever looks at it."""

    def describe_end(self, run: R, dump: MemoryDump | None, info: RunInfo) -> None:
        """Add to what is known of a run at its end."""

    def place_of(self, frame: FrameType | None) -> str:
        """The user's line that a frame is at, or comes from: ``train.py:12``; empty: none."""
        frame = user_frame(frame)
        return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}" if frame else ""

    # Opening and closing.

    def count(self, kind: str) -> int:
        """Count one more run of a kind; its number."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return self.counts[kind]

    def open_run(self, run: R) -> None:
        """A run begins. Call it where `contained` holds."""
        host = self._program.host()
        if host is None:
            return
        self._threads.begins()
        description = run.description
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.stop()
            if self._ahead_on != threading.get_ident():
                ahead.discard()
                ahead = None
        with self.busy():
            handle = host.open_run(
                ProgramRun(
                    run.kind,
                    description.info,
                    can_profile=self.can_profile,
                    can_step=self.can_step(),
                    no_stepper=self.no_stepper,
                    whose=description.whose,
                )
            )
        self._run, run.handle = run, handle
        run.is_late = ahead is None
        nodes = frozenset(each for each in host.followed() if self.standing(each) is None)
        self.policy.holds = bool(nodes)
        if handle.action == RunAction.NON_DEBUG_RUN:
            description.forget()
            if ahead is not None:
                ahead.discard()
            follower = self.follower(nodes) if nodes else None
            if follower is not None:
                contain(follower, self)
                run.watcher, run.is_followed = follower, True
                follower.begin_run()
                follower.start()
            return
        watch = handle.watch
        is_prompted = handle.action == RunAction.INVOKE_STEPPER
        if is_prompted:  # whoever steps wants to see everything
            watch = dataclasses.replace(watch, filter_name="", predicate=None)
        timing = self.timing_level(watch) if handle.action == RunAction.PROFILE_RUN else None
        if timing is not None and ahead is not None:
            ahead.discard()
        watcher = timing or self.policy.watcher(watch, run.kind, ahead)
        if watcher is not ahead:
            contain(watcher, self)
        run.watcher = watcher
        if watcher is ahead and not watcher.names_late:
            description.began(watcher)
        watcher.begin_run()
        watcher.name_inputs(description.tensors)
        if is_prompted:
            run.prompted = self.drive(watcher, handle)
        watcher.start()

    @contained
    def close_run(
        self,
        error: BaseException | None = None,
        frame: FrameType | None = None,
        output: Any = None,
    ) -> None:
        """The run ends.

        Args:
            error: that it ends with.
            frame: the user's.
            output: of the call that the run is; ``None``: it is none.
        """
        if self._run is not None and self._run.is_call:
            return
        run, self._run = self._run, None
        if run is not None:
            self.closing(run)
        host = self._program.host()
        if run is None or host is None:
            return
        watcher = run.watcher
        self._shown = id(error)
        capture = Capture(None, None, error)
        with self.busy():
            if watcher is not None:
                watcher.stop()
                self._last = watcher
                if run.prompted is not None:
                    run.prompted.end(error)
                capture = watcher.finish(error)
            self._follow(host, run, capture)
            if watcher is not None and host.tracks is not None:
                measured = watcher.measured()
                if measured[0]:
                    host.tracks.history.add(run.kind, run.description.number, *measured)
            if run.is_followed:
                capture = Capture(None, None, error)
            elif watcher is not None:
                self.policy.ended(watcher, run.kind)
                if capture.dump is not None or error is not None:
                    self._describe(run, watcher, capture.dump, frame, output)
                elif capture.make_dump is not None:
                    make = capture.make_dump

                    def later() -> MemoryDump:
                        dump = make()
                        dump.set_run_info(self._describe(run, watcher, dump, frame, output))
                        return dump

                    capture.make_dump = later
            try:
                host.close_run(run.handle, capture)
            finally:
                value = capture.take_value()
                if capture.is_replaced:
                    run.replaced = (value,)
                if watcher is not None:
                    watcher.close()
                run.description.forget()
                self._last = None
        self.look_ahead(host)
        self.policy.settle()

    def _follow(self, host: RunHost, run: R, capture: Capture) -> None:
        """Tell the values that are followed of a run that is over."""
        nodes = host.followed() if capture.error is None else ()
        if nodes:
            values = followed_values(nodes, self.standing, run, capture.dump)
            host.follow(run.description.number, values)

    def _describe(
        self,
        run: R,
        watcher: CaptureLevel,
        dump: MemoryDump | None,
        frame: FrameType | None,
        output: Any,
    ) -> RunInfo:
        """Add to a run's description what is known at its end."""
        assert run.handle is not None
        if watcher.names_late:
            run.description.began(watcher)
        info = run.handle.info
        made = dump.run_info() if dump is not None else None
        info.results = made.results if made is not None else None
        run.description.end(info, watcher, frame, output)
        run.description.take_feeds(info, dump)
        self.describe_end(run, dump, info)
        if run.cut_short:
            info.details = [*info.details, ("Unfinished", run.cut_short)]
        if watcher.level:
            level = self.policy.reason(watcher, run.kind)
            info.details = [*info.details, ("Level", level)]
        return info

    @contextlib.contextmanager
    def block(self, name: str = "") -> Iterator[None]:
        """A run that the user marks; what happens in it opens no other."""
        with self.stretch(BLOCK, name or self.place_of(sys._getframe())):
            yield

    @contextlib.contextmanager
    def stretch(self, kind: str, title: str = "", inputs: RunInputsOf = None) -> Iterator[None]:
        """What is done within is a run, if somebody debugs and no other one is open.

        Args:
            kind: of run, in a word or two.
            title: what to call it.
            inputs: what it gets, by the user's names, or a function that tells. The function is
                called only if there is a run, and its failures don't reach the program.
        """
        if self.is_open or not self.begin_stretch(kind, title, inputs):
            yield
            return
        run = self._run
        try:
            yield
        except BaseException as error:
            if self._run is run:
                self.end_stretch(error)
            raise
        finally:
            if self._run is run:
                self.end_stretch()

    def begin_stretch(self, kind: str, title: str = "", inputs: RunInputsOf = None) -> bool:
        """A run begins, as that of `stretch`; whether it does."""
        if self.is_idle() or not self.is_here() or self.is_open:
            return False
        self._open_stretch(kind, title, inputs)
        return True

    def end_stretch(self, error: BaseException | None = None) -> None:
        """It ends, maybe as an error leaves it."""
        run = self._run
        if run is None:
            return
        if isinstance(error, Exception):
            self.fail(error)
        if error is not None and self._run is run:
            run.cut_short = f"the program raised {one_line(error)}"
        if self._run is run:
            self.close_run()

    @contained
    def _open_stretch(self, kind: str, title: str, inputs: RunInputsOf) -> None:
        inputs = inputs() if callable(inputs) else inputs
        self.open_run(self.make_run(self.describe_stretch(kind, title, inputs)))

    def describe_stretch(
        self, kind: str, title: str, inputs: Mapping[str, Any] | None
    ) -> RunDescription:
        """Describe a run that is a stretch of the program."""
        return RunDescription(kind, self.count(kind), title, inputs)

    def make_run(self, description: RunDescription) -> R:
        """A run that is a stretch of the program, before it is open.

        An engine whose runs are of a class of its own makes one of that.
        """
        return cast(R, OpenRun(description))

    # Between two runs.

    @contained
    def begin(self) -> None:
        """The program begins: what it does now may be used by its first run."""
        host = self._program.host()
        if host is not None and self.is_here() and self._ahead is None:
            self.look_ahead(host)

    @contained
    def look_ahead(self, host: RunHost) -> None:
        """Record from now on if the next run is to be debugged: it may use what comes before."""
        watch = host.expected_watch() if self.looks_ahead else None
        following, self._next = self._next, None
        if following is not None and (
            self._run is not None or watch is None or not following.serves(watch)
        ):
            following.discard()
            following = None
        if watch is not None and self._run is None:
            self._ahead = following or contain(self.policy.ahead(watch), self)
            if following is None:
                self._ahead.since = time.perf_counter()
                self._ahead.look_ahead()
            self._ahead.start()
            self._ahead_on = threading.get_ident()

    def discard_ahead(self) -> None:
        """What was recorded for the next run is none of it."""
        if self._ahead is not None:
            self._ahead.discard()
            self._ahead = None

    # Errors and ends.

    def ended_with(self, error: BaseException) -> bool:
        """Whether a run has just ended with this error."""
        return id(error) == self._shown

    def fail(self, error: BaseException) -> None:
        """An error leaves the program's outermost call: the run ends with it, if it has to."""
        run = self._run
        if run is not None and not run.is_call and self.ends_run(run, error):
            self.close_run(error)

    def ends_run(self, run: R, error: BaseException) -> bool:
        """Whether a run ends with an error: one of its ops', or of the framework's."""
        op = run.watcher.failed_op(error) if run.watcher is not None else ""
        return bool(op) or self.is_framework_error(error)

    def open_for_error(self) -> None:
        """A run for an error that was raised on the way to the next one; engines without: none."""

    def failed(self, error: BaseException) -> None:
        """The program ends with an error; one of an op outside of any run is still to be shown."""
        if id(error) == self._shown:
            return
        ahead = self._ahead if self._run is None else None
        if ahead is not None and (ahead.failed_op(error) or self.is_framework_error(error)):
            # It was raised on the way to the next run (maybe in another process).
            self._ahead = None
            ahead.stop()
            self.open_for_error()
            if self._run is not None:
                if self._run.watcher is not None:
                    self._run.watcher.discard()
                self._run.watcher = ahead
        self.fail(error)
        if self._run is not None and self._run.watcher is not None:
            self._run.cut_short = f"the program ends with {one_line(error)}"
            self.close_run()

    def failed_op(self, error: BaseException) -> str:
        """The node that raised an error, as far as it was recorded."""
        watchers = (self._last, self._run.watcher if self._run else None)
        return next((name for w in watchers if w is not None and (name := w.failed_op(error))), "")

    def end(self) -> None:
        """The program ends, or the debugger is taken off: what is open is closed."""
        run = self._run
        if run is not None and run.watcher is not None and self.is_here():
            if not run.is_complete:
                run.cut_short = (
                    run.cut_short or "the program ended, or called disable(), in the middle of it"
                )
            with contextlib.suppress(SystemExit):  # it ends anyway
                self.close_run()
        self._run = None
        self.discard_ahead()

    def abandon(self) -> None:
        """In a forked child: nobody watches it."""
        for watcher in self.watchers():
            watcher.stop()
        self._run = self._ahead = None
        self._is_off = True

    def give_up(self, error: Exception) -> None:
        """Something is wrong with us: nothing more is watched, and the program goes on."""
        for watcher in self.watchers():
            with contextlib.suppress(Exception):
                watcher.discard()
        self._run = self._ahead = None
        self._is_off = True
        tell_failure(error)
        with contextlib.suppress(Exception):
            self._program.gave_up(error)

    def where(self) -> str:
        """Where the program is right now, asked on another thread: its op and its line."""
        run = self._run
        thread = run.thread if run is not None else threading.main_thread().ident
        site = self.place_of(sys._current_frames().get(thread or 0))
        done = run.watcher.progress() if run is not None and run.watcher is not None else ""
        return ", ".join(filter(None, [done, f"at {site}" if site else ""]))

    # Whose doings count.

    @property
    def is_open(self) -> bool:
        """Whether a run has begun and isn't over."""
        return self._run is not None

    @property
    def watcher(self) -> CaptureLevel | None:
        """What looks at the run that is open."""
        return self._run.watcher if self._run is not None else None

    def watchers(self) -> list[CaptureLevel]:
        """What looks at the run that is open, or at what comes before the next one."""
        return [each for each in (self._ahead, self.watcher) if each is not None]

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """What we do ourselves, or a person at a stop, is no part of the program."""
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False

    def look_away(self) -> Callable[[], None]:
        """What happens from now on is no part of the program, until what is returned is called."""
        if not self.is_here():
            return lambda: None
        watchers = self.watchers()
        for watcher in watchers:
            watcher.stop()
        self._is_busy = True

        def look_again() -> None:
            self._is_busy = False
            for watcher in watchers:
                if watcher is self._ahead or watcher is self.watcher:
                    watcher.start()

        return look_again

    @contextlib.contextmanager
    def glimpse(self) -> Iterator[Glimpse | None]:
        """The run that goes on here; what is done within is no part of it."""
        run = self._run
        if run is None or run.handle is None or not self.is_here():
            yield None
            return
        look_again = self.look_away()
        try:
            with self.quiet():
                is_watched = run.watcher is not None and not run.is_followed
                dump = run.watcher.glimpse() if run.watcher is not None and is_watched else None
            info = dataclasses.replace(run.handle.info)
            run.description.take_feeds(info, dump)
            yield Glimpse(info, dump)
        finally:
            look_again()

    @property
    def is_attached(self) -> bool:
        """Whether somebody is asked about runs, or may be before long."""
        return self._program.is_attached

    def is_idle(self) -> bool:
        """Whether nobody wants to know of runs."""
        if self._run is not None or not self._program.is_idle():
            return False
        self.settle()
        self._program.rest()
        return True

    def is_elsewhere(self) -> bool:
        """Whether this thread is another one than that of the runs."""
        run = self._run
        if run is not None:
            return run.thread != threading.get_ident()
        return not self._threads.counts(self._program.setting("threads"))

    def is_here(self) -> bool:
        """Whether what this thread does counts."""
        if self._is_busy or self._is_off or self.is_paused():
            return False
        run = self._run
        if run is not None and run.thread == threading.get_ident():
            return True
        if not self._threads.counts(self._program.setting("threads")):
            return False
        if run is not None:
            if not is_over(run.thread):
                return False
            run.cut_short = run.cut_short or "its thread ended in the middle of it"
            self.close_run()
        return True
