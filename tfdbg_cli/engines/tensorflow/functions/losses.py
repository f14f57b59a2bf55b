"""The loss of each run, and what an optimizer of Keras multiplies it by against underflow."""

from __future__ import annotations

import functools
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from tensorflow.python.framework import dtypes, tensor_util
from tensorflow.python.util import nest

from tfdbg_cli.common.interpreter.program_signals import contained, pass_on
from tfdbg_cli.dumps.series.points import CAPACITY
from tfdbg_cli.dumps.series.tracks import LOSS, LOSS_SCALE, STEP_SKIPPED, UNSCALED_STEP, Tracks
from tfdbg_cli.engines.tensorflow.functions.private import (
    loss_scale_of,
    options_in,
    outputs_of,
    read_optional,
    variable_class,
)
from tfdbg_cli.engines.tensorflow.functions.variables import variable_values

__all__ = ["Losses"]

# Of what takes an op to read, so many are held at most.
_BATCH = 64


class Losses:
    """Notes the losses of a program's runs.

    What is on a CPU is read. Tensors that are elsewhere are held, and read when somebody looks;
    what takes an op to read, some at a time.

    Args:
        tracks: tells where the numbers go; ``None``: nobody wants them.
        look_away: what is done from now on is no part of the program, until what it returns is
            called.
    """

    def __init__(
        self,
        tracks: Callable[[], Tracks | None],
        look_away: Callable[[], Callable[[], None]],
    ) -> None:
        self._tracks = tracks
        self._look_away = look_away
        self._told: Tracks | None = None  # whose source this is
        self._is_off = False
        self._waiting: deque[tuple[int, float, str, Callable[[], float | None]]]
        self._waiting = deque(maxlen=CAPACITY)
        # Optimizers that scale the loss -> the scale and the steps so far, as a run begins.
        self._scaling: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._is_mixed = False  # others make steps as well
        # Graph -> the names of the tensors whose gradients a tape has computed as it was traced.
        self._targets: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
        # Function -> which of its results is the loss, or what reads it; `None`: it returns none.
        self._readers: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def target(self, target: Any, run: int) -> None:
        """Gradients of something are about to be computed, outside of any function."""
        if isinstance(target, list | tuple) and len(target) == 1:
            target = target[0]
        if not self._is_off and _is_number(target):
            self._take(run, target)

    def traced(self, target: Any) -> None:
        """The gradients of something are computed by a function that is being traced."""
        with contained:
            for each in nest.flatten(target):
                if tensor_util.is_tf_type(each) and not hasattr(each, "numpy"):
                    self._targets.setdefault(each.graph, set()).add(each.name)

    def returned(self, function: Any, known: Any, results: Sequence[Any], run: int) -> None:
        """A training step that is one traced function is over.

        Args:
            function: the framework's object for it.
            known: what stays the same of it.
            results: tensors.
            run: the number of the run.
        """
        if self._is_off:
            return
        try:
            if known not in self._readers:
                graph = getattr(function, "graph", None)
                targets = self._targets.get(graph, set()) if graph is not None else set()
                numbers = _numbers_among(results, graph, targets)
                self._readers[known] = _reader(outputs_of(function), results, numbers)
            found = self._readers[known]
            if isinstance(found, int):
                self._take(run, results[found])
            elif found is not None:
                self._hold(run, functools.partial(found, results[0]))
                if len(self._waiting) >= _BATCH:
                    look_again = self._look_away()
                    try:
                        self._settle()
                    finally:
                        look_again()
        except Exception as error:
            pass_on(error)
            self._is_off = True

    def update_begins(self, optimizer: Any) -> None:
        """An optimizer that no other one uses begins an update, or is traced as it does."""
        if not loss_scale_of(optimizer):
            self._is_mixed = True
        elif optimizer not in self._scaling:
            self._scaling[optimizer] = self._scale_now(optimizer)

    def training_begins(self) -> None:
        """A training run begins."""
        with contained:
            for optimizer in [*self._scaling]:
                self._scaling[optimizer] = self._scale_now(optimizer)

    def training_ends(self, run: int) -> None:
        """A training run is over; what it has written is there.

        Args:
            run: its number.
        """
        with contained:
            for optimizer, before in [*self._scaling.items()][:2]:
                after = self._scale_now(optimizer)
                if len(self._scaling) == 1 and before and after:  # of several there is one series
                    self._hold(run, functools.partial(_number, before[0]), LOSS_SCALE)
                    self._hold(run, functools.partial(_is_left_out, before, after), STEP_SKIPPED)
                    if self._is_mixed:
                        self._hold(run, lambda: 1.0, UNSCALED_STEP)

    def _scale_now(self, optimizer: Any) -> Sequence[Any]:
        """The scale of an optimizer and the number of its steps: tensors, which are read later."""
        told = [getattr(each, "value", each) for each in loss_scale_of(optimizer) or ()]
        held = {at: each for at, each in enumerate(told) if not isinstance(each, float | int)}
        if variable_class is None or not all(isinstance(e, variable_class) for e in held.values()):
            return ()  # one that several replicas share
        look_again = self._look_away()
        try:
            found = variable_values({at: each.handle for at, each in held.items()})
        finally:
            look_again()
        return [found.get(at, each) for at, each in enumerate(told)]

    def _take(self, run: int, loss: Any) -> None:
        tracks = self._tracks()
        if tracks is not None and "CPU" in loss.device:
            tracks.note(LOSS, run, _number(loss))
        else:
            self._hold(run, functools.partial(_number, loss))

    def _hold(self, run: int, read: Callable[[], float | None], name: str = LOSS) -> None:
        tracks = self._tracks()
        if tracks is None:
            return
        if tracks is not self._told:
            self._told = tracks
            tracks.sources.append(self._settle)
        self._waiting.append((run, time.time(), name, read))

    def _settle(self) -> None:
        waiting = [*self._waiting]
        self._waiting.clear()
        for run, moment, name, read in waiting:
            if self._told is None:
                return
            with contained:  # the device is lost
                number = read()
                if number is not None:
                    self._told.note(name, run, number, moment)


