"""What happens to a run from its beginning to its end, and between two runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import RunHandle, Watch
from tfdbg_cli.engines.kit.contain import contain, contained
from tfdbg_cli.engines.kit.description import OpenRun, RunDriver
from tfdbg_cli.engines.kit.levels import CaptureLevel
from tfdbg_cli.engines.kit.life import RunLife
from tfdbg_cli.engines.kit.program import Program
from tfdbg_cli.engines.kit.sites import call_site
from tfdbg_cli.engines.kit.stacks import user_frame
from tfdbg_cli.engines.torch.around.process_patches import PROCESS_PATCHES
from tfdbg_cli.engines.torch.levels import TorchLevel
from tfdbg_cli.engines.torch.modules.dump import ModulesDump
from tfdbg_cli.engines.torch.names.scopes import Names
from tfdbg_cli.engines.torch.private import NAMES, STEPPED, is_tracing, quiet, unobserved
from tfdbg_cli.engines.torch.record.assembly import RunDump
from tfdbg_cli.engines.torch.record.capture_levels import FullLevel, RecordingLevel
from tfdbg_cli.engines.torch.record.op_recorder import OpRecorder
from tfdbg_cli.engines.torch.record.timing import TimingLevel
from tfdbg_cli.engines.torch.runs.capture_policy import TorchCapturePolicy
from tfdbg_cli.engines.torch.runs.description import (
    BLOCK,
    INFERENCE,
    TRAINING,
    Description,
    events_in_words,
)
from tfdbg_cli.engines.torch.runs.failures import is_framework_error
from tfdbg_cli.engines.torch.runs.forwards import Forwards
from tfdbg_cli.engines.torch.runs.patches import Optimizers, Patches, Visitor
from tfdbg_cli.engines.torch.runs.steps_taken import without_gradient
from tfdbg_cli.engines.torch.runs.updates_by_hand import Update
from tfdbg_cli.engines.torch.stepping.prompted import PromptedRun
from tfdbg_cli.engines.torch.stepping.redo import redo_of
from tfdbg_cli.engines.torch.stepping.scopes import ScopedLevel
from tfdbg_cli.engines.torch.values.arrays import to_numpy
from tfdbg_cli.stepping.coroutine import Coroutine

__all__ = ["Lifecycle", "PatchedProgram", "TorchRun"]

# Whether PyTorch has what it takes to leave a program in the middle of an op.
_HAS_STEPS = not NAMES.why_not(STEPPED)

_LATE = (
    "The forward pass was over when the debugger was asked, so it isn't here. The next run will "
    "have it; so has this one with `-c run` on the command line, or in a `with tfdbg_cli.run():`."
)


class PatchedProgram(Program):
    """A program whose runs are told by PyTorch's functions."""

    patches: Patches


class TorchRun(OpenRun):
    """A run that is open.

    Attributes:
        closes_on: the event at whose end it closes; empty: none does, as it is a block.
        events: those so far, as letters.
        forwards: the calls of modules that it began with; ``None``: it is not known by those.
        only_evaluated: every module call so far was one of a module in evaluation mode.
        stepped: the optimizers that have made a step in it.
        updates_from: how many ops there were before the update by hand.
        keeps_graph: a backward pass has kept its graph for another one.
    """

    description: Description
    watcher: TorchLevel | None

    def __init__(self, description: Description, closes_on: str = "") -> None:
        super().__init__(description)
        self.closes_on = closes_on
        self.events = ""
        self.forwards: Forwards | None = None
        self.only_evaluated = False
        self.stepped: list[int] = []
        self.updates_from = 0
        self.keeps_graph = False


