"""The cursor on an element of a tensor: where it is, where it can go, what is under it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfdbg_cli.common.documents import Cell, Document
from tfdbg_cli.common.interpreter.program_signals import contained

if TYPE_CHECKING:
    from tfdbg_cli.ui.screen.view import View

__all__ = ["ElementCursor"]

# Lines without elements that the cursor jumps over.
_REACH = 512


class ElementCursor:
    """A place on an element of what a view shows, or none.

    Args:
        view: the view.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._place: tuple[int, int] | None = None
        # Where a cell is a block of elements: the one that the cursor was put on.
        self._exact: tuple[int, ...] | None = None

    def __bool__(self) -> bool:
        return self.current is not None

    @property
    def current(self) -> tuple[int, Cell] | None:
        """The line and the element, or ``None``."""
        if self._place is None:
            return None
        number, ordinal = self._place
        cells = self._cells(number)
        return (number, cells[ordinal]) if ordinal < len(cells) else None

    @property
    def indices(self) -> tuple[int, ...] | None:
        """Those of the element, or ``None``."""
        found = self.current
        if found is None:
            return None
        is_in = self._exact is not None and found[1].holds(self._exact)
        return self._exact if is_in else found[1].indices

    def span_on(self, number: int) -> tuple[int, int] | None:
        """The characters of a line that it covers."""
        if self._place is None or self._place[0] != number:
            return None
        found = self.current
        return (found[1].start, found[1].stop) if found is not None else None

    def text(self) -> str:
        """The element with its exact value, ``[3,4] = 0.1``."""
        found = self.element()
        return found.lines(0, 1)[0].text if found is not None else ""

    def element(self) -> Document | None:
        """All about the element."""
        found = self.current
        return self._view.document.element(found[1].indices) if found is not None else None

    def clear(self) -> None:
        """Take it away."""
        self._place = None

    def show(self) -> None:
        """Scroll so that it is visible."""
        found = self.current
        if found is not None:
            self._view.show_place(found[0], found[1].start, found[1].stop)

    def begin(self) -> bool:
        """Put it on the first visible element; ``False``: there is none."""
        return self._first(range(self._view.top, self._view.bottom), 0)

    def go_to(self, indices: Sequence[int]) -> bool:
        """Put it on an element; ``False``: no line shows that."""
        return self.put(self._view.document.locate(indices), indices)

    def put(self, number: int, indices: Sequence[int]) -> bool:
        """Put it on an element of a line; ``False``: the line doesn't show that."""
        wanted = tuple(indices)
        for ordinal, cell in enumerate(self._cells(number)):
            if cell.holds(wanted):
                self._exact = wanted
                return self._put(number, ordinal)
        return False

    def put_at(self, number: int, at: int) -> bool:
        """Put it on the element at a character of a line; ``False``: there is none."""
        for ordinal, cell in enumerate(self._cells(number)):
            if cell.start <= at < cell.stop:
                return self._put(number, ordinal)
        return False

    def step(self, pattern: re.Pattern[str], direction: int) -> bool:
        """Go to the next element on the same line whose text matches; ``False``: there is none."""
        if self._place is None:
            return False
        number, ordinal = self._place
        cells = self._cells(number)
        text = self._view.document.lines(number, number + 1)[0].text
        rest = range(ordinal + 1, len(cells)) if direction > 0 else range(ordinal - 1, -1, -1)
        for other in rest:
            if other < len(cells) and pattern.search(text[cells[other].start : cells[other].stop]):
                return self._put(number, other)
        return False

    def move(self, rows: int, columns: int) -> bool:
        """Move by one line or one element; ``False``: there is nothing that way."""
        if self._place is None:
            return self.begin()
        number, ordinal = self._place
        cells = self._cells(number)
        if columns:
            if 0 <= ordinal + columns < len(cells):
                return self._put(number, ordinal + columns)
            return self._first(self._lines_from(number, columns), 0 if columns > 0 else -1)
        if ordinal >= len(cells):
            return self._first(self._lines_from(number, rows), None)
        here = cells[ordinal]
        return self._first(self._lines_from(number, rows), None, here.start + here.stop, here)

    def stays_on_line(self, columns: int) -> bool:
        """Whether so many elements to the side there is one on the same line."""
        if self._place is None:
            return True
        number, ordinal = self._place
        return 0 <= ordinal + columns < len(self._cells(number))

    def _lines_from(self, number: int, direction: int) -> range:
        count = self._view.document.line_count
        if direction > 0:
            return range(number + 1, min(number + _REACH, count))
        return range(number - 1, max(number - _REACH, -1), -1)

    def _first(
        self, numbers: range, ordinal: int | None, middle: int = 0, other: Cell | None = None
    ) -> bool:
        """Put it on the first of some lines with elements: one by its number, or the nearest.

        Args:
            numbers: of the lines.
            ordinal: of the element on its line; ``None``: the nearest one.
            middle: twice the column that it is to be near to.
            other: not this one, which may take several lines.
        """
        for number in numbers:
            cells = self._cells(number)
            if cells:
                if ordinal is None:
                    near = [abs(cell.start + cell.stop - middle) for cell in cells]
                    nearest = near.index(min(near))
                    if other is not None and cells[nearest].indices == other.indices:
                        continue
                    return self._put(number, nearest)
                return self._put(number, ordinal % len(cells))
        return False

    def _put(self, number: int, ordinal: int) -> bool:
        self._place = (number, ordinal)
        cell = self._cells(number)[ordinal]
        self._view.show_place(number, cell.start, cell.stop)
        return True

    def _cells(self, number: int) -> list[Cell]:
        with contained:  # a damaged dump: the page says so
            return self._view.document.cells(number)
        return []
