"""Numbers over runs as a file of a run folder: ``series.json``."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from tfdbg_cli.common.arrays import Array
from tfdbg_cli.dumps.run_folder.json_fields import Fields, is_size
from tfdbg_cli.dumps.series.history import KEPT_RUNS, History, MeasuredTensor
from tfdbg_cli.dumps.series.points import CAPACITY, Series
from tfdbg_cli.dumps.series.tracks import Mark, Tracks

__all__ = ["SERIES_FILE", "read_tracks", "written_tracks"]

SERIES_FILE = "series.json"

# Of many series the last numbers only, so that the file stays small; so many in all.
_MOST_NUMBERS = 200_000
_LEAST_NUMBERS = 500
_MOST_SERIES = 10_000


def written_tracks(tracks: Tracks) -> bytes:
    """The text of the file."""
    tracks.settle()
    last = max(_MOST_NUMBERS // max(len(tracks), 1), _LEAST_NUMBERS)
    found = []
    for name in tracks:
        points = tracks[name].points()
        if not len(points.runs):
            continue
        found.append(
            {
                "name": name,
                "expression": tracks[name].expression,
                "runs": points.runs[-last:].tolist(),
                "times": [round(each, 3) for each in points.times[-last:].tolist()],
                "values": _plain(points.values[-last:]),
            }
        )
    marks = [[mark.run, mark.is_bad] for mark in tracks.marks]
    told = {"marks": marks, "series": found, "magnitudes": [*_written_history(tracks.history)]}
    return json.dumps(told).encode("utf-8", "replace")


def _written_history(history: History) -> Iterator[dict[str, Any]]:
    for kind in history.kinds:
        for tensor, series in history.series(kind).items():
            points = series.points()
            yield {
                "kind": kind,
                **tensor._asdict(),
                "runs": points.runs.tolist(),
                "times": [round(each, 3) for each in points.times.tolist()],
                "values": _plain(points.values),
            }


def _plain(values: Array) -> list[float | str]:
    """Numbers for JSON, which has no word for what is not a number."""
    return [each if math.isfinite(each) else repr(each) for each in values.tolist()]


def read_tracks(found: Fields) -> Tracks:
    """What such a file says; what is damaged in it is left out."""
    made = []
    for each in found.items("series", lambda value: isinstance(value, dict))[:_MOST_SERIES]:
        fields = Fields(each, lambda name: None)
        series = Series(fields.text("name") or "?", fields.text("expression"))
        for run, value, moment in _numbers(fields, CAPACITY):
            series.add(run, value, moment)
        made.append(series)
    marks = [Mark(run, is_bad) for run, is_bad in found.items("marks", _is_mark)]
    tracks = Tracks(made, marks)
    rows: dict[tuple[str, int, float], dict[MeasuredTensor, float]] = {}
    for each in found.items("magnitudes", lambda value: isinstance(value, dict))[:_MOST_SERIES]:
        fields = Fields(each, lambda name: None)
        tensor = MeasuredTensor(*(fields.text(name) or "" for name in MeasuredTensor._fields))
        for run, value, moment in _numbers(fields, KEPT_RUNS):
            rows.setdefault((fields.text("kind") or "?", run, moment), {})[tensor] = value
    for (kind, run, moment), row in sorted(rows.items(), key=lambda each: each[0][1:]):
        tracks.history.add(kind, run, tuple(row), row.values(), moment)
    return tracks


def _numbers(fields: Fields, most: int) -> Iterator[tuple[int, float, float]]:
    """The runs, values and times of a series; none if they don't go together."""
    runs, times = (fields.items(name, _is_number) for name in ("runs", "times"))
    values = fields.items("values", lambda value: _number(value) is not None)
    if len(runs) == len(times) == len(values) <= most:
        for run, moment, value in zip(runs, times, values, strict=True):
            number = _number(value)
            if is_size(run) and number is not None:
                yield run, number, float(moment)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1 << 62


def _number(value: Any) -> float | None:
    """A number of the file; ``None``: it is none."""
    if type(value) in (int, float):
        try:
            return float(value)
        except OverflowError:
            return None
    return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}.get(str(value))


def _is_mark(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and is_size(value[0])