class Lifecycle(RunLife[TorchRun]):
    """Opens and closes the runs of a program; which events do so, `Runs` knows.

    Args:
        program: whose runs they are.

    Attributes:
        optimizers: those that are alive.
        names: what things are called.
    """

    can_profile = True
    looks_ahead = True
    no_stepper = "(PyTorch needs greenlet: pip install greenlet.)"
    _program: PatchedProgram

    def __init__(self, program: PatchedProgram) -> None:
        self.optimizers = Optimizers()
        self.names = Names()
        policy = TorchCapturePolicy(
            program.value, self.names, self.optimizers, program.tracks, self.aside
        )
        super().__init__(program, policy)

    # What is special about PyTorch.

    @property
    def watcher(self) -> TorchLevel | None:
        """What looks at the run that is open."""
        return self._run.watcher if self._run is not None else None

    def can_step(self) -> bool:
        """Whether there is what a stepper needs."""
        return _HAS_STEPS and Coroutine.is_possible()

    # No function mode of the program sees what is asked of tensors, and a trace is no run. There
    # is no frame of ours around what is asked often.
    is_framework_error = staticmethod(is_framework_error)
    quiet = staticmethod(quiet)
    is_paused = staticmethod(is_tracing)
    settle = staticmethod(PROCESS_PATCHES.settle)

    def timing_level(self, watch: Watch) -> CaptureLevel:
        """Clocks in place of values."""
        return TimingLevel(watch, self.names)

    def follower(self, nodes: frozenset[str]) -> CaptureLevel | None:
        """What sees forward ops sees nothing else than the calls of their modules."""
        if any(node.startswith(("gradients/", "optimizer/", "input/")) for node in nodes):
            return super().follower(nodes)
        scopes = {node[: node.rfind("/") + 1] for node in nodes}
        return ScopedLevel(self.names, frozenset(scopes), None)

    def standing(self, node: str) -> Callable[[], Any] | None:
        """A parameter or a buffer, or with ``.grad`` behind its name what ``backward`` left."""
        name = node.removesuffix(".grad")
        found = (tensor for tensor, leaf in self.names.tensors() if leaf.name == name)
        tensor = next(found, None)

        def read() -> Any:
            with unobserved():
                wanted = tensor if name == node or tensor is None else tensor.grad
                return None if wanted is None else to_numpy(wanted.detach())

        return None if tensor is None else read

    def drive(self, watcher: CaptureLevel, handle: RunHandle) -> RunDriver | None:
        """The program waits at each op."""
        if not isinstance(watcher, FullLevel):
            return None
        return PromptedRun(watcher, handle.conduct, self.busy)

    @contextlib.contextmanager
    def aside(self, visitor: Visitor) -> Iterator[None]:
        """What we do ourselves is no part of the program; module calls go through an object."""
        was_busy, self._is_busy = self._is_busy, True
        leave = self._program.patches.visit(visitor)
        try:
            yield
        finally:
            leave()
            self._is_busy = was_busy

    def open_run(self, run: TorchRun) -> None:
        """What has looked ahead goes on, or something else comes in its place."""
        with PROCESS_PATCHES.lasting():
            super().open_run(run)

    def close_run(
        self,
        error: BaseException | None = None,
        frame: FrameType | None = None,
        output: Any = None,
    ) -> None:
        """Something may look ahead for the next one."""
        with PROCESS_PATCHES.lasting():
            super().close_run(error, frame, output)

    def abandon(self) -> None:
        """A worker of a data loader, say, is as if nobody had come."""
        super().abandon()
        self._program.patches.undo()

    def closing(self, run: TorchRun) -> None:
        """What waited for an update by hand waits no longer."""
        if run.closes_on == "U":
            self._program.patches.leave_no_grad()

    def describe_end(self, run: TorchRun, dump: MemoryDump | None, info: RunInfo) -> None:
        """Say what is missing of a run that was asked for too late, and how ops are redone."""
        if isinstance(dump, RunDump | ModulesDump):
            dump.redo = redo_of(dump, dump.ops)
        if run.events:
            info.details = [*info.details, ("Events", events_in_words(run.events))]
        if isinstance(dump, RunDump):
            dump.keeps_graph = run.keeps_graph
        stepped = [each for each in self.optimizers if id(each) in run.stepped]
        if missing := without_gradient(stepped, self.names):
            info.details = [*info.details, ("No gradient", missing)]
        # A block begins before its first op, whatever that is.
        is_cut = run.is_late and run.events.startswith("B") and run.kind != BLOCK
        if dump is not None and is_cut:
            dump.warnings.append(_LATE)

    def place_of(self, frame: FrameType | None) -> str:
        return call_site(user_frame(frame)) if frame is not None else ""

    def open_for_error(self) -> None:
        """A training step that was never reached."""
        self._open(TRAINING if self.optimizers else INFERENCE, "S", None)

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
        self.settle()
        if self._program.host() is None:
            return
        if self._program.setting("run_end"):
            self._program.patches.watch_end(self._program.setting("run_end"))
            closes_on = "E" if closes_on == "S" else closes_on
        description = Description(
            kind, self.count(kind), frame, module, args, kwargs or {}, title, self.optimizers
        )
        self.open_run(TorchRun(description, closes_on))

    # An update that is written by hand, after a backward pass.

    def _await_update(self, run: TorchRun, frame: FrameType | None, update: Update) -> None:
        """A gradient run goes on until the update is over that the program makes by itself."""
        watcher = run.watcher
        is_other = run.prompted is not None or run.is_call or run.is_followed
        if not isinstance(watcher, RecordingLevel) or is_other:
            self.close_run(frame=frame)
            return
        run.closes_on = "U"
        run.description.name_outputs(watcher, frame, None)
        run.updates_from = watcher.ops.count
        self._program.patches.watch_no_grad(self._block_left)
        watcher.ops.await_update(update, self._hand_over)

    def _block_left(self, frame: FrameType | None) -> None:
        """The program has left a ``with torch.no_grad()``, and gradients are on again."""
        run = self._run
        if run is None or run.closes_on != "U" or not self.is_here():
            return
        watcher = run.watcher
        if isinstance(watcher, RecordingLevel) and watcher.ops.has_written(run.updates_from):
            update = watcher.ops.update
            if update is None or not update.may_go_on(frame):
                self.close_run(frame=frame)

    def _hand_over(self) -> OpRecorder | None:
        """What comes after the update begins before it is told that this is over."""
        run = self._run
        watcher = run.watcher if run is not None else None
        if not isinstance(watcher, RecordingLevel):
            return None
        found = self.policy.ahead(watcher.watch)
        if not isinstance(found, RecordingLevel):
            return None
        self._next = contain(found, self)
        found.look_ahead()
        watcher.hand_over(found)
        return found.ops

    def _settle_update(self) -> None:
        """Something other than an update comes: a run that waited for one is over."""
        run = self._run
        if run is not None and run.closes_on == "U" and self.is_here():
            self.close_run()

    def fail(self, error: BaseException, event: str = "") -> None:
        """An error leaves the outermost call: the run ends with it, if it is one of PyTorch's.

        One of the program's own (a hook's, a callback's) ends it where the run can't go on: no step
        and no backward pass is made again. Of a forward pass something may be used all the same. A
        Ctrl-C ends it in any case, and is no error.

        Args:
            error: what leaves it.
            event: the kind of call; empty: none.
        """
        run = self._run
        if run is None or run.is_call:
            return
        if isinstance(error, KeyboardInterrupt):  # nothing of it is used by what comes then
            run.cut_short = f"the program raised {one_line(error)}"
            self.close_run()
        elif self.ends_run(run, error) or event in ("B", "S"):
            self.close_run(error)
        elif event == "F" and run.closes_on == "F":
            run.cut_short = f"the program raised {one_line(error)}"
            self.close_run()
        elif event == "F" and run.forwards is not None:
            run.forwards.failed(f"the program raised {one_line(error)}")
