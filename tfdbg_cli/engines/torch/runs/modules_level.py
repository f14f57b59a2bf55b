"""Watches a run at the borders of its modules, and looks into one when something bad comes out."""

from __future__ import annotations

import functools
import re
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec

import torch

from tfdbg_cli.common.program_signals import pass_on
from tfdbg_cli.dumps.dump import bound
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import Capture, Watch
from tfdbg_cli.engines.kit.levels import MODULES, CaptureLevel
from tfdbg_cli.engines.kit.stacks import Stack, call_frame, take
from tfdbg_cli.engines.torch.names.sites import tensors_in
from tfdbg_cli.engines.torch.private import functions_seen, quiet
from tfdbg_cli.engines.torch.record.capture_levels import FullLevel
from tfdbg_cli.engines.torch.record.run_recorder import Names
from tfdbg_cli.engines.torch.runs.exact_check import Verdicts, is_clean
from tfdbg_cli.engines.torch.runs.module_calls import (
    Border,
    Gradient,
    Memory,
    ModuleCall,
    version_of,
)
from tfdbg_cli.engines.torch.runs.module_search import (
    GRADIENT,
    INPUT,
    NODE,
    OUTPUT,
    PARAMETER,
    UPDATED,
    Event,
    Found,
    Search,
    Words,
)
from tfdbg_cli.engines.torch.runs.module_state import Start
from tfdbg_cli.engines.torch.runs.modules_dump import ModulesDump, Seen
from tfdbg_cli.engines.torch.runs.outside_nodes import OutsideNode, watch_outside
from tfdbg_cli.engines.torch.runs.replay import Aside, Replayer

__all__ = ["ModulesLevel"]


_P = ParamSpec("_P")


def _unseen(method: Callable[_P, None]) -> Callable[_P, None]:
    """Function modes of the program don't see what a method asks of tensors."""

    @functools.wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> None:
        if functions_seen():
            with quiet():
                method(*args, **kwargs)
        else:
            method(*args, **kwargs)

    return call


