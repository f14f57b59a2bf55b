"""The cursor in a table: a row and a column, where it can go, and what it is asked to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from tfdbg_cli.common.documents import Field, Line, TableLines
from tfdbg_cli.common.interpreter.program_signals import contained

if TYPE_CHECKING:
    from tfdbg_cli.ui.screen.view import View

__all__ = ["TableCursor", "TablePlace"]


class TablePlace(NamedTuple):
    """Where a cursor is, for another list that is made of the same one.

    Attributes:
        table: which of the tables.
        row: of the table, from 0.
        column: its name.
    """

    table: int
    row: int
    column: str


class TableCursor:
    """A row and a column of a table of what a view shows, or none.

    Args:
        view: the view.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._row: int | None = None
        self._column = ""

    def __bool__(self) -> bool:
        return self.row is not None

    @property
    def row(self) -> int | None:
        """The line of the row; ``None``: there is no cursor."""
        if self._row is None or self._table(self._row) is None:
            return None
        return self._row

    @property
    def line(self) -> Line | None:
        """The row as it is shown."""
        row = self.row
        made = self._view.lines(row, row + 1) if row is not None else []
        return made[0] if made else None

    @property
    def field(self) -> Field | None:
        """The cell; ``None``: there is no cursor, or the row has no cells."""
        row = self.row
        fields = self._fields(row) if row is not None else []
        return next((f for f in fields if f.column == self._column), fields[0] if fields else None)

    @property
    def place(self) -> TablePlace | None:
        """Where it is."""
        row = self.row
        for at, table in enumerate(self._view.document.tables):
            if row is not None and table.first < row < table.behind:
                return TablePlace(at, row - table.first - 1, self._column)
        return None

    def span_on(self, number: int) -> tuple[int, int] | None:
        """The characters of a line that the cell covers; ``None``: it is on another line."""
        if self._row is None or self._row != number or self.row is None:
            return None
        found = self.field
        return (found.start, found.stop) if found is not None else (0, 0)

    def text(self) -> str:
        """Which row of how many, and which column."""
        row, found = self.row, self.field
        table = self._table(row) if row is not None else None
        if row is None or table is None:
            return ""
        column = f", {found.head}" if found is not None and found.head else ""
        return f"row {row - table.first}/{table.behind - table.first - 1}{column}"

    def command(self, verb: str) -> str:
        """The command line that does something to the list.

        Raises:
            UserError: that can't be done.
        """
        found = self.field
        column = found.column if found is not None else ""
        return self._view.document.table_command(self.row or 0, column, verb)

    def clear(self) -> None:
        """Take it away."""
        self._row = None

    def begin(self) -> bool:
        """Put it on the first visible row, if it is on none; ``False``: there is none."""
        return self.row is not None or self._first(range(self._view.top, self._view.bottom))

    def put(self, number: int) -> bool:
        """Put it on a row; ``False``: the line is none."""
        return self._first((number,))

    def put_at(self, number: int, at: int) -> bool:
        """Put it on the cell at a character of a row; ``False``: the line is none."""
        if not self.put(number):
            return False
        for found in self._fields(number):
            if found.start <= at:
                self._column = found.column
        return True

    def restore(self, place: TablePlace | None) -> None:
        """Put it where it was in a list that this one was made of, as far as it goes."""
        tables = self._view.document.tables
        if place is None or not tables:
            return
        table = tables[min(place.table, len(tables) - 1)]
        rows = table.behind - table.first - 1
        if rows > 0:
            self._column = place.column
            self.put(table.first + 1 + min(place.row, rows - 1))
            self.show_column()

    def move(self, rows: int) -> bool:
        """Move to the next row that way; ``False``: there is none."""
        if not self.begin() or self._row is None:
            return False
        table = self._table(self._row + rows)
        if table is not None:
            return self.put(self._row + rows)
        # Between two tables there are other lines.
        others = self._view.document.tables
        if rows > 0:
            return self._first(t.first + 1 for t in others if t.first >= self._row)
        return self._first(t.behind - 1 for t in reversed(others) if t.behind <= self._row)

    def move_to_end(self, direction: int) -> None:
        """To the first (-1) or the last row of all."""
        tables = self._view.document.tables
        if direction < 0:
            self._first(table.first + 1 for table in tables)
        else:
            self._first(table.behind - 1 for table in reversed(tables))

    def move_column(self, step: int) -> None:
        """Move by so many columns; beyond the first and the last one there is none."""
        found, row = self.field, self.row
        if found is None or row is None:
            return
        fields = self._fields(row)
        self._column = fields[min(max(fields.index(found) + step, 0), len(fields) - 1)].column
        self.show_column()

    def move_to_head(self, letter: str) -> bool:
        """To the next column whose head begins with a letter; ``False``: none does."""
        found, row = self.field, self.row
        if found is None or row is None:
            return False
        fields = self._fields(row)
        at = fields.index(found) + 1
        for other in (*fields[at:], *fields[:at]):
            if other.head[:1].lower() == letter.lower():
                self._column = other.column
                self.show_column()
                return True
        return False

    def show_column(self) -> None:
        """Scroll sideways so that the cell is visible."""
        found, row = self.field, self.row
        if found is not None and row is not None:
            self._view.show_place(row, found.start, found.stop)

    def follow(self) -> None:
        """The page was scrolled: stay on it."""
        top, bottom = self._view.top, self._view.bottom
        if self.row is None or top <= self.row < bottom:
            return
        self._first(range(top, bottom) if self.row < top else range(bottom - 1, top - 1, -1))

    def _first(self, numbers: Iterable[int]) -> bool:
        """Put it on the first of some lines that is a row."""
        for number in numbers:
            if self._table(number) is not None:
                self._row = number
                self._view.show(number)
                return True
        return False

    def _table(self, number: int) -> TableLines | None:
        if not 0 <= number < self._view.document.line_count:
            return None
        return self._view.document.table_at(number)

    def _fields(self, number: int) -> list[Field]:
        with contained:  # a damaged dump: the page says so
            return self._view.document.fields(number)
        return []
