"""Where the runs of a PyTorch program begin and end, told by what it calls.

Four kinds of events: F, the outermost call of a module; B, the outermost backward pass; S, the
outermost step of an optimizer or a gradient scaler; X, a block that the user marks. A training run
is everything up to the end of S, an inference run is one F, a gradient run one B, and a marked
block is a run of its own.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import Capture, ProgramRun
from tfdbg_cli.engines.torch.description import (
    BLOCK,
    GRADIENT,
    INFERENCE,
    TRAINING,
    Description,
)
from tfdbg_cli.engines.torch.failures import is_framework_error
from tfdbg_cli.engines.torch.levels import Levels
from tfdbg_cli.engines.torch.patches import Optimizers
from tfdbg_cli.engines.torch.private import current_node, is_tracing
from tfdbg_cli.engines.torch.recorder import Names
from tfdbg_cli.engines.torch.shelter import shelter, sheltered, tell_failure
from tfdbg_cli.engines.torch.sites import user_frame
from tfdbg_cli.engines.torch.surroundings import SURROUNDINGS
from tfdbg_cli.engines.torch.timing import TimingWatcher
from tfdbg_cli.engines.torch.watchers import Watcher

if TYPE_CHECKING:
    from tfdbg_cli.engines.torch.program import Program

__all__ = ["BLOCK", "GRADIENT", "INFERENCE", "TRAINING", "Runs"]


_LATE = (
    "The forward pass was over when the debugger was asked, so it isn't here. The next run will "
    "have it; so has this one with `-c run` on the command line, or in a `with tfdbg_cli.run():`."
)


class _Run:
    """A run that is open.

    Attributes:
        kind: one of the four.
        closes_on: the event at whose end it closes.
        events: those so far, as letters.
        handle: the session's own of it.
        watcher: what looks at it; ``None``: nobody does.
        only_evaluated: every module call so far was one of a module in evaluation mode.
        stepped: the optimizers that have made a step in it.
        is_late: nothing was recorded before it.
    """

    def __init__(self, kind: str, closes_on: str, description: Description) -> None:
        self.kind = kind
        self.closes_on = closes_on
        self.description = description
        self.events = ""
        self.handle: Any = None
        self.watcher: Watcher | None = None
        self.only_evaluated = False
        self.stepped: list[int] = []
        self.is_late = False
        self.thread = threading.get_ident()


class Runs:
    """The state machine; all runs are on one thread at a time.

    Attributes:
        optimizers: those that are alive.
        counts: how many runs of each kind there were.
    """

    def __init__(self, program: Program) -> None:
        self.optimizers = Optimizers()
        self.counts: dict[str, int] = {}
        self._program = program
        self._names = Names()
        self._levels = Levels(program, self._names, self.optimizers)
        self._run: _Run | None = None
        self._ahead: Watcher | None = None  # records what the next run may use
        self._ahead_on = 0  # which thread
        self._shown = 0  # the error that a run has ended with
        self._last: Watcher | None = None
        self._depth = 0
        self._module_depth = 0
        self._backward_depth = 0
        self._step_depth = 0
        self._is_busy = False  # we are at a stop, or at work ourselves
        self._is_off = False  # for good
        self._thread_rule: tuple[str, re.Pattern[str]] = ("", re.compile(""))
        self._local = threading.local()
        # Optimizers whose steps follow each other with nothing in between: one run.
        self._together: dict[int, int] = {}
        self._last_stepped: int | None = None

    # The events. Each is seen around the original.

    def around_module(
        self, original: Any, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        """A call of a module."""
        if not self._is_here():
            with SURROUNDINGS.helpers.module(module):
                return original(module, *args, **kwargs)
        if self._depth:
            watcher = self._watcher
            if watcher is None:
                return original(module, *args, **kwargs)
            if not self._module_depth and not self._backward_depth:
                self._note("F")  # called by an optimizer
            if watcher.is_again:
                args, kwargs = watcher.arguments((args, kwargs))
            watcher.enter_module(module, (args, kwargs))
            self._module_depth += 1
            output = None
            try:
                output = original(module, *args, **kwargs)
            finally:
                self._module_depth -= 1
                watcher.leave_module(module, output)
            return output
        frame = user_frame(sys._getframe(2))
        self._root_called(module, args, kwargs, frame)
        watcher = self._watcher
        if watcher is not None:
            watcher.enter_module(module, (args, kwargs))
        output = None
        with self._boundary():
            self._module_depth += 1
            try:
                output = original(module, *args, **kwargs)
            finally:
                self._module_depth -= 1
                if watcher is not None:
                    watcher.leave_module(module, output)
        run = self._run
        if run is not None and run.closes_on == "F":
            if watcher is not None:
                again = functools.partial(original, module, *args, **kwargs)
                self._look(watcher.call_done, again, (args, kwargs), output)
            self._close(frame=frame, output=output)
        return output

    def around_backward(
        self, original: Any, args: tuple[Any, ...], kwargs: Any, *, is_grad: bool
    ) -> Any:
        """``torch.autograd.backward`` or ``grad``."""
        if not self._is_here():
            with SURROUNDINGS.helpers.phase("backward"):
                return original(*args, **kwargs)
        if self._backward_depth and current_node() is None:
            return original(*args, **kwargs)  # `Tensor.backward` calls `torch.autograd.backward`
        is_outermost = not self._depth
        frame = user_frame(sys._getframe(2)) if is_outermost else None
        if is_outermost:
            self._settle_steps()
            if self._run is None:
                owned = bool(self.optimizers or self._program.setting("run_end")) and not is_grad
                kind, closes_on = (TRAINING, "S") if owned else (GRADIENT, "B")
                self._open(kind, closes_on, frame, title="grad()" if is_grad else "backward()")
        if not self._module_depth and not self._backward_depth:
            self._note("B")
        watcher = self._watcher
        if watcher is not None:
            watcher.enter_phase("backward", args[0] if args else None)
        self._backward_depth += 1
        try:
            with self._boundary():
                value = original(*args, **kwargs)
        finally:
            self._backward_depth -= 1
            if watcher is not None:
                watcher.leave_phase()
        if watcher is not None:
            self._look(watcher.backward_done, is_grad)
        run = self._run
        if is_outermost and run is not None:
            self._trains(run)
            if run.closes_on == "B" or (run.stepped and run.closes_on == "S"):
                self._close(frame=frame)
        return value

    def around_step(self, original: Any, owner: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        """``Optimizer.step`` or ``GradScaler.step``."""
        if not self._is_here():
            with SURROUNDINGS.helpers.phase("optimizer", owner):
                return original(owner, *args, **kwargs)
        if self._is_again():
            return None  # lines are run once more: the update is still to come, once
        is_outermost = not self._step_depth and (not self._depth or self._backward_depth > 0)
        frame = user_frame(sys._getframe(2)) if is_outermost else None
        key = id(args[0]) if args and isinstance(args[0], torch.optim.Optimizer) else id(owner)
        if is_outermost and not self._depth and self._run is None:
            if self._last_stepped is not None and self._last_stepped != key:
                self._together[self._last_stepped] = key
            self._open(TRAINING, "S", frame, title=f"{type(owner).__name__}.step()")
        if is_outermost:
            self._note("S")
        watcher = self._watcher
        if watcher is not None:
            is_optimizer = isinstance(owner, torch.optim.Optimizer)
            watcher.enter_phase("optimizer" if is_optimizer else "scaler", owner)
        self._step_depth += 1
        try:
            with self._boundary():
                value = original(owner, *args, **kwargs)
        finally:
            self._step_depth -= 1
            if watcher is not None:
                watcher.leave_phase()
        run = self._run
        if is_outermost and run is not None:
            run.stepped.append(key)
            self._trains(run)
            if run.closes_on == "S" and not self._backward_depth and not self._another(run, key):
                self._close(frame=frame)
                self._last_stepped = key
        return value

    def around_end(self, original: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        """The function of ``config run_end``."""
        if self._is_here() and self._is_again():
            return None
        if not self._is_here() or self._depth:
            return original(*args, **kwargs)
        frame = user_frame(sys._getframe(2))
        if self._run is None:
            self._open(TRAINING, "E", frame, title=f"{self._program.setting('run_end')}()")
        with self._boundary():
            value = original(*args, **kwargs)
        run = self._run
        if run is not None and run.closes_on == "E":
            self._close(frame=frame)
        return value

    @contextlib.contextmanager
    def block(self, name: str = "") -> Iterator[None]:
        """A run that the user marks; what happens in it opens no other."""
        if not self._is_here() or self._depth or self._is_block():
            yield  # inside a module, another block, or a thread that isn't watched
            return
        frame = user_frame(sys._getframe(1))
        self._settle_steps()
        if self._run is not None:
            self._close(frame=frame)
        self._open(BLOCK, "X", frame, title=name)
        try:
            yield
        except Exception as error:
            self._fail(error)
            raise
        finally:
            if self._is_block():
                self._close(frame=frame)

    # Opening and closing.

    @sheltered
    def _root_called(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Any, frame: FrameType | None
    ) -> None:
        """F begins: it belongs to the run that is open, or opens one."""
        self._settle_steps()
        run = self._run
        evaluates = not module.training
        has_parameters = any(True for _ in module.parameters())
        if run is not None and run.only_evaluated and run.closes_on in "SE" and has_parameters:
            # The calls so far were an evaluation that forgot `no_grad`. (A module without
            # parameters, a loss, say, is no new forward pass.)
            self._close(frame=frame)
            run = None
        if run is None:
            trains = torch.is_grad_enabled() and self._is_trained(module)
            kind = TRAINING if trains and not evaluates else INFERENCE
            self._open(kind, "S" if trains else "F", frame, module, args, kwargs)
            run = self._run
            if run is not None:
                run.only_evaluated = trains and evaluates
        elif not evaluates and has_parameters:
            self._trains(run)
        self._note("F")

    def _trains(self, run: _Run) -> None:
        """What looked like an evaluation is a step after all."""
        if run.only_evaluated:
            run.only_evaluated = False
            self.counts[INFERENCE] -= 1
            self.counts[TRAINING] = self.counts.get(TRAINING, 0) + 1
            run.kind = run.description.kind = TRAINING
            run.description.number = self.counts[TRAINING]

    def _is_trained(self, module: torch.nn.Module) -> bool:
        """Whether something updates parameters of a module, as far as one can tell."""
        if self._program.setting("run_end"):
            return any(parameter.requires_grad for parameter in module.parameters())
        return self.optimizers.own(module)

    @sheltered
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
        SURROUNDINGS.settle()
        wrapper = self._program.wrapper()
        if wrapper is None:
            return
        if self._program.setting("run_end"):
            self._program.patches.watch_end(self._program.setting("run_end"))
            closes_on = "E" if closes_on == "S" else closes_on
        self._last_stepped = None
        self.counts[kind] = self.counts.get(kind, 0) + 1
        description = Description(
            kind, self.counts[kind], frame, module, args, kwargs or {}, title, self.optimizers
        )
        run = _Run(kind, closes_on, description)
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.stop()
            if self._ahead_on != threading.get_ident():
                ahead.discard()
                ahead = None
        with self._busy():
            run.handle = wrapper.open_run(ProgramRun(kind, description.info))
        self._run = run
        run.is_late = ahead is None
        if run.handle.action == "non_debug_run":
            description.forget()
            if ahead is not None:
                ahead.discard()
            return
        watch = run.handle.watch
        is_timed = run.handle.action == "profile_run"
        if is_timed:
            if ahead is not None:
                ahead.discard()
            watcher: Watcher = TimingWatcher(watch, self._names)
        else:
            watcher = self._levels.watcher(watch, kind, ahead)
        if watcher is not ahead:
            shelter(watcher, self.give_up)
        run.watcher = watcher
        if watcher is ahead:
            description.began(watcher)
        watcher.begin_run()
        watcher.name_inputs(description.tensors)
        watcher.start()

    @sheltered
    def _close(
        self,
        error: BaseException | None = None,
        frame: FrameType | None = None,
        output: Any = None,
    ) -> None:
        """The run ends."""
        run, self._run = self._run, None
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
                capture = watcher.finish(error)
                self._levels.ended(watcher, run.kind)
                if capture.dump is not None or error is not None:
                    self._describe(run, watcher, capture.dump, frame, output)
                elif capture.later is not None:
                    make = capture.later

                    def later() -> MemoryDump:
                        dump = make()
                        dump.set_run_info(self._describe(run, watcher, dump, frame, output))
                        return dump

                    capture.later = later
            try:
                wrapper.close_run(run.handle, capture)
            finally:
                run.description.forget()
                self._last = None
        self._look_ahead(wrapper)

    def _describe(
        self,
        run: _Run,
        watcher: Watcher,
        dump: MemoryDump | None,
        frame: FrameType | None,
        output: Any,
    ) -> RunInfo:
        """Add to a run's description what is known at its end."""
        info: RunInfo = run.handle.request.run_info
        run.description.end(info, watcher, frame, output, run.events)
        run.description.take_feeds(info, dump)
        if dump is not None and run.is_late and run.events.startswith("B"):
            dump.warnings.append(_LATE)
        if watcher.level:
            level = self._levels.reason(watcher, run.kind)
            info.details = [*info.details, ("Level", level)]
        return info

    @sheltered
    def begin(self) -> None:
        """The program begins: what it does now may be used by its first run."""
        wrapper = self._program.wrapper()
        if wrapper is not None and self._is_here() and self._ahead is None:
            self._look_ahead(wrapper)

    @sheltered
    def _look_ahead(self, wrapper: Any) -> None:
        """Record from now on if the next run is to be debugged: it may use what comes before."""
        expected = getattr(wrapper, "expected_watch", None)
        watch = expected() if expected is not None else None
        if watch is not None and self._run is None:
            self._ahead = shelter(self._levels.ahead(watch), self.give_up)
            self._ahead.look_ahead()
            self._ahead.start()
            self._ahead_on = threading.get_ident()

    def _fail(self, error: BaseException) -> None:
        """An error leaves the outermost call: the run ends with it, if it is one of PyTorch's."""
        run = self._run
        if run is None:
            return
        op = run.watcher.failed_op(error) if run.watcher is not None else ""
        if op or is_framework_error(error):
            self._close(error)

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

    def failed_op(self, error: BaseException) -> str:
        """The node that raised an error, as far as it was recorded."""
        watchers = (self._last, self._run.watcher if self._run else None)
        return next((name for w in watchers if w is not None and (name := w.failed_op(error))), "")

    def end(self) -> None:
        """The program ends, or the debugger is taken off: what is open is closed."""
        if self._watcher is not None and self._is_here():
            self._close()
        self._run = None
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
                    watcher.stop()
        self._run = self._ahead = None
        self._is_off = True
        tell_failure(error)

    # Small things.

    @property
    def _watcher(self) -> Watcher | None:
        return self._run.watcher if self._run is not None else None

    def _is_block(self) -> bool:
        return self._run is not None and self._run.kind == BLOCK

    def _is_again(self) -> bool:
        """Whether the program's lines are run once more, by us."""
        return self._watcher is not None and self._watcher.is_again

    def _look(self, done: Callable[..., None], *arguments: Any) -> None:
        """Something is done; what the watcher then runs once more opens and closes no run."""
        self._depth += 1
        try:
            done(*arguments)
        except Exception as error:
            self.give_up(error)
        finally:
            self._depth -= 1

    def _note(self, event: str) -> None:
        if self._run is not None and not self._is_again():
            self._run.events += event

    @contextlib.contextmanager
    def _busy(self) -> Iterator[None]:
        """What we do ourselves, or a person at a stop, is no part of the program."""
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False

    @contextlib.contextmanager
    def _boundary(self) -> Iterator[None]:
        """Inside the outermost call nothing opens or closes a run, but an error that leaves it."""
        self._depth += 1
        try:
            yield
        except Exception as error:
            if self._depth == 1:
                self._depth = 0
                try:
                    self._fail(error)
                finally:
                    self._depth = 1
            raise
        finally:
            self._depth -= 1

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

    def _another(self, run: _Run, key: int) -> bool:
        """Whether another optimizer's step is known to follow this one's at once."""
        following = self._together.get(key)
        return following is not None and following not in run.stepped

    @sheltered
    def _settle_steps(self) -> None:
        """Something other than a step comes: a run that waited for another step is over."""
        run = self._run
        self._last_stepped = None
        if run is not None and run.stepped and run.closes_on == "S":
            self._together.pop(run.stepped[-1], None)
            self._close()