class ModulesLevel(CaptureLevel):
    """Looks at what modules return, at the gradients that they are handed, and at parameters.

    What the program does outside of any module is recorded op by op. When something is bad, the
    innermost call in which that began is made once more with every op recorded, before the
    parameters are updated: see `Replayer`.

    Args:
        watch: what is awaited.
        names: what things are called.
        parameters: makes those that optimizers update.
        aside: around what is no part of the program.
        excused: events that were bad without anything that the filter is about; is added to.
        spares: recorders of earlier runs that have seen no op, for what is outside of modules.
    """

    level = MODULES
    names_late = True

    def __init__(
        self,
        watch: Watch,
        names: Names,
        parameters: Callable[[], Iterable[torch.Tensor]],
        aside: Aside,
        excused: set[str],
        spares: list[FullLevel],
    ) -> None:
        super().__init__(watch)
        self._names = names
        self._parameters = parameters
        self._words = Words(names)
        self._excused = excused
        self._spares = spares
        is_alike = bool(spares) and spares[-1].watch == watch
        self._outside = spares.pop() if is_alike else FullLevel(watch, names)
        self._verdicts: Verdicts[Event] = Verdicts()
        self._memory = Memory(watch.limit)
        self._calls: list[ModuleCall] = []
        self._search = Search(self._calls, Replayer(watch, names, aside), self._words)
        self._open: list[ModuleCall] = []
        self._counts: dict[int, int] = {}
        self._borders: dict[int, Border] = {}  # by the id of the tensor
        self._phases: list[str] = []
        self._backward: Stack | None = None
        self._losses: list[weakref.ref[torch.Tensor]] = []
        self._nodes: list[OutsideNode] = []
        self._seen_since = False  # something that nobody has judged
        self._inputs: Callable[[], Mapping[str, Any]] = dict
        self._found: list[Found] = []
        self._failure: Exception | None = None
        self._is_on = self._is_away = False
        self._is_told = False  # there is a dump

    # When it looks.

    def start(self) -> None:
        self._is_on = True
        if not self._outside.recorder.can_resume:
            self._outside.start()
            if self._is_away:
                self._outside.recorder.pause()
        elif not self._is_away:
            self._outside.resume()

    def stop(self) -> None:
        """Look away; it costs next to nothing."""
        self._is_on = False
        if not self._outside.recorder.can_resume:
            self._outside.stop()
        elif not self._is_away:
            self._outside.recorder.pause()

    def _look_away(self) -> None:
        """What comes is no work of the program's own code outside of modules."""
        if not self._is_away:
            self._is_away = True
            self._outside.recorder.pause()

    def _look_again(self) -> None:
        """It goes on."""
        if self._is_away:
            self._is_away = False
            self._outside.resume()

    def look_ahead(self) -> None:
        self._outside.look_ahead()

    def begin_run(self) -> None:
        super().begin_run()
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
        self._search.replays.clear()

    # What the program does.

    @_unseen
    def enter_module(self, module: Any, arguments: Any = None) -> None:
        """A forward pass may begin here; what it gets is kept."""
        if self._failure is not None:
            raise self._failure
        if "backward" in self._phases:  # a part of it that is computed again
            return
        parent = self._open[-1] if self._open else None
        frame = sys._getframe(1)
        if parent is None:
            self._look_away()
        count = self._counts.get(id(module), 0)
        self._counts[id(module)] = count + 1
        call = ModuleCall(module, arguments or ((), {}), parent, count, frame)
        for tensor, version in call.tensors:
            border = self._borders.get(id(tensor))
            if border is not None and border.reference() is tensor and border.version == version:
                call.sources.append(border)
            elif parent is not None:
                call.is_fed = True
            elif tensor.is_floating_point():
                self._add(INPUT, call, 0, tensor)
        if parent is None:
            self._names.module(module, frame, None)
            call.start = Start(module)
        self._open.append(call)
        self._calls.append(call)

    @_unseen
    def leave_module(self, module: Any, output: Any) -> None:
        """What it returns is looked at."""
        if "backward" in self._phases:
            return
        call = self._open.pop()
        call.frame = None
        call.ended = time.perf_counter_ns()
        if isinstance(output, torch.Tensor):
            self._returned(call, 0, output)
        elif output is not None:
            for slot, (_, tensor) in enumerate(tensors_in("", output)):
                self._returned(call, slot, tensor)
        if call.parent is None:
            for border in call.borders.values():
                border.kept = kept = border.reference()
                border.node = kept.grad_fn if kept is not None else None
            self._look_again()
        elif not self._is_root(call):
            self._memory.keep_call(call)

    def _is_root(self, call: ModuleCall) -> bool:
        """Whether a call is the outermost one of a model, wrappers apart."""
        parent = call.parent
        if parent is None:
            return True
        return parent.parent is None and self._names.module(parent.module, None, None).is_wrapper

    def _returned(self, call: ModuleCall, slot: int, tensor: torch.Tensor) -> None:
        version = version_of(tensor)
        last = self._borders.get(id(tensor))
        if last is not None and last.reference() is tensor and last.version == version:
            call.borders[slot] = last  # a container returns what its last part has returned
            return
        border = Border(call, slot, tensor, version)
        call.borders[slot] = self._borders[id(tensor)] = border
        self._add(OUTPUT, border, slot, tensor)
        node = tensor.grad_fn
        if node is not None:
            arrived = functools.partial(_arrived, weakref.ref(self), border, tensor.output_nr)
            node.register_prehook(arrived)

    @_unseen
    def arrived(self, border: Border, tensor: torch.Tensor) -> None:
        """The gradient of a tensor is known."""
        gradient = Gradient(tensor, self._backward)
        border.gradients.append(gradient)
        self._add(GRADIENT, border, border.slot, tensor)
        if not self._is_root(border.call):
            self._memory.keep_gradient(gradient)

    @_unseen
    def passed(self, node: OutsideNode, gradients: Iterable[torch.Tensor | None]) -> None:
        """A node outside of modules hands gradients on."""
        for slot, tensor in enumerate(gradients):
            if tensor is not None:
                node.gradients[slot] = gradient = Gradient(tensor, self._backward)
                self._memory.keep_gradient(gradient)
                self._add(NODE, node, slot, tensor)

    def failed(self, error: Exception) -> None:
        """Something went wrong where nobody looks: it is told as soon as somebody does."""
        self._failure = error

    @_unseen
    def enter_phase(self, phase: str, owner: Any = None) -> None:
        """Before the parameters change is the time to look."""
        if self._failure is not None:
            raise self._failure
        is_outermost = not self._phases
        if not self._open:
            self._look_away()
        if phase == "backward":
            frame = call_frame(sys._getframe(1))
            self._backward = take(frame, None, None)
            losses = [tensor for _, tensor in tensors_in("", owner)]
            self._losses += map(weakref.ref, losses)
            if not self._open and "backward" not in self._phases:
                told = functools.partial(_passed, weakref.ref(self))
                roots = [call for call in self._calls if call.parent is None]
                ends = [border for call in roots for border in call.borders.values()]
                self._nodes += watch_outside(losses, ends, told)
        elif is_outermost and not self._open:
            self._judge()
        self._phases.append(phase)

    @_unseen
    def leave_phase(self) -> None:
        """Updated parameters are looked at."""
        phase = self._phases.pop()
        if phase != "backward" and not self._phases:
            # Elsewhere the device would be waited for again: the next run sees what comes of it.
            here = (each for each in self._parameters() if each.is_cpu)
            self._look_at_all(UPDATED, ((each, each) for each in here))
        if phase != "backward" and not self._phases and not self._open:
            self._look_again()  # after a backward pass that comes later

    @_unseen
    def backward_done(self, is_grad: bool, value: Any = None) -> None:
        """Gradients of parameters are looked at."""
        if self._open or "backward" in self._phases:
            return
        if is_grad:
            found = [tensor for _, tensor in tensors_in("", value)]
            self._look_at_all(PARAMETER, ((tensor, tensor) for tensor in found))
        else:
            pairs = ((each, each.grad) for each in self._leaves())
            self._look_at_all(PARAMETER, ((p, g) for p, g in pairs if g is not None))
        if self._phases or self.kind != "training run":
            self._judge()
        if not self._phases:
            self._look_again()

    def _leaves(self) -> Iterable[torch.Tensor]:
        """The parameters that a backward pass may be about."""
        found = {id(each): each for each in self._parameters()}
        if not found:
            roots = {id(call.module): call.module for call in self._calls if call.parent is None}
            for root in roots.values():
                found.update((id(each), each) for each in root.parameters())
        return found.values()

    def _look_at_all(self, kind: str, pairs: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
        with quiet(), torch.no_grad():
            for thing, tensor in pairs:
                self._add(kind, thing, 0, tensor)

    def _add(self, kind: str, thing: Any, slot: int, tensor: torch.Tensor) -> None:
        self._seen_since = True
        if not is_clean(tensor):
            self._verdicts.add(Event(kind, thing, time.perf_counter_ns()), slot, tensor)

    # Looking into a module.

    def _judge(self) -> None:
        """Make calls once more if something is bad; parameters are what they were."""
        if not self._seen_since:
            return
        self._seen_since = False
        known = set(self._found)
        found = [item for item in self._verdicts.bad() if item not in known]
        found = [item for item in found if self._words.describe(*item) not in self._excused]
        self._found += found
        if not found or any(replay.passed for replay in self._search.replays):
            return
        is_on = self._is_on
        self.stop()
        self._outside.stop()
        try:
            self._search.look(found)
            self._outside.recorder.holder.settle()  # the update isn't seen
        finally:
            if is_on:
                self.start()

    # What came of it.

    def name_inputs(self, tensors: Callable[[], Mapping[str, Any]]) -> None:
        """For when somebody looks."""
        self._inputs = tensors

    def name_outputs(self, tensors: Mapping[str, Any]) -> None:
        """Those that ops outside of modules have made."""
        known = {name: each for name, each in tensors.items() if self._outside.tensor_name(each)}
        self._outside.name_outputs(known)

    def tensor_name(self, tensor: Any) -> str:
        return self._outside.tensor_name(tensor)

    def failed_op(self, error: BaseException) -> str:
        return self._outside.failed_op(error)

    def progress(self) -> str:
        if self._open:
            return f"in {self._words.label(self._open[-1])}"
        return self._outside.progress()

    def finish(self, error: BaseException | None) -> Capture:
        self._judge()
        self.is_regular = not self._search.replays and not self._search.refusals
        if self._found or error is not None:
            self._outside.name_inputs(self._inputs)
        outside = self._finish_outside(error)
        self.is_large = self._outside.is_large
        is_bad = bool(self._found) or outside.dump is not None
        capture = Capture(None, None, error, gap=outside.gap)
        if error is not None or is_bad:
            dump = self._dump(outside)
            is_hit = error is not None or self._passes(dump)
            if is_hit:
                capture.dump = dump
                self.refusal = self._search.refusals[0] if self._search.refusals else ""
            else:
                # What was seen is there, but not what the filter is about.
                self._excused.update(self._words.describe(*item) for item in self._found)
                capture.make_dump = lambda: dump
        else:
            is_hit = False
            capture.make_dump = functools.partial(self._dump, outside)
        if error is None:
            capture.filter_passed = is_hit
            capture.progress_text = f"none of {self._count()}"
        self.seconds = time.perf_counter() - self._began
        return capture

    def _finish_outside(self, error: BaseException | None) -> Capture:
        recorder = self._outside.recorder
        is_empty = not recorder.op_count and not recorder.ops.troubles
        if is_empty and error is None and not self._found:
            self.stop()
            self._spares.append(self._outside)
            return Capture(None, None)
        recorder.holder.look_through()
        return self._outside.finish(error)

    def close(self) -> None:
        if not self._is_told:  # else the dump has what is kept
            self._forget()

    def _count(self) -> str:
        ops = self._outside.recorder.op_count
        return f"{len(self._calls)} module calls" + (f", {ops} ops outside" if ops else "")

    def _passes(self, dump: MemoryDump) -> bool:
        if self.watch.predicate is None or dump.suspects is None:
            return bool(self._found)
        predicate = bound(self.watch.predicate, dump)
        exclude = re.compile(self.watch.exclude) if self.watch.exclude else None
        try:
            return any(
                predicate(datum, dump.value(datum))
                for datum in dump.data()
                if datum.tensor_name in dump.suspects
                and not (exclude is not None and exclude.search(datum.node_name))
            )
        except Exception as error:  # whoever looks at the dump tells of it
            pass_on(error)
            return True

    def _dump(self, outside: Capture) -> MemoryDump:
        part = outside.dump
        if part is None:
            part = outside.make_dump() if outside.make_dump is not None else None
        seen = Seen(
            self._calls,
            self._names,
            [(*event, slot) for event, slot in self._found],
            self._losses,
            self._nodes,
            self._outside.recorder.made_node,
            self._outside.tensor_name,
        )
        self._is_told = True
        dump = ModulesDump(seen, part, outside.dump is not None, [*self._search.replays])
        dump.warnings += self._notes(outside)
        return dump

    def _notes(self, outside: Capture) -> Iterable[str]:
        again = ", ".join(
            dict.fromkeys(self._words.label(each.call) for each in self._search.replays)
        )
        said = f"{self._count()} watched"
        if again:
            said += f"; {again} done again op by op"
        if self._found:
            said += f" (bad: {self._words.summary(self._found)})"
        yield f"{said}."
        for replay in self._search.replays:
            if replay.differs:
                yield f"{self._words.label(replay.call)} returned something else the second time."
        if self._found and all(event.kind == UPDATED for event, _ in self._found):
            yield "The update made it: all before was good."
        passed = any(replay.passed for replay in self._search.replays)
        if self._search.refusals and not passed:
            yield f"Not done again: {self._search.refusals[0]}. The next runs are watched op by op."


def _passed(reference: weakref.ref[ModulesLevel], node: OutsideNode, gradients: Any) -> None:
    """Likewise."""
    level = reference()
    if level is None:
        return
    try:
        level.passed(node, gradients)
    except Exception as error:
        pass_on(error)
        level.failed(error)


def _arrived(
    reference: weakref.ref[ModulesLevel], border: Border, slot: int, gradients: Any
) -> None:
    """A hook of an autograd node: it must neither raise nor return anything."""
    level = reference()
    if level is None or slot >= len(gradients) or gradients[slot] is None:
        return
    try:
        level.arrived(border, gradients[slot])
    except Exception as error:
        pass_on(error)
        level.failed(error)
