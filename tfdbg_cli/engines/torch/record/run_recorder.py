"""Records the ops of one run of a PyTorch program, and the values they make."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

import torch

from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.kit.clock import epoch
from tfdbg_cli.engines.kit.stacks import Stack
from tfdbg_cli.engines.kit.watch_matcher import WatchMatcher
from tfdbg_cli.engines.torch.around.compiled import OpaqueMode
from tfdbg_cli.engines.torch.around.expanding import ExpandingMode
from tfdbg_cli.engines.torch.around.process_patches import PROCESS_PATCHES
from tfdbg_cli.engines.torch.levels import TorchLevel
from tfdbg_cli.engines.torch.modes import (
    insert_function_mode,
    insert_mode,
    is_inserted,
    remove_function_mode,
    remove_mode,
    renew_mode,
)
from tfdbg_cli.engines.torch.names.contexts import OpContext, ThreadState
from tfdbg_cli.engines.torch.names.leaves import named_tensors
from tfdbg_cli.engines.torch.names.optimizers import Updates
from tfdbg_cli.engines.torch.names.scopes import ModuleName, Names
from tfdbg_cli.engines.torch.private import (
    current_node,
    functions_seen,
    modes_below,
    quiet,
    unobserved,
)
from tfdbg_cli.engines.torch.record.assembly import assemble
from tfdbg_cli.engines.torch.record.capture import CaptureMode
from tfdbg_cli.engines.torch.record.generated import know_graph
from tfdbg_cli.engines.torch.record.holding import HeldValue, Holder
from tfdbg_cli.engines.torch.record.op_record import (
    BACKWARD,
    FORWARD,
    OPTIMIZER,
    RECOMPUTE,
    OpOutput,
    OpRecord,
)
from tfdbg_cli.engines.torch.record.op_recorder import OpRecorder
from tfdbg_cli.engines.torch.record.quick_ops import QuickOps
from tfdbg_cli.engines.torch.traits import TRAITS

__all__ = ["RunRecorder"]


class RunRecorder(TorchLevel):
    """Records the ops of one run.

    What the program writes behind PyTorch's back, through ``tensor.numpy()`` or a pointer, is not
    seen: a value that is held by reference then shows what was written.

    Args:
        watch: which values are held; every op is recorded whatever it says.
        hold: whether values are held at all.
        limit: bytes of held values in memory; beyond it the oldest go to disk. ``None``: no limit.
        spill_root: makes the folder in which they are kept there; default: a temporary one. They
            are removed when the dump is closed.
        names: what things are called, which outlives runs.
        check: has ``add(record, slot, tensor)``, called for each output as it is made.
        allowance, precious: see `Holder`.
        make_ops: the class of `ops`.

    Attributes:
        ops: what was recorded.
        holder: of the values.
        is_on: between `start` and `stop`.
    """

    def __init__(
        self,
        watch: Watch,
        hold: bool = True,
        limit: int | None = None,
        spill_root: Callable[[], str] | None = None,
        names: Names | None = None,
        check: Any = None,
        allowance: int | None = None,
        precious: Callable[[], Iterable[HeldValue | None]] = tuple,
        make_ops: type[OpRecorder] = QuickOps,
    ) -> None:
        super().__init__(watch)
        self._names = names if names is not None else Names()
        wanted, known = WatchMatcher(watch), self._names
        # Views that were asked for are held like the rest.
        self._has_views = not wanted.names_ops

        def make() -> tuple[Holder, OpRecorder]:
            holder = Holder(limit, spill_root, PROCESS_PATCHES.clones, allowance)
            holder.precious = precious
            return holder, make_ops(known, wanted, holder if hold else None, check)

        self._make = make
        self.holder, self.ops = make()
        self._ways = is_opaque, expands = PROCESS_PATCHES.ways
        self._mode = OpaqueMode(self.ops) if is_opaque else CaptureMode(self.ops)
        self._expanding = ExpandingMode() if expands else None
        self._guests: list[ThreadState] = []
        self._is_followed = False  # threads were started that may come
        self._notes: list[str] = []
        self.is_on = False
        self._thread = threading.get_ident()
        self._calls: dict[str, int] = {}
        # From the performance counter to the time of day, in nanoseconds.
        self._epoch = epoch()

    # When it looks.

    def start(self) -> None:
        """Record what this thread does; modes of the program go on above."""
        self.is_on = True
        self._thread = threading.get_ident()
        for guest in self._guests:
            guest.is_busy = False
        PROCESS_PATCHES.enter(self)
        self.ops.contexts.local.state.begin()
        self._insert()

    def stop(self) -> None:
        """Don't record any more. `start` may follow, unless it was called on another thread."""
        self.is_on = False
        if threading.get_ident() != self._thread:
            self._mode.close()  # nobody takes them off there
        for guest in self._guests:
            guest.is_busy = True
        self._remove()
        PROCESS_PATCHES.leave(self)

    @property
    def can_resume(self) -> bool:
        """Whether it was started on this thread, and nothing else was recorded since."""
        return self._thread == threading.get_ident() and PROCESS_PATCHES.recorder is self

    def pause(self) -> None:
        """Don't record for a while, at next to no cost: `resume`, `start` or `end` follows.

        The program goes on meanwhile, with compiled code as it is compiled.
        """
        self.is_on = False
        for guest in self._guests:
            guest.is_busy = True
        self._remove()
        if PROCESS_PATCHES.recorder is self:
            PROCESS_PATCHES.compiled.turn(is_on=False)

    def resume(self) -> None:
        """Go on recording, on the same thread."""
        self.is_on = True
        for guest in self._guests:
            guest.is_busy = False
        if PROCESS_PATCHES.recorder is self:
            PROCESS_PATCHES.compiled.turn(is_on=True)
        self.ops.contexts.local.state.begin()
        self._insert()

    def end(self) -> None:
        """Don't record any more, for good.

        A thread that the program has started may have the mode on for as long as it lives, and must
        not be the last to have what was recorded: it would let go of tensors at its end, which
        aborts the process if the interpreter is ending, too.
        """
        self.stop()
        self._mode.close()

    def discard(self) -> None:
        self.end()

    def renew(self) -> None:
        """Begin again as if nothing had been recorded; all that was held is let go of."""
        self.holder, self.ops = self._make()
        self._mode.tell(self.ops)
        self._epoch = epoch()

    def _insert(self) -> None:
        if self._expanding is not None:
            insert_function_mode(self._expanding)
        insert_mode(self._mode)

    def _remove(self) -> None:
        if modes_below() and remove_mode(self._mode):
            PROCESS_PATCHES.keep_key()
        if self._expanding is not None:
            remove_function_mode(self._expanding)

    @contextlib.contextmanager
    def unseen(self) -> Iterator[None]:
        """What is done within by PyTorch itself isn't recorded."""
        PROCESS_PATCHES.keep_key()
        remove_mode(self._mode)
        try:
            yield
        finally:
            self.ops.contexts.local.state.begin()
            insert_mode(self._mode)

    @property
    def sees_alone(self) -> bool:
        """Whether nobody else looks at ops, neither the program nor others of its threads."""
        alone = modes_below() == 1 and is_inserted(self._mode)
        return alone and not self._guests and not functions_seen()

    def hand_over(self, other: RunRecorder) -> None:
        """Another one is told of what comes, though it hasn't been started."""
        # The op that is about to be done may have its autograd node already.
        seen = self.ops.contexts.local.state.last_sequence
        other.ops.contexts.local.state.last_sequence = seen
        self._mode.tell(other.ops)

    def join(self, place: OpContext | None = None) -> Callable[[], None]:
        """Record what another thread does, the calling one, until what is returned is called.

        That doesn't keep the recorder.

        Args:
            place: what `here` gave on the thread that started this one.
        """
        if is_inserted(self._mode):
            return lambda: None
        state = self.ops.contexts.local.state
        state.begin()
        if place is not None:
            state.push(place)
        self._guests.append(state)
        self._insert()
        mode, expanding = self._mode, self._expanding

        def leave() -> None:
            remove_mode(mode)
            if expanding is not None:
                remove_function_mode(expanding)

        return leave

    def here(self) -> OpContext | None:
        """Where this thread is, for another thread that works for it."""
        self._is_followed = True
        state = self.ops.contexts.local.state
        top = state.top
        if top is None:
            return None
        context = OpContext(top.phase, top.prefix, None, top.outer, -1)
        context.module = top.module
        return context

    def note(self, text: str) -> None:
        """Something about the run that is to be said with its dump."""
        if text not in self._notes:
            self._notes.append(text)

    def look_ahead(self) -> None:
        """No run has begun yet: of a long time before it only the latest part is kept."""
        self.ops.look_ahead()

    def begin_run(self) -> None:
        """The run begins here: of what was recorded before, only what it uses belongs to it."""
        super().begin_run()
        self._calls.clear()
        self.ops.begin_run()

    # What the program does.

    def enter_module(self, module: torch.nn.Module, arguments: Any = None) -> None:
        """Names are under the module from now on."""
        state = self.ops.contexts.local.state
        caller = next((each.module for each in reversed(state.contexts) if each.module), None)
        self._enter(state, module, caller, sys._getframe(1))

    def enter_again(
        self, modules: Sequence[torch.nn.Module], count: int, outer: Stack | None
    ) -> None:
        """A call of a module is made once more, on its own.

        Args:
            modules: those whose calls led to it, outermost first, and itself.
            count: how many calls of it the run had before.
            outer: where it was called the first time.
        """
        caller = None
        for module in modules[:-1]:
            name = self._names.module(module, None, caller)
            name.called_by(caller)
            caller = name
        path = self._names.module(modules[-1], None, caller).path
        if count:
            self._calls[path] = count
        state = self.ops.contexts.local.state
        self._enter(state, modules[-1], caller, sys._getframe(1), outer)

    def _enter(
        self,
        state: ThreadState,
        module: torch.nn.Module,
        caller: ModuleName | None,
        frame: FrameType,
        outer: Stack | None = None,
    ) -> None:
        renew_mode(self._mode)
        know_graph(module)
        contexts = self.ops.contexts
        name = self._names.module(module, frame, caller)
        name.called_by(caller)
        phase = RECOMPUTE if self._is_again(state) else FORWARD
        start = "recompute/" if phase == RECOMPUTE else ""
        path = name.path
        if not name.is_wrapper:
            count = self._calls.get(start + path, 0)
            self._calls[start + path] = count + 1
            if count and path:
                path = f"{path}-{count}"
        prefix = f"{start}{path}/" if path else start
        context = contexts.open(state, phase, prefix, frame, outer)
        context.module = name
        state.push(context)

    def _is_again(self, state: ThreadState) -> bool:
        """Whether a module is called by a backward pass: what a checkpoint computes again."""
        if current_node() is None:
            return False
        return not any(each.updates is not None for each in state.contexts)

    def leave_module(self, module: torch.nn.Module, output: Any = None) -> None:
        """The call returns, or (with ``None``) raises."""
        state = self.ops.contexts.local.state
        if any(_is_of(context, module) for context in state.contexts):
            while (left := state.pop()) is not None and not _is_of(left, module):
                pass
            if not state.contexts:
                self._hand_over(output)

    def enter_phase(self, phase: str, owner: Any = None, outer: Stack | None = None) -> None:
        """A backward pass or a step begins.

        Args:
            phase: ``backward``, ``optimizer``, ``step``.
            owner: the optimizer, or what else makes the step; the tensors that a backward pass
                begins with.
            outer: where it was called the first time, if this isn't it.
        """
        renew_mode(self._mode)
        contexts = self.ops.contexts
        state = contexts.local.state
        frame = sys._getframe(1)
        if phase == BACKWARD:
            self._hand_over(owner)
            state.push(contexts.open(state, BACKWARD, "gradients/", frame, outer))
            return
        name = self._names.optimizer(owner) if owner is not None else phase
        context = contexts.open(state, OPTIMIZER, f"optimizer/{name}/", frame, outer)
        with quiet():
            context.updates = Updates(owner)
        state.push(context)

    def _hand_over(self, value: Any) -> None:
        """The tensors in a value are results of the run, whatever the program does with them."""
        with quiet():
            for _, tensor in named_tensors("", value):
                self.ops.hand_over(tensor)

    def leave_phase(self) -> None:
        """It ends."""
        state = self.ops.contexts.local.state
        while (left := state.pop()) is not None and left.module is not None:
            pass

    def name_inputs(self, tensors: Callable[[], Mapping[str, Any]]) -> None:
        """Say what the arguments of the run are called.

        Args:
            tensors: gives name -> tensor, or nested lists and dictionaries of them.
        """
        given = tensors()
        with unobserved():
            for name, value in given.items():
                for full, tensor in named_tensors(name, value):
                    self.ops.name_input(full, tensor)

    def name_used(self, tensors: Iterable[tuple[torch.Tensor, int]]) -> None:
        """Give names to what was read where no op is recorded, and when, in nanoseconds."""
        with unobserved():
            for tensor, when in tensors:
                self.ops.name_used(tensor, when)

    def name_outputs(self, tensors: Mapping[str, Any]) -> None:
        """Say what the program calls tensors at the end of the run."""
        self.ops.describe()
        for name, value in tensors.items():
            for full, tensor in named_tensors(name, value):
                output = self.ops.find(tensor)
                if output is not None:
                    record = output.record
                    record.aliases = [*(record.aliases or ()), (output.slot, full)]

    def tensor_name(self, tensor: torch.Tensor) -> str:
        """``node:slot`` of a tensor; empty if the run doesn't know it."""
        return self.name_later(tensor)()

    def name_later(self, tensor: torch.Tensor) -> Callable[[], str]:
        """Gives ``node:slot`` of what a tensor is now."""
        with unobserved():
            output = self.ops.find(tensor)
        return functools.partial(self._name_of, output)

    def _name_of(self, output: OpOutput | None) -> str:
        # What was made before the run, and isn't read in it, has a name of that time.
        if output is None or not output.record.is_adopted:
            return ""
        self.ops.describe()
        return output.name

    def made_node(self, sequence: int) -> str:
        """The op that made an autograd node on this thread; empty: none that was recorded."""
        self.ops.describe()
        record = self.ops.contexts.local.state.forward.get(sequence)
        return record.name if record is not None else ""

    # What came of it.

    def so_far(self, is_left_out: Callable[[OpRecord], bool]) -> MemoryDump:
        """What was recorded up to now, as a dump that stays as it is; values are shared.

        Args:
            is_left_out: of a record: whether it is not to be there.
        """
        records = [record for record in self.ops.records if not is_left_out(record)]
        troubles = [*self._notes, *self.ops.troubles]
        return assemble(
            records, self.holder, self._epoch, troubles, has_views=self._has_views, is_part=True
        )

    def make_dump(self) -> MemoryDump:
        """The run as a dump; after `stop`."""
        self.ops.contexts.clear()
        if self._expanding is not None:
            self._notes += self._expanding.notes()
        self._mode.close()
        ops = self.ops
        with unobserved():
            ops.finish()
        troubles = [*self._notes, *ops.troubles]
        dump = assemble(ops.records, self.holder, self._epoch, troubles, has_views=self._has_views)
        dump.set_run_info(RunInfo(engine=TRAITS.name, results=ops.results()))
        return dump


def _is_of(context: OpContext, module: torch.nn.Module) -> bool:
    return context.module is not None and context.module.reference() is module
