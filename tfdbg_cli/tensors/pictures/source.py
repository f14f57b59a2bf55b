"""What a picture is made of: an array, grids of its parts, a thread that makes them exact."""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.errors import one_line
from tfdbg_cli.tensors.badness import BadSteps, can_be_bad, find_bad
from tfdbg_cli.tensors.measurements import Background
from tfdbg_cli.tensors.pictures.layout import Panel
from tfdbg_cli.tensors.pictures.picture import plane
from tfdbg_cli.tensors.pictures.reduction import Axis, Grid, reduced, sampled

__all__ = ["Reduction", "Source"]

_Item = TypeVar("_Item")

# A part of so many elements is reduced at once: nobody sees the difference.
_AT_ONCE = 1 << 21

# So many grids are kept, of a page or a few.
_MOST_KEPT = 256


class Reduction:
    """The grid of a part of an array: a sample at first, where it is large.

    Attributes:
        grid: as far as it is known.
        error: why it can't be known better; empty: nothing is in the way.
    """

    def __init__(self, part: Array, rows: Axis, columns: Axis) -> None:
        self._part, self._rows, self._columns = part, rows, columns
        make = reduced if rows.size * columns.size <= _AT_ONCE else sampled
        self.grid: Grid = make(part, rows, columns)
        self.error = ""

    @property
    def is_done(self) -> bool:
        """Whether there is nothing more to know."""
        return self.grid.is_exact or bool(self.error)

    def finish(self, check: Callable[[], object] = lambda: None) -> None:
        """Look at all elements; what ``check`` raises goes on if it is no `Exception`."""
        if self.is_done:
            return
        try:
            self.grid = reduced(self._part, self._rows, self._columns, check)
        except Exception as error:  # a mapped file that is damaged, no memory
            self.error = one_line(error)


class _Finisher:
    """What the thread does."""

    def measure(self, item: Reduction, check: Callable[[], object], /) -> None:
        """Make one exact."""
        item.finish(check)


class Source:
    """An array that pictures are made of.

    Args:
        values: numbers or bools, of one dimension or more.
        axes: the dimensions that are rows and columns; default: the last two.

    Attributes:
        values: the array with these dimensions last: what is drawn.
        axes: rows and columns; empty: there are no two dimensions.
    """

    def __init__(self, values: Array, axes: tuple[int, ...] = ()) -> None:
        count = values.ndim
        self.axes = axes or tuple(range(count))[-2:] if count > 1 else ()
        others = [axis for axis in range(count) if axis not in self.axes]
        self._order = [*others, *self.axes]
        self._array = values
        self.values = values.transpose(self._order)
        self._kept: OrderedDict[tuple[Any, ...], Reduction] = OrderedDict()
        self._background: Background[Reduction] = Background(_Finisher())
        self._bad: BadSteps | None = None
        self._bad_known = False

    def along(self, axes: tuple[int, ...]) -> Source:
        """The same array with other dimensions as rows and columns; empty: with these."""
        return self if axes in ((), self.axes) else Source(self._array, axes)

    @property
    def next_axes(self) -> tuple[int, ...]:
        """The dimensions that come next as rows and columns."""
        count = self.values.ndim
        pairs = [*itertools.combinations(range(count), 2)][::-1]
        pairs += [(1, 0)] if count == 2 else []
        at = pairs.index(self.axes) if self.axes in pairs else -1
        return pairs[(at + 1) % len(pairs)] if pairs else ()

    def original(self, index: tuple[_Item, ...]) -> tuple[_Item, ...]:
        """An index of what is drawn as one of the array."""
        places = dict(zip(self._order, index, strict=True))
        return tuple(places[axis] for axis in range(len(index)))

    def drawn(self, index: tuple[_Item, ...]) -> tuple[_Item, ...]:
        """An index of the array as one of what is drawn."""
        return tuple(index[axis] for axis in self._order)

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the array."""
        shape: tuple[int, ...] = self._array.shape
        return shape

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of each of its pictures."""
        shape = self.values.shape
        return (1, shape[0]) if len(shape) == 1 else (shape[-2], shape[-1])

    @property
    def count(self) -> int:
        """How many pictures there are."""
        return math.prod(self.values.shape[:-2])

    def outer(self, number: int) -> tuple[int, ...]:
        """The indices of one of its pictures, see `plane`."""
        shape = self.values.shape[:-2]
        return tuple(int(index) for index in np.unravel_index(number, shape)) if shape else ()

    def number(self, outer: tuple[int, ...]) -> int:
        """Which of its pictures has these indices."""
        return int(np.ravel_multi_index(outer, self.values.shape[:-2])) if outer else 0

    def reduction(self, panel: Panel) -> Reduction:
        """The grid of a panel."""
        key = (panel.outer, panel.rows, panel.columns)
        if key not in self._kept:
            part = plane(self.values, panel.outer)
            self._kept[key] = Reduction(part, panel.rows, panel.columns)
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def want(self, reductions: list[Reduction]) -> None:
        """Somebody looks at these: they are to become exact."""
        missing = [reduction for reduction in reductions if not reduction.is_done]
        if missing:
            self._background.want(missing)

    @property
    def is_pending(self) -> bool:
        """Whether some of them aren't exact yet."""
        return self._background.is_pending

    def finish(self, reductions: list[Reduction]) -> None:
        """Make some of them exact now."""
        missing = [reduction for reduction in reductions if not reduction.is_done]
        self._background.drop(missing)
        for reduction in missing:
            reduction.finish()

    def next_bad(
        self, indices: tuple[int, ...] | None, direction: int
    ) -> tuple[tuple[int, ...], str] | None:
        """The next bad element, and which of how many it is; ``None``: there is none.

        Args:
            indices: of what is drawn, as the ones that are returned.
            direction: 1 for the next one, -1 for the one before.
        """
        if not self._bad_known:
            if can_be_bad(self.values.dtype):
                found = find_bad(self.values, 0)
                self._bad = BadSteps(self.values, found) if found.count else None
            self._bad_known = True
        if self._bad is None:
            return None
        step = self._bad.step(indices, direction)
        return step.indices, f"bad element {step.number} of {step.total}"
