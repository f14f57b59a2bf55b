"""An array as text in NumPy's ``repr`` style, written line by line as somebody looks at it."""

from __future__ import annotations

import contextlib
import copy
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.documents import Cell, Document, ElementStep, Line, Span
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.tensors.badness import BadSteps
from tfdbg_cli.tensors.cells import cells_for, extras_of, roles_of, sample_of
from tfdbg_cli.tensors.element import element_document
from tfdbg_cli.tensors.layout import Layout, LinePlace, check_indices
from tfdbg_cli.tensors.numeric import dtype_kind
from tfdbg_cli.tensors.ranges import Ranges
from tfdbg_cli.tensors.search import alternatives, needle_in, shows_word, words_in, words_of

__all__ = ["TensorView"]

_OPEN = "array("

# All that the elements of a kind, and the brackets around them, are written with.
_INT = frozenset("0123456789-[](), ")
_LETTERS = {
    "int": _INT,
    "float": _INT | set(".+enaif"),
    "complex": _INT | set(".+enaifj"),
    "bool": frozenset("TrueFals[](), "),
}

# Tells of elements which may be on lines that match; of all at once: none.
_Test = Callable[[Array], Array | None]

# Lines that are searched at once.
_SEARCHED = 8192


class TensorView(Document):
    """The text of an array, e.g. ``array([[1. , 2.5],`` / ``       [3. , 4. ]], dtype=float32)``.

    Which element stands on which line is arithmetic on the shape; only the elements of the lines
    that are asked for are read. The number format comes from all shown elements where these are
    some thousand, else from a sample. The text is that of `numpy.array_repr` with NumPy's default
    print options, except that a shortened array has no ``shape=``, and that strings and objects
    stay on one line and are cut when they are long.

    Args:
        values: an array of any dtype and shape, e.g. a `numpy.memmap`.
        width: columns to use.
        threshold: arrays with more elements are shortened by ellipses; 0: none is.
        edge_items: how many items are shown at the ends of a shortened dimension; at least 1.
        ranges: elements to highlight.
        bad: the bad elements that `step` goes through.

    Raises:
        UserError: ranges are given, but the elements are no numbers.
    """

    def __init__(
        self,
        values: Array,
        width: int = 80,
        *,
        threshold: int = 1000,
        edge_items: int = 3,
        ranges: Ranges | None = None,
        bad: BadSteps | None = None,
    ) -> None:
        self._bad = bad
        # np.asarray drops subclasses: a slice of a memmap costs microseconds more than a view.
        self._values: Array = np.asarray(values)
        self._shape: tuple[int, ...] = self._values.shape
        self._ranges = ranges
        if ranges is not None:
            ranges.mask(np.empty(0, self._values.dtype))
        self._edge = max(edge_items, 1)
        self._ellipsized = 0 < threshold < self._values.size
        self._shortened = tuple(self._ellipsized and n > 2 * self._edge for n in self._shape)
        self._extras = extras_of(self._values)
        if self._values.size:
            sample = sample_of(self._shown())
            self._cells = cells_for(sample, alone=self._values.size == 1)
        self._lay_out(width)

    def _shown(self) -> Array:
        """The elements that are not hidden by an ellipsis."""
        if not self._ellipsized:
            return self._values
        edge = self._edge
        kept = [
            np.r_[:edge, n - edge : n] if short else np.arange(n)
            for n, short in zip(self._shape, self._shortened, strict=True)
        ]
        shown: Array = self._values[np.ix_(*kept)]
        return shown

    def _lay_out(self, width: int) -> None:
        self._width = width
        cell = self._cells.width if self._values.size else 0
        self._layout = Layout(self._shape, self._shortened, self._edge, cell, width, len(_OPEN))
        self._body = self._layout.height
        # The dtype gets a line of its own where it does not fit behind the elements.
        self._own_line = False
        if self._extras:
            last = len(self._make(self._body - 1, tail=",").text)
            self._own_line = last + len(self._extras) + 2 > width

    @property
    def line_count(self) -> int:
        return self._body + self._own_line

    def lines(self, start: int, stop: int) -> list[Line]:
        made = [self._make(i) for i in range(max(start, 0), min(stop, self._body))]
        if self._own_line and start <= self._body < stop:
            made.append(Line([Span(f"{' ' * len(_OPEN)}{self._extras})")]))
        return made

    def _tail(self) -> str:
        if not self._extras:
            return ")"
        return "," if self._own_line else f", {self._extras})"

    def _make(self, number: int, tail: str | None = None) -> Line:
        if tail is None:
            tail = self._tail()
        if not self._values.size:
            return Line([Span(f"{_OPEN}[]{tail}")])
        if not self._shape:
            return self._row_line(_OPEN, self._values.reshape(1), [(0, 1)], tail, ((), ()))
        place = self._layout.place(number)
        if place is None:
            return Line()
        if place.chunk is None:
            return Line([Span(f"{' ' * (len(_OPEN) + 1 + len(place.outer))}...,")])
        head, end = self._edges(number, place, tail)
        return self._row_line(
            head,
            self._values[place.outer],
            self._layout.segments(place.chunk),
            end,
            self._layout.ends(place),
        )

    def _edges(self, number: int, place: LinePlace, tail: str) -> tuple[str, str]:
        """What stands before and behind the elements of a line."""
        head, end = " " * self._layout.indent, ","
        if place.chunk == 0:
            # A bracket for the row, and one for each array that begins with it.
            opened = 1 + _count_while(i == 0 for i in reversed(place.outer))
            head = "[" * opened
            head = _OPEN + head if number == 0 else head.rjust(self._layout.indent)
        if place.chunk == self._layout.chunks - 1:
            sizes = reversed(self._shape[:-1])
            pairs = zip(reversed(place.outer), sizes, strict=True)
            end = "]" * (1 + _count_while(i == n - 1 for i, n in pairs))
            end += tail if number == self._body - 1 else ","
        return head, end

    @property
    def _flat(self) -> Any:
        """The elements in row-major order; slices of it are arrays."""
        values = self._values
        return values.reshape(-1) if values.flags.c_contiguous else values.flat

    def _texts(self, numbers: Sequence[int]) -> list[str]:
        """The text of lines of an array that isn't shortened, whose elements are written at once.

        That takes a third of the time that it takes to make the lines.
        """
        places = [self._layout.place(number) if number < self._body else None for number in numbers]
        own = [(0, 0) if place is None else self._layout.stretch(place) for place in places]
        stretches: list[tuple[int, int]] = []
        begin = end = 0
        for place, (start, stop) in zip(places, own, strict=True):
            if place is None:
                continue
            if start != end:
                stretches.append((begin, end))
                begin = start
            end = stop
        stretches.append((begin, end))
        flat = self._flat
        parts = [flat[begin:behind] for begin, behind in stretches] or [flat[:0]]
        cells, at = self._cells.texts(parts[0] if len(parts) == 1 else np.concatenate(parts)), 0
        texts: list[str] = []
        blank, last, tail = " " * self._layout.indent, self._layout.chunks - 1, self._tail()
        for number, place, (start, stop) in zip(numbers, places, own, strict=True):
            if place is None:
                texts += [made.text for made in self.lines(number, number + 1)]
                continue
            is_inner = place.chunk is not None and 0 < place.chunk < last
            head, close = (blank, ",") if is_inner else self._edges(number, place, tail)
            texts.append(f"{head}{', '.join(cells[at : at + stop - start])}{close}")
            at += stop - start
        return texts

    def _row_line(
        self,
        head: str,
        row: Array,
        segments: list[tuple[int, int] | None],
        end: str,
        ends: tuple[tuple[int, ...], tuple[int, ...]] | None,
    ) -> Line:
        spans: list[Span] = []
        plain, separator = head, ""
        for segment in segments:
            if segment is None:
                plain += separator + "..."
            else:
                part = row[segment[0] : segment[1]]
                texts = self._cells.texts(part)
                if not self._shape:  # there is no column to pad for
                    texts = [text.strip() for text in texts]
                roles = roles_of(part, self._ranges)
                if roles is None:
                    plain += separator + ", ".join(texts)
                else:
                    for text, role in zip(texts, roles, strict=True):
                        plain += separator
                        separator = ", "
                        if not role:
                            plain += text
                            continue
                        # The padding stays plain: no coloured bars between the columns.
                        bare = text.strip()
                        at = text.index(bare)
                        spans += (Span(plain + text[:at]), Span(bare, role))
                        plain = text[at + len(bare) :]
            separator = ", "
        spans.append(Span(plain + end))
        return Line(spans, ends)

    # Where an element is, and what is where.

    def cells(self, number: int) -> list[Cell]:
        if not self._values.size or not 0 <= number < self._body:
            return []
        if not self._shape:
            start = len(_OPEN)
            text = self._cells.texts(self._values.reshape(1))[0].strip()
            return [Cell(start, start + len(text), ())]
        place = self._layout.place(number)
        if place is None or place.chunk is None:
            return []
        found: list[Cell] = []
        row, at, separator = self._values[place.outer], self._layout.indent, 0
        for segment in self._layout.segments(place.chunk):
            at += separator
            separator = len(", ")
            if segment is None:
                at += len("...")
                continue
            for column, text in enumerate(self._cells.texts(row[slice(*segment)]), segment[0]):
                bare = text.strip()
                start = at + text.index(bare)
                found.append(Cell(start, start + len(bare), (*place.outer, column)))
                at += len(text) + separator
            at -= separator
        return found

    def element(self, indices: Sequence[int]) -> Document | None:
        """All about one element."""
        if len(indices) != len(self._shape) or not self._values.size:
            return None
        if not all(-n <= index < n for index, n in zip(indices, self._shape, strict=True)):
            return None
        return element_document(self._values[tuple(indices)], tuple(indices))

    def step(self, indices: Sequence[int] | None, direction: int = 1) -> ElementStep | None:
        """The next bad element; see `Document.step`."""
        if self._bad is None:
            return None
        found = self._bad.step(indices, direction)
        with contextlib.suppress(UserError):  # an ellipsis hides it
            return found._replace(line=self.locate(found.indices) if self._shape else 0)
        return found

    def locate(self, indices: Sequence[int]) -> int:
        """The line that shows an element.

        Args:
            indices: one index per dimension, from 0.

        Raises:
            UserError: the array has no such element, or an ellipsis hides it.
        """
        shape = self._shape
        if not shape:
            raise UserError("A scalar has no indices.", "Its only line shows the whole value.")
        check_indices(indices, shape)
        hidden = any(
            short and self._edge <= index < n - self._edge
            for index, n, short in zip(indices, shape, self._shortened, strict=True)
        )
        if hidden:
            text = _brackets(indices)
            raise UserError(f"{text} is hidden by an ellipsis.", "Use pt -a to show all elements.")
        return self._layout.line_of(indices)

    def status(self, start: int, stop: int) -> str:
        """The indices of the first and the last element on some lines: ``[0,0]-[9,3]``."""
        start, stop = max(start, 0), min(stop, self._body)
        first = self._layout.elements(range(start, stop))
        last = self._layout.elements(range(stop - 1, start - 1, -1))
        if first is None or last is None:
            return ""
        return f"{_brackets(first[0])}-{_brackets(last[1])}"

    def resized(self, width: int) -> TensorView:
        """The same array and number format for another width."""
        if width == self._width:
            return self
        view = copy.copy(self)
        view._lay_out(width)
        top = (
            self._layout.elements(range(self.initial_line, self._body))
            if self.initial_line
            else None
        )
        view.initial_line = view._layout.line_of(top[0]) if top else 0
        return view

    # Search.

    def matches(self, pattern: re.Pattern[str], start: int, stop: int) -> list[int]:
        """Which lines match; those that can't, by their values, are not written as text."""
        start, stop = max(start, 0), min(stop, self.line_count)
        if self._ellipsized or not self._shape or not self._values.size:
            return super().matches(pattern, start, stop)
        may_match, found = self._filter(pattern), []
        for at in range(start, stop, _SEARCHED):
            numbers = self._candidates(range(at, min(at + _SEARCHED, stop)), may_match)
            texts = zip(numbers, self._texts(numbers), strict=True)
            found += [number for number, text in texts if pattern.search(text)]
        return found

    def _filter(self, pattern: re.Pattern[str]) -> _Test | None:
        """Tells which of some elements may be on lines that match; ``None``: nobody knows.

        Of the elements it may say ``None`` as well: there are none.
        """
        kind = dtype_kind(self._values.dtype)
        if kind not in _LETTERS:
            return None
        words = words_of(pattern)
        if words is not None and kind in ("float", "complex"):
            return lambda row: shows_word(row, words)
        parts = alternatives(pattern)
        if len(parts) > 1:
            tests = [self._filter(part) for part in parts]
            known = [test for test in tests if test is not None]
            return (lambda row: _any_of(known, row)) if len(known) == len(tests) else None
        if any(not _LETTERS[kind].issuperset(word) for word in words or words_in(pattern)):
            return lambda row: None
        needle = needle_in(pattern)
        if len(needle) == 1 and kind in ("float", "complex"):
            return None  # nearly all of them show any digit
        return (lambda row: self._cells.may_show(needle, row)) if needle else None

    def _candidates(self, numbers: range, may_match: _Test | None) -> Sequence[int]:
        """Those of some lines that may match."""
        if may_match is None:
            return numbers
        # The first line has the word array, the last ones have the dtype.
        found = {0, self._body - 1, self._body}.intersection(numbers)
        body = numbers[: max(self._body - numbers.start, 0)]
        first, last = self._layout.elements(body), self._layout.elements(body[::-1])
        if first is not None and last is not None:
            begin = int(np.ravel_multi_index(first[0], self._shape))
            behind = int(np.ravel_multi_index(last[1], self._shape)) + 1
            mask = may_match(self._flat[begin:behind])
            if mask is not None:
                found.update(self._layout.lines_of(begin + np.flatnonzero(mask)))
        return sorted(found)


def _any_of(tests: Sequence[_Test], row: Array) -> Array | None:
    """What one of several tests says yes to."""
    masks = [mask for test in tests if (mask := test(row)) is not None]
    return np.logical_or.reduce(masks) if masks else None


def _count_while(conditions: Any) -> int:
    return sum(1 for _ in itertools.takewhile(bool, conditions))


def _brackets(indices: Sequence[int]) -> str:
    return f"[{','.join(map(str, indices))}]"
