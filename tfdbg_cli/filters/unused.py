"""``unused``: a parameter whose gradient is 0 in run after run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfdbg_cli.dumps.dump import Datum, Dump, explained, over_runs
from tfdbg_cli.dumps.series.gradients import gradients_of
from tfdbg_cli.dumps.series.history import KEPT_RUNS
from tfdbg_cli.filters.lineage import TensorLineage

__all__ = ["RunCount", "unused", "why_unused"]


class RunCount(int):
    """A number of runs is a whole number from 1 to 200."""

    def __new__(cls, value: str | int) -> RunCount:
        found = super().__new__(cls, value)
        if not 1 <= found <= KEPT_RUNS:
            raise ValueError
        return found


_RUNS = RunCount(10)


@over_runs
@explained
def unused(datum: Datum, tensor: Any, dump: Dump, *, runs: RunCount = _RUNS) -> bool:
    """Whether the gradient of a parameter was exactly 0 in each of the last 10 runs.

    The runs count for which the debugger has waited (run -f unused); another number of them is an
    argument: unused:50. The tensor is the gradient: of a parameter, where the run says whose it is,
    else what leaves the backward pass. A parameter whose gradient is never computed has no such
    tensor; on PyTorch, run_info lists these.

    Args:
        datum: the tensor.
        tensor: its value; not looked at.
        dump: whose tensor it is. It has the magnitudes of the runs before.
        runs: how many runs.
    """
    return len(TensorLineage.of(dump).once(_zeros).get(datum.tensor_name, ("", ()))[1]) >= runs


def why_unused(lineage: TensorLineage, datum: Datum) -> str:
    """Since when a gradient is 0; empty: it is none, or it isn't.

    Args:
        lineage: of the dump.
        datum: the tensor.
    """
    name, runs = lineage.once(_zeros).get(datum.tensor_name, ("", ()))
    if not runs:
        return ""
    name = f"the {name}" if name.startswith("gradient of ") else name
    since = f" {len(runs)} runs, since run {runs[-1]}" if len(runs) > 1 else f" run, {runs[0]}"
    each = "each of " if len(runs) > 1 else ""
    return f"{name} was exactly 0 in {each}the last{since}"


def _zeros(lineage: TensorLineage) -> Mapping[str, tuple[str, Sequence[int]]]:
    """The gradients that are 0 -> what they are called, and the runs since when they are."""
    info = lineage.dump.run_info()
    tracks = info.tracks if info is not None else None
    if info is None or tracks is None:
        return {}
    zeros = tracks.history.zeros(info.measured_as, info.number or info.call_count)
    return {
        tensor: (measured.name, zeros[measured])
        for tensor, measured in gradients_of(lineage.dump).items()
        if measured in zeros
    }
