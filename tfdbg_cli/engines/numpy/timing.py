"""A run that times its nodes: the same loop, with a look at the clock around each node."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tfdbg_cli.engines.numpy.executor import Recorder, RunState, RunStep
from tfdbg_cli.engines.numpy.nodes import Operation, Tensor

__all__ = ["TimedStep", "Timing"]


class Timing(NamedTuple):
    """One execution of one node, on a clock in nanoseconds.

    Attributes:
        op: the node.
        began: when its turn came.
        computed: when its outputs were there.
        ended: when they were kept for the nodes that consume them.
    """

    op: Operation
    began: int
    computed: int
    ended: int


class TimedStep(RunStep):
    """A `RunStep` that times its nodes.

    Args:
        timings: gets a `Timing` for each node that is computed, in order.
        state, values, recorder, errstate: as `RunStep` takes them.
    """

    def __init__(
        self,
        timings: list[Timing],
        state: RunState,
        values: dict[Tensor, Any],
        recorder: Recorder | None,
        errstate: Mapping[str, Any],
    ) -> None:
        super().__init__(state, values, recorder, errstate)
        self._timings = timings
        self._began = 0

    def _run_op(self, op: Operation) -> None:
        self._began = time.perf_counter_ns()
        super()._run_op(op)

    def _finish(self, op: Operation, results: Sequence[Any]) -> None:
        computed = time.perf_counter_ns()
        super()._finish(op, results)
        # Merge and Switch of a loop have no kernel: they come here straight away.
        began, self._began = self._began or computed, 0
        self._timings.append(Timing(op, began, computed, time.perf_counter_ns()))
