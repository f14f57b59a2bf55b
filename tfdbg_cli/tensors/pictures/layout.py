"""Where the cells of pictures stand on a page of characters, two pixels to a character."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tfdbg_cli.tensors.pictures.reduction import Axis

__all__ = ["Panel", "Region", "fitted", "inside", "tiled"]

# A dimension isn't reduced to fewer cells for the sake of the proportions.
_FEW = 32
# A cell is at most so many pixels wide or high, which is even: cells end where characters do.
_LARGEST = 8
# A tile has at least so many lines and columns.
_TILE_LINES, _TILE_COLUMNS = 3, 6

#: Top, left, height and width of a part, in elements.
Region = tuple[int, int, int, int]


@dataclass(frozen=True)
class Panel:
    """One picture on the page.

    Attributes:
        outer: which two-dimensional part of the array, see `plane`.
        rows, columns: how it falls into cells.
        high, wide: how many pixels a cell takes.
        line, column: the character that it begins at.
    """

    outer: tuple[int, ...]
    rows: Axis
    columns: Axis
    high: int
    wide: int
    line: int = 0
    column: int = 0

    @property
    def lines(self) -> int:
        """How many lines it takes."""
        return -(-self.rows.cells * self.high // 2)

    @property
    def width(self) -> int:
        """How many columns it takes."""
        return self.columns.cells * self.wide

    def halves(self, line: int) -> tuple[int, int | None]:
        """The rows of cells in the upper and the lower half of one of its lines."""
        upper, lower = (2 * line) // self.high, (2 * line + 1) // self.high
        return upper, lower if lower < self.rows.cells else None

    def block(self, line: int, cell: int) -> tuple[slice, slice]:
        """The rows and columns of the elements under a character of one of its lines.

        Args:
            line: from its first one.
            cell: a column of cells.
        """
        upper, lower = self.halves(line)
        behind = self.rows.span(upper if lower is None else lower)[1]
        return slice(self.rows.span(upper)[0], behind), slice(*self.columns.span(cell))

    def place_of(self, row: int, column: int) -> tuple[int, int] | None:
        """The line and the column of cells that show an element, if it is in the part shown."""
        across, down = self.columns.cell_of(column), self.rows.cell_of(row)
        if across is None or down is None:
            return None
        return down * self.high // 2, across


def fitted(region: Region, lines: int, width: int, outer: tuple[int, ...] = ()) -> Panel:
    """A part of an array on a page of so many lines and columns.

    Its proportions are kept as long as no dimension becomes a mere line, where there is room.
    """
    top, left, height, across = region
    most = (2 * max(lines, 1), max(width, 1))
    needed = [-(-n // m) for n, m in zip((height, across), most, strict=True)]
    step = max(needed)
    steps = [
        step if -(-n // step) >= min(n, _FEW) else max(own, min(n // _FEW, step), 1)
        for n, own in zip((height, across), needed, strict=True)
    ]
    rows, columns = Axis(top, height, steps[0]), Axis(left, across, steps[1])
    high, wide = most[0] // rows.cells, most[1] // columns.cells
    if steps == [1, 1]:
        high = wide = min(high, wide)
    high = min(high, _LARGEST) if steps[0] == 1 else 1
    wide = min(wide, _LARGEST) if steps[1] == 1 else 1
    if steps == [1, 1]:
        high = wide = _even(high)
    return Panel(outer, rows, columns, _even(high), wide)


def inside(region: Region, size: tuple[int, int]) -> Region | None:
    """A part moved into an array of so many rows and columns; ``None``: it is all of it."""
    top, left, high, wide = region
    if (high, wide) == size:
        return None
    return min(max(top, 0), size[0] - high), min(max(left, 0), size[1] - wide), high, wide


def _even(number: int) -> int:
    return max(number - number % 2, 1)


def tiled(height: int, width: int, count: int, lines: int, columns: int) -> list[Panel]:
    """As many pictures of one size as have room, side by side, each below a line of its own.

    Args:
        height, width: of each, in elements.
        count: how many there are.
        lines, columns: of the page.
    """
    room = max(lines // (_TILE_LINES + 1), 1)
    choices: list[tuple[tuple[int, int], int, Panel]] = []
    for across in range(1, min(max(columns // (_TILE_COLUMNS + 1), 1), count) + 1):
        down = min(math.ceil(count / across), room)
        wide = (columns - across + 1) // across
        panel = fitted((0, 0, height, width), max(lines // down - 1, 1), wide)
        # All of them rather than large ones; then as many pixels as possible.
        merit = (min(across * down, count), 2 * panel.lines * panel.width)
        choices.append((merit, across, panel))
    (shown, _), across, model = max(choices, key=lambda choice: choice[0])
    return [
        replace(
            model,
            line=at // across * (model.lines + 1) + 1,
            column=at % across * (max(model.width, _TILE_COLUMNS) + 1),
        )
        for at in range(shown)
    ]
