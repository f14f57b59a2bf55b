"""Tables: heads over rows that are made when somebody looks, cells at the places of columns."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tfdbg_cli.commands.list_command import ColumnChoice, ListCommand
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.common.documents import Document, Field, LazyDocument, Line, Span, TableLines
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.tables import VERBS
from tfdbg_cli.tensors.measurements import Background

__all__ = [
    "LazyTable",
    "RowsDocument",
    "TableDocument",
    "TableRow",
    "WaitingTable",
    "aligned",
    "fitted",
]

# What comes last may be as long as it is, unless it has to stay in sight.
_LONGEST_FROZEN = 40

# Rows around the cursor whose cells tell how wide a column is to be.
_NEAR = 100

# What is done alike in all lists.
_ALWAYS = {"unselect": "select --clear", "selected": "lt --selected"}


class TableRow(Line):
    """A line that knows where its cells are.

    Attributes:
        places: the first character of each cell, and the one behind it.
    """

    __slots__ = ("places",)

    def __init__(self, spans: Iterable[Span], places: Sequence[tuple[int, int]]) -> None:
        super().__init__(spans)
        self.places = places


def aligned(cells: Iterable[Sequence[Span]], widths: Sequence[int], gap: int = 2) -> TableRow:
    """Cells at the places of their columns; behind one that is too long, the next ones catch up.

    Args:
        cells: the spans of each.
        widths: of the columns; that of numbers, which stand at the right, is negative.
        gap: blanks between two columns.
    """
    spans: list[Span] = []
    places: list[tuple[int, int]] = []
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
            places.append((begin, place))
        else:
            places.append((max(start, place), max(start, place)))
        start += abs(width) + gap
    return TableRow(spans, places)


@functools.lru_cache(256)
def _blanks(count: int) -> Span:
    return Span(" " * count)


def fitted(cell: Sequence[Span], width: int) -> Sequence[Span]:
    """A cell, or as much of it as there is room for, and a sign that it goes on."""
    if sum([len(span.text) for span in cell]) <= width:
        return cell
    kept: list[Span] = []
    room = max(width - 1, 0)
    for span in cell:
        if not room:
            break
        kept.append(span._replace(text=span.text[:room]))
        room -= len(kept[-1].text)
    return [*kept, Span("…", "dim")]


def aligned_as(
    shown: Sequence[ColumnChoice],
    cells: Iterable[Sequence[Span]],
    widths: Sequence[int],
    gap: int = 2,
) -> TableRow:
    """As `aligned`; a column whose width was asked for, or that stays in sight, cuts its cells."""
    fit = [
        fitted(cell, abs(width)) if each.width or each.is_frozen else cell
        for cell, width, each in zip(cells, widths, shown, strict=True)
    ]
    return aligned(fit, widths, gap)


class TableDocument(Document):
    """The heads of the columns, then the rows.

    Args:
        count: of the rows.
        written: the list as a command line: which columns it has, and what can be done to it.
        columns: of each column its head, and how wide it usually is; the sign of the order that
            the head may get has room in any case. A negative width is that of numbers, which
            stand at the right; 0: the last column, which is as wide as it is.
        gap: blanks between two columns.
    """

    def __init__(
        self, count: int, written: ListCommand, columns: Mapping[str, tuple[str, int]], gap: int = 2
    ) -> None:
        self._count, self._written, self._gap = count, written, gap
        self._heads = [columns[each.name][0] for each in written.shown]
        self._widths = [self._room(each, *columns[each.name]) for each in written.shown]
        frozen = zip(written.shown, self._widths, strict=True)
        self._frozen = sum(abs(width) + gap for each, width in frozen if each.is_frozen)

    def _room(self, shown: ColumnChoice, head: str, usual: int) -> int:
        room = max(abs(usual), len(head + self._written.arrow(shown.name)))
        width = shown.width or (room if usual else _LONGEST_FROZEN * shown.is_frozen)
        return -width if usual < 0 else width

    def _aligned(self, cells: Iterable[Sequence[Span]]) -> TableRow:
        """Cells of the shown columns as a row."""
        return aligned_as(self._written.shown, cells, self._widths, self._gap)

    def row(self, cells: Mapping[str, Sequence[Span]]) -> TableRow:
        """Cells as a row; those of other columns are left out."""
        return self._aligned(cells.get(each.name, ()) for each in self._written.shown)

    def head_line(self) -> TableRow:
        """The heads of the columns, as wide as the rows that were made last want them."""
        heads = zip(self._written.shown, self._heads, strict=True)
        return self._aligned(self._written.head(each.name, head) for each, head in heads)

    @abstractmethod
    def rows(self, start: int, stop: int) -> list[Line]:
        """The rows ``start`` to ``stop - 1``; there are so many."""

    @property
    def line_count(self) -> int:
        """The heads and the rows."""
        return self._count + 1

    @property
    def tables(self) -> Sequence[TableLines]:
        """It is one."""
        return (TableLines(0, self.line_count, self._frozen),)

    def lines(self, start: int, stop: int) -> list[Line]:
        made = self.rows(max(start - 1, 0), max(min(stop - 1, self._count), 0))
        return [self.head_line(), *made] if start <= 0 < stop else made

    def fields(self, number: int) -> list[Field]:
        """The cells of a row, by the names of the columns."""
        made = self.lines(number, number + 1)
        if not made or not isinstance(made[0], TableRow):
            return []
        names = (each.name for each in self._written.shown)
        columns = zip(made[0].places, names, self._heads, strict=True)
        return [Field(*place, *of) for place, *of in columns]

    def table_command(self, number: int, column: str, verb: str) -> str:
        """The command line of the same list, in another order or with other columns."""
        written = self._written
        if verb in _ALWAYS:
            return _ALWAYS[verb]
        if verb == "select":
            return self._selecting(number)
        if not written.flag or verb not in VERBS:
            return super().table_command(number, column, verb)
        if verb in {"sort", "sort-down"}:
            return written.sorted(column, verb == "sort-down")
        if verb == "turn":
            return written.sorted(written.sort_by or written.unsorted, not written.reverse)
        if verb == "hide":
            return written.without(column)
        if verb == "freeze":
            return written.frozen(column)
        if verb == "width":
            return written.as_wide(column, self._longest_cell(number, column))
        if verb == "filter":
            return self._filtering(number, column)
        return self._selecting_like(number, column)

    def _filtering(self, number: int, column: str) -> str:
        """The rows with the same cell."""
        return self._written.filtered(column, self._cell(number, column))

    def _selecting(self, number: int) -> str:
        """Select what a row is about; or no longer."""
        raise UserError("Rows of this list can't be selected.", "lt lists tensors, which can be.")

    def _selecting_like(self, number: int, column: str) -> str:
        """Select what the rows are about that have the same cell."""
        return self._selecting(number)

    def _cell(self, number: int, column: str) -> str:
        """The text of a cell.

        Raises:
            UserError: there is none.
        """
        made = self.lines(number, number + 1)
        for found in self.fields(number):
            if found.column == column and found.start < found.stop:
                return made[0].text[found.start : found.stop]
        raise UserError("There is nothing in this cell.")

    def _longest_cell(self, number: int, column: str) -> int:
        """How wide the cells of a column are around a row, and its head."""
        rows = range(max(number - _NEAR, 1), min(number + _NEAR, self.line_count))
        return max(
            found.stop - found.start
            for at in (0, *rows)
            for found in self.fields(at)
            if found.column == column
        )


class WaitingTable(TableDocument):
    """A table whose rows show what is known, while a thread finds out the rest.

    Args:
        count, written, columns, gap: as `TableDocument` takes them.
        background: the thread.
    """

    def __init__(
        self,
        count: int,
        written: ListCommand,
        columns: Mapping[str, tuple[str, int]],
        background: Background[Any],
        gap: int = 1,
    ) -> None:
        super().__init__(count, written, columns, gap)
        self._background = background

    @property
    def pending(self) -> bool:
        """Whether some row that was made waits; asking keeps the thread at work."""
        return self._background.is_pending


class RowsDocument(LazyDocument):
    """Rows without heads, each about one node or tensor, in an order that is their own."""

    @property
    def tables(self) -> Sequence[TableLines]:
        """All of it is one."""
        return (TableLines(-1, self.line_count, has_heads=False),)

    def fields(self, number: int) -> list[Field]:
        """What the row is about: its first link, or all of it."""
        at = 0
        for made in self.lines(number, number + 1):
            for span in made.spans:
                if span.link is not None:
                    return [Field(at, at + len(span.text), "name", "name")]
                at += len(span.text)
            return [Field(0, at, "name", "name")]
        return []

    def table_command(self, number: int, column: str, verb: str) -> str:
        """Rows can be selected, and left out."""
        names = [
            self.lines(number, number + 1)[0].text[found.start : found.stop]
            for found in self.fields(number)
        ]
        if verb == "select" and names:
            return f"select {quoted(names[0])}"
        if verb == "filter" and names:
            return ListCommand("").filtered(column, names[0])
        return _ALWAYS.get(verb) or super().table_command(number, column, verb)


class LazyTable(TableDocument):
    """A table whose rows are made of cells that are asked for by the number of the row."""

    def __init__(
        self,
        count: int,
        written: ListCommand,
        columns: Mapping[str, tuple[str, int]],
        cells: Callable[[int], Mapping[str, Sequence[Span]]],
        gap: int = 2,
    ) -> None:
        super().__init__(count, written, columns, gap)
        self._cells = cells

    def rows(self, start: int, stop: int) -> list[Line]:
        return [self.row(self._cells(number)) for number in range(start, stop)]
