"""Numbers over runs as a file of a run folder: ``series.json``."""

from __future__ import annotations

import json
import math
from typing import Any

from tfdbg_cli.dumps.run_folder.json_fields import Fields, is_size
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
                # JSON has no word for what is not a number.
                "values": [
                    each if math.isfinite(each) else repr(each)
                    for each in points.values[-last:].tolist()
                ],
            }
        )
    marks = [[mark.run, mark.is_bad] for mark in tracks.marks]
    return json.dumps({"marks": marks, "series": found}).encode("utf-8", "replace")


def read_tracks(found: Fields) -> Tracks:
    """What such a file says; what is damaged in it is left out."""
    made = []
    for each in found.items("series", lambda value: isinstance(value, dict))[:_MOST_SERIES]:
        fields = Fields(each, lambda name: None)
        series = Series(fields.text("name") or "?", fields.text("expression"))
        runs, times = (fields.items(name, _is_number) for name in ("runs", "times"))
        values = fields.items("values", lambda value: _number(value) is not None)
        if not len(runs) == len(times) == len(values) <= CAPACITY:
            continue
        for run, moment, value in zip(runs, times, values, strict=True):
            number = _number(value)
            if is_size(run) and number is not None:
                series.add(run, number, float(moment))
        made.append(series)
    marks = [Mark(run, is_bad) for run, is_bad in found.items("marks", _is_mark)]
    return Tracks(made, marks)


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
