"""A series of numbers as one row of blocks, which loses no bad number and no peak."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tfdbg_cli.common.arrays import Array, np

__all__ = ["BLOCKS", "GAP", "INF", "NAN", "sparkline"]

BLOCKS = "▁▂▃▄▅▆▇█"  # U+2581 to U+2588
#: What stands for a nan, for an infinity, and where there is no number.
NAN, INF, GAP = "×", "∞", " "


def sparkline(numbers: Sequence[float | None] | Array, width: int = 40) -> str:
    """Draw numbers as blocks of eight heights, the lowest for the smallest finite number.

    A series that is longer than ``width`` is cut into ``width`` stretches. A stretch with a nan or
    an infinity shows that, one that holds the largest or the smallest of all numbers shows this,
    and others the one of their numbers that is farthest from their median.

    Args:
        numbers: the series; ``None`` where there is no number.
        width: the most characters to use.
    """
    values = np.asarray(
        [np.nan if each is None else each for each in numbers], dtype=np.float64
    ).reshape(-1)
    missing = np.asarray([each is None for each in numbers], dtype=bool).reshape(-1)
    if not values.size or width < 1:
        return ""
    finite = values[np.isfinite(values)]
    # Halves: the span of the largest floating point numbers would be infinite.
    low, high = (finite.min() / 2, finite.max() / 2) if finite.size else (0.0, 0.0)
    edges = np.linspace(0, values.size, min(width, values.size) + 1).astype(np.int64)
    marks = []
    for begin, end in pairwise(edges):
        there = values[begin:end][~missing[begin:end]]
        if not there.size:
            marks.append(GAP)
        elif np.isnan(there).any():
            marks.append(NAN)
        elif np.isinf(there).any():
            marks.append(INF)
        elif low == high:
            marks.append(BLOCKS[3])
        else:
            share = (_telling(there / 2, low, high) - low) / (high - low)
            marks.append(BLOCKS[min(int(share * 8), 7)])
    return "".join(marks)


def _telling(values: Array, low: float, high: float) -> float:
    """The number that stands for all of a stretch."""
    top, bottom = values.max(), values.min()
    if (top == high) != (bottom == low):
        return float(top if top == high else bottom)
    middle = np.median(values)
    return float(top if top - middle >= middle - bottom else bottom)
