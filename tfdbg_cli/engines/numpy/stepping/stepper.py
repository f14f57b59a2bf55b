"""A run of this engine that is done step by step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import Capture
from tfdbg_cli.engines.kit.clock import Clock
from tfdbg_cli.engines.kit.fitting import fitted_array, nobody_elses
from tfdbg_cli.engines.kit.stepped import (
    GraphStepper,
    check_overridden,
    names_to_restore,
    no_step_done,
)
from tfdbg_cli.engines.numpy.dtypes import Array
from tfdbg_cli.engines.numpy.errors import OpError
from tfdbg_cli.engines.numpy.executor import DEVICE, PlanBlock, shown
from tfdbg_cli.engines.numpy.nodes import Loop, Operand, Operation, Tensor
from tfdbg_cli.engines.numpy.session import PreparedRun
from tfdbg_cli.engines.numpy.stepping.counterfactual import NodeCounterfactual
from tfdbg_cli.engines.numpy.stepping.journal import JournaledState, JournaledStep, JournalEntry
from tfdbg_cli.engines.numpy.stepping.layout import NodeLayout
from tfdbg_cli.stepping.stepper import Step, StepOutcome

__all__ = ["NumpyStepper"]


class NumpyStepper(GraphStepper):
    """A run by the code of every run, item by item of its plan.

    Kernels write to no array that exists and variables are replaced, so that a step is undone by
    putting references back.

    Args:
        run: its plan and its fed values.
        layout: the steps of its plan.
        graph: as the debugger knows it.
    """

    engine_name = "numpy"
    can_iterate = True

    def __init__(self, run: PreparedRun, layout: NodeLayout, graph: Graph) -> None:
        super().__init__()
        self._run = run
        self._graph = graph
        self._layout = layout
        self.caveats = layout.caveats
        self._errstate = np.geterr()
        self._state = JournaledState(run.state)
        self._executor = JournaledStep(self._state, run.values, self._record, self._errstate)
        self._initial = dict(run.state.variables)
        self._values = run.values
        #: Iterations done of the loop that is the next step.
        self._rounds = 0
        self._records: list[JournalEntry] = []
        #: A step that has raised. What it did until then stays until something else is done, so
        #: that a run that ends with the error ends exactly as the plain one.
        self._failed: tuple[JournalEntry, BaseException] | None = None
        self._overrides: dict[str, Array] = {}
        #: What was computed for tensors that are overridden.
        self._computed: dict[Tensor, Any] = {}
        self._shadow: NodeCounterfactual | None = None
        self._clock = Clock()
        self._data: list[tuple[Tensor, Datum]] = []
        #: Filled when somebody asks; so many of the data are in it.
        self._dump = MemoryDump(graph)
        self._in_dump = 0
        self._capture: Capture | None = None
        self._is_over = False
        for tensor, value in run.values.items():
            self._data.append((tensor, self._datum(tensor, value)))

    # -- going on and going back

    @property
    def steps(self) -> Sequence[Step]:
        return self._layout.steps

    @property
    def is_over(self) -> bool:
        return self._is_over

    def readers(self, tensor_name: str) -> Sequence[int]:
        return self._layout.readers.get(tensor_name, ())

    def has_read(self, index: int) -> bool:
        rounds = self._rounds if self._failed is None else self._failed[0].rounds
        return super().has_read(index) or (index == self._position and bool(rounds))

    def advance(self, iteration: bool = False) -> StepOutcome:
        self._begin()
        self.check_not_at_end()
        return self._do(iteration)

    def _do(self, iteration: bool) -> StepOutcome:
        index = self._position
        step, item = self.steps[index], self._layout.items[index]
        record = JournalEntry(
            index,
            self._rounds,
            len(self._data),
            {
                tensor: self._values[tensor]
                for tensor in self._layout.made[index]
                if tensor in self._values
            },
            bool(self._overrides) and not self._overrides.keys().isdisjoint(step.inputs),
        )
        self._state.record = record
        is_done = True
        try:
            with np.errstate(all="ignore"):
                if isinstance(item, PlanBlock) and isinstance(item.context, Loop):
                    is_done = self._run_loop(item, iteration)
                elif item is not None:
                    self._executor.run([item])
        except BaseException as error:
            self._failed = record, error
            raise
        self._records.append(record)
        updated = tuple(op.name for op in record.variables)
        if not is_done:
            return StepOutcome(step, updated, is_partial=True)
        self._position += 1
        self._rounds = 0
        if item is not None and self._overrides:
            for tensor in self._layout.made[index]:
                if tensor.name in self._overrides and tensor in self._values:
                    self._substitute(tensor, self._overrides[tensor.name])
        return StepOutcome(step, updated)

    def _run_loop(self, block: PlanBlock, iteration: bool) -> bool:
        """Do the rest of a loop, or one iteration; whether it is over."""
        while self._executor.iterate(block, self._rounds == 0):
            self._rounds += 1
            if iteration:
                return False
        return True

    def back(self) -> Step:
        """Undo the last step; of a loop that is not over, the last iteration.

        A loop that is over is undone as a whole, however it was done.
        """
        self.check_open()
        if not self._records:
            raise no_step_done()
        index = self._records[-1].index
        start = len(self._records) - 1
        if index < self._position:  # it is over
            while start and self._records[start - 1].index == index:
                start -= 1
        for record in self._records[start:]:
            if record.effects:
                raise UserError(
                    f"There is no way back over {record.effects[0]}: it calls a Python function, "
                    "whose effects can't be undone."
                )
        self._begin()
        while len(self._records) > start:
            self._undo(self._records.pop())
        return self.steps[index]

    def _undo(self, record: JournalEntry) -> None:
        self._state.undo(record)
        for tensor in self._layout.made[record.index]:
            self._computed.pop(tensor, None)
            if tensor in record.values:
                self._values[tensor] = record.values[tensor]
            else:
                self._values.pop(tensor, None)
        del self._data[record.dumped :]
        self._outdated(record.dumped)
        self._position = record.index
        self._rounds = record.rounds
        self._shadow = None

    def _begin(self) -> None:
        """Get ready for something new: what a step that has raised did is undone."""
        self.check_open()
        if self._failed is not None:
            record, _ = self._failed
            self._failed = None
            self._undo(record)

    # -- values

    def has(self, tensor_name: str) -> bool:
        if tensor_name in self._overrides:
            return True
        return self._layout.tensors.get(tensor_name) in self._values

    def value(self, tensor_name: str) -> Any:
        """A copy of the value of a tensor; of one inside a loop, that of its last iteration."""
        if tensor_name in self._overrides:
            return np.array(self._overrides[tensor_name])
        tensor = self._layout.tensors.get(tensor_name)
        if tensor is None or tensor not in self._values:
            raise KeyError(tensor_name)
        return nobody_elses(shown(self._values[tensor]))

    def override(self, tensor_name: str, value: Any) -> None:
        self.check_open()
        tensor = self._overridable(tensor_name)
        other = value.as_graph_element().name if isinstance(value, Operand) else ""
        array = fitted_array(tensor_name, value, tensor.dtype, tensor.shape, other)
        self._begin()
        self._overrides[tensor_name] = array
        self._shadow = None
        if tensor in self._values:
            self._substitute(tensor, array)

    def _overridable(self, tensor_name: str) -> Tensor:
        self.check_known(tensor_name, self._layout.tensors)
        tensor, maker = self._layout.tensors[tensor_name], self._layout.makers[tensor_name]
        self.check_inside(tensor_name, maker)
        is_made = maker < self._position and not self.steps[maker].is_feed
        if is_made and tensor not in self._values:
            raise self.not_taken(tensor_name)
        self.check_unread(tensor_name)
        return tensor

    def take_back(self, tensor_name: str) -> None:
        """Remove an override."""
        self.check_open()
        check_overridden(tensor_name, self._overrides)
        self._begin()
        del self._overrides[tensor_name]
        self._shadow = None
        tensor = self._layout.tensors[tensor_name]
        if tensor in self._computed:
            self._substitute(tensor, self._computed[tensor])
            del self._computed[tensor]

    def _substitute(self, tensor: Tensor, value: Any) -> None:
        """Let a computed tensor have another value from now on, in the dump as well."""
        self._computed.setdefault(tensor, self._values[tensor])
        self._values[tensor] = value
        for at in range(len(self._data) - 1, -1, -1):
            known, datum = self._data[at]
            if known is tensor:
                self._data[at] = tensor, self._datum(tensor, value, datum.timestamp)
                self._outdated(at)
                return

    @property
    def overrides(self) -> Mapping[str, Any]:
        return MappingProxyType(self._overrides)

    def original(self, tensor_name: str) -> Any | None:
        """What a tensor would be if nothing were overridden; ``None``: not known.

        Not known are random numbers, and what Python functions give, for other inputs than those
        of this run.
        """
        tensor = self._layout.tensors.get(tensor_name)
        if tensor is None or tensor not in self._values:
            return None
        if self._shadow is None:
            self._shadow = NodeCounterfactual(
                self._layout, self._values, self._computed, self._errstate
            )
        self._shadow.follow(self._records, self._position)
        found = self._shadow.value(tensor)
        return None if found is None else nobody_elses(shown(found))

    # -- variables

    @property
    def updated(self) -> Sequence[str]:
        """The variables whose value is another one than before the first step."""
        return [op.name for op in self._changed()]

    def _changed(self) -> list[Operation]:
        variables = self._state.variables
        return [op for op in self._touched() if variables.get(op) is not self._initial.get(op)]

    def _touched(self) -> Iterable[Operation]:
        records = [*self._records, *([self._failed[0]] if self._failed is not None else [])]
        return dict.fromkeys(op for record in records for op in record.variables)

    def restore(self, variables: Sequence[str] = ()) -> Sequence[str]:
        self._begin()
        changed = {op.name: op for op in self._changed()}
        names = names_to_restore(variables, changed)
        for name in names:
            op = changed[name]
            before = self._initial.get(op)
            if before is None:
                self._state.variables.pop(op, None)
            else:
                self._state.variables[op] = before
        return names

    # -- what there is to see

    def graph(self) -> Graph:
        """The whole graph."""
        return self._graph

    def dump(self) -> MemoryDump:
        """What was computed so far; an overridden tensor has the value that later steps see."""
        for _, datum in self._data[self._in_dump :]:
            self._dump.add_datum(datum)
        self._in_dump = len(self._data)
        return self._dump

    def made(self, outcome: StepOutcome) -> Sequence[Datum]:
        start = self._records[-1].dumped if self._records else 0
        return [datum for _, datum in self._data[start:]]

    def _outdated(self, start: int) -> None:
        """Take out of the dump what was replaced or undone, from a place on."""
        self._in_dump = min(self._in_dump, start)
        self._dump.drop_since(self._in_dump)

    def _record(self, op: Operation, made: Sequence[Any]) -> None:
        for tensor, value in zip(op.outputs, made, strict=True):
            if value is not None:
                self._data.append((tensor, self._datum(tensor, value)))

    def _datum(self, tensor: Tensor, value: Any, timestamp: int | None = None) -> Datum:
        seen = shown(value)
        return Datum(
            tensor.op.name,
            tensor.value_index,
            lambda: seen,
            timestamp=self._clock.now() if timestamp is None else timestamp,
            device_name=DEVICE,
        )

    # -- the ends

    def finish(self) -> Capture:
        if self._capture is not None:
            return self._capture
        error = self._failed[1] if self._failed is not None else None
        value = None
        if not isinstance(error, OpError):
            error = None
            self._begin()
            try:
                while self._position < len(self.steps):
                    self._do(False)
                value = self._run.result()
            except OpError as raised:
                error = raised
        self._is_over = True
        self._state.release(self._touched())
        self._capture = Capture(value, self.dump(), error)
        return self._capture

    def withhold(self) -> None:
        """Give the session its variables back until the run is finished."""
        self.check_open()
        self._state.withhold(self._initial)

    def variable(self, name: str) -> Any:
        found = [value for op, value in self._state.variables.items() if op.name == name]
        return nobody_elses(shown(found[0])) if found else None

    def discard(self) -> None:
        """Put variables and random streams back as they were before the first step."""
        self.check_open()
        records = [*self._records, *([self._failed[0]] if self._failed is not None else [])]
        effects = [name for record in records for name in record.effects]
        if effects:
            raise UserError(
                f"This run can't be taken back: {effects[0]} has called a Python function, whose "
                "effects can't be undone.",
                "Let it go on to its end.",
            )
        self._begin()
        while self._records:
            self._undo(self._records.pop())
        self._is_over = True
