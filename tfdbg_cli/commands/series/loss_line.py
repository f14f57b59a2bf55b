"""The loss of the runs up to a stop, on one line."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.documents import Line, Link, Span, line
from tfdbg_cli.dumps.series.tracks import LOSS, Tracks
from tfdbg_cli.tensors.sparkline import INF, NAN, sparkline

__all__ = ["loss_lines", "marked_spans", "number_text", "spark_spans"]

# Blocks of the line, and the columns from which on it has words about the run before a bad one.
_LEAST, _MOST, _WIDE = 8, 60, 72


def number_text(value: float) -> str:
    """A number as short as pictures have room for."""
    return f"{value:.5g}"


def number_role(value: float) -> str:
    """The role of a number: what is bad stands out."""
    return "nan" if math.isnan(value) else "inf" if math.isinf(value) else ""


def spark_spans(text: Iterable[str]) -> list[Span]:
    """A sparkline as spans, in which what is bad stands out."""
    return marked_spans(text, {}, "number")


def marked_spans(marks: Iterable[str], roles: Mapping[str, str], other: str = "") -> list[Span]:
    """Characters as spans, by their roles; what is bad stands out.

    Args:
        marks: the characters.
        roles: of some of them.
        other: the role of all others.
    """
    roles = {NAN: "nan", INF: "inf", **roles}
    groups = itertools.groupby(marks, lambda mark: roles.get(mark, other))
    return [Span("".join(group), role) for role, group in groups]


def loss_lines(tracks: Tracks | None, whose: str = "", width: int = 80) -> list[Line]:
    """A line with the loss up to now; none where fewer than two runs have told it.

    Args:
        tracks: the numbers over runs.
        whose: they are, where there are several ranks: ``of rank 1``.
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
    words = [Span(number_text(last), number_role(last)), Span(f" at run {points.runs[-1]}")]
    finite = np.flatnonzero(np.isfinite(points.values))
    # Runs are counted by their kinds: a higher number is that of another kind.
    is_told = finite.size and points.runs[finite[-1]] <= points.runs[-1]
    if not math.isfinite(last) and is_told and width >= _WIDE:
        before = number_text(points.values[finite[-1]])
        words.append(Span(f", {before} at run {points.runs[finite[-1]]}"))
    head = Span(f"Loss {whose}:  " if whose else "Loss:  ", "bold")
    tail = Span("plot", "link", Link(f"plot {LOSS}"))
    taken = sum(len(span.text) for span in (head, *words, tail)) + 4
    blocks = sparkline(points.values, min(max(width - taken, _LEAST), _MOST))
    return [line(head, *spark_spans(blocks), "  ", *words, "  ", tail)]
