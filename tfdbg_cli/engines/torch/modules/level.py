"""Watches a run at the borders of its modules, and looks into one when something bad comes out."""

from __future__ import annotations

import functools
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType
from typing import Any

import torch

from tfdbg_cli.common.interpreter.program_signals import contained, pass_on
from tfdbg_cli.common.interpreter.recursion import ROOM, lift
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.series.history import MeasuredTensor
from tfdbg_cli.engines.base import Capture, Watch
from tfdbg_cli.engines.kit.levels import MODULES
from tfdbg_cli.engines.kit.stacks import Stack, call_frame, take
from tfdbg_cli.engines.torch.around.surrounding import Around, Invocation
from tfdbg_cli.engines.torch.levels import TorchLevel
from tfdbg_cli.engines.torch.modules.calls import Border, Gradient, InnerCall, ModuleCall, alias_of
from tfdbg_cli.engines.torch.modules.checks import (
    GRADIENT,
    INPUT,
    NODE,
    OUTPUT,
    PARAMETER,
    UPDATED,
    WEIGHT,
    Checks,
    Found,
    Stale,
    Words,
)
from tfdbg_cli.engines.torch.modules.dump import ModuleRecords, ModulesDump
from tfdbg_cli.engines.torch.modules.facts import FactsOf
from tfdbg_cli.engines.torch.modules.inside import Insides
from tfdbg_cli.engines.torch.modules.outside_nodes import OutsideNode, mark_end, watch_outside
from tfdbg_cli.engines.torch.modules.replay import Aside, Replayer, ReplayRefusal
from tfdbg_cli.engines.torch.modules.search import Search
from tfdbg_cli.engines.torch.modules.state import version_of
from tfdbg_cli.engines.torch.modules.steps import Steps
from tfdbg_cli.engines.torch.names.scopes import Names
from tfdbg_cli.engines.torch.names.sites import tensors_in
from tfdbg_cli.engines.torch.private import quiet, storage_key
from tfdbg_cli.engines.torch.record.capture_levels import FullLevel
from tfdbg_cli.engines.torch.runs.exact_check import is_nonfinite
from tfdbg_cli.engines.torch.runs.magnitudes import Sizes
from tfdbg_cli.engines.torch.runs.replacing import cannot_replace
from tfdbg_cli.engines.torch.runs.unused import UnusedOps
from tfdbg_cli.engines.torch.values.access import gradient_of

__all__ = ["ModulesLevel"]

# Where something bad was computed.
_UNRECORDED = (
    "what is bad was computed where nothing is recorded, in a module that doesn't return it, or in "
    "a backward pass"
)

_BY_UPDATE = "The update made it, or found it in the optimizer's state: gradients were clean."
_CHANGED = "Gradients became bad between the backward pass and the update."

# Bytes that are copied of what a module gets: at its first call, and if it is known to write.
_MOST_AT_FIRST, _MOST_WRITTEN = 1 << 26, 1 << 22


