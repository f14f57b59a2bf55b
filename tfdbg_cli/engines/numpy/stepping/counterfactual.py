"""The shadow of a stepped run: what its tensors would be if nothing were overridden.

It is computed on the side and only when somebody asks, from the values that the steps have seen:
only what depends on an override is computed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import Array
from tfdbg_cli.engines.numpy.errors import OpError
from tfdbg_cli.engines.numpy.executor import PlanBlock, RunState, RunStep, VariableRef
from tfdbg_cli.engines.numpy.nodes import Operation, Tensor
from tfdbg_cli.engines.numpy.registry import OPS
from tfdbg_cli.engines.numpy.stepping.journal import JournalEntry
from tfdbg_cli.engines.numpy.stepping.layout import NodeLayout

__all__ = ["NodeCounterfactual"]

#: A loop that the overrides have made finite may not end without them.
_MOST_ROUNDS = 10_000


class _Unknown(Exception):
    """A value that only a run without overrides could tell."""


class _SideState(RunState):
    """The variables as a step would have seen them without overrides.

    Args:
        variables: those that are known; they may be written to.
    """

    def __init__(self, variables: dict[Operation, Array]) -> None:
        self.variables = variables
        self.written: set[Operation] = set()

    def read(self, op: Operation) -> Array:
        if op not in self.variables:
            raise _Unknown
        return self.variables[op]

    def write(self, op: Operation, value: Array) -> None:
        self.variables[op] = value
        self.written.add(op)

    def random_stream(self, op: Operation) -> NoReturn:
        """Numbers that were never drawn are unknown."""
        raise _Unknown


class _SideStep(RunStep):
    """Computes an item on the side, without effects."""

    rounds = 0

    def _run_op(self, op: Operation) -> None:
        if OPS[op.type].has_effects:
            raise _Unknown
        super()._run_op(op)

    def iterate(self, block: PlanBlock, first: bool) -> bool:
        self.rounds += 1
        if self.rounds > _MOST_ROUNDS:
            raise _Unknown
        return super().iterate(block, first)


class _Twin(NamedTuple):
    """A variable that was written to because of an override, or with a value made of one.

    Attributes:
        actual: what the run has written; ``None``: it has not.
        value: what it would have been; ``None``: not known.
    """

    actual: Array | None
    value: Array | None


class NodeCounterfactual:
    """The values that differ, or may differ, from those of the run because of overrides.

    Args:
        layout: the steps.
        values: the run's values, overridden ones included.
        computed: what was computed for the overridden ones.
        errstate: as `RunStep` takes it.
    """

    def __init__(
        self,
        layout: NodeLayout,
        values: Mapping[Tensor, Any],
        computed: Mapping[Tensor, Any],
        errstate: Mapping[str, Any],
    ) -> None:
        self._layout = layout
        self._values = values
        self._computed = computed
        self._errstate = errstate
        self._followed = 0
        # ``None``: it depends on an override and can't be known.
        self._tensors: dict[Tensor, Any | None] = {}
        self._variables: dict[Operation, _Twin] = {}

    def value(self, tensor: Tensor) -> Any | None:
        """A tensor without overrides, as nodes see it; ``None``: not known."""
        if tensor in self._tensors:
            return self._tensors[tensor]
        return self._computed.get(tensor, self._values.get(tensor))

    def follow(self, records: Sequence[JournalEntry], position: int) -> None:
        """Take in the steps that were done since, up to a position."""
        while self._followed < len(records):
            first = records[self._followed]
            end = self._followed + 1
            while end < len(records) and records[end].index == first.index:
                end += 1
            if first.index >= position:
                # A loop that is not done yet.
                return
            self._take(first.index, records[self._followed : end])
            self._followed = end

    def _take(self, index: int, records: Sequence[JournalEntry]) -> None:
        written = {op: value for record in records for op, value in record.written.items()}
        reads = {op: value for record in reversed(records) for op, value in record.reads.items()}
        twins = {
            op: twin
            for op, twin in self._variables.items()
            # Another value than the one written: somebody has put it there in between.
            if op in reads and (twin.actual is None or twin.actual is reads[op])
        }
        if not (
            twins
            or any(record.saw_overrides for record in records)
            or any(tensor in self._tensors for tensor in self._layout.reads[index])
        ):
            for op in written:
                self._variables.pop(op, None)
            return
        item = self._layout.items[index]
        assert item is not None
        known = {op: value for op, value in reads.items() if op not in twins}
        known.update((op, twin.value) for op, twin in twins.items() if twin.value is not None)
        state = _SideState(known)
        side = _SideStep(state, self._inputs(index, state), None, self._errstate)
        made = self._layout.made[index]
        try:
            with np.errstate(all="ignore"):
                side.run([item])
        except (_Unknown, OpError, KeyError):
            # KeyError: an input that is not known itself.
            self._tensors.update((tensor, None) for tensor in made)
            changed = written.keys() | _writable(made)
            self._variables.update((op, _Twin(written.get(op), None)) for op in changed)
            return
        self._tensors.update((tensor, side.values.get(tensor)) for tensor in made)
        for op in written.keys() | state.written:
            value = known[op] if op in state.written else None
            self._variables[op] = _Twin(written.get(op), value)

    def _inputs(self, index: int, state: RunState) -> dict[Tensor, Any]:
        found: dict[Tensor, Any] = {}
        for tensor in self._layout.reads[index]:
            value = self.value(tensor)
            if type(value) is VariableRef:
                value = VariableRef(state, value.op)
            if value is not None:
                found[tensor] = value
        return found


def _writable(made: Sequence[Tensor]) -> set[Operation]:
    """The variables that the nodes of some tensors may write to."""
    found = set()
    for op in dict.fromkeys(tensor.op for tensor in made):
        for tensor in op.inputs[: OPS[op.type].ref_inputs]:
            variable = tensor.op
            while variable.type != "VariableV2" and variable.inputs:
                variable = variable.inputs[0].op
            found.add(variable)
    return found
