"""Which elements of an array stand on which line of its text: arithmetic on its shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.errors import UserError

__all__ = ["Layout", "LinePlace", "check_indices"]


def check_indices(indices: Sequence[int], shape: Sequence[int]) -> None:
    """See whether an array has an element.

    Args:
        indices: one index per dimension, from 0.
        shape: of the array.

    Raises:
        UserError: it has none there.
    """
    if len(indices) != len(shape):
        raise UserError(
            f"Dimensions mismatch: requested: {len(indices)}; actual: {len(shape)}.",
            f"The shape is {tuple(shape)}.",
        )
    for axis, (index, n) in enumerate(zip(indices, shape, strict=True)):
        if index < 0:
            raise UserError(f"The index {index} is negative.", "Indices count from 0.")
        if index >= n:
            raise UserError(
                f"The index {index} is out of range in dimension {axis} of size {n}.",
                f"The shape is {tuple(shape)}.",
            )


class LinePlace(NamedTuple):
    """What a line shows: a piece of a row, or the ellipsis that stands for sub-arrays.

    Attributes:
        outer: indices of the row, or of the array whose middle the ellipsis stands for.
        chunk: which piece of the row; ``None`` for an ellipsis.
    """

    outer: tuple[int, ...]
    chunk: int | None


class Layout:
    """The lines of an array, without what may stand behind its last one.

    A sub-array of dimension ``axis`` takes ``_heights[axis]`` lines; blank lines separate
    sub-arrays of two and more dimensions. A scalar and an empty array have one line and no places.

    Args:
        shape: of the array.
        shortened: the dimensions of which only the ends are shown.
        edge: how many items these ends have.
        cell: columns of an element.
        width: columns to use.
        head: columns before the first bracket.

    Attributes:
        height: the number of lines.
        indent: the column where elements begin.
        chunks: the lines of a row.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        shortened: tuple[bool, ...],
        edge: int,
        cell: int,
        width: int,
        head: int,
    ) -> None:
        self._shape, self._shortened, self._edge = shape, shortened, edge
        self._has_places = bool(shape) and math.prod(shape) > 0
        self._pieces: list[list[tuple[int, int] | None]] = []  # of a shortened row
        self.indent = head + len(shape)
        self.height = self.chunks = 1
        if self._has_places:
            self._lay_out_row(cell, width)
            heights = [self.chunks]
            for axis in range(len(shape) - 2, -1, -1):
                n = 2 * edge if shortened[axis] else shape[axis]
                gap = self._gap(axis)
                ellipsis_lines = 1 + gap if shortened[axis] else 0
                heights.append(n * (heights[-1] + gap) - gap + ellipsis_lines)
            self._heights = heights[::-1]
            self.height = self._heights[0]

    def _lay_out_row(self, cell: int, width: int) -> None:
        ndim, n = len(self._shape), self._shape[-1]
        # Room is left for a comma or bracket, and for the brackets and ")" of the last line.
        room = width - ndim - 1
        if not self._shortened[-1]:
            self._per_line = max(1, 1 + (room - self.indent - cell) // (cell + 2))
            self.chunks = -(-n // self._per_line)
            return
        edge = self._edge
        at = self.indent
        piece: list[tuple[int, int] | None] = []
        for start in (*range(edge), None, *range(n - edge, n)):
            size = 3 if start is None else cell
            if at + size > room and at > self.indent:
                self._pieces.append(piece)
                piece, at = [], self.indent
            at += size + 2
            previous = piece[-1] if piece else None
            if start is None:
                piece.append(None)
            elif previous is not None:
                piece[-1] = (previous[0], start + 1)
            else:
                piece.append((start, start + 1))
        self._pieces.append(piece)
        self.chunks = len(self._pieces)

    def _gap(self, axis: int) -> int:
        return len(self._shape) - axis - 2

    def place(self, number: int) -> LinePlace | None:
        """What stands on a line; ``None``: it is blank."""
        outer: list[int] = []
        for axis in range(len(self._shape) - 1):
            gap = self._gap(axis)
            height = self._heights[axis + 1]
            first = 0
            if self._shortened[axis]:
                dots = self._edge * (height + gap)
                if number == dots:
                    return LinePlace(tuple(outer), None)
                if number > dots:
                    number -= dots + 1 + gap
                    first = self._shape[axis] - self._edge
                    if number < 0:
                        return None
            item, number = divmod(number, height + gap)
            if number >= height:
                return None
            outer.append(first + item)
        return LinePlace(tuple(outer), number)

    def segments(self, chunk: int) -> list[tuple[int, int] | None]:
        """The stretches ``(start, stop)`` of a row on one line; ``None`` is the ellipsis."""
        if self._pieces:
            return self._pieces[chunk]
        start = chunk * self._per_line
        return [(start, min(start + self._per_line, self._shape[-1]))]

    def ends(self, place: LinePlace) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The first and the last element of a line; ``None``: it has none."""
        if place.chunk is None:
            return None
        stretches = [stretch for stretch in self.segments(place.chunk) if stretch is not None]
        if not stretches:
            return None
        return (*place.outer, stretches[0][0]), (*place.outer, stretches[-1][1] - 1)

    def elements(self, numbers: range) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """First and last element of the first of some lines that has any."""
        if not self._has_places:
            return None
        for number in numbers:
            place = self.place(number)
            ends = None if place is None else self.ends(place)
            if ends is not None:
                return ends
        return None

    def stretch(self, place: LinePlace) -> tuple[int, int]:
        """The elements of a line of an array that isn't shortened, in row-major order."""
        row = 0
        for index, n in zip(place.outer, self._shape, strict=False):
            row = row * n + index
        (stretch,) = self.segments(place.chunk or 0)
        start, stop = stretch or (0, 0)
        return row * self._shape[-1] + start, row * self._shape[-1] + stop

    def line_of(self, indices: Sequence[int]) -> int:
        """The line of an element that no ellipsis hides."""
        number = 0
        for axis, index in enumerate(indices[:-1]):
            gap = self._gap(axis)
            unit = self._heights[axis + 1] + gap
            number += index * unit
            if self._shortened[axis] and index >= self._edge:
                hidden = self._shape[axis] - 2 * self._edge
                number += 1 + gap - hidden * unit
        column = indices[-1]
        if not self._pieces:
            return number + column // self._per_line
        for chunk, piece in enumerate(self._pieces):
            if any(segment and segment[0] <= column < segment[1] for segment in piece):
                return number + chunk
        raise AssertionError(f"column {column} is on no line")

    def lines_of(self, elements: Array) -> list[int]:
        """The lines of elements of an array that isn't shortened, numbered in row-major order."""
        *outer, columns = np.unravel_index(elements, self._shape)
        numbers = columns // self._per_line
        for axis, items in enumerate(outer):
            numbers = numbers + items * (self._heights[axis + 1] + self._gap(axis))
        lines: list[int] = np.unique(numbers).tolist()
        return lines
