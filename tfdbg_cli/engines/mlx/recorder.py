"""The level of this engine: a tape while the run goes on, and its ops and values at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import ml_dtypes
import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

from tfdbg_cli.common.errors import related
from tfdbg_cli.common.node_words import INPUTS, MODULE, MODULE_STACK
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import Capture, Watch
from tfdbg_cli.engines.kit.levels import FULL
from tfdbg_cli.engines.kit.recording.op_recorder import OpRecorder
from tfdbg_cli.engines.mlx.op_facts import Plan
from tfdbg_cli.engines.mlx.replay import Replay, Step, are_computed
from tfdbg_cli.engines.mlx.tape import TAPES, Op, Ref, Tape, finite, is_finite

__all__ = ["Recorder"]

_issubdtype, _all, _isfinite = mx.issubdtype, mx.all, mx.isfinite

_CHECKED_ALONE = "forward ops, gradients and results of compiled functions"
_UNSEEN = "MLX computes the rest unseen"


class Recorder(OpRecorder):
    """Records a run.

    While it goes on, only calls are noted, and nothing is computed that the program doesn't. At
    `FULL` all arrays that ops make are held, which MLX computes anyway. At `RECORDS` the ops whose
    outputs have to be looked at are known from an earlier run that has called the same ones:
    whether they are finite is computed along with what the program computes. Only at a hit, or if
    this run is another one, the ops are done once more, from the arrays that were there before.
    """

    tensors = (mx.array,)
    copies = False

    def __init__(self, watch: Watch, level: str, engine: Any) -> None:
        super().__init__(watch, level, engine)
        self._engine = engine
        self._plan: Plan | None = None
        self._given: dict[str, Ref] = {}
        self._roots: list[tuple[str, Any]] = []
        self._trees: list[tuple[str, Any]] = []
        self._bad: set[int] = set()
        self._new: Plan | None = None
        self._alarms: list[int] = []
        self._gap = ""
        self._paths: dict[int, str] = {}
        self._leaves: dict[int, str] = {}
        self.tape = Tape(level == FULL, {}, engine.gave_up)

    # What arrays are.

    def array(self, tensor: Any) -> Any:
        if tensor.dtype == mx.bfloat16:
            return np.array(tensor.view(mx.uint16)).view(ml_dtypes.bfloat16)
        return np.array(tensor)

    def dtype(self, tensor: Any) -> str:
        return str(tensor.dtype).rpartition(".")[2]

    def is_bad(self, tensor: Any) -> bool:
        return id(tensor) in self._bad

    # While the run goes on.

    def begin_run(self) -> None:
        super().begin_run()
        if self.level != FULL:
            self._plan = self._engine.plans.latest(self.kind)
            if self._plan is not None:
                self.tape.plan, self.tape.exact = self._plan.checks, self._plan.exact

    def start(self) -> None:
        super().start()
        TAPES[threading.get_ident()] = self.tape

    def stop(self) -> None:
        super().stop()
        for thread, tape in list(TAPES.items()):
            if tape is self.tape:
                del TAPES[thread]

    def join(self, place: Any) -> Callable[[], None]:
        leave = super().join(place)
        thread = threading.get_ident()
        TAPES[thread] = self.tape

        def leave_tape() -> None:
            if TAPES.get(thread) is self.tape:
                del TAPES[thread]
            leave()

        return leave_tape

    def name_inputs(self, tensors: Callable[[], Mapping[str, Any]]) -> None:
        for name, value in tensors().items():
            self._given[name] = self.tape.ref(value)

    def enter_phase(self, phase: str, owner: Any = None) -> None:
        self.tape.phase = phase

    def root(self, name: str, module: Any) -> None:
        """A module of which parts are called; what they are called begins with this."""
        if not any(each is module for _, each in self._roots):
            self._roots.append((name, module))

    def parameters(self, name: str, tree: Any) -> None:
        """Arrays that the run begins with, in a tree as `mlx.utils` knows it."""
        self._trees += [(f"{name}.{path}", array) for path, array in tree_flatten(tree)]

    def failed_op(self, error: BaseException) -> str:
        errors = self.tape.errors  # its node has a name only at the end
        told = (op_type for each, op_type in errors if any(each is one for one in related(error)))
        return super().failed_op(error) or next(told, "")

    # At its end.

    def finish(self, error: BaseException | None) -> Capture:
        is_clean = error is None and self._is_checked and not self._may_be_bad()
        if not is_clean:
            self._tell()
        self._count = self.tape.count
        capture = super().finish(error)
        if is_clean and not all(type(each) is Op for each in self.tape.top):
            capture.only, capture.only_because = _CHECKED_ALONE, _UNSEEN
        elif self._gap and self._is_checked and not self._has_bad:
            capture.gap = self._gap
        if is_clean and self.level == FULL:
            capture.make_dump = self._later
        else:
            self.tape = Tape()
        return capture

    def _later(self) -> MemoryDump:
        """The dump of a run in which nothing is bad, for somebody who wants to see it."""
        if self.tape.count:
            self._tell()
            self.tape = Tape()
        return self.dump

    def seen(self) -> MemoryDump | None:
        return self._later() if self.level == FULL else None

    def close(self) -> None:
        super().close()
        self.tape = Tape()

    def _may_be_bad(self) -> bool:
        """Whether something bad was seen, or could not be, as no run has called these ops yet."""
        if self.level == FULL:
            return bool(_bad_ones([*self.tape.leaves.values(), *self.tape.held.values()]))
        known, seen = self._plan, Plan(self.tape)
        if known is None or not known.is_of(seen):
            self._new = seen
            return True
        leaves = self.tape.leaves
        checks = [*self.tape.checks, *(finite(leaves[ref]) for ref in known.leaves)]
        if not are_computed(checks):
            return True
        self._alarms = [place for place, each in enumerate(checks) if not is_finite(each)]
        return bool(self._alarms)

    def _tell(self) -> None:
        """Do the ops once more, where their values weren't held, and tell of all of them."""
        replay = Replay(self.tape)
        if self._new is not None:
            self._new.find_checks(self.tape, replay.values)
            self._engine.plans.add(self.kind, self._new)
        self._name_leaves(replay)
        arrays = [each for step in replay.steps for each in step.outputs]
        arrays += [replay.values[ref] for ref in self._given.values()]
        if self._is_checked:
            arrays += [
                each for step in replay.steps for each in step.args if type(each) is mx.array
            ]
            self._bad = _bad_ones(arrays)
            if self._alarms and self._plan is not None and not self._bad:
                self._plan.exact |= {*self._alarms}
        for name, ref in self._given.items():
            self._add(f"{INPUTS}{name}", "Input", [replay.values[ref]])
        for step in replay.steps:
            self._tell_step(step)
        for of, value in replay.gradients:
            self.gradient(of, value)
        self._gap = replay.gap
        if replay.trouble:
            self.dump.warnings.append(replay.trouble[:1].upper() + replay.trouble[1:] + ".")

    def _tell_step(self, step: Step) -> None:
        path, words = self._module(step.modules)
        if step.given is not None:
            self.came_back(step.forward, step.given, step.outputs, frame=step.stack, words=words)
            return
        for each in (*step.args, *step.kwargs.values()):
            for array in self._parts(each):
                if not self.tensor_name(array):
                    self._leaf(array, step, path)
        if step.error is not None:
            self.failed(
                step.error, step.type, step.args, step.stack, numbers=step.kwargs, words=words
            )
            return
        self.op(
            step.type,
            step.args,
            step.outputs,
            step.stack,
            phase=step.phase,
            forward=step.forward,
            numbers=step.kwargs,
            words=words,
        )

    def _leaf(self, array: mx.array, step: Step, path: str) -> None:
        """An array that no op of the run has made gets a node."""
        name = self._leaves.get(id(array), "")
        is_weight = "." in name
        if not name and step.modules:
            module = step.modules[-1]
            key = next((key for key, each in module.items() if each is array), "")
            name, is_weight = (f"{path}.{key}" if key and path else ""), bool(key)
        kind = "Parameter" if is_weight else "Constant"
        self._add(name or self._names.unnamed(), kind, [array], stack=step.stack)

    def _name_leaves(self, replay: Replay) -> None:
        self._leaves = {key: tape.names.get(ref, "") for key, (tape, ref) in replay.leaves.items()}
        for name, root in self._roots:
            for path, module in root.named_modules():
                self._paths.setdefault(id(module), f"{name}.{path}" if path else name)
            for path, array in tree_flatten(root):
                if type(array) is mx.array:
                    self._leaves[id(array)] = f"{name}.{path}"
        self._leaves.update((id(array), name) for name, array in self._trees)

    def _module(self, modules: tuple[Any, ...]) -> tuple[str, dict[str, str]]:
        """The path of the innermost module, and what a node says of it."""
        if not modules:
            return "", {}
        paths = [self._paths.get(id(each)) or type(each).__name__ for each in modules]
        stack = [
            f"{path} ({type(each).__name__})" for path, each in zip(paths, modules, strict=True)
        ]
        return paths[-1], {MODULE: paths[-1], MODULE_STACK: " > ".join(stack)}


def _bad_ones(arrays: Iterable[mx.array]) -> set[int]:
    """The ids of those that have a nan or an infinity."""
    checks = {id(each): _all(_isfinite(each)) for each in arrays if _may_be_bad(each)}
    if not are_computed([*checks.values()]):
        checks = {key: each for key, each in checks.items() if are_computed(each)}
    return {key for key, each in checks.items() if not each.item()}


def _may_be_bad(array: mx.array) -> bool:
    return bool(_issubdtype(array.dtype, mx.inexact))