def _is_left_out(before: Sequence[Any], after: Sequence[Any]) -> float | None:
    """1 if a step was left out for its gradients; ``None``: there was none, or were several."""
    scale, steps = (float(after[at]) for at in (0, 1))
    made = steps - float(before[1])
    if made == 1 and scale >= float(before[0]):
        return 0.0
    return 1.0 if not made and scale * 2 == float(before[0]) else None


def _numbers_among(results: Sequence[Any], graph: Any, targets: Collection[str]) -> list[int]:
    """Which results of a call may be the loss, the likeliest first.

    Args:
        results: of a call.
        graph: of the function.
        targets: the tensors of it whose gradients it computes; none: they aren't known.
    """
    numbers = [at for at, result in enumerate(results) if _is_number(result)]
    outputs = getattr(graph, "outputs", ())
    if not targets or len(outputs) != len(results):
        return numbers
    made_of = {at: _lineage([outputs[at]]) for at in numbers}
    losses = _lineage(map(graph.get_tensor_by_name, targets))
    own = {at: next(name for name, op in made_of[at].items() if op != "Identity") for at in numbers}
    # The loss itself, else what a loss is made of, or is made of a loss: a sum over replicas.
    itself = [at for at in numbers if own[at] in targets]
    return itself or [
        at for at in numbers if own[at] in losses or not made_of[at].keys().isdisjoint(targets)
    ]


def _lineage(tensors: Iterable[Any]) -> dict[str, str]:
    """Tensors of a graph and all that they are computed from, the nearest first: name -> op."""
    found: dict[str, str] = {}
    waiting = deque(tensors)
    while waiting:
        tensor = waiting.popleft()
        if tensor.name not in found:
            found[tensor.name] = tensor.op.type
            waiting += tensor.op.inputs
    return found


def _reader(
    outputs: Any, results: Sequence[Any], numbers: Sequence[int]
) -> int | Callable[[Any], float] | None:
    """Which of a function's results is the loss; or what reads it from the only one.

    Args:
        outputs: what it returns, in the framework's words; ``None``: nobody knows.
        results: of a call.
        numbers: those of them that may be it.
    """
    if len(results) == 1 and results[0].dtype == dtypes.variant:
        inside = options_in(outputs)  # Keras returns its logs so
        specs = nest.flatten(inside) if isinstance(inside, Mapping) else []
        at = sorted(inside).index(LOSS) if isinstance(inside, Mapping) and LOSS in inside else -1
        if not 0 <= at < len(specs) or len(specs) != len(inside):
            return None
        return functools.partial(_number_in, specs, at)
    names = outputs if isinstance(outputs, Mapping) else {}
    if LOSS in names and len(names) == len(results):
        at = sorted(names).index(LOSS)
        return at if _is_number(results[at]) else None
    return numbers[0] if numbers else None


def _number(tensor: Any) -> float:
    return float(tensor)


def _number_in(specs: Sequence[Any], at: int, held: Any) -> float:
    return float(read_optional(held, specs)[at].numpy())


def _is_number(tensor: Any) -> bool:
    """Whether it is one floating point number that is there."""
    dtype, shape = getattr(tensor, "dtype", None), getattr(tensor, "shape", None)
    if not hasattr(tensor, "numpy") or getattr(shape, "rank", None) != 0:
        return False
    return bool(getattr(dtype, "is_floating", False))
