"""The journal of a stepped run: what each step has changed, so that it can be undone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import Array
from tfdbg_cli.engines.numpy.executor import RunState, RunStep
from tfdbg_cli.engines.numpy.nodes import Operation, Tensor
from tfdbg_cli.engines.numpy.registry import OPS

__all__ = ["JournalEntry", "JournaledState", "JournaledStep"]


@dataclass
class JournalEntry:
    """One step, or one iteration of it: how things were before it.

    Arrays are replaced and never written to, so holding them is enough.

    Attributes:
        index: of the step.
        rounds: iterations of the loop that were done before.
        dumped: how many tensors the dump had.
        values: the tensors that it computes -> their values before; those without are missing.
        variables: those it has written -> their values before; ``None``: none.
        written: the same -> their values after it.
        reads: the variables it has read, with the values it has seen.
        streams: the random streams it has drawn from -> their states before.
        effects: the nodes it has run whose effects can't be undone.
        saw_overrides: whether a tensor that it reads was overridden.
    """

    index: int
    rounds: int
    dumped: int
    values: Mapping[Tensor, Any]
    saw_overrides: bool
    variables: dict[Operation, Array | None] = field(default_factory=dict)
    written: dict[Operation, Array] = field(default_factory=dict)
    reads: dict[Operation, Array] = field(default_factory=dict)
    streams: dict[np.random.Generator, Mapping[str, Any]] = field(default_factory=dict)
    effects: list[str] = field(default_factory=list)


class JournaledState(RunState):
    """A session's state, with a note of everything that is done to it.

    Args:
        state: the session's; its variables and streams are used, not copied.

    Attributes:
        record: where the notes go.
    """

    record: JournalEntry

    def __init__(self, state: RunState) -> None:
        self._state = state
        self.variables = state.variables

    def withhold(self, before: Mapping[Operation, Array]) -> None:
        """Go on with variables of its own; the session has its own again.

        Args:
            before: what the session's were.
        """
        if self.variables is self._state.variables:
            self.variables = self._state.variables.copy()
            self._state.variables.clear()
            self._state.variables.update(before)

    def release(self, variables: Iterable[Operation]) -> None:
        """Give the session what has become of some variables."""
        for op in variables:
            if op in self.variables:
                self._state.variables[op] = self.variables[op]
            else:
                self._state.variables.pop(op, None)

    def read(self, op: Operation) -> Array | None:
        value = self.variables.get(op)
        if value is not None:
            self.record.reads.setdefault(op, value)
        return value

    def write(self, op: Operation, value: Array) -> None:
        self.record.variables.setdefault(op, self.variables.get(op))
        self.record.written[op] = value
        self.variables[op] = value

    def random_stream(self, op: Operation) -> np.random.Generator:
        stream = self._state.random_stream(op)
        if stream not in self.record.streams:
            self.record.streams[stream] = stream.bit_generator.state
        return stream

    def undo(self, record: JournalEntry) -> None:
        """Put variables and streams back as they were before a step, the last one not undone."""
        for op, before in record.variables.items():
            if before is None:
                self.variables.pop(op, None)
            else:
                self.variables[op] = before
        for stream, state in record.streams.items():
            stream.bit_generator.state = state


class JournaledStep(RunStep):
    """A `RunStep` that notes the nodes whose effects can't be undone.

    Args:
        state: with the journal.
        values: as `RunStep` takes them.
        recorder: likewise.
        errstate: likewise.
    """

    def __init__(
        self,
        state: JournaledState,
        values: dict[Tensor, Any],
        recorder: Callable[[Operation, Sequence[Any]], None],
        errstate: Mapping[str, Any],
    ) -> None:
        super().__init__(state, values, recorder, errstate)
        self._journal = state

    def _run_op(self, op: Operation) -> None:
        if OPS[op.type].has_effects:
            self._journal.record.effects.append(op.name)
        super()._run_op(op)
