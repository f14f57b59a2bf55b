"""The loss of the runs up to a stop, on one line."""

from __future__ import annotations

import math

from tfdbg_cli.common.documents import Line, Span, line
from tfdbg_cli.dumps.series.tracks import LOSS, Tracks
from tfdbg_cli.tensors.sparkline import INF, NAN, sparkline

__all__ = ["loss_lines", "number_text", "spark_spans"]

# Columns that the words beside the blocks take.
_WORDS = 44
_LONGEST = 60


def number_text(value: float) -> str:
    """A number as short as pictures have room for."""
    return f"{value:.5g}"


def number_role(value: float) -> str:
    """The role of a number: what is bad stands out."""
    return "nan" if math.isnan(value) else "inf" if math.isinf(value) else ""


def spark_spans(text: str) -> list[Span]:
    """A sparkline as spans, in which what is bad stands out."""
    spans: list[Span] = []
    for mark in text:
        role = {NAN: "nan", INF: "inf"}.get(mark, "number")
        if spans and spans[-1].role == role:
            spans[-1] = Span(spans[-1].text + mark, role)
        else:
            spans.append(Span(mark, role))
    return spans


def loss_lines(tracks: Tracks | None, width: int = 80) -> list[Line]:
    """A line with the loss up to now; none where fewer than two runs have told it.

    Args:
        tracks: the numbers over runs.
        width: columns that the line may fill.
    """
    if tracks is None:
        return []
    tracks.settle()
    series = tracks.get(LOSS)
    if series is None or len(series) < 2:
        return []
    points = series.points()
    last = float(points.values[-1])
    blocks = sparkline(points.values, min(max(width - _WORDS, 8), _LONGEST))
    words = [Span(number_text(last), number_role(last)), Span(f" at run {points.runs[-1]}")]
    if not math.isfinite(last):
        before = [at for at in range(len(points.values)) if math.isfinite(points.values[at])]
        if before:
            at = before[-1]
            words.append(Span(f", {number_text(points.values[at])} at run {points.runs[at]}"))
    return [line(("Loss:  ", "bold"), *spark_spans(blocks), "  ", *words, "  ", _PLOT)]


_PLOT = ("plot", "link", f"plot {LOSS}")
