"""What a command returns: a Document, which is a view of lines and not a text.

A Document knows how many lines it has and makes them when somebody looks. What lines are made of
is in `tfdbg_cli.lines`; its names are found here as well.
"""

from __future__ import annotations

import copy
import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.lines import ROLES, Cell, ElementStep, Ink, Line, Link, Span, line
from tfdbg_cli.common.printable import printable, printed
from tfdbg_cli.common.tables import Field, TableLines

__all__ = [
    "ROLES",
    "Cell",
    "ChainDocument",
    "Document",
    "ElementStep",
    "Field",
    "Image",
    "Ink",
    "LazyDocument",
    "Line",
    "Link",
    "MenuItem",
    "OtherView",
    "Span",
    "TableLines",
    "TextDocument",
    "line",
    "write_text",
]

# Lines that are searched at once: the first time, and in the end.
_FIRST_SEARCHED, _MOST_SEARCHED = 256, 8192


class Image(NamedTuple):
    """A Document as an image.

    Attributes:
        png: a PNG file.
        above: lines that belong above it.
    """

    png: bytes
    above: Sequence[Line]


class OtherView(NamedTuple):
    """What a Document shows, seen otherwise.

    Attributes:
        document: the other one.
        indices: the element that the cursor goes to; ``None``: it goes away.
    """

    document: Document
    indices: tuple[int, ...] | None


@printed
class MenuItem(NamedTuple):
    """An entry of a screen's menu: a caption and the command it runs."""

    caption: str
    command: str
    enabled: bool = True


