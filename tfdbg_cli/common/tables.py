"""What a Document says of the tables in it: where they are, their cells, what is kept in sight."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ORDERINGS", "VERBS", "Field", "TableLines"]

#: What can be asked to be done to a list, see `Document.table_command`; all its rows stay.
ORDERINGS = (
    "sort",  # by the column, in ascending order
    "sort-down",  # in descending order
    "turn",  # the other order of the column that it is sorted by
    "hide",  # the column
    "width",  # of the column: as its longest cell wants it, or again as before
    "freeze",  # the column comes first and stays in sight; or again not
)

#: All that can be asked.
VERBS = (
    *ORDERINGS,
    "filter",  # only the rows with the same cell
    "select",  # the row for later commands; or no longer
    "select-like",  # the rows with the same cell
    "join",  # selects the row beside the only one that is selected
    "selected",  # only what is selected
    "unselect",  # everything
)


class TableLines(NamedTuple):
    """Where a table is.

    Attributes:
        first: the line of the heads of its columns; where it has none, that before the first row.
        behind: the line behind the last row.
        frozen: the characters at the left of each line that don't scroll sideways.
        has_heads: whether there is a line of heads, which a screen keeps in sight.
    """

    first: int
    behind: int
    frozen: int = 0
    has_heads: bool = True


class Field(NamedTuple):
    """One cell of a table.

    Attributes:
        start, stop: its characters in the line's text.
        column: the name of its column, as it is written in a command.
        head: of its column, as it is shown.
    """

    start: int
    stop: int
    column: str
    head: str = ""
