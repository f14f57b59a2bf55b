"""Keeps the largest magnitudes of tensors of the runs that go by, from what is in memory anyway."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable
from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.series.gradients import gradients_of, is_backward
from tfdbg_cli.dumps.series.history import GRADIENT, OUTPUT, MeasuredTensor
from tfdbg_cli.dumps.series.tracks import Tracks
from tfdbg_cli.engines.base import Capture
from tfdbg_cli.filters.lineage import value_of
from tfdbg_cli.sessions.director.runs import StartedRun
from tfdbg_cli.tensors.numeric import dtype_kind, widened

__all__ = ["MagnitudeSampler"]

# The first runs of a kind are measured, then one of so many, as long as that takes no more than
# this share of the program's time.
_FIRST, _EVERY, _SHARE = 4, 16, 0.01
# The next run is measured, too, if something is so many times as large as it ever was.
_FAST = 1.5
# Of a run with more tensors only the first are measured.
_MOST = 1_000
# Of so many runs that differ the tensors' descriptions are kept.
_MOST_KINDS = 64


class MagnitudeSampler:
    """Measures some of the runs that pass by, and those at which the program stops.

    Args:
        tracks: where the magnitudes go.
    """

    def __init__(self, tracks: Tracks) -> None:
        self._tracks = tracks
        self._since, self._spent = time.perf_counter(), 0.0
        self._counts: dict[str, int] = {}
        self._largest: dict[str, dict[str, float]] = {}
        self._growing: set[str] = set()
        self._measured: dict[tuple[str, ...], list[MeasuredTensor]] = {}

    def see(self, run: StartedRun, capture: Capture, *, is_stop: bool) -> None:
        """A run is over in which something was waited for.

        Args:
            run: the run.
            capture: what came of it.
            is_stop: the program stops at it.
        """
        kind = run.measured_as
        count = self._counts[kind] = self._counts.get(kind, -1) + 1
        began = time.perf_counter()
        is_cheap = self._spent < _SHARE * (began - self._since)
        is_due = kind in self._growing or not count % _EVERY
        is_asked = is_stop or self._tracks.has_ranges
        if capture.held is None or not (is_asked or count < _FIRST or (is_cheap and is_due)):
            return
        with contained:  # the run has gone well, whatever an engine can't read
            self._measure(run, capture.held())
        if count >= _FIRST:
            self._spent += time.perf_counter() - began

    def _measure(self, run: StartedRun, held: Iterable[tuple[str, Any]]) -> None:
        kind = run.measured_as
        sizes: dict[str, float] = {}
        for name, value in itertools.islice(held, _MOST):
            size = _size(value)
            if size is not None:
                sizes[name] = size
        if not sizes:
            return
        largest = self._largest.setdefault(kind, {})
        grown = {name: size for name, size in sizes.items() if size > largest.get(name, 0.0)}
        is_fast = any(size > _FAST * largest.get(name, size) for name, size in grown.items())
        (self._growing.add if is_fast else self._growing.discard)(kind)
        largest |= grown
        names = (*sizes,)
        if names not in self._measured:
            if len(self._measured) >= _MOST_KINDS:
                self._measured.clear()
            self._measured[names] = [_measured(name) for name in names]
        number = run.info.number or run.number
        self._tracks.history.add(kind, number, self._measured[names], sizes.values())

    def note_gradients(self, dump: Dump) -> None:
        """Keep the magnitudes of a run's gradients, and let it know those of the runs before.

        Args:
            dump: of the run that is over.
        """
        info = dump.run_info()
        if info is None:
            return
        info.tracks = self._tracks
        found: dict[MeasuredTensor, float] = {}
        for name, measured in gradients_of(dump).items():
            for datum in dump.by_tensor(name)[-1:]:
                size = _size(value_of(datum))
                if size is not None:
                    found[measured] = size
        if found:
            number = info.number or info.call_count
            self._tracks.history.add(info.measured_as, number, (*found,), found.values())


def _measured(name: str) -> MeasuredTensor:
    module = name.rpartition("/")[0]
    return MeasuredTensor(name, module, GRADIENT if is_backward(name) else OUTPUT)


def _size(value: Any) -> float | None:
    """The largest magnitude of a tensor: nan if an element is; ``None``: it has no numbers."""
    if not isinstance(value, np.ndarray | np.generic) or not value.size:
        return None
    if dtype_kind(value.dtype) != "float":
        return None
    value = widened(np.asarray(value))
    top = float(value.max())
    return top if math.isnan(top) else max(top, -float(value.min()))
