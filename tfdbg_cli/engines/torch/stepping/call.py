"""A call of a function that is made step by step."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from tfdbg_cli.dumps.sources import show_program_only
from tfdbg_cli.engines.base import Capture, Watch
from tfdbg_cli.engines.kit.contain import contain
from tfdbg_cli.engines.kit.stacks import user_frame
from tfdbg_cli.engines.torch.names.scopes import Names
from tfdbg_cli.engines.torch.record.capture_levels import FullLevel
from tfdbg_cli.engines.torch.runs.description import BLOCK, Description
from tfdbg_cli.engines.torch.runs.lifecycle import TorchRun
from tfdbg_cli.engines.torch.runs.runs import RunPosition
from tfdbg_cli.engines.torch.stepping.modules import TorchModuleCalls
from tfdbg_cli.engines.torch.stepping.op_gate import EndEvent, OpGate
from tfdbg_cli.engines.torch.stepping.prompted import away
from tfdbg_cli.engines.torch.stepping.scopes import BlindLevel, ScopedLevel, is_inside_modules
from tfdbg_cli.engines.torch.stepping.stepper import TorchStepper
from tfdbg_cli.engines.torch.stepping.thread_state import apart
from tfdbg_cli.stepping.coroutine import Coroutine

if TYPE_CHECKING:
    from tfdbg_cli.engines.torch.program import TorchProgram

__all__ = ["SteppedCall"]


class SteppedCall:
    """A call of a function in a strand, recorded as a run of its own.

    It begins when somebody wants to know of its first step. From then on until its end what the
    caller does itself is no part of a run.

    Args:
        program: that the function belongs to.
        function: a module, or any function.
        args, kwargs: of the call.
        scopes: of the ops that are recorded, see `ScopedLevel`; ``None``: all are.
    """

    def __init__(
        self,
        program: TorchProgram,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        scopes: frozenset[str] | None = None,
    ) -> None:
        self._program = program
        self._runs = program.runs
        self._call = function, tuple(args), dict(kwargs)
        owner = function if isinstance(function, torch.nn.Module) else None
        if owner is None and isinstance(getattr(function, "__self__", None), torch.nn.Module):
            owner = function.__self__  # type: ignore[attr-defined]
        self._module = owner
        is_framed = owner is not None or scopes is None
        frame = user_frame(sys._getframe(2)) if is_framed else None
        if owner is not None:
            self._runs.names.module(owner, frame, None)
        watcher, names = self._watch(owner, scopes)
        self._watcher = watcher
        self._recorder = watcher.recorder if isinstance(watcher, BlindLevel) else watcher
        self._sees_all = scopes is None
        self._sees_calls_only = scopes is not None and is_inside_modules(scopes)
        self._strand = Coroutine(self._body)
        self._is_done = False
        self._passage = OpGate(self._recorder.ops, self._pause)
        self._modules = TorchModuleCalls(
            self._passage,
            self._strand,
            owner,
            names,
            *self._seen_calls(watcher),
        )
        self._description = self._described(frame)
        self._go_back: Callable[[], None] | None = None
        self._unwatch: Callable[[], None] | None = None
        self._leave: Callable[[], None] = _nothing
        self._is_left_alone = False
        self._place: Any = None
        self._stepper: weakref.ref[TorchStepper] | None = None
        self._unless_kept: weakref.finalize[..., TorchStepper] | None = None

    def _watch(
        self, owner: torch.nn.Module | None, scopes: frozenset[str] | None
    ) -> tuple[FullLevel | BlindLevel, Callable[[], Names]]:
        """What looks at the call, and the names of its modules."""
        # What was called before in this process has no say in the names of this call.
        sees_all = scopes is None or not is_inside_modules(scopes)

        @functools.cache
        def named() -> Names:
            names = Names(has_tensors=sees_all)
            if owner is not None:
                names.add_main(owner)
            return names

        if scopes is None:
            return FullLevel(Watch(), named()), named
        return ScopedLevel(named(), scopes, owner) if scopes else BlindLevel(), named

    def _seen_calls(
        self, watcher: FullLevel | BlindLevel
    ) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., bool]]:
        """What is to be done around a call of a module, around one done again, and of which."""
        if isinstance(watcher, BlindLevel):
            return _plainly, _plainly, _never
        around = self._runs.around_module
        if not isinstance(watcher, ScopedLevel):
            return around, around, _always
        if self._sees_calls_only:
            return watcher.around_module, _plainly, watcher.watches
        return around, around, watcher.watches

    def _described(self, frame: FrameType | None) -> Description:
        function, args, kwargs = self._call
        module = self._module if function is self._module else None
        title = "" if module is not None else getattr(function, "__qualname__", str(function))
        if not self._sees_all:  # nobody is going to ask
            return Description(BLOCK, 0, None, None, (), {}, title, self._runs.optimizers)
        found = Description(BLOCK, 0, frame, module, args, kwargs, title, self._runs.optimizers)
        found.leave_frame()
        return found

    def stepper(self) -> TorchStepper:
        """What goes through it. If nobody has it any more, the call is given up."""
        made = TorchStepper(
            self._recorder,
            self._passage,
            self._tell,
            self._conclude,
            self.abandon,
            look_away=self._look_away if self._sees_calls_only else None,
            sees_all=self._sees_all,
        )
        made.modules = self._modules
        self._stepper = weakref.ref(made)
        return made

    # The caller's side.

    def abandon(self) -> None:
        """End the call where it is, unless it has ended; if it won't, let it do the rest."""
        if self._go_back is not None:
            self._passage.is_free, self._passage.is_watched = True, False
            self._switch(self._strand.close)
        elif not self._strand.is_started:
            self._passage.release()
            self._call = _nothing, (), {}
            self._description.forget()

    def _look_away(self) -> None:
        """Nobody asks for more: the rest of the call is none of ours."""
        self._is_left_alone = True
        if isinstance(self._watcher, ScopedLevel | BlindLevel) and self._strand.is_started:
            self._watcher.look_away()
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None

    def _tell(self, command: str) -> Any:
        if self._go_back is None:
            self._begin()
        if self._is_left_alone and not self._strand.is_started:
            return self._switch(self._in_one_go)
        return self._switch(lambda: self._strand.resume(command))

    def _in_one_go(self) -> EndEvent:
        """The whole call, which isn't left in the middle."""
        try:
            return self._body()
        finally:
            self._is_done = True
            self._strand.forget()

    def _switch(self, switch: Callable[[], Any]) -> Any:
        """Let the program go on, where it is."""
        runs = self._runs
        here = runs.place()
        runs.go_to(self._place)
        try:
            with apart(fresh=self._strand.is_started):
                return switch()
        finally:
            self._place = runs.place()
            runs.go_to(here)
            if self._is_done or self._strand.is_done:
                self._end()

    def _begin(self) -> None:
        runs = self._runs
        runs.counts[BLOCK] = self._description.number = runs.counts.get(BLOCK, 0) + 1
        if not self._is_left_alone:
            self._watch_program()
        open_again = runs.set_aside()
        run = TorchRun(self._description)
        run.is_call = True
        run.watcher = self._watcher
        contain(run.watcher, runs)
        self._place = RunPosition(run)

        def go_back() -> None:
            open_again()
            self._leave()
            if self._unwatch is not None:
                self._unwatch()

        self._go_back = go_back
        made = self._stepper() if self._stepper is not None else None
        if made is not None:
            # It keeps the call, and what that refers to: only as long as there is one.
            self._unless_kept = weakref.finalize(made, self.abandon)
            self._unless_kept.atexit = False

    def _watch_program(self) -> None:
        patches = self._program.patches
        self._unwatch = self._program.watched(patches.see_calls if self._sees_calls_only else None)
        self._leave = patches.visit(self._modules)

    def _end(self) -> None:
        """The call is over: the caller's runs are looked at again."""
        go_back, self._go_back = self._go_back, None
        self._passage.release()
        if self._unless_kept is not None:
            self._unless_kept.detach()
        if go_back is not None:
            go_back()

    def _conclude(self, ended: EndEvent, notes: Sequence[str]) -> Capture:
        watcher = self._watcher
        if isinstance(watcher, BlindLevel):
            return Capture(ended.value, None, ended.error)
        for note in notes:
            watcher.note(note)
        if not self._sees_all:
            if not self._is_left_alone:
                watcher.stop()
            return Capture(ended.value, None, ended.error)
        capture = watcher.finish(ended.error)
        capture.value = ended.value
        dump, description = capture.dump, self._description
        if dump is not None:
            info = description.info()
            info.engine = "torch"
            description.end(info, watcher, None, None)
            description.take_feeds(info, dump)
            dump.set_run_info(info)
        return capture

    # The program's side.

    def _body(self) -> EndEvent:
        function, args, kwargs = self._call
        self._call = function, (), {}
        self._passage.begin()
        watcher = self._watcher
        if self._is_left_alone:
            return self._ended(function, args, kwargs)
        watcher.begin_run()
        if not self._sees_calls_only:
            watcher.name_inputs(self._description.tensors)
        self._recorder.ops.passage = self._passage
        watcher.start()
        try:
            return self._ended(function, args, kwargs)
        finally:
            watcher.stop()

    def _ended(self, function: Any, args: Any, kwargs: Any) -> EndEvent:
        try:
            return EndEvent(function(*args, **kwargs))
        except BaseException as error:
            if not (isinstance(error, Exception) or self._passage.is_watched):
                raise  # it is given up: this is what ends it
            show_program_only(error)
            return EndEvent(None, error)

    def _pause(self, event: Any) -> str:
        with away(self._recorder):
            return str(self._strand.pause(event))


def _always(module: Any, path: str | None) -> bool:
    return True


def _never(module: Any, path: str | None) -> bool:
    return False


def _plainly(original: Callable[..., Any], module: Any, args: Any, kwargs: Any) -> None:
    return None


def _nothing() -> None:
    pass
