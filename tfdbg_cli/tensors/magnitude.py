"""The elements of an array one to a line, largest absolute value first.

Nothing is sorted as a whole as long as only an end of the list is looked at: the first lines need
a selection of the largest elements, the last ones of the smallest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.documents import Cell, Document, ElementStep, Line, Span
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.tensors.badness import BadSteps
from tfdbg_cli.tensors.cells import roles_of
from tfdbg_cli.tensors.element import element_document
from tfdbg_cli.tensors.layout import check_indices
from tfdbg_cli.tensors.numeric import dtype_kind, dtype_name, widened
from tfdbg_cli.tensors.ranges import Ranges
from tfdbg_cli.tensors.search import words_of

__all__ = ["MagnitudeView"]

_BLOCK = 1 << 20  # elements read at once
_SMALL = 1 << 20  # arrays up to this size are sorted at once
_SELECTIONS = (1 << 12, 1 << 20)  # how many elements of an end are selected: few, then more


def _keys(block: Array) -> Array:
    """Unsigned integers in the order of the absolute values; nan is above infinity.

    The bits of floating point numbers without a sign are in the order of the numbers (IEEE 754).
    """
    numbers = widened(block)
    kind = dtype_kind(numbers.dtype)
    if kind == "bool":
        return numbers.view(np.uint8)
    if kind == "int":
        if numbers.dtype.kind == "u":
            return numbers
        unsigned = numbers.astype(numbers.dtype.str.replace("i", "u"))
        # The magnitude of the smallest integer has no sign to spare: complement and one more.
        return np.where(numbers < 0, ~unsigned + unsigned.dtype.type(1), unsigned)
    with np.errstate(all="ignore"):
        is_nan = np.isnan(numbers)
        sizes = np.abs(numbers)
        if sizes.dtype.itemsize > 8:
            sizes = sizes.astype(np.float64)
    found = np.ascontiguousarray(sizes).view(f"u{sizes.dtype.itemsize}").copy()
    found[is_nan] = np.iinfo(found.dtype).max
    return found


class MagnitudeView(Document):
    """Lines ``[i,j]  value``.

    Equal magnitudes stand in row-major order.

    Args:
        values: numbers or bools of any shape.
        limit: at most so many lines; 0: one for each element.
        is_reversed: smallest absolute value first, and nan last.
        ranges: elements to highlight.
        bad: the bad elements that `step` goes through, in the order of the lines.

    Raises:
        UserError: the elements are no numbers.
    """

    def __init__(
        self,
        values: Array,
        *,
        limit: int = 0,
        is_reversed: bool = False,
        ranges: Ranges | None = None,
        bad: BadSteps | None = None,
    ) -> None:
        self._bad_count = bad.total if bad is not None else 0
        if dtype_kind(values.dtype) in ("string", "other"):
            raise UserError(
                f"Elements of type {dtype_name(values.dtype)} have no magnitude.",
                "--sort-by-magnitude is for numbers.",
            )
        self._values = np.asarray(values)
        self._count = min(limit, values.size) if limit else int(values.size)
        self._reversed = is_reversed
        self._ranges = ranges
        self._index_width = len(_brackets([max(n - 1, 0) for n in values.shape]))
        contiguous = self._values.flags.c_contiguous
        self._flat: Any = self._values.reshape(-1) if contiguous else self._values.flat
        # Places of the elements in the order of the lines: of all, of the first, of the last.
        self._order: Array | None = None
        self._first: Array = np.empty(0, np.int64)
        self._last: Array = np.empty(0, np.int64)

    @property
    def line_count(self) -> int:
        return self._count

    def lines(self, start: int, stop: int) -> list[Line]:
        """The lines ``start`` to ``stop - 1``; sorts as much as they need."""
        start, stop = max(start, 0), min(stop, self._count)
        if start >= stop:
            return []
        places = self._places(start, stop)
        part = self._flat[places]
        roles = roles_of(part, self._ranges) or [""] * len(part)
        texts = map(str, widened(part))
        columns = np.unravel_index(places, self._values.shape) if self._values.shape else ()
        indices = list(zip(*(axis.tolist() for axis in columns), strict=True)) or [()] * len(part)
        return [
            Line(
                [Span(f"{_brackets(index):<{self._index_width}}  "), Span(text, role)], (index,) * 2
            )
            for index, text, role in zip(indices, texts, roles, strict=True)
        ]

    # Which elements stand on which lines.

    def _places(self, start: int, stop: int) -> Array:
        size = int(self._values.size)
        if self._order is None and size > _SMALL:
            for count in _SELECTIONS:
                if stop <= min(count, size):
                    if len(self._first) < stop:
                        self._first = self._select(count, largest=not self._reversed, forward=True)
                    return self._first[start:stop]
                if size - start <= count:
                    if len(self._last) < size - start:
                        ends = self._select(count, largest=self._reversed, forward=False)
                        self._last = ends[::-1]
                    first = size - len(self._last)
                    return self._last[start - first : stop - first]
        if self._order is None:
            keys = np.concatenate([self._sort_keys(at, True) for at in range(0, size, _BLOCK)])
            self._order = np.argsort(keys, kind="stable")
            self._first = self._last = np.empty(0, np.int64)
        return self._order[start:stop]

    def _sort_keys(self, at: int, forward: bool, largest: bool | None = None) -> Array:
        """The keys of a block, inverted where large ones come first; backwards if asked."""
        largest = not self._reversed if largest is None else largest
        keys = _keys(self._flat[at : at + _BLOCK])
        keys = ~keys if largest else keys
        return keys if forward else keys[::-1]

    def _select(self, count: int, *, largest: bool, forward: bool) -> Array:
        """The places of the largest (or smallest) elements in order, in one pass over the blocks.

        Args:
            count: how many.
            largest: or the smallest.
            forward: equal ones in row-major order, or in the opposite one.
        """
        size = int(self._values.size)
        starts = range(0, size, _BLOCK)
        kept_keys = _keys(self._flat[:0])
        kept = np.empty(0, np.int64)
        for at in starts if forward else reversed(starts):
            keys = self._sort_keys(at, forward, largest)
            # Of equal ones the first that was met comes first: the others can't displace it.
            is_full = len(kept) == count
            new = np.flatnonzero(keys < kept_keys[-1]) if is_full else np.arange(len(keys))
            if not new.size:
                continue
            places = at + new if forward else at + len(keys) - 1 - new
            all_keys = np.concatenate([kept_keys, keys[new]])
            kept = np.concatenate([kept, places])
            order = np.argsort(all_keys, kind="stable")[:count]
            kept_keys, kept = all_keys[order], kept[order]
        return kept

    def _tally(self, of: Callable[[Array, int], int]) -> int:
        size = int(self._values.size)
        return sum(of(self._flat[at : at + _BLOCK], at) for at in range(0, size, _BLOCK))

    # Where an element is, and what is where.

    def locate(self, indices: Sequence[int]) -> int:
        """The line that shows an element: the number of those that come before it.

        Raises:
            UserError: the array has no such element, or its line is left out.
        """
        shape = self._values.shape
        check_indices(indices, shape)
        place = int(np.ravel_multi_index(tuple(indices), shape)) if shape else 0
        key = self._sort_keys(place, True)[0]

        def before(block: Array, at: int) -> int:
            keys = self._sort_keys(at, True)
            ties = int(np.count_nonzero(keys[: max(place - at, 0)] == key))
            return int(np.count_nonzero(keys < key)) + ties

        number = self._tally(before)
        if number >= self._count:
            text = _brackets(indices)
            raise UserError(f"{text} is not among these lines.", "Use pt -a to show all elements.")
        return number

    def cells(self, number: int) -> list[Cell]:
        """The element of a line."""
        if not 0 <= number < self._count:
            return []
        made = self.lines(number, number + 1)[0]
        start = len(made.spans[0].text)
        assert made.indices is not None
        return [Cell(start, len(made.text), made.indices[0])]

    def element(self, indices: Sequence[int]) -> Document | None:
        """All about one element."""
        if len(indices) != len(self._values.shape):
            return None
        return element_document(self._values[tuple(indices)], tuple(indices))

    def step(self, indices: Sequence[int] | None, direction: int = 1) -> ElementStep | None:
        """The next bad element: nan and the infinities stand together, on top or at the end."""
        total = self._bad_count
        if not total:
            return None
        top = int(self._values.size) - total if self._reversed else 0
        wrapped = False
        if indices is None:
            number = 0 if direction > 0 else total - 1
        else:
            number = self.locate(indices) - top + direction
            wrapped = not 0 <= number < total
            number = (0 if direction > 0 else total - 1) if wrapped else number
        line = top + number
        if line >= self._count:
            return None
        place = int(self._places(line, line + 1)[0])
        shape = self._values.shape
        found = tuple(int(i) for i in np.unravel_index(place, shape)) if shape else ()
        return ElementStep(line, found, number + 1, total, wrapped)

    def status(self, start: int, stop: int) -> str:
        """Which ranks the visible lines have: ``1-24 of 3000``."""
        start, stop = max(start, 0), min(stop, self._count)
        return f"{start + 1}-{stop} of {self._values.size}" if start < stop else ""

    def find(
        self, pattern: re.Pattern[str], start: int, direction: int = 1, stop: int | None = None
    ) -> int | None:
        """The nearest line that matches; see `Document.find`.

        Of ``nan`` and ``inf`` it is known where they stand: nothing has to be sorted for them.
        """
        words = words_of(pattern)
        kind = dtype_kind(self._values.dtype)
        if words is None or kind == "complex" or "-inf" in words:
            return super().find(pattern, start, direction, stop)
        if kind != "float":
            return None
        nan = self._tally(lambda block, at: int(np.count_nonzero(np.isnan(widened(block)))))
        inf = self._tally(lambda block, at: int(np.count_nonzero(np.isinf(widened(block)))))
        low = 0 if "nan" in words else nan
        high = nan + inf if "inf" in words else nan
        if self._reversed:
            low, high = int(self._values.size) - high, int(self._values.size) - low
        if direction > 0:
            found = max(start, low)
            return found if found < min(high, self._count if stop is None else stop) else None
        found = min(start, high - 1, self._count - 1)
        return found if found >= max(low, 0 if stop is None else stop + 1) else None


def _brackets(indices: Sequence[int]) -> str:
    return f"[{','.join(map(str, indices))}]"
