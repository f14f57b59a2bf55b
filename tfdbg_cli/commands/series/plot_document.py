"""The picture of one series: a curve with axes, a cursor over it, marks for stops and bad runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfdbg_cli.commands.series.loss_line import marked_spans, number_role, number_text
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.documents import Cell, Document, Line, Link, Span, TextDocument, line
from tfdbg_cli.dumps.series.points import Points
from tfdbg_cli.dumps.series.tracks import Mark
from tfdbg_cli.tensors.curve import braille_rows, column_of, framed, ticks
from tfdbg_cli.tensors.sparkline import INF, NAN

__all__ = ["PlotDocument", "between"]

# What stands on the axis below a run: the program stopped there; it was bad.
_STOP, _BAD = "▲", "×"
_LEAST_WIDTH = 16
_LABEL = 7
_MOST_LISTED = 200


class PlotDocument(Document):
    """One series.

    Args:
        number: tells it from others that are shown beside it.
        name: of the series.
        points: its numbers; not empty.
        marks: the runs to mark.
        runs: the first and the last run to show.
        width: columns that lines may fill.
        height: rows of the curve.
        is_log: whether the axis is logarithmic.
    """

    def __init__(
        self,
        number: int,
        name: str,
        points: Points,
        marks: Sequence[Mark],
        runs: tuple[int, int],
        width: int,
        height: int,
        *,
        is_log: bool = False,
    ) -> None:
        self._number, self._name, self._all, self._marks = number, name, points, marks
        self._runs, self._height, self._is_log = runs, height, is_log
        self._shown = between(points, runs)
        values = self._shown.values
        self._frame = framed(values, *runs, is_log=is_log)
        labels = self._labels()
        self._left = max(_LABEL, *map(len, labels)) + 2  # mostly the same for several curves
        self._width = max(width - self._left, _LEAST_WIDTH)
        self._columns = column_of(self._shown.runs, self._frame, self._width)
        self._begin = 1  # the first line over which the cursor moves
        self._lines = [self._head(), *self._curve(labels), *self._foot()]

    @property
    def line_count(self) -> int:
        return len(self._lines)

    def lines(self, start: int, stop: int) -> list[Line]:
        return self._lines[max(start, 0) : max(stop, 0)]

    def resized(self, width: int) -> Document:
        """The same runs, in another width."""
        return PlotDocument(
            self._number,
            self._name,
            self._all,
            self._marks,
            self._runs,
            width,
            self._height,
            is_log=self._is_log,
        )

    def cells(self, number: int) -> list[Cell]:
        """One for each column of the picture."""
        if not self._begin <= number < len(self._lines) - 2:
            return []
        begin = self._left
        return [Cell(begin + at, begin + at + 1, (self._number, at)) for at in range(self._width)]

    def element(self, indices: Sequence[int]) -> Document | None:
        """The numbers of a column; of one without any, those of the nearest."""
        if len(indices) != 2 or indices[0] != self._number or not len(self._columns):
            return None
        nearest = self._columns[np.abs(self._columns - indices[1]).argmin()]
        found = Points(*(each[self._columns == nearest] for each in self._shown))
        first, last = int(found.runs[0]), int(found.runs[-1])
        at = _telling(found.values)
        told = f"{self._name} at run {found.runs[at]} = {_exact(found.values[at])}"
        lines = [line(told), line()]
        if len(found.runs) > 1:
            lines[1:1] = [line((f"It stands out among runs {first} to {last}.", "dim"))]
        around = max((self._runs[1] - self._runs[0]) // 8, 5)
        command = f"plot {quoted(self._name)} -r {max(first - around, 0)}:{last + around}"
        lines += [line(("zoom in: ", "dim"), Span(command, "link", Link(command))), line()]
        shown = slice(0, _MOST_LISTED)
        for run, value in zip(found.runs[shown], found.values[shown], strict=True):
            lines.append(line(f"  run {run}  ", (_exact(value), number_role(value))))
        if len(found.runs) > _MOST_LISTED:
            lines.append(line((f"  and {len(found.runs) - _MOST_LISTED} more", "dim")))
        return TextDocument(lines, title=told)

    def _labels(self) -> list[str]:
        """The numbers at the left of the rows; most have none."""
        labels = [""] * self._height
        places = {0, self._height - 1}
        if self._height >= 5:
            places.add(self._height // 2)
        for row in places:
            labels[row] = f"{self._frame.value(1 - row / max(self._height - 1, 1)):.4g}"
        return labels

    def _head(self) -> Line:
        points = self._shown
        parts = [Span(self._name, "bold")]
        if not len(points.runs):
            return Line([*parts, Span(f"  no number in runs {self._runs[0]} to {self._runs[1]}")])
        last = float(points.values[-1])
        parts += [
            Span("  "),
            Span(number_text(last), number_role(last)),
            Span(f" at run {points.runs[-1]}"),
        ]
        finite = np.isfinite(points.values)
        if finite.any():
            for word, at in (("lowest", np.nanargmin), ("highest", np.nanargmax)):
                place = int(at(np.where(finite, points.values, np.nan)))
                found = number_text(points.values[place])
                parts.append(Span(f", {word} {found} at {points.runs[place]}"))
        bad = int((~finite).sum())
        if bad:
            parts.append(Span(f", {bad} bad", "error"))
        if self._frame.is_log:
            parts.append(Span("  (logarithmic)", "dim"))
        return Line(parts)

    def _curve(self, labels: list[str]) -> list[Line]:
        rows = braille_rows(
            self._shown.runs, self._shown.values, self._frame, self._width, self._height
        )
        lines = []
        pad = self._left - 2
        if not np.isfinite(self._shown.values).all():
            marks = [" "] * self._width
            for column, value in zip(self._columns, self._shown.values, strict=True):
                if np.isnan(value):
                    marks[column] = NAN
                elif np.isinf(value) and marks[column] != NAN:
                    marks[column] = INF
            lines.append(Line([Span(" " * pad + " ╷", "dim"), *marked_spans(marks, {})]))
        for label, row in zip(labels, rows, strict=True):
            axis = " ┤" if label else " │"
            lines.append(line((f"{label:>{pad}}{axis}", "dim"), (row, "number")))
        return lines

    def _foot(self) -> list[Line]:
        axis = ["─"] * self._width
        for mark in sorted(self._marks, key=lambda each: each.is_bad):
            if self._frame.first <= mark.run <= self._frame.last:
                at = int(column_of(np.array([mark.run]), self._frame, self._width)[0])
                axis[at] = _BAD if mark.is_bad else _STOP
        pad = self._left - 2
        return [
            Line([Span(" " * pad + " └", "dim"), *marked_spans(axis, {_STOP: "info", "─": "dim"})]),
            line((" " * self._left + ticks(self._frame, self._width), "dim")),
        ]


def between(points: Points, runs: tuple[int, int]) -> Points:
    """The numbers of some runs, in the order of the runs."""
    order = np.argsort(points.runs, kind="stable")
    inside = order[(points.runs[order] >= runs[0]) & (points.runs[order] <= runs[1])]
    return Points(*(each[inside] for each in points))


def _telling(values: Any) -> int:
    """Which of the numbers of a column is told: a bad one, or what stands out."""
    for is_bad in (np.isnan, np.isinf):
        found = np.flatnonzero(is_bad(values))
        if found.size:
            return int(found[0])
    return int(np.abs(values - np.median(values)).argmax())


def _exact(value: float) -> str:
    return repr(float(value))