class Document(ABC):
    """Lines that are made on demand.

    Attributes:
        title: one line of text for the title bar, made `printable`; empty: the UI keeps its own.
        title_role: ``""`` or ``"error"`` (an alert: something bad was found).
        menu: what a user most likely does next.
        initial_line: the line that should be on top when the Document is opened.
        initial_search: a regex that a UI searches for at once, so that its keys for the next and
            the previous match work from the first moment; empty: none.
        initial_element: where a screen puts its cursor at once; ``None``: nowhere.
        steps: what one of the elements is called, e.g. ``bad element``, that the keys for the next
            and the previous match go to instead, see `step`; empty: there are none. With an
            `initial_search` the UI goes to the first of them at once.
        turns: the ways in which it can be seen otherwise, see `turned`.
        files: what is written to a file whose name ends so, instead of the lines: ``.svg``.
        is_alarm: what was checked isn't as it should be: commands go on, but where nobody looks the
            exit status tells it.
        printed: what is printed or written to a file instead, where a screen shows more than
            anybody wants to have on paper; ``None``: the Document itself.
        kind: ``source`` for the lines of a program, on which there are keys of their own; else
            empty.
        is_data: the lines are for other programs: where nobody reads along, a UI prints them and
            nothing else.
    """

    _title = ""
    title_role: str = ""
    menu: tuple[MenuItem, ...] = ()
    initial_line: int = 0
    initial_search: str = ""
    initial_element: tuple[int, ...] | None = None
    steps: str = ""
    kind: str = ""
    turns: frozenset[str] = frozenset()
    is_data: bool = False
    is_alarm: bool = False
    files: Mapping[str, Callable[[], bytes]] = MappingProxyType({})
    printed: Document | None = None

    @property
    def title(self) -> str:
        """One line of text for the title bar."""
        return self._title

    @title.setter
    def title(self, text: str) -> None:
        self._title = printable(text)

    @property
    def tables(self) -> Sequence[TableLines]:
        """The tables, from the top."""
        return ()

    def table_at(self, number: int) -> TableLines | None:
        """The table that a line is a row of; ``None``: it is none."""
        for table in self.tables:
            if table.first < number < table.behind:
                return table
        return None

    def heads(self, number: int) -> Line | None:
        """The heads above a line of a table, which a screen keeps in sight; ``None``: none."""
        found = self.table_at(number)
        if found is None or not found.has_heads:
            return None
        return self.lines(found.first, found.first + 1)[0]

    def fields(self, number: int) -> list[Field]:
        """The cells of a row of a table, or of its heads, from left to right; empty: it is none."""
        return []

    def table_command(self, number: int, column: str, verb: str) -> str:
        """The command line that does something to the list that a row belongs to.

        Args:
            number: the line of the row.
            column: the name of the column that is meant.
            verb: one of `VERBS`.

        Raises:
            UserError: that can't be done to this list.
        """
        raise UserError("This list keeps its order and its columns.", "& shows a part of it.")

    @property
    @abstractmethod
    def line_count(self) -> int:
        """How many lines there are. Cheap: no line is formatted to know it."""

    @abstractmethod
    def lines(self, start: int, stop: int) -> list[Line]:
        """The lines ``start`` to ``stop - 1``, clipped to what exists. Formats only those."""

    def find(
        self, pattern: re.Pattern[str], start: int, direction: int = 1, stop: int | None = None
    ) -> int | None:
        """The nearest line that matches.

        Args:
            pattern: searched (not matched at the start) in the text of each line.
            start: the first line to look at.
            direction: 1 downwards, -1 upwards.
            stop: the line where to give up (exclusive); default: the end in that direction. A
                caller with a clock of its own searches in slices with it.

        Returns:
            A line number, or ``None``.
        """
        count = self.line_count
        if direction > 0:
            low, high = max(start, 0), count if stop is None else min(stop, count)
        else:
            low, high = 0 if stop is None else max(stop + 1, 0), min(start + 1, count)
        block = _FIRST_SEARCHED
        while low < high:
            if direction > 0:
                first, low = low, min(low + block, high)
                found = self.matches(pattern, first, low)
            else:
                behind, high = high, max(high - block, low)
                found = self.matches(pattern, high, behind)
            if found:
                return found[0 if direction > 0 else -1]
            block = min(2 * block, _MOST_SEARCHED)
        return None

    def matches(self, pattern: re.Pattern[str], start: int, stop: int) -> list[int]:
        """Which of the lines ``start`` to ``stop - 1`` match, as for `find`.

        A Document that knows without making them which lines can't match does better than this.
        """
        self.settle(start, stop)
        made = enumerate(self.lines(start, stop), max(start, 0))
        return [number for number, found in made if pattern.search(found.text)]

    @property
    def pending(self) -> bool:
        """Whether some line that was made holds a placeholder for what is still computed.

        A UI that can redraw asks for the visible lines again now and then, until it is false.
        """
        return False

    def settle(self, start: int, stop: int) -> None:
        """Wait until the lines ``start`` to ``stop - 1`` need no placeholder any more.

        Whoever takes lines for good (a file, a pipe, a search) calls it; a screen never does.
        """

    def locate(self, indices: Sequence[int]) -> int:
        """The line that shows a tensor element.

        Raises:
            UserError: the Document shows no tensor, or not that element.
        """
        raise UserError("This screen shows no tensor.", "Use @[i,j] after print_tensor.")

    def cells(self, number: int) -> list[Cell]:
        """The elements on a line, from left to right; empty where it shows none."""
        return []

    def element(self, indices: Sequence[int]) -> Document | None:
        """All about one element; its first line is the value in full. ``None``: there is none."""
        return None

    def step(self, indices: Sequence[int] | None, direction: int = 1) -> ElementStep | None:
        """The next of the elements that the Document is about; beyond the last comes the first.

        Args:
            indices: the element to go on from; ``None``: from the beginning, or the end.
            direction: 1 for the next one, -1 for the one before.

        Returns:
            ``None`` if it is about none.
        """
        return None

    def status(self, start: int, stop: int) -> str:
        """What the status line says of the visible lines, e.g. ``[0,0]-[9,0]``; may be empty."""
        return ""

    def resized(self, width: int) -> Document:
        """The same view for another terminal width (columns); itself where width doesn't matter."""
        return self

    def paged(self, rows: int) -> Document:
        """The same view for a page of so many rows; itself where that doesn't matter."""
        return self

    def image(self) -> Image | None:
        """The same for a page that shows images, in place of the lines; ``None``: there is none."""
        return None

    def turned(self, way: str, indices: Sequence[int] | None = None) -> OtherView:
        """The same thing seen otherwise: as a picture, closer, at another scale.

        Args:
            way: one of `turns`.
            indices: the element that the cursor is on, if it is on any.

        Raises:
            UserError: it can't be seen like that.
        """
        raise UserError("This screen has no other view.")

    def __iter__(self) -> Iterator[Line]:
        return self.iterate()

    def iterate(self, start: int = 0, block: int = 1024) -> Iterator[Line]:
        """The lines from ``start`` on, settled, made so many at a time."""
        at, count = start, self.line_count
        while at < count:
            upto = min(at + block, count)
            self.settle(at, upto)
            yield from self.lines(at, upto)
            at = upto

    @property
    def text(self) -> str:
        """The whole text. For tests and small Documents: it formats every line."""
        return "\n".join(made.text for made in self)


