"""The table of ``lt`` as a Document that never waits for a statistic."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Sequence
from dataclasses import replace

from tfdbg_cli.commands.list_command import ListCommand
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.table import WaitingTable
from tfdbg_cli.commands.tensors.columns import (
    COLUMNS,
    STATISTICS,
    WIDE,
    Column,
    columns,
    default_columns,
)
from tfdbg_cli.commands.tensors.columns import column as column_of
from tfdbg_cli.commands.tensors.facts import TensorFacts
from tfdbg_cli.common.documents import Document, Line, Span
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.datum import is_quick, known_dtype
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.tensors.histogram import Histogram
from tfdbg_cli.tensors.measurements import Background, Histograms
from tfdbg_cli.tensors.search import words_in
from tfdbg_cli.tensors.statistics import Statistics

__all__ = ["TensorTable"]

# Making lines takes about so long at most, however many small tensors still are to be measured.
_BUDGET_SECONDS = 0.005


# So many rows, spread over the list, tell how wide its names are.
_SAMPLE = 1000

# About so many rows of those that were looked at last are kept, each until what it still waits for
# has come: a key draws the page anew. The collector would have to go through many more.
_KEPT = 128

_Row = Sequence[Sequence[Span]]

# Stands before the names of tensors that are selected.
_SELECTED = Span("● ", "highlight")

# How wide columns may grow when rows need it.
_WIDEST = {"size": 9, "op_type": 24, "dtype": 15, "shape": 20, "health": 16, "name": 60}
_WIDEST |= dict.fromkeys(("min", "max", "mean"), 12)
_WIDEST |= {"module": 40, "hist": 31}

# What the cells are written with that hold no names.
_NUMBERS = frozenset("0123456789.,+-e nainfok?-…()[]#kMGTB=▁▂▃▄▅▆▇█")

# Columns of names, and the share of the screen that each may take.
_NAMES = {"op_type": 0.2, "name": 0.4}


class TensorTable(WaitingTable):
    """The heads of the columns, then one row a tensor.

    Rows show the statistics that are known; small tensors are measured when their row is first
    made, as far as a few milliseconds reach, and the others in the background, with a placeholder
    until then.

    Args:
        facts: where the rows look up what they show.
        found: the tensors, in the order of the rows.
        width: of the screen; the default columns depend on it.
        written: the list as a command line; which columns it shows is not in it yet.
        selected: the names of the tensors that are marked; may change.
    """

    def __init__(
        self,
        facts: TensorFacts,
        found: Sequence[Datum],
        width: int,
        *,
        written: ListCommand,
        selected: Collection[str] = (),
    ) -> None:
        self._facts = facts
        self._found = found
        self._width = width
        self._selected = selected
        if written.chosen:
            shown = columns(written.chosen)
        else:
            data = facts.dump.data()
            has_times = not data or data[-1].timestamp != facts.dump.t0()
            shown = default_columns(
                width, self._longest(), written.sort_by, has_times=has_times or len(data) == 1
            )
        self._columns = [column_of(each.name) for each in shown]
        self._written = replace(written, shown=shown, sorts=[each.name for each in COLUMNS])
        needs = [STATISTICS[column.name] for column in self._columns if column.name in STATISTICS]
        self._has_statistics, self._has_numbers = bool(needs), any(needs)
        self._has_histograms = any(column.name == "hist" for column in self._columns)
        measures = Histograms(facts.measurements) if self._has_histograms else facts.measurements
        super().__init__(len(found), self._written, self._layout(), Background(measures))
        self._kept: dict[int, Line] = {}
        self._marked: set[int] = set()
        self._waiting: set[int] = set()

    def _sample(self) -> Sequence[Datum]:
        return self._found[:: max(len(self._found) // _SAMPLE, 1)]

    def _longest(self) -> int:
        return max((len(datum.tensor_name) for datum in self._sample()), default=0)

    def _layout(self) -> dict[str, tuple[str, int]]:
        """The head of each column and how wide it is; those of names as in a sample, in bounds."""
        sample = self._sample()
        columns = {}
        for column, shown in zip(self._columns, self._written.shown, strict=True):
            width = column.wide if self._width >= WIDE and column.wide else column.width
            if shown.is_frozen:
                width = max(width, _WIDEST.get(column.name, 0) if column.name != "name" else 0)
            if column.name == "time" and self._found:
                last = self._facts.dump.data()[-1]
                width = max(width, len(f"[{self._facts.milliseconds(last):.3f}]"))
            elif column.name in _NAMES and column is not self._columns[-1]:
                longest = max((len(column.key(self._facts, d)) for d in sample), default=0)
                share = 2 * _NAMES[column.name] if self._written.chosen else _NAMES[column.name]
                share = min(share, 0.5) if shown.is_frozen else share
                width = max(width, min(longest, int(self._width * share)))
            columns[column.name] = column.head, width
        return columns

    def rows(self, start: int, stop: int) -> list[Line]:
        deadline = time.perf_counter() + _BUDGET_SECONDS
        if len(self._kept) > _KEPT:
            self._kept.clear()
        made: dict[int, _Row] = {}
        unknown: dict[int, Datum] = {}
        for number in range(start, stop):
            datum = self._found[number]
            is_marked = bool(self._selected) and datum.tensor_name in self._selected
            if is_marked is not (number in self._marked):
                self._kept.pop(number, None)
                self._marked ^= {number}
            if number in self._kept and number not in self._waiting:
                continue
            statistics, histogram = self._known(datum)
            if statistics is None or (histogram is None and self._has_histograms):
                is_first = number not in self._waiting and time.perf_counter() < deadline
                if is_first and is_quick(datum):
                    statistics, histogram = self._measured(datum)
                else:
                    unknown[number] = datum
                    if number in self._kept:
                        continue
            facts = self._facts.facts(datum, statistics, histogram)
            made[number] = [
                (_SELECTED, *column.cell(facts))
                if is_marked and column.name == "name"
                else column.cell(facts)
                for column in self._columns
            ]
        self._waiting.difference_update(made)
        if unknown:
            self._waiting.update(unknown)
            self._background.want([*unknown.values()])
        if self._widen([*made.values()]):
            self._kept.clear()  # they were made too narrow
            if len(made) < stop - start:
                return self.rows(start, stop)
        lines = {number: self._aligned(row) for number, row in made.items()}
        found = [lines.get(number) or self._kept[number] for number in range(start, stop)]
        if len(lines) <= _KEPT:
            self._kept |= lines
        return found

    def _widen(self, rows: Sequence[_Row]) -> bool:
        """Give columns the room that these rows need, within bounds; none shrinks again.

        Returns:
            Whether there was one that needed more: the rows that were made before are too narrow.
        """
        before = [*self._widths]
        for at, column in enumerate(self._columns[:-1]):
            shown = self._written.shown[at]
            if shown.width or shown.is_frozen:
                continue
            limit = _WIDEST.get(column.name, column.width)
            widest = max((sum(len(span.text) for span in row[at]) for row in rows), default=0)
            self._widths[at] = max(self._widths[at], min(widest, limit))
        return self._widths != before

    def _known(self, datum: Datum) -> tuple[Statistics | None, Histogram | None]:
        if not self._has_statistics:
            return Statistics(), None
        known = self._facts.measurements
        histogram = known.peek_histogram(datum) if self._has_histograms else None
        return known.peek(datum, numbers=self._has_numbers), histogram

    def _measured(self, datum: Datum) -> tuple[Statistics, Histogram | None]:
        """What the row of a tensor needs, computed now where it isn't known."""
        known = self._facts.measurements
        histogram = known.histogram(datum) if self._has_histograms else None
        return self._facts.measured(datum, numbers=self._has_numbers), histogram

    def settle(self, start: int, stop: int) -> None:
        """Measure what these lines show."""
        if not self._has_statistics:
            return
        found = self._found[max(start - 1, 0) : max(stop - 1, 0)]
        for datum in found:
            self._measured(datum)
        self._background.drop(found)

    def matches(self, pattern: re.Pattern[str], start: int, stop: int) -> list[int]:
        """Which lines match. What can only be in a name is looked for there, not in values."""
        words = [word for word in words_in(pattern) if not _NUMBERS.issuperset(word)]
        if not words:
            return super().matches(pattern, start, stop)
        names = [column for column in self._columns if column.is_name]
        found: list[int] = []
        rows = self._found[max(start - 1, 0) : max(stop - 1, 0)]
        for number, datum in enumerate(rows, max(start, 1)):
            if all(self._may_hold(word, names, datum) for word in words):
                found += super().matches(pattern, number, number + 1)
        return super().matches(pattern, 0, 1) + found if start <= 0 < stop else found

    def _may_hold(self, word: str, names: Sequence[Column], datum: Datum) -> bool:
        """Whether one of the names that a row shows has a word in it, as far as they are known."""
        if word in datum.watch_key:
            return True
        for column in names:
            key = column.key(self._facts, datum)
            # What has no type may be damaged, and its row says so.
            if word in key if key is not None else column.name == "dtype":
                return True
        return False

    def resized(self, width: int) -> Document:
        """The table for another screen, which may have room for more columns."""
        if width == self._width:
            return self
        return TensorTable(
            self._facts,
            self._found,
            width,
            written=self._written,
            selected=self._selected,
        )

    def table_command(self, number: int, column: str, verb: str) -> str:
        """As any table's; rows are tensors, which can be selected."""
        if verb == "hide" and column == "name":
            raise UserError(
                "The name column can't be hidden.", "! keeps it in sight, -o names the columns."
            )
        if verb == "selected":
            return replace(self._written, switches=(*self._written.switches, "--selected")).text
        if verb == "join":
            if len(self._selected) != 1 or self._row_datum(number).tensor_name in self._selected:
                raise UserError("No single other tensor is selected.")
            return self._selecting(number)
        return super().table_command(number, column, verb)

    def _row_datum(self, number: int) -> Datum:
        if not 0 < number < self.line_count:
            raise UserError("This line is not a row.")
        return self._found[number - 1]

    def _selecting(self, number: int) -> str:
        name = self._row_datum(number).tensor_name
        return f"select {'-d ' if name in self._selected else ''}{quoted(name)}"

    def _selecting_like(self, number: int, column: str) -> str:
        flag, value = self._like(number, column)
        if not flag:
            raise UserError(
                f'Tensors can\'t be selected by "{column}".', "= shows only these rows."
            )
        return f"select {flag} {quoted(value)}"

    def _filtering(self, number: int, column: str) -> str:
        flag, value = self._like(number, column)
        if not flag or (flag == "-f" and self._written.options.get("-f")):
            return super()._filtering(number, column)
        return replace(self._written, options={**self._written.options, flag: value}).text

    def _like(self, number: int, column: str) -> tuple[str, str]:
        """The option that chooses the rows with the same cell, and its value; empty: none does."""
        datum = self._row_datum(number)
        if column == "name":
            return "-n", f"^{re.escape(datum.node_name)}$"
        if column == "op_type":
            return "-t", f"^{re.escape(self._facts.op_type(datum))}$"
        if column == "dtype" and known_dtype(datum):
            return "--dtype", f"^{re.escape(known_dtype(datum))}$"
        if column == "health":
            found, _ = self._known(datum)
            if found is not None and found.health is not None and found.health.bad:
                return "-f", "has_inf_or_nan"
        return "", ""
