"""Steps that a gradient scaler leaves out while it looks for its scale: no reason to stop."""

from __future__ import annotations

import itertools
import re

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.node_words import BACKWARD
from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.dumps.run_info import CALLS, RunInfo
from tfdbg_cli.dumps.series.points import Points
from tfdbg_cli.dumps.series.tracks import LOSS, LOSS_SCALE, STEP_SKIPPED, UNSCALED_STEP, Tracks
from tfdbg_cli.filters.causes.find import cause_of
from tfdbg_cli.filters.causes.patterns import later_phase
from tfdbg_cli.filters.lineage import TensorLineage
from tfdbg_cli.filters.origins import origin_of_nonfinite

__all__ = ["has_steps", "is_search", "no_search", "points_of"]

# Of so many runs it is told.
_RUNS = 200
# From 65536, with which scalers begin, to 256.
_MOST_IN_A_ROW = 8
# So many beginnings in one run are looked at: it takes a while to tell why each is bad.
_MOST_LOOKED_AT = 100
_OVERFLOWS = frozenset({"half", "overflow"})


def points_of(tracks: Tracks, name: str, run: int) -> Points | None:
    """The last numbers of a series up to a run; ``None``: there are none, or somebody's own.

    Args:
        tracks: the numbers over runs.
        name: of the series.
        run: the number of the run.
    """
    series = tracks.get(name)
    if series is None or not len(series) or series.expression:
        return None
    points = series.points()
    kept = np.flatnonzero((points.runs <= run) & (points.runs > run - _RUNS))
    return Points(*(each[kept] for each in points)) if kept.size else None


def no_search(tracks: Tracks, run: int) -> str | None:
    """Why a step that a scaler leaves out is no longer a part of its search for a scale.

    Args:
        tracks: the numbers over runs.
        run: the number of the run.

    Returns:
        Empty: it still may. ``None``: no step of the run was left out, as far as that is known.
    """
    scales, skips = points_of(tracks, LOSS_SCALE, run), points_of(tracks, STEP_SKIPPED, run)
    if scales is None or skips is None or not skips.values[skips.runs == run].any():
        return None
    in_a_row = itertools.takewhile(
        lambda each: skips.values[skips.runs == each].any(), np.unique(skips.runs)[::-1]
    )
    count = len([*in_a_row])
    if count > _MOST_IN_A_ROW:
        return f"{count} runs in a row: run -f passes over {_MOST_IN_A_ROW} at most"
    return "with a scale below 1 run -f passes over none" if scales.values[-1] < 1 else ""


def is_search(dump: Dump, tracks: Tracks | None, exclude: re.Pattern[str] | None = None) -> bool:
    """Whether all that went bad in a run are gradients that overflowed, and a scaler saw to it.

    Scalers begin with a scale that is too large, leave out the steps whose gradients overflow, and
    lower it. A nan that no overflow has made isn't one, nor is a division by 0: a smaller scale
    changes nothing about them.

    Args:
        dump: of the run, as its end.
        tracks: the numbers over runs.
        exclude: nodes that aren't looked at.
    """
    info = dump.run_info()
    if tracks is None or info is None or not has_steps(info):
        return False
    tracks.settle()
    run = info.number
    if no_search(tracks, run) != "":
        return False
    unscaled, losses = points_of(tracks, UNSCALED_STEP, run), points_of(tracks, LOSS, run)
    if unscaled is not None and run in unscaled.runs:
        return False
    if losses is not None and not np.isfinite(losses.values[losses.runs == run]).all():
        return False
    found = [*itertools.islice(dump.passing(origin_of_nonfinite, exclude), _MOST_LOOKED_AT + 1)]
    return len(found) <= _MOST_LOOKED_AT and all(
        _overflows(dump, each, is_first=each is found[0]) for each in found
    )


def has_steps(info: RunInfo) -> bool:
    """Whether a run may be one that trains, of a program that is followed."""
    return info.unit != "session" and info.kind not in CALLS


def _overflows(dump: Dump, datum: Datum, *, is_first: bool) -> bool:
    """Whether a gradient has left the range of its dtype.

    Levels that keep the values of the first bad tensors alone can't tell it of all others.
    """
    lineage = TensorLineage.of(dump)
    bad = lineage.bad(datum)
    if lineage.graph is None or bad is None or bad.nan:
        return False
    node = lineage.node(datum)
    if node is None or later_phase(lineage.graph.nodes, node.name) != BACKWARD:
        return False
    cause = cause_of(lineage, datum)
    if cause is not None or is_first or lineage.roles.computes(node.op_type):
        return cause is not None and cause.kind in _OVERFLOWS
    return any(lineage.as_given(datum, each) is None for each in node.inputs)
