"""A run of this engine that is done step by step."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import Capture
from tfdbg_cli.engines.kit import stepped
from tfdbg_cli.engines.kit.clock import Clock
from tfdbg_cli.engines.kit.fitting import fitted_array, nobody_elses
from tfdbg_cli.engines.numpy.dtypes import Array
from tfdbg_cli.engines.numpy.errors import OpError, ResourceExhaustedError
from tfdbg_cli.engines.numpy.executor import DEVICE, PlanBlock, RunState, RunStep
from tfdbg_cli.engines.numpy.nodes import Operand, Operation, Tensor
from tfdbg_cli.engines.numpy.session import PreparedRun
from tfdbg_cli.engines.numpy.stepping.layout import NodeLayout
from tfdbg_cli.stepping.stepper import Step, StepOutcome

__all__ = ["NumpyStepper"]

#: Of the loops of a shadow: overrides may have made them finite.
_MOST_ROUNDS = 10_000


class _Moment(NamedTuple):
    """How things were before a step, or before one iteration of it.

    Attributes:
        rounds: iterations of the loop that were done.
        values: those of the tensors that it computes, as far as there were any.
        variables: those that it has changed; ``None``: it had no value.
    """

    position: int
    rounds: int
    dumped: int
    values: Mapping[Tensor, Any]
    stream: Mapping[str, Any]
    variables: dict[Operation, Array | None]


class _Shadow(RunStep):
    """What the tensors would be if nothing were overridden.

    It is the run done once more on the side, from how it began: only when somebody asks, and as far
    as is asked for.
    """

    done = rounds = 0

    def follow(self, items: Sequence[Operation | PlanBlock | None]) -> None:
        """Compute the first items, those that are not computed yet, as far as they can be."""
        try:
            with np.errstate(all="ignore"):
                for item in items[self.done :]:
                    self.run((item,) if item is not None else ())
                    self.done += 1
        except OpError:
            self.done = sys.maxsize

    def iterate(self, block: PlanBlock, is_first: bool) -> bool:
        self.rounds += 1
        if self.rounds > _MOST_ROUNDS:
            raise ResourceExhaustedError(block.loop.pred.op, "The loops go on and on.")
        return super().iterate(block, is_first)


class NumpyStepper(stepped.GraphStepper):
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
    is_over = False

    def __init__(self, run: PreparedRun, layout: NodeLayout, graph: Graph) -> None:
        super().__init__()
        #: The session's variables, until they are withheld.
        self._state = replace(run.state)
        self._session_state = run.state
        self._run = replace(run, state=self._state)
        self._layout = layout
        self.caveats = layout.caveats
        self._values = run.values
        self._executor = RunStep(self._state, run.values, self._record)
        self._initial = dict(run.state.variables)
        beginning = np.random.default_rng()
        beginning.bit_generator.state = run.state.stream.bit_generator.state
        self._shadow = _Shadow(RunState(dict(self._initial), beginning), dict(run.values))
        #: Iterations done of the loop that is the next step.
        self._rounds = 0
        self._moments: list[_Moment] = []
        #: Of the step before the last moment, which has raised. What it did until then stays until
        #: something else is done, so that a run that ends with the error ends as the plain one.
        self._error: BaseException | None = None
        self._overrides: dict[str, Array] = {}
        #: What was computed for tensors that are overridden.
        self._computed: dict[Tensor, Any] = {}
        self._clock = Clock()
        self._dump = MemoryDump(graph)
        self._capture: Capture | None = None
        for tensor, value in run.values.items():
            self._keep(tensor, value, self._clock.now())

    @property
    def steps(self) -> Sequence[Step]:
        return self._layout.steps

    def readers(self, tensor_name: str) -> Sequence[int]:
        return self._layout.readers.get(tensor_name, ())

    def has_read(self, index: int) -> bool:
        rounds = self._rounds if self._error is None else self._moments[-1].rounds
        return super().has_read(index) or (index == self._position and bool(rounds))

    def advance(self, iteration: bool = False) -> StepOutcome:
        self._begin()
        self.check_not_at_end()
        return self._do(iteration)

    def _do(self, iteration: bool) -> StepOutcome:
        index, state = self._position, self._state
        step, item, made = self.steps[index], self._layout.items[index], self._layout.made[index]
        before = dict(state.variables)
        values = {tensor: self._values[tensor] for tensor in made if tensor in self._values}
        stream = state.stream.bit_generator.state
        changed: dict[Operation, Array | None] = {}
        self._moments.append(
            _Moment(index, self._rounds, len(self._dump.added), values, stream, changed)
        )
        is_done = True
        try:
            with np.errstate(all="ignore"):
                if isinstance(item, PlanBlock):
                    while is_going := self._executor.iterate(item, self._rounds == 0):
                        self._rounds += 1
                        if iteration:
                            break
                    is_done = not is_going
                elif item is not None:
                    self._executor.run((item,))
        except BaseException as error:
            self._error = error
            raise
        finally:
            for op, value in state.variables.items():
                if value is not before.get(op):
                    changed[op] = before.get(op)
        updated = tuple(op.name for op in changed)
        if not is_done:
            return StepOutcome(step, updated, is_partial=True)
        self._position += 1
        self._rounds = 0
        for tensor in made if self._overrides else ():
            if tensor.name in self._overrides and tensor in self._values:
                self._substitute(tensor, self._overrides[tensor.name])
        return StepOutcome(step, updated)

    def back(self) -> Step:
        """Undo the last step; of a loop that is not over, the last iteration.

        A loop that is over is undone as a whole, however it was done.
        """
        self._begin()
        if not self._moments:
            raise stepped.no_step_done()
        is_over = self._moments[-1].position < self._position
        self._undo()
        while is_over and self._rounds:
            self._undo()
        return self.steps[self._position]

    def _undo(self) -> None:
        """Be at the last moment again."""
        moment = self._moments.pop()
        self._put_back(self._state, moment.variables)
        self._state.stream.bit_generator.state = moment.stream
        for tensor in self._layout.made[moment.position]:
            self._computed.pop(tensor, None)
            self._values.pop(tensor, None)
        self._values.update(moment.values)
        self._dump.drop_since(moment.dumped)
        self._position, self._rounds = moment.position, moment.rounds

    @staticmethod
    def _put_back(state: RunState, variables: Mapping[Operation, Array | None]) -> None:
        for op, value in variables.items():
            if value is None:
                state.variables.pop(op, None)
            else:
                state.variables[op] = value

    def _begin(self) -> None:
        """Get ready for something new: what a step that has raised did is undone."""
        self.check_open()
        if self._error is not None:
            self._error = None
            self._undo()

    def has(self, tensor_name: str) -> bool:
        tensor = self._layout.tensors.get(tensor_name)
        return tensor_name in self._overrides or tensor in self._values

    def value(self, tensor_name: str) -> Any:
        """A copy of the value of a tensor; of one inside a loop, that of its last iteration."""
        if tensor_name in self._overrides:
            return np.array(self._overrides[tensor_name])
        tensor = self._layout.tensors.get(tensor_name)
        if tensor is None or tensor not in self._values:
            raise KeyError(tensor_name)
        return nobody_elses(self._values[tensor])

    def override(self, tensor_name: str, value: Any) -> None:
        self.check_open()
        self.check_known(tensor_name, self._layout.tensors)
        self.check_inside(tensor_name, self._layout.makers[tensor_name])
        self.check_unread(tensor_name)
        tensor = self._layout.tensors[tensor_name]
        other = value.as_graph_element().name if isinstance(value, Operand) else ""
        array = fitted_array(tensor_name, value, tensor.dtype, tensor.shape, other)
        self._begin()
        self._overrides[tensor_name] = array
        if tensor in self._values:
            self._substitute(tensor, array)

    def take_back(self, tensor_name: str) -> None:
        self.check_open()
        stepped.check_overridden(tensor_name, self._overrides)
        self._begin()
        del self._overrides[tensor_name]
        tensor = self._layout.tensors[tensor_name]
        if tensor in self._computed:
            self._substitute(tensor, self._computed[tensor])
            del self._computed[tensor]

    def _substitute(self, tensor: Tensor, value: Any) -> None:
        """Let a computed tensor have another value from now on, in the dump as well."""
        self._computed.setdefault(tensor, self._values[tensor])
        self._values[tensor] = value
        added = self._dump.added
        at = max(at for at, datum in enumerate(added) if datum.tensor_name == tensor.name)
        old, *later = added[at:]
        self._dump.drop_since(at)
        self._keep(tensor, value, old.timestamp)
        for datum in later:
            self._dump.add_datum(datum)

    @property
    def overrides(self) -> Mapping[str, Any]:
        return MappingProxyType(self._overrides)

    def original(self, tensor_name: str) -> Any | None:
        """What a tensor would be if nothing were overridden; ``None``: not known.

        Not known is what is inside a loop that is not over.
        """
        tensor = self._layout.tensors.get(tensor_name)
        if tensor is None or tensor not in self._values:
            return None
        maker = self._layout.makers[tensor_name]
        if maker == self._position and self._rounds:
            return None
        self._shadow.follow(self._layout.items[: maker + 1])
        return nobody_elses(self._shadow.values.get(tensor))

    @property
    def updated(self) -> Sequence[str]:
        """The variables whose value is another one than before the first step."""
        return [op.name for op in self._changed()]

    def _changed(self) -> dict[Operation, Array | None]:
        """The variables that differ from what they were before the first step, and what that is."""
        touched = {op: self._initial.get(op) for each in self._moments for op in each.variables}
        return {op: old for op, old in touched.items() if self._state.variables.get(op) is not old}

    def restore(self, variables: Sequence[str] = ()) -> Sequence[str]:
        self._begin()
        changed = {op.name: (op, old) for op, old in self._changed().items()}
        names = stepped.names_to_restore(variables, changed)
        self._put_back(self._state, dict(changed[name] for name in names))
        return names

    def graph(self) -> Graph | None:
        return self._dump.graph()

    def dump(self) -> MemoryDump:
        """What was computed so far; an overridden tensor has the value that later steps see."""
        return self._dump

    def made(self, outcome: StepOutcome) -> Sequence[Datum]:
        return self._dump.added[self._moments[-1].dumped if self._moments else 0 :]

    def _record(self, op: Operation, made: Sequence[Any]) -> None:
        for tensor, value in zip(op.outputs, made, strict=True):
            if value is not None:
                self._keep(tensor, value, self._clock.now())

    def _keep(self, tensor: Tensor, value: Any, timestamp: int) -> None:
        node, slot = tensor.op.name, tensor.value_index
        self._dump.add(node, slot, value, timestamp=timestamp, device_name=DEVICE)

    def finish(self) -> Capture:
        if self._capture is not None:
            return self._capture
        value = None
        try:
            if not isinstance(self._error, OpError):
                self._begin()
            while self._error is None and self._position < len(self.steps):
                self._do(False)
            value = None if self._error is not None else self._run.result()
        except OpError as error:
            self._error = error
        self.is_over = True
        now = self._state.variables
        touched = {op: now.get(op) for each in self._moments for op in each.variables}
        self._put_back(self._session_state, touched)
        self._capture = Capture(value, self._dump, self._error)
        return self._capture

    def withhold(self) -> None:
        self.check_open()
        self._state.variables = dict(self._state.variables)
        self._session_state.variables.clear()
        self._session_state.variables.update(self._initial)

    def variable(self, name: str) -> Any:
        found = [value for op, value in self._state.variables.items() if op.name == name]
        return nobody_elses(found[0]) if found else None

    def discard(self) -> None:
        self._begin()
        while self._moments:
            self._undo()
        self.is_over = True
