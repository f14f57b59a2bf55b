"""An array as text in NumPy's ``repr`` style, written line by line as somebody looks at it."""

from __future__ import annotations

import contextlib
import copy
import itertools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tfdbg_cli.common.documents import Cell, Document, ElementStep, Line, Span
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.tensors.badness import BadSteps
from tfdbg_cli.tensors.cells import cells_for, extras_of, roles_of, sample_of
from tfdbg_cli.tensors.element import element_document
from tfdbg_cli.tensors.numeric import dtype_kind
from tfdbg_cli.tensors.ranges import Ranges
from tfdbg_cli.tensors.search import find_word, words_in, words_of

__all__ = ["TensorView"]

_Array = np.ndarray[Any, Any]

_OPEN = "array("

# All that the elements of a kind, and the brackets around them, are written with.
_INT = frozenset("0123456789-[](), ")
_LETTERS = {
    "int": _INT,
    "float": _INT | set(".+enaif"),
    "complex": _INT | set(".+enaifj"),
    "bool": _INT | set("TrueFals"),
}

# Lines that are searched at once.
_SEARCHED = 1024


class _LinePlace(NamedTuple):
    """What a line shows: a piece of a row, or the ellipsis that stands for sub-arrays.

    Attributes:
        outer: indices of the row, or of the array whose middle the ellipsis stands for.
        chunk: which piece of the row; ``None`` for an ellipsis.
    """

    outer: tuple[int, ...]
    chunk: int | None


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
        dtype_name: shown instead of the array's own dtype.
        bad: the bad elements that `step` goes through.

    Raises:
        UserError: ranges are given, but the elements are no numbers.
    """

    def __init__(
        self,
        values: _Array,
        width: int = 80,
        *,
        threshold: int = 1000,
        edge_items: int = 3,
        ranges: Ranges | None = None,
        dtype_name: str | None = None,
        bad: BadSteps | None = None,
    ) -> None:
        self._bad = bad
        # np.asarray drops subclasses: a slice of a memmap costs microseconds more than a view.
        self._values: _Array = np.asarray(values)
        self._shape: tuple[int, ...] = self._values.shape
        self._ranges = ranges
        if ranges is not None:
            ranges.mask(np.empty(0, self._values.dtype))
        self._edge = max(edge_items, 1)
        self._ellipsized = 0 < threshold < self._values.size
        self._shortened = tuple(self._ellipsized and n > 2 * self._edge for n in self._shape)
        self._extras = extras_of(self._values, dtype_name)
        if self._values.size:
            sample = sample_of(self._shown())
            self._cells = cells_for(sample, alone=self._values.size == 1)
        self._lay_out(width)

    def _shown(self) -> _Array:
        """The elements that are not hidden by an ellipsis."""
        if not self._ellipsized:
            return self._values
        edge = self._edge
        kept = [
            np.r_[:edge, n - edge : n] if short else np.arange(n)
            for n, short in zip(self._shape, self._shortened, strict=True)
        ]
        shown: _Array = self._values[np.ix_(*kept)]
        return shown

    # The lines. A sub-array of dimension ``axis`` takes ``_heights[axis]`` lines; blank lines
    # separate sub-arrays of two and more dimensions.

    def _lay_out(self, width: int) -> None:
        self._width = width
        self._body = 1
        self._pieces: list[list[tuple[int, int] | None]] = []  # of a shortened row
        if self._shape and self._values.size:
            self._lay_out_row()
            heights = [self._chunks]
            for axis in range(len(self._shape) - 2, -1, -1):
                n = 2 * self._edge if self._shortened[axis] else self._shape[axis]
                gap = self._gap(axis)
                ellipsis_lines = 1 + gap if self._shortened[axis] else 0
                heights.append(n * (heights[-1] + gap) - gap + ellipsis_lines)
            self._heights = heights[::-1]
            self._body = self._heights[0]
        # The dtype gets a line of its own where it does not fit behind the elements.
        self._own_line = False
        if self._extras:
            last = len(self._make(self._body - 1, tail=",").text)
            self._own_line = last + len(self._extras) + 2 > width

    def _lay_out_row(self) -> None:
        ndim, cell, n = len(self._shape), self._cells.width, self._shape[-1]
        self._indent = len(_OPEN) + ndim
        # Room is left for a comma or bracket, and for the brackets and ")" of the last line.
        room = self._width - ndim - 1
        if not self._shortened[-1]:
            self._per_line = max(1, 1 + (room - self._indent - cell) // (cell + 2))
            self._chunks = -(-n // self._per_line)
            return
        edge = self._edge
        at = self._indent
        piece: list[tuple[int, int] | None] = []
        for start in (*range(edge), None, *range(n - edge, n)):
            size = 3 if start is None else cell
            if at + size > room and at > self._indent:
                self._pieces.append(piece)
                piece, at = [], self._indent
            at += size + 2
            previous = piece[-1] if piece else None
            if start is None:
                piece.append(None)
            elif previous is not None:
                piece[-1] = (previous[0], start + 1)
            else:
                piece.append((start, start + 1))
        self._pieces.append(piece)
        self._chunks = len(self._pieces)

    def _gap(self, axis: int) -> int:
        return len(self._shape) - axis - 2

    @property
    def line_count(self) -> int:
        """How many lines there are."""
        return self._body + self._own_line

    def _place(self, number: int) -> _LinePlace | None:
        """What stands on a line of the body; ``None``: it is blank."""
        outer: list[int] = []
        for axis in range(len(self._shape) - 1):
            gap = self._gap(axis)
            height = self._heights[axis + 1]
            first = 0
            if self._shortened[axis]:
                dots = self._edge * (height + gap)
                if number == dots:
                    return _LinePlace(tuple(outer), None)
                if number > dots:
                    number -= dots + 1 + gap
                    first = self._shape[axis] - self._edge
                    if number < 0:
                        return None
            item, number = divmod(number, height + gap)
            if number >= height:
                return None
            outer.append(first + item)
        return _LinePlace(tuple(outer), number)

    def _segments(self, chunk: int) -> list[tuple[int, int] | None]:
        """The stretches ``(start, stop)`` of a row on one line; ``None`` is the ellipsis."""
        if self._pieces:
            return self._pieces[chunk]
        start = chunk * self._per_line
        return [(start, min(start + self._per_line, self._shape[-1]))]

    def _ends(self, place: _LinePlace) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        if place.chunk is None:
            return None
        if not self._shape:
            return (), ()
        stretches = [stretch for stretch in self._segments(place.chunk) if stretch is not None]
        if not stretches:
            return None
        return (*place.outer, stretches[0][0]), (*place.outer, stretches[-1][1] - 1)

    def lines(self, start: int, stop: int) -> list[Line]:
        """The lines ``start`` to ``stop - 1``; reads only the elements on them."""
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
        place = self._place(number)
        if place is None:
            return Line()
        if place.chunk is None:
            return Line([Span(f"{' ' * (len(_OPEN) + 1 + len(place.outer))}...,")])
        head, end = self._edges(number, place, tail)
        return self._row_line(
            head,
            self._values[place.outer],
            self._segments(place.chunk),
            end,
            self._ends(place),
        )

    def _edges(self, number: int, place: _LinePlace, tail: str) -> tuple[str, str]:
        """What stands before and behind the elements of a line."""
        head, end = " " * self._indent, ","
        if place.chunk == 0:
            # A bracket for the row, and one for each array that begins with it.
            opened = 1 + _count_while(i == 0 for i in reversed(place.outer))
            head = "[" * opened
            head = _OPEN + head if number == 0 else head.rjust(self._indent)
        if place.chunk == self._chunks - 1:
            sizes = reversed(self._shape[:-1])
            pairs = zip(reversed(place.outer), sizes, strict=True)
            end = "]" * (1 + _count_while(i == n - 1 for i, n in pairs))
            end += tail if number == self._body - 1 else ","
        return head, end

    def _texts(self, start: int, stop: int) -> list[str]:
        """The text of lines of an array that isn't shortened, whose elements are written at once.

        That takes a third of the time that it takes to make the lines.
        """
        first = self._elements(range(start, min(stop, self._body)))
        last = self._elements(range(min(stop, self._body) - 1, start - 1, -1))
        if first is None or last is None:
            return [made.text for made in self.lines(start, stop)]
        begin = int(np.ravel_multi_index(first[0], self._shape))
        behind = int(np.ravel_multi_index(last[1], self._shape)) + 1
        values = self._values
        flat: Any = values.reshape(-1) if values.flags.c_contiguous else values.flat
        cells, at = self._cells.texts(flat[begin:behind]), 0
        texts: list[str] = []
        for number in range(start, stop):
            place = self._place(number) if number < self._body else None
            if place is None or place.chunk is None:
                texts += [made.text for made in self.lines(number, number + 1)]
                continue
            head, end = self._edges(number, place, self._tail())
            size = sum(high - low for low, high in filter(None, self._segments(place.chunk)))
            texts.append(head + ", ".join(cells[at : at + size]) + end)
            at += size
        return texts

    def _row_line(
        self,
        head: str,
        row: _Array,
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
        """The elements on a line, where its text shows them."""
        if not self._values.size or not 0 <= number < self._body:
            return []
        if not self._shape:
            start = len(_OPEN)
            text = self._cells.texts(self._values.reshape(1))[0].strip()
            return [Cell(start, start + len(text), ())]
        place = self._place(number)
        if place is None or place.chunk is None:
            return []
        found: list[Cell] = []
        row, at, separator = self._values[place.outer], self._indent, 0
        for segment in self._segments(place.chunk):
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
        return element_document(self._values[tuple(indices)], tuple(indices))

    def step(self, indices: Sequence[int] | None, direction: int = 1) -> ElementStep | None:
        """The next bad element; see `Document.step`."""
        if self._bad is None:
            return None
        found = self._bad.step(indices, direction)
        with contextlib.suppress(UserError):  # an ellipsis hides it
            return found._replace(line=self.locate(found.indices) if self._shape else 0)
        return found

    def _line_of(self, indices: Sequence[int]) -> int:
        number = 0
        for axis, index in enumerate(indices[:-1]):
            gap = self._gap(axis)
            unit = self._heights[axis + 1] + gap
            number += index * unit
            if self._shortened[axis] and index >= self._edge:
                hidden = self._shape[axis] - 2 * self._edge
                number += 1 + gap - hidden * unit
        column = indices[-1]
        if not self._pieces:
            return number + column // self._per_line
        for chunk, piece in enumerate(self._pieces):
            if any(segment and segment[0] <= column < segment[1] for segment in piece):
                return number + chunk
        raise AssertionError(f"column {column} is on no line")

    def locate(self, indices: Sequence[int]) -> int:
        """The line that shows an element.

        Args:
            indices: one index per dimension, from 0.

        Raises:
            UserError: the array has no such element, or an ellipsis hides it.
        """
        shape = self._shape
        if not shape:
            raise UserError("A scalar has no indices.", "Its only line shows all of it.")
        if len(indices) != len(shape):
            raise UserError(
                f"Dimensions mismatch: requested: {len(indices)}; actual: {len(shape)}.",
                f"The shape is {shape}.",
            )
        for axis, (index, n) in enumerate(zip(indices, shape, strict=True)):
            if index < 0:
                raise UserError(f"The index {index} is negative.", "Indices count from 0.")
            if index >= n:
                raise UserError(
                    f"The index {index} is out of range in dimension {axis} of size {n}.",
                    f"The shape is {shape}.",
                )
        hidden = any(
            short and self._edge <= index < n - self._edge
            for index, n, short in zip(indices, shape, self._shortened, strict=True)
        )
        if hidden:
            text = _brackets(indices)
            raise UserError(f"{text} is hidden by an ellipsis.", "Use pt -a to show all elements.")
        return self._line_of(indices)

    def _elements(self, numbers: range) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """First and last element of the first of some lines that has any."""
        if not self._values.size or not self._shape:
            return None
        for number in numbers:
            place = self._place(number)
            ends = None if place is None else self._ends(place)
            if ends is not None:
                return ends
        return None

    def status(self, start: int, stop: int) -> str:
        """The indices of the first and the last element on some lines: ``[0,0]-[9,3]``."""
        start, stop = max(start, 0), min(stop, self._body)
        first = self._elements(range(start, stop))
        last = self._elements(range(stop - 1, start - 1, -1))
        if first is None or last is None:
            return ""
        return f"{_brackets(first[0])}-{_brackets(last[1])}"

    def resized(self, width: int) -> TensorView:
        """The same array and number format for another width."""
        if width == self._width:
            return self
        view = copy.copy(self)
        view._lay_out(width)
        top = self._elements(range(self.initial_line, self._body)) if self.initial_line else None
        view.initial_line = view._line_of(top[0]) if top else 0
        return view

    # Search.

    def find(
        self, pattern: re.Pattern[str], start: int, direction: int = 1, stop: int | None = None
    ) -> int | None:
        """The nearest line that matches; see `Document.find`.

        Patterns for nothing but the words of non-finite elements (``nan``, ``inf|nan``, ``-inf``)
        are searched in the values, without writing them as text.
        """
        wanted = self._wanted(pattern)
        if wanted is None:
            return super().find(pattern, start, direction, stop)
        if dtype_kind(self._values.dtype) not in ("float", "complex"):
            return None
        if direction > 0:
            low, high = max(start, 0), self._body if stop is None else min(stop, self._body)
        else:
            low, high = 0 if stop is None else max(stop + 1, 0), min(start + 1, self._body)
        first = self._elements(range(low, high))
        last = self._elements(range(high - 1, low - 1, -1))
        if first is None or last is None:
            return None
        begin = int(np.ravel_multi_index(first[0], self._shape))
        end = int(np.ravel_multi_index(last[1], self._shape)) + 1
        found = find_word(self._values, wanted, begin, end, direction)
        if found is None:
            return None
        return self._line_of([int(i) for i in np.unravel_index(found, self._shape)])

    def matches(self, pattern: re.Pattern[str], start: int, stop: int) -> list[int]:
        """Which lines match; what no number is written with is looked for at the ends only."""
        start, stop = max(start, 0), min(stop, self.line_count)
        if self._ellipsized or len(self._shape) < 1 or not self._values.size:
            return super().matches(pattern, start, stop)
        letters = _LETTERS.get(dtype_kind(self._values.dtype))
        if letters and any(not letters.issuperset(word) for word in words_in(pattern)):
            # The first line has the word array, the last ones have the dtype.
            ends = {0, self._body - 1, self._body} & set(range(start, stop))
            return [at for at in sorted(ends) if pattern.search(self.lines(at, at + 1)[0].text)]
        found: list[int] = []
        for at in range(start, stop, _SEARCHED):
            texts = self._texts(at, min(at + _SEARCHED, stop))
            found += [number for number, text in enumerate(texts, at) if pattern.search(text)]
        return found

    def _wanted(self, pattern: re.Pattern[str]) -> set[str] | None:
        """The words that a pattern is for; ``None``: it has to be searched in the text."""
        kind = dtype_kind(self._values.dtype)
        if (
            self._ellipsized
            or not self._shape
            or not self._values.size
            or kind in ("string", "other")
            or pattern.search(self._extras)
        ):
            return None
        return words_of(pattern)


def _count_while(conditions: Any) -> int:
    return sum(1 for _ in itertools.takewhile(bool, conditions))


def _brackets(indices: Sequence[int]) -> str:
    return f"[{','.join(map(str, indices))}]"
