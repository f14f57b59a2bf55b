"""A run that was made already, gone through step by step: nothing in it can be changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import Capture
from tfdbg_cli.engines.kit.fitting import nobody_elses
from tfdbg_cli.engines.kit.stepped import GraphStepper, no_step_done
from tfdbg_cli.engines.tensorflow.stepping.dump import in_order
from tfdbg_cli.stepping.stepper import Step, StepOutcome

__all__ = ["RecordedRun", "StepData"]


class StepData:
    """The tensors of one execution, by the steps that made them.

    Args:
        place: node -> index of its step.
        data: in the order in which they were made.
    """

    def __init__(self, place: Mapping[str, int], data: Iterable[Datum]) -> None:
        self._by_step: dict[int, list[Datum]] = {}
        self._last: dict[str, Datum] = {}
        for datum in data:
            at = place.get(datum.node_name)
            if at is not None:
                self._by_step.setdefault(at, []).append(datum)
                self._last[datum.tensor_name] = datum

    def of(self, index: int) -> Sequence[Datum]:
        """The tensors of a step."""
        return self._by_step.get(index, ())

    def has(self, tensor_name: str) -> bool:
        """Whether there is a value."""
        return tensor_name in self._last

    def value(self, tensor_name: str) -> Any:
        """The last value of a tensor; ``None``: there is none."""
        found = self._last.get(tensor_name)
        return found.get_tensor() if found is not None else None


class RecordedRun(GraphStepper):
    """Goes through what was recorded.

    Args:
        steps: in order.
        place: node -> index of its step, nodes inside of steps included.
        graph: of the run.
        data: its tensors.
        real: what came of it.
        failed_at: the index of the step that has raised the run's error.
        written: step -> the variables that it has written.
    """

    engine_name = "tensorflow2"
    caveats: Sequence[str] = (
        "The run was made before the first step: nothing in it can be overridden.",
    )

    def __init__(
        self,
        steps: Sequence[Step],
        place: Mapping[str, int],
        graph: Graph,
        data: Iterable[Datum],
        real: Capture,
        failed_at: int,
        written: Mapping[int, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        super().__init__()
        self._steps, self._place, self._graph = tuple(steps), place, graph
        self._base = StepData(place, data)
        self._real, self._failed_at, self._written = real, failed_at, written
        self._capture: Capture | None = None
        self._readers: dict[str, list[int]] = {}
        for index, step in enumerate(self._steps):
            for name in step.inputs:
                self._readers.setdefault(name, []).append(index)

    # Where it is.

    @property
    def steps(self) -> Sequence[Step]:
        return self._steps

    @property
    def is_over(self) -> bool:
        return self._capture is not None

    @property
    def real(self) -> Capture:
        """The run that was made."""
        return self._real

    def readers(self, tensor_name: str) -> Sequence[int]:
        return self._readers.get(tensor_name, ())

    def advance(self, iteration: bool = False) -> StepOutcome:
        del iteration
        self.check_open()
        self.check_not_at_end()
        index = self._position
        self._check_step(index)
        self._position += 1
        return StepOutcome(self.steps[index], tuple(self._writes(index)))

    def _check_step(self, index: int) -> None:
        """Raise what a step raises."""
        if self._real.error is not None and index == self._failed_at:
            raise self._real.error

    def _writes(self, index: int) -> Sequence[str]:
        """The variables that a step writes."""
        return self._written.get(index, ())

    def back(self) -> Step:
        self.check_open()
        if not self._position:
            raise no_step_done()
        self._position -= 1
        return self.steps[self._position]

    # Values.

    def _data(self, index: int) -> StepData:
        """Where the tensors of a step are found."""
        return self._base

    def _maker(self, tensor_name: str) -> int | None:
        return self._place.get(tensor_name.rpartition(":")[0])

    def has(self, tensor_name: str) -> bool:
        if tensor_name in self.overrides:
            return True
        at = self._maker(tensor_name)
        return at is not None and at < self._position and self._data(at).has(tensor_name)

    def value(self, tensor_name: str) -> Any:
        """A copy of the value of a tensor; of one inside a loop, that of its last iteration."""
        return nobody_elses(self._get(tensor_name))

    def lent(self, tensor_name: str) -> Any:
        value = self._get(tensor_name)
        return value if isinstance(value, np.ndarray) else None

    def _get(self, tensor_name: str) -> Any:
        if tensor_name in self.overrides:
            return self.overrides[tensor_name]
        if not self.has(tensor_name):
            raise KeyError(tensor_name)
        at = self._maker(tensor_name)
        assert at is not None
        return self._data(at).value(tensor_name)

    def original(self, tensor_name: str) -> Any | None:
        return nobody_elses(self._base.value(tensor_name))

    @property
    def overrides(self) -> Mapping[str, Any]:
        return {}

    def override(self, tensor_name: str, value: Any) -> None:
        raise UserError(
            f"{tensor_name} can't be overridden: this run was made op by op by the program, "
            "and can only be stepped through.",
            "Tensors in a tf.function can be overridden if the run is one call of it.",
        )

    def take_back(self, tensor_name: str) -> None:
        raise UserError(f"{tensor_name} is not overridden.")

    @property
    def updated(self) -> Sequence[str]:
        names = [name for index in range(self._position) for name in self._writes(index)]
        return list(dict.fromkeys(names))

    # What there is to see.

    def graph(self) -> Graph | None:
        return self._graph

    def dump(self) -> MemoryDump:
        return self._dump_until(self._position)

    def _dump_until(self, end: int) -> MemoryDump:
        overrides = dict(self.overrides)

        def groups() -> Iterator[Sequence[Datum]]:
            for index in range(end):
                yield self._data(index).of(index)

        return MemoryDump(self._graph, make=lambda: in_order(groups(), overrides, 0))

    def made(self, outcome: StepOutcome) -> Sequence[Datum]:
        index = self._position - 1
        shown = {n: v for n, v in self.overrides.items() if n in outcome.step.outputs}
        return list(in_order([self._data(index).of(index)], shown, 0))

    # The ends.

    def finish(self) -> Capture:
        if self._capture is None:
            failed = self._real.error is not None
            self._position = self._failed_at if failed else len(self.steps)
            dump = self._dump_until(self._position)
            self._capture = Capture(self._real.value, dump, self._real.error)
        return self._capture

    def discard(self) -> Capture:
        """The run as it was made."""
        self._capture = None
        return self.finish()

    def again(self) -> RecordedRun:
        """The same record from its beginning."""
        self._capture = None
        self._position = 0
        return self
