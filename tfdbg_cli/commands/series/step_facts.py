"""What became of the gradients on their way to the optimizer, in words: clipping and the scale."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from tfdbg_cli.commands.series.left_out import has_steps, is_search, no_search, points_of
from tfdbg_cli.commands.series.loss_line import number_text
from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.documents import Line, Span, line
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.run_info import RunInfo
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

# Of so many runs it is told what has just happened.
_JUST = 10
_NORMAL = "; normal as long as the scale is too large (run -f passes over such steps)"
_SCALE = "Scale"
# A share of runs that are clipped which matters at a stop.
_MUCH = 0.5


class StepFact(NamedTuple):
    """Something that is to be said.

    Attributes:
        label: what about.
        text: itself.
        matters: whether a stop is to say it without being asked.
    """

    label: str
    text: str
    matters: bool


def step_facts(tracks: Tracks | None, info: RunInfo) -> list[StepFact]:
    """What clipping and a gradient scaler did to the gradients, up to a run.

    Args:
        tracks: the numbers over runs.
        info: of the run.
    """
    if tracks is None or not has_steps(info):
        return []
    tracks.settle()
    return [*_clipping(tracks, info.number), *_scale(tracks, info.number)]


def step_lines(tracks: Tracks | None, dump: Dump) -> list[Line]:
    """A line for each of these facts that matters at a stop."""
    info = dump.run_info()
    facts = step_facts(tracks, info) if info is not None else []
    return [
        line(Span(f"{each.label}: ".ljust(7), "bold"), each.text, _hint(each, tracks, dump))
        for each in facts
        if each.matters
    ]


def _hint(fact: StepFact, tracks: Tracks | None, dump: Dump) -> str:
    """What is said of a step that a scaler left out: whether that is normal."""
    info = dump.run_info()
    if fact.label != _SCALE or tracks is None or info is None:
        return ""
    if reason := no_search(tracks, info.number):
        return f"; {reason} (run -f -fenn ^gradients/ leaves gradients out)"
    return _NORMAL if is_search(dump, tracks) else ""


def _clipping(tracks: Tracks, run: int) -> Iterator[StepFact]:
    norms, limits = points_of(tracks, CLIP_NORM, run), points_of(tracks, CLIP_LIMIT, run)
    if norms is not None and limits is not None and len(norms.runs) == len(limits.runs):
        values, last = norms.values, float(norms.values[-1])
        share = float(np.mean(~(values <= limits.values)))
        count, is_now = len(np.unique(norms.runs)), int(norms.runs[-1]) == run
        text = f"at norm {number_text(float(limits.values[-1]))}"
        text = f"{text} in {_share(share)} of {_runs(count)}" if count > 1 or not share else text
        if is_now:
            text += f"; the norm of this one was {number_text(last)}{_lost(last)}"
        yield StepFact("Clipped", text, share >= _MUCH or (is_now and not math.isfinite(last)))
    scales = points_of(tracks, CLIP_SCALE, run)
    if scales is not None and int(scales.runs[-1]) == run:
        text = (
            f"before unscaling: the gradients still had the factor "
            f"{number_text(float(scales.values[-1]))}. Call scaler.unscale_(optimizer) first."
        )
        yield StepFact("Clipped", text, matters=True)
    limits = points_of(tracks, VALUE_LIMIT, run)
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
    scales, skips = points_of(tracks, LOSS_SCALE, run), points_of(tracks, STEP_SKIPPED, run)
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
    is_skipped = False
    if skips is not None:
        is_skipped = int(skips.runs[-1]) == run and bool(skips.values[-1])
        count = int(np.count_nonzero(skips.values))
        if count:
            this = ", this one, too" if is_skipped and count > 1 else ""
            parts.append(f"{count} of {_steps(len(skips.runs))} left out{this}")
        if is_skipped:
            parts[-1] += ": a gradient was infinite or nan"
    yield StepFact(_SCALE, ", ".join(parts), is_skipped or bool(recent.size))


def _share(share: float) -> str:
    return "none" if not share else "all" if share == 1 else f"{100 * share:.3g} %"


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
