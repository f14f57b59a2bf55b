"""A two-dimensional part of an array reduced to a grid of cells that loses nothing bad.

A cell knows the mean, the smallest and the largest of its finite elements, and which kinds of bad
ones there are besides. A `sampled` grid is made of some of the elements, an exact one of all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.finite import finite_test
from tfdbg_cli.tensors.numeric import dtype_kind, dtype_name, widened

__all__ = [
    "HOWS",
    "MINUS_INF",
    "NAN",
    "PLUS_INF",
    "Axis",
    "Grid",
    "check_drawable",
    "reduced",
    "sampled",
]

#: What a cell may hold besides finite elements: bits of `Grid.bad`.
NAN, PLUS_INF, MINUS_INF = 1, 2, 4

#: What of a cell's finite elements is shown.
HOWS = ("mean", "extreme", "max", "min")

# Elements that are read at once, and of how many a sample is made.
_TILE = 1 << 19
_SAMPLE = 1 << 19


class Axis(NamedTuple):
    """How one dimension falls into cells: a stretch of elements, so many to a cell.

    Attributes:
        start: the first element.
        size: how many elements.
        step: how many to a cell; the last one may have fewer.
    """

    start: int
    size: int
    step: int

    @property
    def cells(self) -> int:
        """How many cells."""
        return -(-self.size // self.step)

    def span(self, cell: int) -> tuple[int, int]:
        """The elements of a cell, ``(first, behind)``."""
        first = self.start + cell * self.step
        return first, min(first + self.step, self.start + self.size)

    def cell_of(self, element: int) -> int | None:
        """The cell that an element is in, if it is in any."""
        if not self.start <= element < self.start + self.size:
            return None
        return (element - self.start) // self.step


@dataclass(frozen=True)
class Grid:
    """Cells.

    Attributes:
        mean, low, high: of the finite elements of each cell; nan where there are none.
        bad: bits of `NAN`, `PLUS_INF`, `MINUS_INF`: what else was met there.
        is_exact: whether all elements were looked at.
    """

    mean: Array
    low: Array
    high: Array
    bad: Array
    is_exact: bool

    def values(self, how: str) -> Array:
        """One number for each cell, see `HOWS`; nan where it has no finite element."""
        if how == "max":
            return self.high
        if how == "min":
            return self.low
        if how == "extreme":
            return np.where(np.abs(self.low) > np.abs(self.high), self.low, self.high)
        return self.mean


def check_drawable(values: Array) -> None:
    """See whether a picture can be made of an array.

    Raises:
        UserError: it has no dimension, no elements, or they are no numbers.
    """
    if dtype_kind(values.dtype) in ("string", "other"):
        raise UserError(
            f"Elements of type {dtype_name(values.dtype)} make no picture.",
            "--map is for numbers.",
        )
    if not values.ndim:
        raise UserError("A single element makes no picture.", "--map takes one dimension or more.")
    if not values.size:
        raise UserError(f"An empty tensor of shape {values.shape} makes no picture.")


def reduced(
    part: Array, rows: Axis, columns: Axis, check: Callable[[], object] = lambda: None
) -> Grid:
    """The cells of a two-dimensional array, of all its elements, in bounded pieces.

    Args:
        part: numbers or bools; complex ones by their magnitude.
        rows: how its rows fall into cells.
        columns: the same of its columns.
        check: called between two pieces; what it raises goes on to the caller.
    """
    sums = _Sums(rows.cells, columns.cells)
    # A tile is some rows of one row of cells, and as many whole cells wide as may be.
    width = max(_TILE // columns.step, 1) * columns.step if columns.step < _TILE else _TILE
    width = min(width, columns.size)
    height = max(_TILE // width, 1)
    with np.errstate(all="ignore"):
        for row in range(rows.cells):
            first, behind = rows.span(row)
            for top in range(first, behind, height):
                bottom = min(top + height, behind)
                for left in range(columns.start, columns.start + columns.size, width):
                    check()
                    right = min(left + width, columns.start + columns.size)
                    sums.add(part[top:bottom, left:right], row, left - columns.start, columns.step)
        return sums.grid(is_exact=True)


def sampled(part: Array, rows: Axis, columns: Axis) -> Grid:
    """The cells of a two-dimensional array by some of their elements, in bounded time."""
    in_row = max(min(columns.size, _SAMPLE // rows.cells), columns.cells)
    stride = max(columns.size // in_row, 1)
    stride = min(stride, columns.step)
    width = -(-columns.size // stride)
    per_cell = max(min(_SAMPLE // max(rows.cells * width, 1), rows.step, 8), 1)
    sums = _Sums(rows.cells, columns.cells)
    end = columns.start + columns.size
    with np.errstate(all="ignore"):
        for row in range(rows.cells):
            first, behind = rows.span(row)
            numbers = np.unique(np.linspace(first, behind - 1, per_cell).astype(np.intp))
            if stride == 1:
                for number in numbers.tolist():
                    sums.add(part[number : number + 1, columns.start : end], row, 0, columns.step)
                continue
            # Of each cell some columns, none of a cell left out.
            begins = np.arange(columns.cells) * columns.step
            offsets = np.arange(0, columns.step, stride)
            chosen = (begins[:, None] + offsets[None, :]).ravel()
            chosen = chosen[chosen < columns.size]
            picked = part[np.ix_(numbers, chosen + columns.start)]
            sums.add_chosen(picked, row, chosen // columns.step)
        return sums.grid(is_exact=False)


class _Sums:
    """What is known of each cell so far."""

    def __init__(self, rows: int, columns: int) -> None:
        shape = (rows, columns)
        self._count = np.zeros(shape)
        self._sum = np.zeros(shape)
        self._low = np.full(shape, np.inf)
        self._high = np.full(shape, -np.inf)
        self._bad = np.zeros(shape, np.uint8)

    def add(self, tile: Array, row: int, left: int, step: int) -> None:
        """Add neighbouring columns of a row of cells; ``left``: how far from its first column."""
        at = np.arange(left, left + tile.shape[1]) // step
        self.add_chosen(tile, row, at)

    def add_chosen(self, tile: Array, row: int, cells: Array) -> None:
        """Add columns of a row of cells, each with the cell that it is in, in order."""
        starts = np.flatnonzero(np.diff(cells, prepend=-1))
        to = slice(int(cells[0]), int(cells[-1]) + 1)
        test = finite_test(tile.dtype)
        numbers = _numbers(tile)
        if test is None or test(np.ascontiguousarray(tile).reshape(-1)):
            sums = numbers.sum(axis=0, dtype=np.float64)
            low, high = numbers.min(axis=0), numbers.max(axis=0)
            self._count[row, to] += len(tile) * np.diff(starts, append=len(cells))
        else:
            finite = np.isfinite(numbers)
            bad = np.where(np.isnan(numbers), NAN, 0).astype(np.uint8)
            bad |= np.where(numbers == np.inf, PLUS_INF, 0).astype(np.uint8)
            bad |= np.where(numbers == -np.inf, MINUS_INF, 0).astype(np.uint8)
            self._bad[row, to] |= np.bitwise_or.reduceat(np.bitwise_or.reduce(bad, 0), starts)
            self._count[row, to] += np.add.reduceat(finite.sum(axis=0), starts)
            sums = np.where(finite, numbers, 0).sum(axis=0, dtype=np.float64)
            low = np.where(finite, numbers, np.inf).min(axis=0)
            high = np.where(finite, numbers, -np.inf).max(axis=0)
        self._sum[row, to] += np.add.reduceat(sums, starts)
        lows, highs = np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)
        self._low[row, to] = np.minimum(self._low[row, to], lows)
        self._high[row, to] = np.maximum(self._high[row, to], highs)

    def grid(self, *, is_exact: bool) -> Grid:
        """The cells."""
        is_empty = self._count == 0
        mean = self._sum / self._count
        # The sum of the largest numbers is infinite, and rounding carries a mean beyond the ends.
        middle = self._low / 2 + self._high / 2
        mean = np.where(np.isfinite(mean), np.clip(mean, self._low, self._high), middle)
        parts = [np.where(is_empty, np.nan, part) for part in (mean, self._low, self._high)]
        return Grid(parts[0], parts[1], parts[2], self._bad, is_exact)


def _numbers(tile: Array) -> Array:
    """Real numbers that NumPy can reduce; of complex ones the magnitudes, nan if a part is."""
    numbers = widened(tile)
    if numbers.dtype.kind == "c":
        sizes: Array = np.abs(numbers)
        sizes[np.isnan(numbers)] = np.nan
        return sizes
    if numbers.dtype.kind == "b":
        return numbers.view(np.uint8)
    if numbers.dtype == np.float16:
        return numbers.astype(np.float32)
    return numbers
