"""A run computed again with some of its ops in a narrower type.

What is computed is what a device with that type does: an op reads its inputs rounded to the type,
computes in float32 inside, and rounds what it gives. Mixed precision on GPUs and NPUs adds up in
float32 as well; where a kernel adds up in the type itself, its errors are larger than these.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.dumps.dump import CannotRedo, Dump
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.filters.forward import ForwardPass
from tfdbg_cli.filters.lineage import TensorLineage, holds_others
from tfdbg_cli.precision.target import Target
from tfdbg_cli.remedies.trial import Trial
from tfdbg_cli.tensors.numeric import dtype_kind

__all__ = ["NarrowRun", "Shadow", "relative_error"]

_WIDE = ("float32", "float64")
# Masks hold the lowest number of their dtype, and what is added to it moves it a little.
_MASKED = -0.99


@dataclass
class NarrowRun:
    """What a run gives with some of its ops in the narrower type.

    Attributes:
        error: of what the run hands over, the largest of its tensors (`relative_error`).
        bad: the first op that gave something bad which was finite; empty: none did.
        unknown: the first op that could not be computed again; what reads it is as it was.
        values: of what the run hands over, where it is another one.
    """

    error: float = 0.0
    bad: str = ""
    unknown: str = ""
    values: dict[str, Array] = field(default_factory=dict)


class Shadow:
    """Computes a run again, by the framework's own ops, on copies.

    Args:
        dump: of the run; with `Dump.redo`.
        target: the narrower type.
        deadline: of `time.monotonic`, for all that is asked.

    Attributes:
        ops: those that could be in the narrower type, in the order of the run: of the forward
            pass, with results of 32 or 64 bits that are no views or copies.
        ends: the tensors that the run hands over.
    """

    def __init__(self, dump: Dump, target: Target, deadline: float) -> None:
        self._dump, self._target, self._deadline = dump, target, deadline
        self._trial = Trial(dump, lambda: time.monotonic() > deadline)
        self._roles = TensorLineage.of(dump).roles
        self._graph: Graph = dump.graph() or Graph([])
        self._forward = ForwardPass(self._graph)
        self.ops = [each.name for each in self._forward.nodes if self._is_narrowed(each)]
        self.ends = self._ends()

    @property
    def is_late(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() > self._deadline

    def op_error(self, name: str) -> float | None:
        """The error that one op makes in the narrower type, of its inputs as they were.

        Args:
            name: of the node, of any part of a step.

        Returns:
            `relative_error`; ``None``: the op can't be computed again, or isn't floating point.
        """
        node = self._graph.nodes.get(name)
        if node is None or not node.inputs or holds_others(node):
            return None
        try:
            made = self._trial.made(node)
            found = self._compute(node, self._trial.inputs(node), made, is_narrow=True)
        except CannotRedo:
            return None
        errors = [
            relative_error(now, was)
            for slot, (now, was) in enumerate(zip(found or (), made, strict=False))
            if isinstance(was, np.ndarray) and dtype_kind(was.dtype) == "float"
            if self._forward.counts(f"{name}:{slot}")
        ]
        return max(errors, default=None)

    def narrowed(self, ops: Collection[str]) -> NarrowRun:
        """The forward pass with some ops in the narrower type.

        Args:
            ops: the nodes.
        """
        outcome = NarrowRun()
        changed: dict[str, Array] = {}
        for node in self._forward.nodes:
            is_narrow = node.name in ops
            if not is_narrow and changed.keys().isdisjoint(node.inputs):
                continue
            if self._roles.writing.match(node.op_type):
                continue  # nobody sees it before the next run
            try:
                if self.is_late:
                    raise CannotRedo("there was no more time")
                before = self._trial.inputs(node)
                given = [
                    changed.get(name, value)
                    for name, value in zip(node.inputs, before, strict=True)
                ]
                made = self._trial.made(node)
                found = self._compute(node, given, made, is_narrow)
            except CannotRedo:
                outcome.unknown = outcome.unknown or node.name
                continue
            for slot, value in enumerate(found or ()):
                changed[f"{node.name}:{slot}"] = value
            if not outcome.bad and any(map(_is_bad, found or (), made)):
                outcome.bad = node.name
        for name in self.ends:
            if name in changed:
                outcome.values[name] = changed[name]
                error = relative_error(changed[name], self._trial.value(name))
                outcome.error = max(outcome.error, error)
        return outcome

    def _compute(
        self, node: Node, given: Sequence[Any], made: Sequence[Any], is_narrow: bool
    ) -> list[Array] | None:
        if self._dump.redo is None:
            raise CannotRedo("the program that ran it is gone")
        if is_narrow:
            given = [self._rounded(each) for each in given]
        try:
            found = self._dump.redo(node.name, given, made)
        except CannotRedo:
            raise
        except Exception as error:  # above all: there is no memory
            pass_on(error)
            raise CannotRedo(one_line(error)) from error
        if found is None:
            return None
        return [self._rounded(each) if is_narrow else np.asarray(each) for each in found]

    def _rounded(self, value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.dtype.name in _WIDE:
            return self._target.rounded(value)
        return value

    def _is_narrowed(self, node: Node) -> bool:
        roles, op_type = self._roles, node.op_type
        if not node.inputs or holds_others(node) or roles.computes(op_type) == "same":
            return False
        if op_type in roles.reading | roles.weights | roles.batches or roles.writing.match(op_type):
            return False
        return any(each.dtype in _WIDE for each in self._dump.by_node(node.name))

    def _ends(self) -> list[str]:
        info = self._dump.run_info()
        told = info.ends if info is not None else set()
        names = [
            each.tensor_name
            for each in self._dump.data()
            if each.dtype in _WIDE and self._is_forward(each.node_name)
        ]
        found = [name for name in dict.fromkeys(names) if name in told]
        if found:
            return found
        return [name for name in dict.fromkeys(names) if not self._forward.is_read(name)]

    def _is_forward(self, name: str) -> bool:
        node = self._graph.nodes.get(name)
        return node is not None and bool(node.inputs) and name not in self._forward.later


def _is_bad(now: Array, was: Any) -> bool:
    """Whether an element is bad that was finite, and no mask (which may as well be infinite)."""
    if not isinstance(was, np.ndarray) or was.dtype.kind != "f" or now.shape != was.shape:
        return False
    lowest = _MASKED * np.finfo(was.dtype).max
    return bool((~np.isfinite(now) & np.isfinite(was) & (was > lowest)).any())


def relative_error(now: Array, was: Array) -> float:
    """How far a tensor is off, of its own size: ‖now - was‖ / ‖was‖, by the Euclidean norm.

    Elements that weren't finite before don't count. It is infinite where one isn't finite any
    more, and the norm of the difference where the tensor was 0.
    """
    one, other = now.astype(np.float64), was.astype(np.float64)
    is_finite = np.isfinite(other)
    one, other = one[is_finite], other[is_finite]
    if not np.isfinite(one).all():
        return float("inf")
    scale = float(np.abs(other).max()) if other.size else 0.0
    if not scale:
        return float(np.linalg.norm(one)) if one.size else 0.0
    return float(np.linalg.norm((one - other) / scale) / np.linalg.norm(other / scale))
