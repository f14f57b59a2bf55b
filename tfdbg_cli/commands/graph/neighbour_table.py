"""The table of ``li`` and ``lo``: nodes, and how the tensors are that they give."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tfdbg_cli.commands.list_command import ColumnChoice, ListCommand, by_key, chosen_columns
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.table import RowsDocument, WaitingTable
from tfdbg_cli.commands.tensors.columns import STATISTICS, WIDE
from tfdbg_cli.commands.tensors.columns import column as column_of
from tfdbg_cli.commands.tensors.facts import TensorFacts
from tfdbg_cli.common.documents import Document, Field, Line, Span
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.tables import ORDERINGS
from tfdbg_cli.dumps.datum import is_quick
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.tensors.measurements import Background
from tfdbg_cli.tensors.statistics import Statistics

__all__ = [
    "COLUMNS",
    "Neighbour",
    "NeighbourRows",
    "NeighbourTable",
    "shown_columns",
]

# Making rows takes about so long at most, however many tensors still are to be measured.
_BUDGET_SECONDS = 0.005
# So many rows, spread over the list, tell how wide its op types are.
_SAMPLE = 200
_WIDEST_OP_TYPE = 24
# Names that a command line is to hold.
_MOST_SELECTED = 100
_SELECTED = Span("● ", "highlight")
_MISSING = (Span("-", "dim"),)

_OWN = {
    "op_type": "Op type",
    "edge": "Edge",
    "name": "Node",
}
_OF_TENSORS = ("dtype", "shape", "size", "health", "min", "max", "mean", "time", "device")
_OF_NODES = ("phase", "module")
#: What can be shown, in the order in which it is offered.
COLUMNS = ("op_type", "edge", *_OF_TENSORS, *_OF_NODES, "name")
_DEFAULT = ("dtype", "shape", "health")
_ALL = (*_DEFAULT, "min", "max", "mean")
_NARROW = 70


class Neighbour(NamedTuple):
    """One row.

    Attributes:
        node: its name.
        op_type: empty where the graph lacks it.
        is_control: no data goes along the edge.
        datum: the tensor that it gives; ``None``: it isn't in the dump.
        written: gives the node as the row shows it.
    """

    node: str
    op_type: str
    is_control: bool
    datum: Datum | None
    written: Callable[[], Sequence[Span]]


def shown_columns(
    text: str, width: int, *, has_control: bool, has_tensors: bool
) -> tuple[ColumnChoice, ...]:
    """The columns of ``-o``; the usual ones where it isn't given.

    Args:
        text: what was given.
        width: of the screen.
        has_control: control edges are listed too.
        has_tensors: the dump has any.

    Raises:
        UserError: there is no such column.
    """
    found = chosen_columns(text, COLUMNS) if text else ()
    if not found:
        # What must not be pushed off the screen is the name.
        tensors = ("health",) if width < _NARROW else _DEFAULT if width < WIDE else _ALL
        names = ("op_type", *(("edge",) if has_control else ()), *(tensors if has_tensors else ()))
        found = tuple(map(ColumnChoice, names))
    has_name = any(each.name == "name" for each in found)
    return found if has_name else (*found, ColumnChoice("name"))


class NeighbourTable(WaitingTable):
    """The heads of the columns, then one row a neighbour, made when somebody looks.

    Args:
        facts: where the rows look up what they show.
        make: a row by its number.
        count: of the rows.
        width: of the screen.
        written: the list as a command line.
        selected: the names of the tensors that are marked; may change.
    """

    def __init__(
        self,
        facts: TensorFacts,
        make: Callable[[int], Neighbour],
        count: int,
        width: int,
        *,
        written: ListCommand,
        selected: Collection[str] = (),
    ) -> None:
        self._facts, self._make, self._width, self._selected = facts, make, width, selected
        shown = shown_columns(
            written.chosen,
            width,
            has_control="-c" in written.switches,
            has_tensors=bool(facts.dump.data()),
        )
        if written.sort_by and written.sort_by not in [each.name for each in shown]:
            shown = (*shown[:-1], ColumnChoice(written.sort_by), shown[-1])
        self._written = replace(written, shown=shown)
        needs = [STATISTICS[each.name] for each in shown if each.name in STATISTICS]
        self._has_statistics, self._has_numbers = bool(needs), any(needs)
        self._order: Sequence[int] = range(count)
        if written.sort_by:
            key = functools.partial(self._key, written.sort_by)
            self._order = by_key(range(count), lambda at: key(make(at)), written.reverse)
        columns = {each.name: self._column(each) for each in shown}
        super().__init__(count, self._written, columns, Background(facts.measurements))

    def _key(self, name: str, row: Neighbour) -> Any:
        if name == "name":
            return row.node
        if name == "op_type":
            return row.op_type or None
        if name == "edge":
            return row.is_control
        return column_of(name).key(self._facts, row.datum) if row.datum is not None else None

    def _column(self, shown: ColumnChoice) -> tuple[str, int]:
        """Its head, and how wide it is."""
        name = shown.name
        if name not in _OWN:
            column, is_wide = column_of(name), self._width >= WIDE
            return column.head, column.wide if is_wide and column.wide else column.width
        width = len("control") if name == "edge" else 1
        if name == "op_type" or shown.is_frozen:
            step = max(len(self._order) // _SAMPLE, 1)
            rows = map(self._make, self._order[::step])
            texts = [self._spans(name, row, None) for row in rows]
            longest = max((sum(len(each.text) for each in spans) for spans in texts), default=0)
            longest += len(_SELECTED.text) * (name == "name")
            most = self._width // 2 if shown.is_frozen else _WIDEST_OP_TYPE
            width = max(width, min(longest, most))
        return _OWN[name], width

    def _spans(self, name: str, row: Neighbour, statistics: Statistics | None) -> Sequence[Span]:
        if name == "name":
            datum = row.datum
            is_marked = datum is not None and datum.tensor_name in self._selected
            return (_SELECTED, *row.written()) if is_marked else row.written()
        if name == "op_type":
            return (Span(row.op_type or "?", "op_type"),)
        if name == "edge":
            return (Span("control", "dim") if row.is_control else Span("data"),)
        if row.datum is None:
            return _MISSING
        return column_of(name).cell(self._facts.facts(row.datum, statistics))

    def rows(self, start: int, stop: int) -> list[Line]:
        deadline = time.perf_counter() + _BUDGET_SECONDS
        made: list[Line] = []
        unknown = []
        for number in self._order[start:stop]:
            row = self._make(number)
            statistics = None
            if self._has_statistics and row.datum is not None:
                statistics = self._facts.measurements.peek(row.datum, numbers=self._has_numbers)
                if statistics is None:
                    if time.perf_counter() < deadline and is_quick(row.datum):
                        statistics = self._facts.measured(row.datum, numbers=self._has_numbers)
                    else:
                        unknown.append(row.datum)
            made.append(
                self._aligned([self._spans(e.name, row, statistics) for e in self._written.shown])
            )
        if unknown:
            self._background.want(unknown)
        return made

    def settle(self, start: int, stop: int) -> None:
        """Measure what these lines show."""
        if self._has_statistics:
            rows = [self._make(number) for number in self._order[max(start - 1, 0) : stop - 1]]
            data = [row.datum for row in rows if row.datum is not None]
            for datum in data:
                self._facts.measured(datum, numbers=self._has_numbers)
            self._background.drop(data)

    def resized(self, width: int) -> Document:
        """The table for another screen, which may have room for more columns."""
        if width == self._width:
            return self
        return NeighbourTable(
            self._facts,
            self._make,
            len(self._order),
            width,
            written=self._written,
            selected=self._selected,
        )

    def table_command(self, number: int, column: str, verb: str) -> str:
        """As any table's; rows whose tensor is there can be selected."""
        return _commanded(self._written, super().table_command, number, column, verb)

    def _row(self, number: int) -> Neighbour:
        if not 0 < number < self.line_count:
            raise UserError("This line is not a row.")
        return self._make(self._order[number - 1])

    def _selecting_like(self, number: int, column: str) -> str:
        wanted = self._key(column, self._row(number))
        rows = (self._make(each) for each in self._order)
        like = (row.datum for row in rows if row.datum and self._key(column, row) == wanted)
        names = list(dict.fromkeys(datum.tensor_name for datum in like))
        if not names or len(names) > _MOST_SELECTED:
            raise UserError(
                f"{len(names)} tensors have this cell.", f"Up to {_MOST_SELECTED} can be selected."
            )
        return f"select {' '.join(map(quoted, names))}"

    def _selecting(self, number: int) -> str:
        datum = self._row(number).datum
        if datum is None:
            raise UserError("The dump has no tensor of this node.")
        name = datum.tensor_name
        return f"select {'-d ' if name in self._selected else ''}{quoted(name)}"


