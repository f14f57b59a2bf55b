"""The elements of an array that are nan or infinite: how many, and where they are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.documents import ElementStep
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.finite import count_bad, finite_test
from tfdbg_cli.tensors.numeric import blocks, dtype_kind, dtype_name, widened

__all__ = ["BAD_PATTERN", "BadElements", "BadSteps", "can_be_bad", "find_bad"]

#: Finds bad elements in the text of an array, and nothing else in it.
BAD_PATTERN = "nan|-?inf"


@dataclass(frozen=True)
class BadElements:
    """The bad elements of an array.

    Attributes:
        counts: ``NaN``, ``-Inf``, ``+Inf`` -> how many, zeros included. A complex element counts
            once: as NaN if either part is, else by its first infinite part.
        total: all elements of the array, good ones too.
        places: indices of the first ones, in row-major order.
        blocks: ``(first element, elements, bad elements)`` of each block that has any.
    """

    counts: dict[str, int]
    total: int
    places: tuple[tuple[int, ...], ...]
    blocks: list[tuple[int, int, int]] = field(default_factory=list, repr=False)

    @property
    def count(self) -> int:
        """How many elements are bad."""
        return sum(self.counts.values())


def can_be_bad(dtype: np.dtype[Any]) -> bool:
    """Whether elements of a dtype can be nan or infinite."""
    return dtype_kind(dtype) in ("float", "complex")


def find_bad(values: np.ndarray[Any, Any], first: int = 20) -> BadElements:
    """Count the bad elements, in bounded blocks.

    Args:
        values: floating point or complex numbers.
        first: how many places to keep.

    Raises:
        UserError: the elements are of another kind.
    """
    if not can_be_bad(values.dtype):
        raise UserError(
            f"Elements of type {dtype_name(values.dtype)} are never nan or infinite.",
            "--bad is for floating point and complex tensors.",
        )
    counts = dict.fromkeys(("NaN", "-Inf", "+Inf"), 0)
    places: list[tuple[int, ...]] = []
    held: list[tuple[int, int, int]] = []
    begin = 0
    test = finite_test(values.dtype)
    for raw in blocks(values):
        if test is None or test(raw):
            begin += raw.size
            continue
        block = widened(raw)
        found = np.flatnonzero(~np.isfinite(block))
        held.append((begin, int(block.size), int(found.size)))
        for label, count in zip(counts, count_bad(block[found]), strict=True):
            counts[label] += count
        for at in found[: max(first - len(places), 0)].tolist():
            index = np.unravel_index(begin + at, values.shape)
            places.append(tuple(int(i) for i in index))
        begin += block.size
    return BadElements(counts, int(values.size), tuple(places), held)


class BadSteps:
    """Goes from one bad element of an array to the next, and knows which of how many it is.

    Args:
        values: the array.
        found: what `find_bad` says of it; at least one element is bad.
    """

    def __init__(self, values: np.ndarray[Any, Any], found: BadElements) -> None:
        self._shape = values.shape
        self._flat: Any = values.reshape(-1) if values.flags.c_contiguous else values.flat
        self._blocks = found.blocks
        self._begins = [begin for begin, _, _ in found.blocks]
        self._kept: tuple[int, np.ndarray[Any, Any]] | None = None
        # How many bad elements come before each block, and in all.
        self._before = [0]
        for _, _, count in found.blocks:
            self._before.append(self._before[-1] + count)

    @property
    def total(self) -> int:
        """How many bad elements there are."""
        return self._before[-1]

    def step(self, indices: Sequence[int] | None, direction: int) -> ElementStep:
        """See `Document.step`; the line is for the caller to say."""
        first, last = 0, self.total - 1
        if indices is None:
            number, wrapped = (first if direction > 0 else last), False
        else:
            flat = int(np.ravel_multi_index(tuple(indices), self._shape)) if self._shape else 0
            number = self._count_before(flat + 1) if direction > 0 else self._count_before(flat) - 1
            wrapped = not first <= number <= last
            if wrapped:
                number = first if direction > 0 else last
        return ElementStep(None, self._place(number), number + 1, self.total, wrapped)

    def _count_before(self, end: int) -> int:
        """How many bad elements there are before an element, in row-major order."""
        at = bisect_right(self._begins, end) - 1
        if at < 0:
            return 0
        return self._before[at] + int(np.searchsorted(self._bad_of(at), end))

    def _place(self, number: int) -> tuple[int, ...]:
        """The indices of a bad element, counted from 0."""
        at = bisect_right(self._before, number) - 1
        flat = self._bad_of(at)[number - self._before[at]]
        return tuple(int(i) for i in np.unravel_index(flat, self._shape)) if self._shape else ()

    def _bad_of(self, at: int) -> np.ndarray[Any, Any]:
        """The bad elements of a block, in order; those of the last one are kept."""
        if self._kept is None or self._kept[0] != at:
            begin, size, _ = self._blocks[at]
            block = widened(self._flat[begin : begin + size])
            self._kept = (at, np.flatnonzero(~np.isfinite(block)) + begin)
        return self._kept[1]
