"""Tables: heads over rows that are made when somebody looks, cells at the places of columns."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence

from tfdbg_cli.common.documents import Document, Line, Link, Span

__all__ = ["LazyTable", "TableDocument", "aligned", "sorting_link"]


def aligned(cells: Iterable[Sequence[Span]], widths: Sequence[int], gap: int = 2) -> Line:
    """Cells at the places of their columns; behind one that is too long, the next ones catch up.

    Args:
        cells: the spans of each.
        widths: of the columns; that of numbers, which stand at the right, is negative.
        gap: blanks between two columns.
    """
    spans: list[Span] = []
    place = start = 0
    for cell, width in zip(cells, widths, strict=True):
        length = sum([len(span.text) for span in cell])
        if length:
            begin = start if width >= 0 else start - min(width + length, 0)
            if spans:
                begin = max(begin, place + gap)
            if begin > place:
                spans.append(_blanks(begin - place))
            spans += cell
            place = begin + length
        start += abs(width) + gap
    return Line(spans)


@functools.lru_cache(256)
def _blanks(count: int) -> Span:
    return Span(" " * count)


def sorting_link(again: str, key: str, sorted_by: str, is_reverse: bool) -> Link:
    """What a head does: sort the same list by its column, or turn it round.

    Args:
        again: the command of the list without its order.
        key: of the column.
        sorted_by: of the column that the list is sorted by.
        is_reverse: it is in descending order.
    """
    turn = " -r" if key == sorted_by and not is_reverse else ""
    return Link(f"{again} -s {key}{turn}")


class TableDocument(Document):
    """The heads of the columns, then the rows.

    Args:
        count: of the rows.
    """

    def __init__(self, count: int) -> None:
        self._count = count

    @abstractmethod
    def head_line(self) -> Line:
        """The heads of the columns, as wide as the rows that were made last want them."""

    @abstractmethod
    def rows(self, start: int, stop: int) -> list[Line]:
        """The rows ``start`` to ``stop - 1``; there are so many."""

    @property
    def line_count(self) -> int:
        """The heads and the rows."""
        return self._count + 1

    @property
    def tables(self) -> Sequence[tuple[int, int]]:
        """It is one."""
        return ((0, self.line_count),)

    def lines(self, start: int, stop: int) -> list[Line]:
        made = self.rows(max(start - 1, 0), max(min(stop - 1, self._count), 0))
        return [self.head_line(), *made] if start <= 0 < stop else made


class LazyTable(TableDocument):
    """A table whose rows come from a function of their number."""

    def __init__(self, heads: Line, count: int, make: Callable[[int], Line]) -> None:
        super().__init__(count)
        self._heads = heads
        self._make = make

    def head_line(self) -> Line:
        """As they were given."""
        return self._heads

    def rows(self, start: int, stop: int) -> list[Line]:
        return [self._make(number) for number in range(start, stop)]