class NeighbourRows(RowsDocument):
    """The list without columns, as the original has it; what asks for columns leads to the table.

    Args:
        count: of the lines.
        make: a line by its number.
        written: the table as a command line.
    """

    def __init__(self, count: int, make: Callable[[int], Line], written: ListCommand) -> None:
        super().__init__(count, make)
        self._written = written

    def fields(self, number: int) -> list[Field]:
        """The node."""
        return [each._replace(head=_OWN["name"]) for each in super().fields(number)]

    def table_command(self, number: int, column: str, verb: str) -> str:
        """Orders and columns are the table's."""
        if verb not in ORDERINGS:
            return super().table_command(number, column, verb)
        orders: dict[str, Callable[[], str]] = {
            "sort": functools.partial(self._written.sorted, column, False),
            "sort-down": functools.partial(self._written.sorted, column, True),
            "turn": functools.partial(self._written.sorted, column, True),
            "freeze": functools.partial(self._written.frozen, column),
            "width": lambda: self._written.showing_all,
        }
        return _commanded(self._written, lambda *_: orders[verb](), number, column, verb)


def _commanded(
    written: ListCommand, ask: Callable[[int, str, str], str], number: int, column: str, verb: str
) -> str:
    if verb == "hide" and column == "name":
        raise UserError(
            "The node column can't be hidden.", "! keeps it in sight, -o names the columns."
        )
    if verb in ("sort", "sort-down", "turn") and not written.sorts:
        raise UserError("A tree can't be sorted.", "Leave out -r and -d to sort the list.")
    if verb == "turn" and not written.sort_by:
        return written.sorted("name", True)
    return ask(number, column, verb)
