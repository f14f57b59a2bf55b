"""What happens to a run from its beginning to its end, and between two runs."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import Capture, ProgramRun
from tfdbg_cli.engines.torch.around.contain import contain, contained, tell_failure
from tfdbg_cli.engines.torch.around.process_patches import PROCESS_PATCHES
from tfdbg_cli.engines.torch.names.sites import call_site, user_frame
from tfdbg_cli.engines.torch.private import NAMES, STEPPED, is_tracing
from tfdbg_cli.engines.torch.record.capture_levels import CaptureLevel, FullLevel, RecordingLevel
from tfdbg_cli.engines.torch.record.op_recorder import OpRecorder
from tfdbg_cli.engines.torch.record.run_recorder import Names
from tfdbg_cli.engines.torch.record.timing import TimingLevel
from tfdbg_cli.engines.torch.runs.capture_policy import CapturePolicy
from tfdbg_cli.engines.torch.runs.description import INFERENCE, TRAINING, Description
from tfdbg_cli.engines.torch.runs.failures import is_framework_error
from tfdbg_cli.engines.torch.runs.forwards import Forwards
from tfdbg_cli.engines.torch.runs.patches import Optimizers
from tfdbg_cli.engines.torch.stepping.prompted import PromptedRun
from tfdbg_cli.stepping.coroutine import Coroutine

if TYPE_CHECKING:
    from tfdbg_cli.engines.torch.program import Program

__all__ = ["Lifecycle", "OpenRun"]

# Whether PyTorch has what it takes to leave a program in the middle of an op.
_HAS_STEPS = not NAMES.why_not(STEPPED)

_LATE = (
    "The forward pass was over when the debugger was asked, so it isn't here. The next run will "
    "have it; so has this one with `-c run` on the command line, or in a `with tfdbg_cli.run():`."
)


class OpenRun:
    """A run that is open.

    Attributes:
        kind: one of the four.
        closes_on: the event at whose end it closes.
        events: those so far, as letters.
        handle: the session's own of it.
        watcher: what looks at it; ``None``: nobody does.
        forwards: the calls of modules that it began with; ``None``: it is not known by those.
        is_complete: nothing is missing of it, though the program has ended before it was closed.
        only_evaluated: every module call so far was one of a module in evaluation mode.
        stepped: the optimizers that have made a step in it.
        is_late: nothing was recorded before it.
        updates_from: how many ops there were before the update by hand.
        cut_short: what the program did before the run was at its end.
        prompted: lets somebody step through it; ``None``: nobody does.
        is_call: it is a call that somebody else makes step by step, and ends with that.
    """

    def __init__(self, kind: str, closes_on: str, description: Description) -> None:
        self.kind = kind
        self.closes_on = closes_on
        self.description = description
        self.events = ""
        self.handle: Any = None
        self.watcher: CaptureLevel | None = None
        self.forwards: Forwards | None = None
        self.is_complete = False
        self.only_evaluated = False
        self.stepped: list[int] = []
        self.is_late = False
        self.updates_from = 0
        self.cut_short = ""
        self.prompted: PromptedRun | None = None
        self.is_call = False
        self.thread = threading.get_ident()


class Lifecycle:
    """Opens and closes the runs of a program; which events do so, `Runs` knows.

    Args:
        program: whose runs they are.

    Attributes:
        optimizers: those that are alive.
        counts: how many runs of each kind there were.
        names: what things are called.
    """

    def __init__(self, program: Program) -> None:
        self.optimizers = Optimizers()
        self.counts: dict[str, int] = {}
        self._program = program
        self.names = Names()
        self._levels = CapturePolicy(program, self.names, self.optimizers)
        self._run: OpenRun | None = None
        self._ahead: CaptureLevel | None = None  # records what the next run may use
        self._ahead_on = 0  # which thread
        self._next: CaptureLevel | None = None  # will be that when the run is over that goes on
        self._shown = 0  # the error that a run has ended with
        self._last: CaptureLevel | None = None
        self._is_busy = False  # we are at a stop, or at work ourselves
        self._is_off = False  # for good
        self._thread_rule: tuple[str, re.Pattern[str]] = ("", re.compile(""))
        self._local = threading.local()

    @contained
    def _open(
        self,
        kind: str,
        closes_on: str,
        frame: FrameType | None,
        module: torch.nn.Module | None = None,
        args: tuple[Any, ...] = (),
        kwargs: Any = None,
        title: str = "",
    ) -> None:
        """A run begins."""
        PROCESS_PATCHES.settle()
        wrapper = self._program.wrapper()
        if wrapper is None:
            return
        if self._program.setting("run_end"):
            self._program.patches.watch_end(self._program.setting("run_end"))
            closes_on = "E" if closes_on == "S" else closes_on
        self.counts[kind] = self.counts.get(kind, 0) + 1
        description = Description(
            kind, self.counts[kind], frame, module, args, kwargs or {}, title, self.optimizers
        )
        run = OpenRun(kind, closes_on, description)
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.stop()
            if self._ahead_on != threading.get_ident():
                ahead.discard()
                ahead = None
        with self._busy():
            run.handle = wrapper.open_run(
                ProgramRun(kind, description.info, can_step=_HAS_STEPS and Coroutine.is_possible())
            )
        self._run = run
        run.is_late = ahead is None
        if run.handle.action == "non_debug_run":
            description.forget()
            if ahead is not None:
                ahead.discard()
            return
        watch = run.handle.watch
        is_prompted = run.handle.action == "invoke_stepper"
        if is_prompted:  # whoever steps wants to see everything
            watch = dataclasses.replace(watch, filter_name="", predicate=None)
        is_timed = run.handle.action == "profile_run"
        if is_timed:
            if ahead is not None:
                ahead.discard()
            watcher: CaptureLevel = TimingLevel(watch, self.names)
        else:
            watcher = self._levels.watcher(watch, kind, ahead)
        if watcher is not ahead:
            contain(watcher, self.give_up)
        run.watcher = watcher
        if watcher is ahead:
            description.began(watcher)
        watcher.begin_run()
        watcher.name_inputs(description.tensors)
        if is_prompted and isinstance(watcher, FullLevel):
            run.prompted = PromptedRun(watcher, run.handle.conduct, self._busy)
        watcher.start()

    @contained
    def _close(
        self,
        error: BaseException | None = None,
        frame: FrameType | None = None,
        output: Any = None,
    ) -> None:
        """The run ends."""
        if self._run is not None and self._run.is_call:
            return
        run, self._run = self._run, None
        if run is not None and run.closes_on == "U":
            self._program.patches.leave_no_grad()
        wrapper = self._program.wrapper()
        if run is None or wrapper is None:
            return
        watcher = run.watcher
        self._shown = id(error)
        capture = Capture(None, None, error)
        with self._busy():
            if watcher is not None:
                watcher.stop()
                self._last = watcher
                if run.prompted is not None:
                    run.prompted.end(error)
                capture = watcher.finish(error)
                self._levels.ended(watcher, run.kind)
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
                wrapper.close_run(run.handle, capture)
            finally:
                run.description.forget()
                self._last = None
        self._look_ahead(wrapper)

    # An update that is written by hand, after a backward pass.

    def _await_update(self, run: OpenRun, frame: FrameType | None) -> None:
        """A gradient run goes on until the update is over that the program makes by itself."""
        watcher = run.watcher
        if not isinstance(watcher, RecordingLevel) or run.prompted is not None or run.is_call:
            self._close(frame=frame)
            return
        run.closes_on = "U"
        run.description.name_outputs(watcher, frame, None)
        run.updates_from = watcher.recorder.op_count
        self._program.patches.watch_no_grad(self._block_left)
        watcher.recorder.ops.awaits_forward = self._hand_over

    def _block_left(self, frame: FrameType | None) -> None:
        """The program has left a ``with torch.no_grad()``, and gradients are on again."""
        run = self._run
        if run is None or run.closes_on != "U" or not self._is_here():
            return
        watcher = run.watcher
        if isinstance(watcher, RecordingLevel) and watcher.recorder.has_written(run.updates_from):
            self._close(frame=frame)

    def _hand_over(self) -> OpRecorder | None:
        """The next forward pass begins before it is told that the update is over."""
        run = self._run
        watcher = run.watcher if run is not None else None
        if not isinstance(watcher, RecordingLevel):
            return None
        found = self._levels.ahead(watcher.watch)
        if not isinstance(found, RecordingLevel):
            return None
        self._next = contain(found, self.give_up)
        found.look_ahead()
        watcher.recorder.hand_over(found.recorder)
        return found.recorder.ops

    def _settle_update(self) -> None:
        """Something other than an update comes: a run that waited for one is over."""
        run = self._run
        if run is not None and run.closes_on == "U" and self._is_here():
            self._close()

    def _describe(
        self,
        run: OpenRun,
        watcher: CaptureLevel,
        dump: MemoryDump | None,
        frame: FrameType | None,
        output: Any,
    ) -> RunInfo:
        """Add to a run's description what is known at its end."""
        info: RunInfo = run.handle.request.run_info
        made = dump.run_info() if dump is not None else None
        info.results = made.results if made is not None else None
        run.description.end(info, watcher, frame, output, run.events)
        run.description.take_feeds(info, dump)
        if dump is not None and run.is_late and run.events.startswith("B"):
            dump.warnings.append(_LATE)
        if run.cut_short:
            info.details = [*info.details, ("Unfinished", run.cut_short)]
        if watcher.level:
            level = self._levels.reason(watcher, run.kind)
            info.details = [*info.details, ("Level", level)]
        return info

    @contained
    def begin(self) -> None:
        """The program begins: what it does now may be used by its first run."""
        wrapper = self._program.wrapper()
        if wrapper is not None and self._is_here() and self._ahead is None:
            self._look_ahead(wrapper)

    @contained
    def _look_ahead(self, wrapper: Any) -> None:
        """Record from now on if the next run is to be debugged: it may use what comes before."""
        expected = getattr(wrapper, "expected_watch", None)
        watch = expected() if expected is not None else None
        following, self._next = self._next, None
        if following is not None and (self._run is not None or following.watch != watch):
            following.discard()
            following = None
        if watch is not None and self._run is None:
            self._ahead = following or contain(self._levels.ahead(watch), self.give_up)
            if following is None:
                self._ahead.look_ahead()
            self._ahead.start()
            self._ahead_on = threading.get_ident()

    def _fail(self, error: BaseException, event: str = "") -> None:
        """An error leaves the outermost call: the run ends with it, if it is one of PyTorch's.

        One of the program's own (a hook's, a callback's) ends it where the run can't go on: no step
        and no backward pass is made again. Of a forward pass something may be used all the same.

        Args:
            error: what leaves it.
            event: the kind of call; empty: none.
        """
        run = self._run
        if run is None or run.is_call:
            return
        op = run.watcher.failed_op(error) if run.watcher is not None else ""
        if op or is_framework_error(error) or event in ("B", "S"):
            self._close(error)
        elif event == "F" and run.closes_on == "F":
            run.cut_short = f"the program raised {one_line(error)}"
            self._close()
        elif event == "F" and run.forwards is not None:
            run.forwards.failed(f"the program raised {one_line(error)}")

    def ended_with(self, error: BaseException) -> bool:
        """Whether a run has just ended with this error."""
        return id(error) == self._shown

    def failed(self, error: BaseException) -> None:
        """The program ends with an error; one of an op outside of modules is still to be shown."""
        if id(error) == self._shown:
            return
        ahead = self._ahead if self._run is None else None
        if ahead is not None and (ahead.failed_op(error) or is_framework_error(error)):
            # It was raised on the way to the next run (maybe in another process).
            self._ahead = None
            ahead.stop()
            self._open(TRAINING if self.optimizers else INFERENCE, "S", None)
            if self._run is not None:
                if self._run.watcher is not None:
                    self._run.watcher.discard()
                self._run.watcher = ahead
        self._fail(error)
        if self._run is not None and self._run.watcher is not None:
            self._run.cut_short = f"the program ends with {one_line(error)}"
            self._close()

    def failed_op(self, error: BaseException) -> str:
        """The node that raised an error, as far as it was recorded."""
        watchers = (self._last, self._run.watcher if self._run else None)
        return next((name for w in watchers if w is not None and (name := w.failed_op(error))), "")

    def end(self) -> None:
        """The program ends, or the debugger is taken off: what is open is closed."""
        run = self._run
        if run is not None and run.watcher is not None and self._is_here():
            if not run.is_complete:
                run.cut_short = (
                    run.cut_short or "the program ended, or called disable(), in the middle of it"
                )
            with contextlib.suppress(SystemExit):  # it ends anyway
                self._close()
        self._run = None
        self._discard_ahead()

    def _discard_ahead(self) -> None:
        if self._ahead is not None:
            self._ahead.discard()
            self._ahead = None

    def abandon(self) -> None:
        """In a forked child: nobody watches it."""
        for watcher in (self._ahead, self._watcher):
            if watcher is not None:
                watcher.stop()
        self._run = self._ahead = None
        self._is_off = True

    def give_up(self, error: Exception) -> None:
        """Something is wrong with us: nothing more is watched, and the program goes on."""
        for watcher in (self._ahead, self._watcher):
            if watcher is not None:
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
        frame = sys._current_frames().get(thread or 0)
        site = call_site(user_frame(frame)) if frame is not None else ""
        done = run.watcher.progress() if run is not None and run.watcher is not None else ""
        return ", ".join(filter(None, [done, f"at {site}" if site else ""]))

    # Small things.

    @property
    def _watcher(self) -> CaptureLevel | None:
        return self._run.watcher if self._run is not None else None

    @contextlib.contextmanager
    def _busy(self) -> Iterator[None]:
        """What we do ourselves, or a person at a stop, is no part of the program."""
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False

    def look_away(self) -> Callable[[], None]:
        """What happens from now on is no part of the program, until what is returned is called."""
        if not self._is_here():
            return lambda: None
        watchers = [each for each in (self._ahead, self._watcher) if each is not None]
        for watcher in watchers:
            watcher.stop()
        self._is_busy = True

        def look_again() -> None:
            self._is_busy = False
            for watcher in watchers:
                if watcher is self._ahead or watcher is self._watcher:
                    watcher.start()

        return look_again

    def _is_idle(self) -> bool:
        """Whether nobody wants to know of runs."""
        if self._run is not None or not self._program.is_idle():
            return False
        PROCESS_PATCHES.settle()
        return True

    def _is_here(self) -> bool:
        """Whether what this thread does counts."""
        if self._is_busy or self._is_off or is_tracing():
            return False
        if self._run is not None:
            return self._run.thread == threading.get_ident()
        rule = self._program.setting("threads")
        if rule != self._thread_rule[0]:
            self._thread_rule = (rule, re.compile(rule))
            self._local = threading.local()
        known = getattr(self._local, "counts", None)
        if known is None:
            name = threading.current_thread().name
            known = self._local.counts = self._thread_rule[1].fullmatch(name) is not None
        return bool(known)
