"""Keeps the largest magnitudes of tensors of the runs that go by, from their dumps."""

from __future__ import annotations

import math

from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.dumps.series.gradients import gradients_of
from tfdbg_cli.dumps.series.history import MeasuredTensor
from tfdbg_cli.dumps.series.tracks import Tracks
from tfdbg_cli.filters.lineage import floats

__all__ = ["note_gradients"]


def note_gradients(tracks: Tracks, dump: Dump) -> None:
    """Keep the magnitudes of a run's gradients, and let the run know those of the runs before.

    Args:
        tracks: where they go.
        dump: of the run that is over.
    """
    info = dump.run_info()
    if info is None:
        return
    info.tracks = tracks
    found: dict[MeasuredTensor, float] = {}
    for name, measured in gradients_of(dump).items():
        for datum in dump.by_tensor(name)[-1:]:
            size = _size(datum)
            if size is not None:
                found[measured] = size
    if found:
        tracks.history.add(info.kind, info.number or info.call_count, (*found,), found.values())


def _size(datum: Datum) -> float | None:
    """The largest magnitude of a tensor: nan if an element is; ``None``: it has no numbers."""
    value = floats(datum)
    if value is None or not value.size:
        return None
    top = float(value.max())
    return top if math.isnan(top) else max(top, -float(value.min()))
