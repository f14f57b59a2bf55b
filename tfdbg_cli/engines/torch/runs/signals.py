"""Watches a run by a few signals, and looks at it again from close up if one of them is bad."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import Capture, Watch
from tfdbg_cli.engines.kit.levels import CaptureLevel
from tfdbg_cli.engines.torch.names.sites import tensors_in
from tfdbg_cli.engines.torch.private import quiet
from tfdbg_cli.engines.torch.record.capture_levels import FullLevel
from tfdbg_cli.engines.torch.record.run_recorder import Names
from tfdbg_cli.engines.torch.runs.exact_check import Verdicts
from tfdbg_cli.engines.torch.runs.rewind import Guard, Refused, RewindResult, Start, Watched
from tfdbg_cli.engines.torch.values.arrays import describe, to_numpy
from tfdbg_cli.engines.torch.values.layouts import is_readable

__all__ = ["SignalLevel"]

OUTPUT, LOSS, GRADIENT, UPDATED = "output", "loss", "gradient", "updated"

# Values of bad signals that are kept to be shown.
_MOST_KEPT = 20
_MOST_NAMED = 3

_Key = tuple[str, Any]


def _nothing() -> None:
    """What a reference to nothing gives."""


class SignalLevel(CaptureLevel):
    """Looks at what modules return, at losses and gradients, and at parameters after the update.

    It sees no op. When a signal is bad after a backward pass (or, without one, at the end of the
    call), the lines that led to it are run again with every op recorded, before the update is made.

    Args:
        watch: what is awaited.
        names: what things are called.
        parameters: makes those that optimizers update.
        guard: runs lines again; ``None``: nothing may be run again.
        excused: signals that were bad without anything that the filter is about; is added to.

    Attributes:
        refusal: why nothing could be run again; empty: it could, or nobody has tried.
    """

    level = "signals"

    def __init__(
        self,
        watch: Watch,
        names: Names,
        parameters: Callable[[], Iterable[torch.Tensor]],
        guard: Guard | None,
        excused: set[str],
    ) -> None:
        super().__init__(watch)
        self.refusal = ""
        self._names = names
        self._parameters = parameters
        self._guard = guard
        self._excused = excused
        self._verdicts: Verdicts[_Key] = Verdicts(self._keep)
        self._values: dict[tuple[_Key, int], torch.Tensor] = {}
        self._module_depth = 0
        self._phases: list[tuple[str, Any]] = []
        self._inputs: Callable[[], Mapping[str, Any]] = dict
        self._start: Start | None = None
        self._root: torch.nn.Module | None = None
        self._last: Callable[[], torch.Tensor | None] = _nothing
        self._full: FullLevel | None = None
        self._found: list[tuple[_Key, int]] = []
        self._differs = False
        self._is_fused = False  # updates are made during the backward pass
        self._notes: list[str] = []

    # What the program does. Once it is looked at from close up, that is told of it.

    def stop(self) -> None:
        if self._full is not None:
            self._full.stop()

    def name_inputs(self, tensors: Callable[[], Mapping[str, Any]]) -> None:
        """For when it is looked at from close up."""
        self._inputs = tensors

    def name_outputs(self, tensors: Mapping[str, Any]) -> None:
        """Likewise."""
        if self._full is not None:
            self._full.name_outputs(tensors)

    def tensor_name(self, tensor: Any) -> str:
        """Known where it was looked at from close up."""
        return self._full.tensor_name(tensor) if self._full is not None else ""

    def failed_op(self, error: BaseException) -> str:
        """Likewise."""
        return self._full.failed_op(error) if self._full is not None else ""

    def progress(self) -> str:
        """Likewise."""
        return self._full.progress() if self._full is not None else ""

    def enter_module(self, module: Any, arguments: Any = None) -> None:
        """A forward pass may begin here."""
        if self._full is not None:
            self._full.enter_module(module)
            return
        if not self._module_depth and not self._is_backward() and self._guard is not None:
            start, frame = self._start, sys._getframe(1)
            self._root = self._root or module
            self._names.module(module, frame, None)
            if start is None or start.backward_count or self._guard.begins_again(start, frame):
                self._start = self._guard.begin(module, arguments or ((), {}), frame)
            else:
                start.beginning.add(module)
        self._module_depth += 1

    def arguments(self, arguments: Any) -> Any:
        """Those of the first time."""
        return self._guard.arguments(arguments) if self._guard is not None else arguments

    def leave_module(self, module: Any, output: Any) -> None:
        """Its outputs are signals."""
        if self._full is not None:
            self._full.leave_module(module, output)
            return
        self._module_depth -= 1
        if output is None or self._is_backward():
            return
        if isinstance(output, torch.Tensor):
            if output is not self._last():  # a container returns what its last part has returned
                self._last = weakref.ref(output)
                self._verdicts.add((OUTPUT, module), 0, output)
        else:
            for slot, (_, tensor) in enumerate(tensors_in("", output)):
                self._verdicts.add((OUTPUT, module), slot, tensor)

    def enter_phase(self, phase: str, owner: Any = None) -> None:
        """Losses are signals."""
        if self._full is not None:
            self._full.enter_phase(phase, owner)
            return
        if phase != "backward" and self._is_backward():
            self._is_fused = True
        self._phases.append((phase, owner))
        if phase == "backward" and not self._module_depth:
            for slot, (_, tensor) in enumerate(tensors_in("", owner)):
                if tensor is not self._last():
                    self._verdicts.add((LOSS, None), slot, tensor)

    def leave_phase(self) -> None:
        """Updated parameters are signals."""
        if self._full is not None:
            self._full.leave_phase()
            return
        phase, _ = self._phases.pop()
        if phase != "backward" and not self._phases:
            self._start = None  # what comes before it can't be done again
            for parameter in self._parameters():
                self._verdicts.add((UPDATED, parameter), 0, parameter)

    def backward_done(self, is_grad: bool) -> None:
        """Gradients are signals; if any so far is bad, now is the time to look again."""
        guard = self._guard
        if self.is_again:
            if not is_grad and guard is not None:
                guard.backward_done()
            return
        if self._full is not None or self._module_depth or self._is_backward() or is_grad:
            return
        with quiet():
            for parameter in self._parameters():
                gradient = parameter.grad
                if gradient is not None:
                    self._verdicts.add((GRADIENT, parameter), 0, gradient)
        self._last = _nothing
        if guard is None:
            return
        start = self._start
        if start is None or self._is_fused:
            self.refusal = "no module was called before the backward pass"
            if self._is_fused:
                self.refusal = "the updates are made during the backward pass"
            return
        start.backward_count += 1
        try:
            # Also when all is well: whether the lines can be run again is to be known in time.
            place, lines = guard.lines(start, sys._getframe(1))
            if self._is_bad():
                again = functools.partial(guard.run, start, place, lines, self._parameters())
                file = os.path.basename(place.frame.f_code.co_filename)
                self._look(again, f"{lines.lines} of {file}")
        except Refused as refusal:
            self.refusal = str(refusal)

    def call_done(self, again: Callable[[], Any], arguments: Any, output: Any) -> None:
        """A call without a backward pass is done.

        Args:
            again: makes it once more.
            arguments: of the call.
            output: what it has returned.
        """
        guard, start = self._guard, self._start
        if guard is None or start is None or self._full is not None or not self._is_bad():
            return
        strange = _strange(arguments)
        if strange:
            self.refusal = f"the call may have changed an argument (a {strange})"
            return
        try:
            self._look(functools.partial(guard.call, start, again, output), "the call")
        except Refused as refusal:
            self.refusal = str(refusal)

    def _is_backward(self) -> bool:
        return any(phase == "backward" for phase, _ in self._phases)

    # Looking again.

    def _is_bad(self) -> bool:
        """Whether a signal is bad that isn't excused."""
        bad = self._verdicts.bad()
        self._found = [item for item in bad if self._describe(*item) not in self._excused]
        return bool(self._found)

    def _look(self, again: Callable[[Watched], RewindResult], lines: str) -> None:
        """Run lines again with everything recorded, and go on like this to the end of the run."""
        full = FullLevel(self.watch, self._names)
        full.begin_run()
        full.name_inputs(self._inputs)
        for phase, owner in self._phases:
            full.enter_phase(phase, owner)
        self._full = full
        self.is_again = True

        @contextlib.contextmanager
        def watched() -> Iterator[None]:
            full.start()
            try:
                yield
            finally:
                full.stop()

        try:
            outcome = again(watched)
        except Refused:
            full.discard()
            self._full = None
            raise
        finally:
            self.is_again = False
        self._notes.append(f"Signals were bad ({self._summary()}): {lines} ran once more.")
        if outcome.trouble:
            self._notes.append(outcome.trouble)
        self._differs = outcome.differs
        full.join(outcome.pairs)
        full.start()

    def finish(self, error: BaseException | None) -> Capture:
        """What was seen."""
        self.is_regular = self._full is None
        if self._full is not None:
            return self._from_close_up(self._full, error)
        is_bad = error is None and self._is_bad()
        self.seconds = time.perf_counter() - self._began
        if is_bad:
            return Capture(None, self._findings(), filter_passed=True)
        if error is not None:
            dump = MemoryDump(Graph(()))
            dump.warnings.append("Only signals were watched: with config overhead inf all ops are.")
            return Capture(None, dump, error)
        said = f"none of {self._verdicts.count} signals"
        return Capture(None, None, filter_passed=False, progress_text=said)

    def discard(self) -> None:
        if self._full is not None:
            self._full.discard()

    def _from_close_up(self, full: FullLevel, error: BaseException | None) -> Capture:
        capture = full.finish(error)
        is_same = full.has_nonfinite and not self._differs
        if error is None and capture.dump is None and is_same:
            # What was seen is there, but not what the filter is about.
            self._excused.update(self._describe(*item) for item in self._found)
        elif error is None and not is_same:
            if capture.dump is None:
                capture.dump, capture.filter_passed = full.recorder.dump(), True
            self._notes.append("It was not the same again: what was bad at first is in signals/.")
            self._add_signals(capture.dump)
        if capture.dump is not None:
            capture.dump.warnings += self._notes
        return capture

    # What was seen without looking again.

    def _keep(self, key: _Key, slot: int, tensor: torch.Tensor) -> None:
        if len(self._values) < _MOST_KEPT:
            self._values[key, slot] = tensor.detach().clone()

    def _findings(self) -> MemoryDump:
        """A dump of the bad signals."""
        nodes: list[Node] = []
        dump = MemoryDump(Graph(nodes))
        self._add_signals(dump, nodes)
        kinds = {kind for (kind, _), _ in self._found}
        if kinds == {UPDATED}:
            self._notes.append(
                f"The update made it ({self._summary()}): all signals before it were good."
            )
        else:
            self._notes.append(f"Only signals were seen ({self._summary()}).")
        if self.refusal:
            self._notes.append(f"The lines were not run once more: {self.refusal}.")
        dump.warnings += self._notes
        return dump

    def _add_signals(self, dump: MemoryDump, nodes: list[Node] | None = None) -> None:
        for (kind, thing), slot in self._found[:_MOST_KEPT]:
            shown = {kind: self._values.get(((kind, thing), slot))}
            if kind in (GRADIENT, UPDATED):
                shown.setdefault(GRADIENT, thing.grad)
                if shown[kind] is None:
                    shown[kind] = thing.grad if kind == GRADIENT else thing
            for label, tensor in shown.items():
                name = f"signals/{self._name(label, thing)}"
                if nodes is not None and name not in {node.name for node in nodes}:
                    nodes.append(Node(name, "Signal"))
                if tensor is not None:
                    # A tensor of a class of its own is the program's to compute with.
                    value = tensor.detach() if is_readable(tensor) else tensor
                    dtype, shape, size = describe(value)
                    load = functools.partial(to_numpy, value)
                    dump.add_datum(Datum(name, slot, load, dtype=dtype, shape=shape, nbytes=size))

    def _summary(self) -> str:
        texts = list(dict.fromkeys(self._describe(*item) for item in self._found))
        more = len(texts) - _MOST_NAMED
        return ", ".join(texts[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")

    def _describe(self, key: _Key, slot: int) -> str:
        kind, thing = key
        if kind == LOSS:
            return "the loss"
        owner = self._owner(thing)
        words = {OUTPUT: "output of", GRADIENT: "gradient of", UPDATED: "new value of"}[kind]
        return f"{words} {owner}" + (f" ({slot})" if slot else "")

    def _name(self, kind: str, thing: Any) -> str:
        return kind if kind == LOSS else f"{self._owner(thing)}.{kind}"

    def _owner(self, thing: Any) -> str:
        """The name of a module or parameter."""
        if isinstance(thing, torch.nn.Module):
            caller = self._names.module(self._root or thing, None, None)
            return self._names.module(thing, None, caller).path or type(thing).__name__
        leaf = self._names.tensor(thing)
        return leaf.name if leaf is not None else "a parameter"


def _strange(value: Any) -> str:
    """The type of something in the arguments that a call may change; empty if there is none."""
    if isinstance(value, list | tuple):
        return next((found for item in value if (found := _strange(item))), "")
    if isinstance(value, Mapping):
        return _strange(list(value.values()))
    known = torch.Tensor | bool | int | float | complex | str | bytes | None | torch.dtype
    return "" if isinstance(value, known | torch.device | torch.Size) else type(value).__name__
