"""Long work on a Document in slices, so that keys are never kept waiting."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tfdbg_cli.common.documents import Cell, Document, ElementStep, Field, Line, TableLines
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.tables import ORDERINGS

__all__ = ["FilteredDocument", "Hit", "Slices", "find_steps", "matching_steps"]

# How long one slice takes, about, and the lines of the first one.
_SLICE_SECONDS = 0.012
_FIRST_LINES = 256


class Hit(NamedTuple):
    """The end of a search: the line, or ``None``; and whether it went on at the other end."""

    line: int | None
    wrapped: bool = False


class Slices:
    """Line numbers in pieces that take about the same time each."""

    def __init__(self) -> None:
        self._lines = _FIRST_LINES
        self._began = time.perf_counter()

    def next_size(self) -> int:
        """How many lines the next piece should have."""
        took = time.perf_counter() - self._began
        if took < _SLICE_SECONDS / 2:
            self._lines *= 2
        elif took > _SLICE_SECONDS * 2:
            self._lines = max(self._lines // 2, 16)
        self._began = time.perf_counter()
        return self._lines


def find_steps(
    document: Document, pattern: re.Pattern[str], start: int, direction: int
) -> Iterator[float | Hit]:
    """Search from a line on, and then from the other end up to it.

    Yields:
        How much is done, from 0 to 1, after each slice; at last a `Hit`.
    """
    count = document.line_count
    if direction > 0:
        ranges = [(start, count), (0, min(start, count))]
    else:
        ranges = [(start, -1), (count - 1, max(start, -1))]
    slices, done = Slices(), 0
    for number, (first, end) in enumerate(ranges):
        at = first
        while (end - at) * direction > 0:
            step = min(slices.next_size(), abs(end - at))
            stop = at + direction * step
            found = document.find(pattern, at, direction, stop)
            if found is not None:
                yield Hit(found, number > 0)
                return
            at, done = stop, done + step
            yield min(done / max(count, 1), 1.0)
    yield Hit(None, True)


def matching_steps(
    document: Document, pattern: re.Pattern[str]
) -> Iterator[float | FilteredDocument]:
    """Collect the lines that match.

    Yields:
        How much is done, from 0 to 1, after each slice; at last the Document of those lines.
    """
    count, at, slices = document.line_count, 0, Slices()
    found: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
    while at < count:
        upto = min(at + slices.next_size(), count)
        hits = document.matches(pattern, at, upto)
        if hits:
            found.append(np.array(hits, np.int64))
        at = upto
        yield at / count
    numbers = np.concatenate(found) if found else np.empty(0, np.int64)
    yield FilteredDocument(document, numbers, pattern.pattern)


class FilteredDocument(Document):
    """Some lines of another Document.

    Args:
        whole: the Document.
        numbers: which of its lines, ascending.
        what: the pattern that they match.
    """

    def __init__(
        self,
        whole: Document,
        numbers: np.ndarray[tuple[int], np.dtype[np.int64]],
        what: str,
    ) -> None:
        self.whole = whole
        self.title, self.title_role, self.menu = whole.title, whole.title_role, whole.menu
        self.steps, self.kind = whole.steps, whole.kind
        self._numbers = numbers
        self._what = what

    @property
    def line_count(self) -> int:
        """How many lines match."""
        return len(self._numbers)

    def heads(self, number: int) -> Line | None:
        """The heads that the whole has above that line."""
        return self.whole.heads(self.number(number))

    @property
    def tables(self) -> Sequence[TableLines]:
        """Those of the whole, as far as their rows are shown."""
        places = [
            table._replace(first=self.place(table.first + 1) - 1, behind=self.place(table.behind))
            for table in self.whole.tables
        ]
        return [table for table in places if table.behind > table.first + 1]

    def fields(self, number: int) -> list[Field]:
        """Those of that line of the whole."""
        return self.whole.fields(self.number(number)) if 0 <= number < self.line_count else []

    def table_command(self, number: int, column: str, verb: str) -> str:
        """As the whole says; the list that comes of it is filtered as this one."""
        command = self.whole.table_command(self.number(number), column, verb)
        if verb in ORDERINGS:
            command += f"; &{self._what}"
        return command

    def number(self, at: int) -> int:
        """The number in the whole Document of a line of this one."""
        return int(self._numbers[at]) if len(self._numbers) else 0

    def place(self, number: int) -> int:
        """The first line of this Document that is not above a line of the whole."""
        return int(np.searchsorted(self._numbers, number))

    def lines(self, start: int, stop: int) -> list[Line]:
        """The lines ``start`` to ``stop - 1``; neighbours are asked for together."""
        numbers = self._numbers[max(start, 0) : max(stop, 0)]
        made: list[Line] = []
        for part in np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1):
            if len(part):
                made += self.whole.lines(int(part[0]), int(part[-1]) + 1)
        return made

    def locate(self, indices: Sequence[int]) -> int:
        number = self.whole.locate(indices)
        at = self.place(number)
        if at < self.line_count and self.number(at) == number:
            return at
        raise UserError(
            f"The line of element {list(indices)} doesn't match &{self._what}.",
            "& alone shows all lines.",
        )

    def cells(self, number: int) -> list[Cell]:
        return self.whole.cells(self.number(number)) if 0 <= number < self.line_count else []

    def element(self, indices: Sequence[int]) -> Document | None:
        """All about one element."""
        return self.whole.element(indices)

    def step(self, indices: Sequence[int] | None, direction: int = 1) -> ElementStep | None:
        """That of the whole; its line may not be among these."""
        found = self.whole.step(indices, direction)
        if found is None or found.line is None:
            return found
        at = self.place(found.line)
        is_here = at < self.line_count and self.number(at) == found.line
        return found._replace(line=at if is_here else None)

    @property
    def pending(self) -> bool:
        """As the whole."""
        return self.whole.pending

    def settle(self, start: int, stop: int) -> None:
        """Settle those lines of the whole."""
        for number in self._numbers[max(start, 0) : max(stop, 0)]:
            self.whole.settle(int(number), int(number) + 1)

    def status(self, start: int, stop: int) -> str:
        """How many lines are shown."""
        return f"&{self._what}: {len(self._numbers)} of {self.whole.line_count} lines"