class ModulesLevel(TorchLevel):
    """Looks at what modules return, at the gradients that they are handed, and at parameters.

    What the program does outside of any module is recorded op by op. When something is bad, the
    outermost call in which that began is made once more with every op recorded, before the
    parameters are updated: see `Replayer`. Nothing is kept of the calls inside of it, and what
    they return isn't looked at where something else tells of it: see `Facts`.

    Args:
        watch: what is awaited.
        names: what things are called.
        parameters: makes those that optimizers update.
        aside: around what is no part of the program.
        excused: events that were bad without anything that the filter is about; is added to.
        spares: recorders of earlier runs, begun again, for what is outside of modules.
        facts: about modules.
        stale: what was bad in earlier runs.
        sizes: gets the largest magnitudes.
        examines: it is of interest whether calls could be made once more, though nothing is bad.
        unused: knows which ops outside of modules needn't be recorded.
        allowance: see `FullLevel`.
    """

    level = MODULES
    names_late = True

    def __init__(
        self,
        watch: Watch,
        names: Names,
        parameters: Callable[[], Sequence[torch.Tensor]],
        aside: Aside,
        excused: set[Any],
        spares: list[FullLevel],
        facts: FactsOf,
        stale: Stale,
        sizes: Sizes,
        examines: bool,
        unused: UnusedOps,
        allowance: int | None = None,
    ) -> None:
        super().__init__(watch)
        self._names = names
        self._parameters = parameters
        self._words = Words(names)
        self._excused = excused
        self._spares = spares
        is_like = bool(spares) and spares[-1].is_like(watch, allowance)
        self._outside = spares.pop() if is_like else FullLevel(watch, names, allowance=allowance)
        self._outside.ops.unused = self._unused = unused
        self._may_renew = False  # that, for the next run
        self._most = _MOST_AT_FIRST if allowance is None else allowance
        self._stale = stale
        self._sizes = sizes
        self._examines = examines
        self._checks = Checks(stale, sizes)
        self._facts = facts
        # Hooks of autograd nodes may live on: they don't keep this.
        self._arrived = functools.partial(_tell, weakref.ref(self), ModulesLevel.arrived)
        self._insides = Insides(self._checks, self._arrived)
        self._calls: list[ModuleCall] = []
        self._replayer = Replayer(watch, names, aside, unused)
        self._search = Search(self._calls, self._replayer, self._words)
        self._open: list[ModuleCall] = []
        self._inner: list[InnerCall] = []  # that are open
        self._counts: dict[int, int] = {}
        self._borders: dict[int, Border] = {}  # by the id of the tensor
        self._phases: list[str] = []
        self._backward: Stack | None = None
        self._losses: list[Callable[[], str]] = []
        self._nodes: list[OutsideNode] = []
        self._inputs: Callable[[], Mapping[str, Any]] = dict
        self._found: list[Found] = []
        self._is_on = self._is_away = False
        self._is_told = False  # there is a dump
        self._made: weakref.ref[ModulesDump] | None = None
        self._steps = Steps(self._outside, self._most)
        self._is_refused = False

    # When it looks.

    def start(self) -> None:
        self._is_on = True
        if not self._outside.can_resume:
            self._outside.start()
            if self._is_away:
                self._outside.pause()
        elif not self._is_away:
            self._outside.resume()

    def stop(self) -> None:
        """Look away; it costs next to nothing."""
        self._is_on = False
        if not self._outside.can_resume:
            self._outside.stop()
        elif not self._is_away:
            self._outside.pause()

    def rest(self) -> None:
        if not self._is_away:
            self._is_away = True
            self._outside.pause()

    def wake(self) -> None:
        if self._is_away and not self._open and (not self._phases or self._steps.is_open):
            self._is_away = False
            if self._is_on:
                self._outside.resume()

    def look_ahead(self) -> None:
        self._outside.look_ahead()

    def begin_run(self) -> None:
        super().begin_run()
        self._sizes.begin(self.kind)
        self._outside.begin_run()

    def discard(self) -> None:
        self._outside.discard()
        self._forget()

    def _forget(self) -> None:
        """Let go of all tensors: hooks of autograd nodes may keep this."""
        for call in self._calls:
            call.forget()
        self._calls, self._open, self._borders = [], [], {}
        for node in self._nodes:
            node.gradients.clear()
        self._nodes = []
        self._insides.forget()
        self._checks.forget()
        self._search.replays.clear()

    # What the program does.

    def enter_module(self, module: Any, arguments: Any = None) -> None:
        """A forward pass may begin here; what it gets is kept."""
        if self._checks.failure is not None:
            raise self._checks.failure
        if "backward" in self._phases:  # a part of it that is computed again
            return
        if self._inner or (self._open and not self._open[-1].is_wrapper):
            call = InnerCall(module, self._open[-1], self._facts(module))
            self._inner.append(call)
            self._insides.enter(call, arguments)
        else:
            self._enter_outermost(module, arguments or ((), {}), sys._getframe(1))

    def _enter_outermost(self, module: Any, arguments: Any, frame: FrameType) -> None:
        parent = self._open[-1] if self._open else None
        if parent is None:
            self.rest()
        count = self._counts.get(id(module), 0)
        self._counts[id(module)] = count + 1
        facts = self._facts(module)
        call = ModuleCall(module, facts, arguments, parent, count, frame)
        for tensor, version in call.tensors:
            border = self._borders.get(id(tensor))
            if border is not None and border.reference() is tensor and border.version == version:
                call.sources.append(border)
            elif parent is None:
                self._outside.ops.use(tensor)
                if tensor.is_floating_point():
                    self._checks.add(INPUT, call, 0, tensor)
        writes = facts.writes
        if writes is not False:
            call.keep(min(self._most, _MOST_AT_FIRST if writes is None else _MOST_WRITTEN))
        if writes:
            for tensor, _ in call.tensors:
                self._outside.holder.before_write(storage_key(tensor))
        outer = self._names.module(parent.module, None, None) if parent is not None else None
        call.is_wrapper = self._names.module(module, frame, outer).is_wrapper
        self._open.append(call)
        self._calls.append(call)
        if parent is None:
            assert call.start is not None
            self._outside.ops.use_memory(call.start.memory())
            self._look_at_weights(call)

    def _look_at_weights(self, call: ModuleCall) -> None:
        """Parameters that others than optimizers have written to may have been bad before."""
        assert call.start is not None
        facts, found = call.facts, call.start.parameters
        is_new = facts.known_writes < 0
        if call.start.writes != facts.known_writes and (is_new or all(p.is_cpu for p in found)):
            facts.known_writes = call.start.writes
            self._checks.add_all(WEIGHT, found, found)

    def leave_module(self, module: Any, output: Any) -> None:
        """What it returns is looked at."""
        if "backward" in self._phases:
            return
        if self._inner:
            self._insides.leave(self._inner.pop(), output)
        else:
            self._leave_outermost(output)

    def _leave_outermost(self, output: Any) -> None:
        self._insides.leave_outermost(output)
        call = self._open.pop()
        call.ended = time.perf_counter_ns()
        has_written, facts = call.has_written(), call.facts
        if has_written and not facts.writes:
            for tensor, version in call.tensors:
                if tensor.is_inference() and version_of(tensor) != version:
                    self._outside.holder.overwritten(storage_key(tensor))
        facts.writes = has_written or bool(facts.writes)
        if isinstance(output, torch.Tensor):
            self._returned(call, 0, output)
        elif output is not None:
            for slot, (_, tensor) in enumerate(tensors_in("", output)):
                self._returned(call, slot, tensor)
        if call.parent is None:
            for border in call.borders.values():
                kept = border.reference()
                if kept is not None:
                    border.kept = alias_of(kept)
                    if kept.grad_fn is not None:
                        mark_end(kept.grad_fn, border)

    def _returned(self, call: ModuleCall, slot: int, tensor: torch.Tensor) -> None:
        version = version_of(tensor)
        last = self._borders.get(id(tensor))
        is_same = last is not None and last.reference() is tensor and last.version == version
        if last is not None and is_same and (version >= 0 or last.call.began > call.began):
            call.borders[slot] = last  # a wrapper returns what its module has returned
            return
        border = Border(call, slot, tensor, version)
        call.borders[slot] = self._borders[id(tensor)] = border
        self._checks.add(OUTPUT, border, slot, tensor)
        node = tensor.grad_fn
        if node is not None:
            node.register_prehook(functools.partial(self._arrived, border, tensor.output_nr))

    def arrived(self, thing: Border | InnerCall, number: int, gradients: Any) -> None:
        """A backward pass has come to what a module has returned.

        Args:
            thing: what that was.
            number: which of the gradients is its.
            gradients: what the autograd node gets that has made it.
        """
        tensor = gradients[number] if number < len(gradients) else None
        if tensor is None:
            return
        if isinstance(thing, Border):
            thing.gradients.append(Gradient(tensor, self._backward))
        self._checks.add(GRADIENT, thing, getattr(thing, "slot", 0), tensor)

    # Backward passes and updates.

    def will_be_partial(self) -> None:
        """The gradients of parameters won't tell of those of what modules return."""
        self._insides.will_be_partial()

    def passed(
        self, node: OutsideNode, gradients: Iterable[torch.Tensor | None], given: Any = None
    ) -> None:
        """A node outside of modules hands gradients on; it was given others."""
        for slot, tensor in enumerate(gradients):
            if tensor is not None:
                node.gradients[slot] = Gradient(tensor, self._backward)
                self._checks.add(NODE, node, slot, tensor)

    def failed(self, error: Exception) -> None:
        """Something went wrong where nobody looks: it is told as soon as somebody does."""
        self._checks.failure = error

    def enter_phase(self, phase: str, owner: Any = None) -> None:
        """Before the parameters change is the time to look."""
        if self._checks.failure is not None:
            raise self._checks.failure
        is_outermost = not self._phases
        if not self._open:
            self.rest()
        if phase == "backward":
            frame = call_frame(sys._getframe(1))
            self._backward = take(frame, None, None)
            is_one = isinstance(owner, torch.Tensor)
            losses = [owner] if is_one else [tensor for _, tensor in tensors_in("", owner)]
            for loss in losses:
                self._outside.ops.hand_over(loss)
                self._losses.append(self._outside.name_later(loss))
            if self._open:  # nobody asks parameters when it is over
                self._insides.will_be_partial()
            if not self._open and "backward" not in self._phases:
                told = functools.partial(_tell, weakref.ref(self), ModulesLevel.passed)
                self._nodes += watch_outside(losses, told)
        elif is_outermost and not self._open:
            self._steps.stack = take(call_frame(sys._getframe(1)), None, None)
            self._look_at_new(owner)
            self._judge()
        self._phases.append(phase)

    def leave_phase(self) -> None:
        """Updated parameters are looked at."""
        phase = self._phases.pop()
        if phase != "backward" and not self._phases:
            # Elsewhere the device would be waited for again: the next run sees what comes of it.
            here = [each for each in self._parameters() if each.is_cpu]
            bad = self._checks.add_all(UPDATED, here, here)
            for call in self._calls:
                if call.start is not None and call.parent is None:
                    call.facts.known_writes = call.start.count_writes()
            is_bad = not self._found and any(map(is_nonfinite, bad))
            around = self._replayer.around(self._outside) if is_bad else None
            if refusal := self._steps.end(around):
                self._search.refusals.append(refusal)

    # Steps of optimizers.

    def _look_at_new(self, optimizer: Any) -> None:
        """Parameters that no module has, and that nobody has looked at before."""
        groups = getattr(optimizer, "param_groups", ())
        found = [each for group in groups for each in group["params"]]
        if self._stale.is_new(optimizer, found):
            known = {id(p) for call in self._calls if call.start for p in call.start.parameters}
            others = [each for each in found if id(each) not in known]
            self._checks.add_all(WEIGHT, others, others)

    def make_step(self, optimizer: Any, call: Invocation) -> Around:
        """Make a step, so that it can be made once more if something bad comes of it.

        Args:
            optimizer: whose step it is.
            call: makes it.
        """
        if self._open or "backward" in self._phases:
            return (yield call)
        return (yield from self._steps.make(optimizer, call, self.wake, self.rest))

    def backward_done(self, is_grad: bool, value: Any = None) -> None:
        """Gradients of parameters are looked at."""
        if self._open or "backward" in self._phases:
            return
        if is_grad:
            found = [tensor for _, tensor in tensors_in("", value)]
            self._checks.add_all(PARAMETER, found, found)
        else:
            leaves = {id(each): each for each in (*self._leaves(), *self._insides.told())}
            found, gradients = [], []
            for each in leaves.values():
                gradient = gradient_of(each)
                if gradient is not None:
                    found.append(each)
                    gradients.append(gradient)
            self._checks.add_all(PARAMETER, found, gradients)
        if self._phases or self.kind != "training run":
            self._judge()

    def _leaves(self) -> Iterable[torch.Tensor]:
        """The parameters that a backward pass may be about."""
        if found := self._parameters():
            return found
        roots = {id(call.module): call.module for call in self._calls if call.parent is None}
        return [each for root in roots.values() for each in root.parameters()]

    # Looking into a module.

    def refuse(self, reason: str) -> None:
        """What the run gets is bad, and could not be made once more."""
        self._search.refusals.append(reason)
        self._is_refused = True

    def _judge(self) -> None:
        """Make calls once more if something is bad; parameters are what they were."""
        if not self._checks.has_news:
            return
        if self._examines:
            self._examine()
        self._insides.look_at_averages()
        outside = self._outside.checked() if self._outside.ops.count else None
        bad = self._checks.bad(outside)
        if not bad:
            return
        known = set(self._found)
        found = [item for item in bad if item not in known]
        if self._excused.issuperset(map(self._key, found)):
            return  # else what is excused may be where the others began, and is looked at, too
        self._found += found
        if any(replay.passed for replay in self._search.replays):
            return
        # Read with the others just now: a device is waited for once.
        leaks = outside is not None and any(each.is_made_inside for each, _ in outside.bad())
        is_on = self._is_on
        self.stop()
        self._outside.stop()
        try:
            self._search.look(found)
            self._search.look_on()
            if leaks:
                self._search.refusals.append(_UNRECORDED)
            self._found = [item for item in self._found if item[0] not in self._search.unread]
            self._outside.holder.settle()  # the update isn't seen
        finally:
            if is_on:
                self.start()

    def _key(self, item: Found) -> Any:
        """The same in each run: whoever masks by infinities hasn't masked a nan."""
        return (*self._words.key(*item), item in self._checks.with_nan)

    def _examine(self) -> None:
        """Find out whether the calls could be made once more."""
        self._examines = False
        for call in self._calls:
            try:
                self._replayer.check(call)
            except ReplayRefusal as refusal:
                self.refusal = f"{self._words.label(call.chain)}: {refusal}"
                return

    # What came of it.

    def measured(self) -> tuple[Sequence[MeasuredTensor], Iterable[float]]:
        return self._sizes.row()

    def name_inputs(self, tensors: Callable[[], Mapping[str, Any]]) -> None:
        """For when somebody looks."""
        self._inputs = tensors

    def _read(self) -> Iterable[tuple[torch.Tensor, int]]:
        """What the outermost calls of modules have got from elsewhere and is still so; and when."""
        for call in self._calls:
            known = {id(border.reference()) for border in call.sources}
            for tensor, version in call.tensors if call.parent is None else ():
                if id(tensor) not in known and version_of(tensor) == version:
                    yield tensor, call.began

    def name_outputs(self, tensors: Mapping[str, Any]) -> None:
        """Those that ops outside of modules have made."""
        known = {name: each for name, each in tensors.items() if self._outside.tensor_name(each)}
        self._outside.name_outputs(known)

    def tensor_name(self, tensor: Any) -> str:
        border = self._borders.get(id(tensor))
        if border is None or border.reference() is not tensor or border.tensor() is not tensor:
            return self._outside.tensor_name(tensor)
        dump = self._made() if self._made is not None else None
        return dump.border_name(border) if dump is not None else ""

    def failed_op(self, error: BaseException) -> str:
        return self._outside.failed_op(error)

    def progress(self) -> str:
        if self._open:
            chain = self._open[-1].chain
            return f"in {self._words.label([*chain, *(each.module for each in self._inner[-1:])])}"
        return self._outside.progress()

    def finish(self, error: BaseException | None) -> Capture:
        self._judge()
        self.is_bare = not self._calls
        self.is_regular = not self._search.replays and not self._search.refusals
        if self._found or error is not None:
            self._outside.name_inputs(self._inputs)
            self._outside.name_used(self._read())
        outside = self._finish_outside(error)
        self.is_large = self._outside.is_large
        is_bad = bool(self._found) or outside.dump is not None
        capture = Capture(None, None, error, gap=outside.gap, replaced=cannot_replace)
        if error is not None or is_bad:
            dump = self._dump(outside)
            is_hit = error is not None or self._passes(dump)
            if is_hit:
                capture.dump = dump
                if self._search.refusals:
                    self.refusal = self._search.refusals[0]
            else:
                # What was seen is there, but not what the filter is about.
                self._excused.update(map(self._key, self._found))
                capture.make_dump = lambda: dump
        else:
            is_hit = False
            capture.make_dump = functools.partial(self._dump, outside)
        if error is None:
            capture.filter_passed = is_hit
            capture.progress_text = f"none of {self._count()}"
            if self._calls and not is_hit:
                capture.only = "what modules return, their gradients and parameters"
        self.seconds = time.perf_counter() - self._began
        return capture

    def _finish_outside(self, error: BaseException | None) -> Capture:
        if error is None and not self._found and self._outside.can_renew():
            self._may_renew = True
            make_dump = self._dump_outside if self._outside.ops.count else None
            return Capture(None, None, make_dump=make_dump)
        self._outside.holder.look_through()
        return self._outside.finish(error)

    def _dump_outside(self) -> MemoryDump:
        """Of what was recorded outside of modules, which is clean."""
        self._outside.holder.look_through()
        capture = self._outside.finish(None)
        assert capture.make_dump is not None
        return capture.make_dump()

    def close(self) -> None:
        if not self._is_told:  # else the dump has what is kept
            self._forget()
        if self._may_renew and self._is_told:
            self._outside.discard()
        elif self._may_renew:
            self._outside.renew()
            self._spares.append(self._outside)
        for call in self._calls:
            call.release()

    def _count(self) -> str:
        ops = self._outside.ops.count
        calls = "1 module call" if len(self._calls) == 1 else f"{len(self._calls)} module calls"
        if not ops:
            return calls
        return f"{calls}, {ops} {'op' if ops == 1 else 'ops'} outside of modules"

    def _passes(self, dump: MemoryDump) -> bool:
        if self.watch.predicate is None or dump.suspects is None:
            return bool(self._found)
        bad = (datum for datum in dump.data() if datum.tensor_name in dump.suspects)
        with contained:  # whoever looks at the dump tells of it
            return self.watch.passes(dump, bad)
        return True

    def _dump(self, outside: Capture) -> MemoryDump:
        part = outside.dump
        if part is None:
            part = outside.make_dump() if outside.make_dump is not None else None
        kept = self._checks.kept
        seen = ModuleRecords(
            self._calls,
            self._names,
            [(*event, slot) for event, slot in self._found],
            {at: kept[item] for at, item in enumerate(self._found) if item in kept},
            self._losses,
            self._nodes,
            self._outside.made_node,
            self._outside.tensor_name,
            self._steps.stack,
            self._steps.remade,
            self._unused.read,
        )
        self._is_told = True
        dump = ModulesDump(seen, part, outside.dump is not None, [*self._search.replays])
        self._made = weakref.ref(dump)
        dump.kept = self._words_of_kept()
        dump.warnings += self._notes()
        return dump

    def _words_of_kept(self) -> str:
        again = ", ".join(
            dict.fromkeys(
                [self._words.label(each.call.chain) for each in self._search.replays]
                + ["the update"] * bool(self._steps.remade)
            )
        )
        said = f"Watched: {self._count()}" + (f"; replayed op by op: {again}" if again else "")
        return f"{said} (`run` keeps the values of all ops)."

    def _notes(self) -> Iterable[str]:
        for replay in self._search.replays:
            label = self._words.label(replay.call.chain)
            if replay.differs:
                yield f"The replay of {label} returned something else."
            if replay.is_late:
                yield (
                    f"The replay of {label} writes to a tensor that isn't a buffer of its modules: "
                    "it began with what the call had left there."
                )
        yield from self._steps.warnings
        is_updated = self._found and all(event.kind == UPDATED for event, _ in self._found)
        if is_updated and not self._steps.remade:
            gradients = (gradient_of(event.thing) for event, _ in self._found)
            is_late = any(each is not None and is_nonfinite(each) for each in gradients)
            yield _CHANGED if is_late else _BY_UPDATE
        passed = any(replay.passed for replay in self._search.replays)
        if self._search.refusals and (self._is_refused or not passed):
            yield f"Not replayed: {self._search.refusals[0]}. The next runs are watched op by op."


def _tell(reference: weakref.ref[ModulesLevel], told: Callable[..., None], *what: Any) -> None:
    """A hook of an autograd node: it must neither raise nor return anything.

    Args:
        reference: to the level that is told; it may be gone.
        told: its method.
        what: what that gets.
    """
    level = reference()
    if level is None:
        return
    lift(ROOM)
    try:
        with quiet():
            told(level, *what)
    except Exception as error:
        pass_on(error)
        level.failed(error)
    finally:
        lift(-ROOM)
