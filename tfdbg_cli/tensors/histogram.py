"""How numbers are distributed: their quantiles, and a histogram of one line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["QUANTILES", "Collector", "Distribution", "sparkline"]

_Array = np.ndarray[Any, Any]

#: The quantiles of a summary, as fractions.
QUANTILES = (0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0)

_EXACT = 1 << 24  # arrays up to this size are measured whole
_SAMPLE = 1 << 20  # elements of a larger one that are looked at
_BINS = 40
_BLOCKS = "▁▂▃▄▅▆▇█"  # U+2581 to U+2588


@dataclass(frozen=True)
class Distribution:
    """How finite numbers are distributed.

    Attributes:
        quantiles: one for each of `QUANTILES`, interpolated linearly as `numpy.quantile` does.
        counts: elements in each bin of a histogram; the bins are equal and span ``low`` to
            ``high``.
        low, high: the smallest and the largest number.
        sampled: how many elements were looked at; 0: all of them.
    """

    quantiles: tuple[float | int, ...]
    counts: tuple[int, ...]
    low: float | int
    high: float | int
    sampled: int = 0


class Collector:
    """Gathers the finite elements of an array, or a random sample of a very large one.

    Each block contributes in proportion to its size, at places that a fixed seed chooses: the same
    array gives the same sample.

    Args:
        size: elements of the whole array.
    """

    def __init__(self, size: int) -> None:
        self._share = 1.0 if size <= _EXACT else _SAMPLE / size
        self._kept: list[_Array] = []
        self._random = np.random.default_rng(0)

    def add(self, finite: _Array) -> None:
        """Take the finite elements of a block: real numbers, 1-d."""
        if self._share < 1.0:
            count = math.ceil(finite.size * self._share)
            finite = finite[self._random.integers(0, finite.size, count)]
        self._kept.append(finite)

    def distribution(self, low: float | int, high: float | int) -> Distribution | None:
        """What was gathered, measured; ``None`` where nothing was.

        Args:
            low: the smallest element of the whole array.
            high: the largest one; larger than ``low``.
        """
        if not self._kept:
            return None
        # One block is a view of the array itself, and partitioning works in place.
        values = self._kept[0].copy() if len(self._kept) == 1 else np.concatenate(self._kept)
        self._kept = []
        counts = _counts(values, low, high)
        inner = _quantiles(values, QUANTILES[1:-1])
        sampled = values.size if self._share < 1.0 else 0
        return Distribution((low, *inner, high), counts, low, high, sampled)


def _quantiles(values: _Array, fractions: Sequence[float]) -> list[float | int]:
    """Quantiles by linear interpolation; reorders ``values``."""
    places = [fraction * (values.size - 1) for fraction in fractions]
    ranks = sorted({rank for place in places for rank in (math.floor(place), math.ceil(place))})
    values.partition(ranks)
    found: list[float | int] = []
    for place in places:
        below, above = values[math.floor(place)].item(), values[math.ceil(place)].item()
        part = place - math.floor(place)
        # Weighted, because the difference of two large numbers may be infinite.
        found.append(below if below == above or not part else below * (1 - part) + above * part)
    return found


def _counts(values: _Array, low: float | int, high: float | int) -> tuple[int, ...]:
    """Elements in each of the equal bins; integers of a small range have a bin each."""
    bins = _BINS
    if values.dtype.kind in "iu" and high - low < _BINS:
        bins = int(high - low) + 1
    found = np.zeros(bins, dtype=np.int64)
    # Halves: the span of the largest floating point numbers would be infinite.
    half = 0.5 if max(abs(low), abs(high)) > 1e300 else 1.0
    begin, end = float(low) * half, float(high) * half
    for at in range(0, values.size, 1 << 20):
        part = values[at : at + (1 << 20)].astype(np.float64)
        part *= half
        part -= begin
        part /= end - begin
        part *= bins
        found += np.bincount(np.clip(part.astype(np.int64), 0, bins - 1), minlength=bins)
    return tuple(found.tolist())


def sparkline(counts: Sequence[int]) -> str:
    """Bars of eight heights, the tallest for the largest count; a blank for none at all."""
    top = max(counts, default=0)
    return "".join(_BLOCKS[(8 * count - 1) // top] if count else " " for count in counts)
