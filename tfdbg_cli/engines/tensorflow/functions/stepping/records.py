"""A run that was made already, gone through step by step: nothing in it can be changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.engines.base import Capture
from tfdbg_cli.engines.kit.fitting import nobody_elses
from tfdbg_cli.engines.kit.replayed import ReplayStepper, StepData, StepReader
from tfdbg_cli.stepping.stepper import Step

__all__ = ["RecordedRun", "by_node"]


def by_node(place: Mapping[str, int], data: Iterable[Datum]) -> StepData:
    """The tensors of one execution.

    Args:
        place: node -> index of its step.
        data: in the order in which they were made.
    """
    return StepData(lambda datum: place.get(datum.node_name), data)


class RecordedRun(ReplayStepper):
    """Goes through what was recorded.

    Args:
        steps: in order.
        place: node -> index of its step, nodes inside of steps included.
        graph: of the run.
        data: its tensors.
        real: what came of it.
        failed_at: the index of the step that has raised the run's error.
        written: step -> the variables that it has written.
        readers: as in `ReplayStepper`.
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
        readers: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        super().__init__(tuple(steps), readers)
        self._place, self._graph = place, graph
        self._base = by_node(place, data)
        self._real, self._failed_at, self._written = real, failed_at, written

    @property
    def _overrides(self) -> Mapping[str, Any]:  # type: ignore[override]
        return {}

    @property
    def real(self) -> Capture:
        """The run that was made."""
        return self._real

    def _do(self, index: int) -> None:
        if self._real.error is not None and index == self._failed_at:
            raise self._real.error

    def _writes(self, index: int) -> Sequence[str]:
        return self._written.get(index, ())

    def _restore(self, variables: Sequence[str]) -> None:
        raise UserError("The variables of this run can't be restored.")

    # Values.

    def _data(self, index: int) -> StepData:
        """Where the tensors of a step are found."""
        return self._base

    def _maker(self, tensor_name: str) -> int | None:
        return self._place.get(tensor_name.rpartition(":")[0])

    def _is_there(self, tensor_name: str) -> bool:
        at = self._maker(tensor_name)
        return (
            at is not None and at < self._position and self._data(at).place(tensor_name) is not None
        )

    def _found(self, tensor_name: str) -> Any:
        at = self._maker(tensor_name)
        assert at is not None
        return self._data(at).value(tensor_name)

    def original(self, tensor_name: str) -> Any | None:
        return nobody_elses(self._base.value(tensor_name))

    def _overridable(self, tensor_name: str) -> tuple[np.dtype[Any], Sequence[int | None] | None]:
        raise UserError(
            f"{tensor_name} can't be overridden: this run was made op by op by the program, "
            "and can only be stepped through.",
            "Tensors in a tf.function can be overridden if the run is one call of it.",
        )

    def _override(self, tensor_name: str, value: np.ndarray[Any, Any] | None) -> None:
        self._overridable(tensor_name)

    # What there is to see.

    def graph(self) -> Graph | None:
        return self._graph

    def _reader(self) -> StepReader:
        return self._base.of

    # The ends.

    def _finished(self) -> Capture:
        real = self._real
        self._position = self._failed_at if real.error is not None else len(self.steps)
        return Capture(real.value, None, real.error)