class TextDocument(Document):
    """A Document over lines that exist already."""

    def __init__(
        self,
        lines: Iterable[Line | str] = (),
        title: str = "",
        menu: Iterable[MenuItem] = (),
        title_role: str = "",
    ) -> None:
        self._lines = [item if isinstance(item, Line) else line(item) for item in lines]
        self.title = title
        self.title_role = title_role
        self.menu = tuple(menu)

    @property
    def line_count(self) -> int:
        return len(self._lines)

    def lines(self, start: int, stop: int) -> list[Line]:
        return self._lines[max(start, 0) : max(stop, 0)]


class LazyDocument(Document):
    """A Document whose lines come from a function of the line number."""

    def __init__(
        self,
        count: int,
        make: Callable[[int], Line],
        title: str = "",
        menu: Iterable[MenuItem] = (),
    ) -> None:
        self._count, self._make = count, make
        self.title, self.menu = title, tuple(menu)

    @property
    def line_count(self) -> int:
        return self._count

    def lines(self, start: int, stop: int) -> list[Line]:
        return [self._make(i) for i in range(max(start, 0), min(stop, self._count))]


class ChainDocument(Document):
    """Several Documents one below the other, e.g. a header over a lazy table."""

    def __init__(
        self,
        parts: Iterable[Document],
        title: str = "",
        menu: Iterable[MenuItem] = (),
        initial_line: int = 0,
    ) -> None:
        self.title, self.menu, self.initial_line = title, tuple(menu), initial_line
        self._chain(list(parts))

    def _chain(self, parts: list[Document]) -> None:
        self.parts = parts
        self._starts = [0]
        for part in parts:
            self._starts.append(self._starts[-1] + part.line_count)

    @property
    def line_count(self) -> int:
        """How many lines there are in all parts."""
        return self._starts[-1]

    def lines(self, start: int, stop: int) -> list[Line]:
        """The lines ``start`` to ``stop - 1``; only the parts they fall in are asked."""
        start, stop = max(start, 0), min(stop, self.line_count)
        made: list[Line] = []
        at = bisect_right(self._starts, start) - 1
        while start < stop and at < len(self.parts):
            first = self._starts[at]
            upto = min(stop, self._starts[at + 1])
            if upto > start:
                made.extend(self.parts[at].lines(start - first, upto - first))
                start = upto
            at += 1
        return made

    @property
    def tables(self) -> Sequence[TableLines]:
        """Those of all parts."""
        return [
            table._replace(first=at + table.first, behind=at + table.behind)
            for at, part in zip(self._starts, self.parts, strict=False)
            for table in part.tables
        ]

    def fields(self, number: int) -> list[Field]:
        """Those of the part that the line is in."""
        at, part = self._part(number)
        return part.fields(number - at) if part is not None else []

    def table_command(self, number: int, column: str, verb: str) -> str:
        """As the part says that the line is in."""
        at, part = self._part(number)
        if part is None:
            return super().table_command(number, column, verb)
        return part.table_command(number - at, column, verb)

    def _part(self, number: int) -> tuple[int, Document | None]:
        """The part that a line is in, and its first line."""
        if not 0 <= number < self.line_count:
            return 0, None
        at = bisect_right(self._starts, number) - 1
        return self._starts[at], self.parts[at]

    def find(
        self, pattern: re.Pattern[str], start: int, direction: int = 1, stop: int | None = None
    ) -> int | None:
        ends = list(zip(self._starts, self._starts[1:], self.parts, strict=False))
        for first, last, part in ends if direction > 0 else reversed(ends):
            if first == last or (start >= last if direction > 0 else start < first):
                continue
            if stop is not None and (stop <= first if direction > 0 else stop >= last - 1):
                return None
            found = part.find(
                pattern, start - first, direction, None if stop is None else stop - first
            )
            if found is not None:
                return first + found
        return None

    def matches(self, pattern: re.Pattern[str], start: int, stop: int) -> list[int]:
        """Those of each part."""
        found: list[int] = []
        for first, last, part in zip(self._starts, self._starts[1:], self.parts, strict=False):
            if first < stop and last > start:
                low, high = max(start - first, 0), min(stop, last) - first
                found += [first + number for number in part.matches(pattern, low, high)]
        return found

    @property
    def pending(self) -> bool:
        """Whether some part waits for something."""
        return any(part.pending for part in self.parts)

    def settle(self, start: int, stop: int) -> None:
        """Settle what falls into each part."""
        for first, part in zip(self._starts, self.parts, strict=False):
            if first < stop and first + part.line_count > start:
                part.settle(max(start - first, 0), min(stop - first, part.line_count))

    def locate(self, indices: Sequence[int]) -> int:
        error: UserError | None = None
        for first, part in zip(self._starts, self.parts, strict=False):
            if type(part).locate is Document.locate:
                continue
            try:
                return first + part.locate(indices)
            except UserError as err:
                error = err
        if error is not None:
            raise error
        return super().locate(indices)

    def cells(self, number: int) -> list[Cell]:
        """Those of the part that the line is in."""
        at, part = self._part(number)
        return part.cells(number - at) if part is not None else []

    def element(self, indices: Sequence[int]) -> Document | None:
        """The first part's that has it."""
        for part in self.parts:
            found = part.element(indices)
            if found is not None:
                return found
        return None

    def step(self, indices: Sequence[int] | None, direction: int = 1) -> ElementStep | None:
        """The step of the first part that has any."""
        for first, part in zip(self._starts, self.parts, strict=False):
            found = part.step(indices, direction)
            if found is not None:
                return found if found.line is None else found._replace(line=first + found.line)
        return None

    def status(self, start: int, stop: int) -> str:
        """The first non-empty status among the visible parts."""
        for first, part in zip(self._starts, self.parts, strict=False):
            if first < stop and first + part.line_count > start:
                text = part.status(max(start - first, 0), min(stop - first, part.line_count))
                if text:
                    return text
        return ""

    def resized(self, width: int) -> Document:
        """The chain of the resized parts."""
        parts = [part.resized(width) for part in self.parts]
        if all(new is old for new, old in zip(parts, self.parts, strict=True)):
            return self
        made = copy.copy(self)
        made._chain(parts)
        return made


def write_text(document: Document, write: Callable[[str], object]) -> int:
    """Stream a Document as plain text.

    Args:
        document: what to write; its lines are made a block at a time.
        write: called with each line and its line feed.

    Returns:
        The number of lines written.
    """
    count = 0
    for made in document:
        write(made.text + "\n")
        count += 1
    return count
