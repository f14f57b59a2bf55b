"""A curve of numbers over runs in braille dots, which loses no peak."""

from __future__ import annotations

from typing import NamedTuple

from tfdbg_cli.common.arrays import Array, np

__all__ = ["Frame", "braille_rows", "column_of", "framed", "ticks"]

# The bits of a braille character's dots, by row and column.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_BLANK = 0x2800


class Frame(NamedTuple):
    """What a picture shows of a series.

    Attributes:
        first, last: the runs at its left and its right end.
        low, high: the numbers at its lower and its upper end; of a logarithmic one their exponents.
        is_log: whether each step upwards is a factor.
    """

    first: int
    last: int
    low: float
    high: float
    is_log: bool = False

    def height(self, values: Array) -> Array:
        """Where numbers are between the lower end, 0, and the upper one, 1."""
        if self.is_log:
            with np.errstate(all="ignore"):
                values = np.log10(values)
        # Halves: the span of the largest floating point numbers would be infinite.
        found: Array = (values / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return found

    def value(self, height: float) -> float:
        """The number at a height."""
        found = 2 * (self.low / 2 + (self.high / 2 - self.low / 2) * height)
        with np.errstate(all="ignore"):
            return float(np.power(10.0, found)) if self.is_log else float(found)


def framed(values: Array, first: int, last: int, *, is_log: bool = False) -> Frame:
    """The frame in which all finite numbers of a series have room.

    Args:
        values: the numbers; for a logarithmic frame those above 0 count.
        first, last: the runs at its ends.
        is_log: whether it is to be logarithmic; it isn't if no number is above 0.
    """
    finite = values[np.isfinite(values)]
    above = finite[finite > 0]
    is_log = is_log and bool(above.size)
    if is_log:
        finite = np.log10(above)
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if low == high:  # a line in the middle
        half = 0.5 if is_log else abs(low) / 2 or 0.5
        low, high = low - half, high + half
    return Frame(first, max(last, first), low, high, is_log)


def column_of(runs: Array, frame: Frame, width: int) -> Array:
    """The columns of runs in a picture so many columns wide."""
    span = max(frame.last - frame.first, 1)
    found: Array = np.rint((runs - frame.first) * ((width - 1) / span)).astype(np.int64)
    return found


def braille_rows(runs: Array, values: Array, frame: Frame, width: int, height: int) -> list[str]:
    """The picture of a series, as rows of characters.

    Numbers that share a column are a stroke from the smallest to the largest. Neighbours are
    joined, unless something bad, or what a logarithm doesn't have, is between them.

    Args:
        runs: in ascending order.
        values: as many.
        frame: what is shown.
        width, height: in characters.
    """
    dots = np.zeros((4 * height, 2 * width), dtype=bool)
    with np.errstate(all="ignore"):
        places = frame.height(values.astype(np.float64))
    is_there = np.isfinite(places)
    rows = np.zeros(len(values), dtype=np.int64)
    share = np.clip(places[is_there], 0, 1)
    rows[is_there] = np.rint((1 - share) * (4 * height - 1)).astype(np.int64)
    columns = column_of(runs, frame, 2 * width)
    before: tuple[int, int] | None = None
    for column, row, there in zip(columns.tolist(), rows.tolist(), is_there.tolist(), strict=True):
        if not there:
            before = None
            continue
        if 0 <= column < 2 * width:
            _join(dots, before if before is not None else (column, row), (column, row))
        before = (column, row)
    cells = dots.reshape(height, 4, width, 2).transpose(0, 2, 1, 3)
    codes = (cells * np.array(_DOTS, np.uint32)).sum(axis=(2, 3), dtype=np.uint32) + _BLANK
    return ["".join(map(chr, row)) for row in codes.tolist()]


def _join(dots: Array, begin: tuple[int, int], end: tuple[int, int]) -> None:
    """A line from one dot to another one to its right, or above or below it."""
    left, right = max(begin[0], 0), end[0]
    if right <= left:
        low, high = sorted((begin[1], end[1]))
        dots[low : high + 1, right] = True
        return
    steps = np.linspace(begin[1], end[1], end[0] - begin[0] + 1)[left - begin[0] :]
    heights = np.rint(steps).astype(np.int64)
    dots[heights[0], left] = True
    for at in range(1, len(heights)):
        low, high = sorted((int(heights[at - 1]), int(heights[at])))
        # The stroke is in the column that it leads to, but for its first dot.
        upward = heights[at] < heights[at - 1]
        dots[low : high + (not upward), left + at] = True
        dots[heights[at], left + at] = True


def ticks(frame: Frame, width: int) -> str:
    """The runs at the ends and in the middle of the axis, each below its place."""
    row = [" "] * width
    middle = (frame.first + frame.last) // 2
    end = len(str(frame.last))
    centre = int(column_of(np.array([middle]), frame, width)[0]) - len(str(middle)) // 2
    for run, at in ((frame.first, 0), (middle, centre), (frame.last, width - end)):
        text = str(run)
        if at < 0 or at + len(text) > width:
            continue
        if "".join(row[max(at - 1, 0) : at + len(text) + 1]).strip() == "":
            row[at : at + len(text)] = text
    return "".join(row).rstrip()
