"""What became of the gradients on their way to the optimizer, in words: clipping and the scale."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from tfdbg_cli.commands.series.loss_line import number_text
from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.documents import Line, Span, line
from tfdbg_cli.dumps.run_info import CALLS, RunInfo
from tfdbg_cli.dumps.series.points import Points
from tfdbg_cli.dumps.series.tracks import (
    CLIP_LIMIT,
    CLIP_NORM,
    CLIP_SCALE,
    LOSS_SCALE,
    STEP_SKIPPED,
    VALUE_LIMIT,
    Tracks,
)

__all__ = ["StepFact", "step_facts", "step_lines"]

# Of so many runs it is told, and of so many what has just happened.
_RUNS, _JUST = 200, 10
# From 65536, with which scalers begin, to 1 in so many steps that are left out.
_SEARCH = 16
_PAST = "; normal as long as the scale is too large (run -f -fenn ^gradients/ leaves gradients out)"
# A share of runs that are clipped which matters at a stop.
_MUCH = 0.5


class StepFact(NamedTuple):
    """Something that is to be said.

    Attributes:
        label: what about.
        text: itself.
        matters: whether a stop is to say it without being asked.
        hint: what a stop says besides.
    """

    label: str
    text: str
    matters: bool
    hint: str = ""


def step_facts(tracks: Tracks | None, info: RunInfo) -> list[StepFact]:
    """What clipping and a gradient scaler did to the gradients, up to a run.

    Args:
        tracks: the numbers over runs.
        info: of the run.
    """
    if tracks is None or info.unit == "session" or info.kind in CALLS:
        return []
    tracks.settle()
    return [*_clipping(tracks, info.number), *_scale(tracks, info.number)]


def step_lines(tracks: Tracks | None, info: RunInfo | None) -> list[Line]:
    """A line for each of these facts that matters at a stop."""
    facts = step_facts(tracks, info) if info is not None else []
    kept = [each for each in facts if each.matters]
    return [line(Span(f"{each.label}: ".ljust(7), "bold"), each.text + each.hint) for each in kept]


def _points(tracks: Tracks, name: str, run: int) -> Points | None:
    """The last numbers of a series up to a run."""
    series = tracks.get(name)
    if series is None or not len(series) or series.expression:
        return None
    points = series.points()
    kept = np.flatnonzero((points.runs <= run) & (points.runs > run - _RUNS))
    return Points(*(each[kept] for each in points)) if kept.size else None


def _clipping(tracks: Tracks, run: int) -> Iterator[StepFact]:
    norms, limits = _points(tracks, CLIP_NORM, run), _points(tracks, CLIP_LIMIT, run)
    if norms is not None and limits is not None and len(norms.runs) == len(limits.runs):
        values, last = norms.values, float(norms.values[-1])
        share = float(np.mean(~(values <= limits.values)))
        count, is_now = len(np.unique(norms.runs)), int(norms.runs[-1]) == run
        text = f"at norm {number_text(float(limits.values[-1]))}"
        text = f"{text} in {_share(share)} of {_runs(count)}" if count > 1 or not share else text
        if is_now:
            text += f"; the norm of this one was {number_text(last)}{_lost(last)}"
        yield StepFact("Clipped", text, share >= _MUCH or (is_now and not math.isfinite(last)))
    scales = _points(tracks, CLIP_SCALE, run)
    if scales is not None and int(scales.runs[-1]) == run:
        text = (
            f"before unscaling: the gradients still had the factor "
            f"{number_text(float(scales.values[-1]))}. Call scaler.unscale_(optimizer) first."
        )
        yield StepFact("Clipped", text, matters=True)
    limits = _points(tracks, VALUE_LIMIT, run)
    if limits is not None:
        shown = number_text(float(limits.values[-1]))
        text = f"element by element at {shown} in {_runs(len(np.unique(limits.runs)))}"
        yield StepFact("Clipped", text, matters=False)


def _lost(norm: float) -> str:
    """What clipping by a norm that is no number makes of gradients: they are multiplied by
    ``limit / norm``."""
    if math.isnan(norm):
        return ": all gradients became nan"
    return ": finite gradients became 0, so the step lost them" if math.isinf(norm) else ""


def _scale(tracks: Tracks, run: int) -> Iterator[StepFact]:
    scales, skips = _points(tracks, LOSS_SCALE, run), _points(tracks, STEP_SKIPPED, run)
    if scales is None:
        return
    values = scales.values
    parts = [number_text(float(values[-1]))]
    drops = np.flatnonzero(values[1:] < values[:-1]) + 1
    recent = drops[scales.runs[drops] > run - _JUST]
    counted = recent if recent.size else drops
    if counted.size:
        is_half = bool(np.all(values[counted] * 2 == values[counted - 1]))
        many = _runs(min(_JUST, run)) if recent.size else _runs(len(np.unique(scales.runs)))
        parts.append(f"{'halved' if is_half else 'lowered'} {_times(counted.size)} in {many}")
    is_skipped, hint = False, ""
    if skips is not None:
        is_skipped = int(skips.runs[-1]) == run and bool(skips.values[-1])
        count = int(np.count_nonzero(skips.values))
        if count:
            this = ", this one, too" if is_skipped and count > 1 else ""
            parts.append(f"{count} of {_steps(len(skips.runs))} left out{this}")
        if is_skipped:
            parts[-1] += ": a gradient was infinite or nan"
            hint = _PAST if count <= _SEARCH else ""
    yield StepFact("Scale", ", ".join(parts), is_skipped or bool(recent.size), hint)


def _share(share: float) -> str:
    return "none" if not share else "all" if share == 1 else f"{100 * share:.3g} %"


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
