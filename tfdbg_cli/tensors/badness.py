"""The elements of an array that are nan or infinite: how many, and where the first ones are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tfdbg_cli.errors import UserError
from tfdbg_cli.tensors.numeric import blocks, dtype_kind, dtype_name, widened

__all__ = ["BAD_PATTERN", "BadElements", "can_be_bad", "find_bad"]

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
    """

    counts: dict[str, int]
    total: int
    places: tuple[tuple[int, ...], ...]

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
    counts = {"NaN": 0, "-Inf": 0, "+Inf": 0}
    places: list[tuple[int, ...]] = []
    begin = 0
    for raw in blocks(values):
        block = widened(raw)
        found = np.flatnonzero(~np.isfinite(block))
        if found.size:
            bad = block[found]
            bad = bad[~np.isnan(bad)]
            counts["NaN"] += int(found.size - bad.size)
            if bad.dtype.kind == "c":
                bad = np.where(np.isinf(bad.real), bad.real, bad.imag)
            negative = int(np.count_nonzero(bad < 0))
            counts["-Inf"] += negative
            counts["+Inf"] += int(bad.size - negative)
            for at in found[: max(first - len(places), 0)].tolist():
                index = np.unravel_index(begin + at, values.shape)
                places.append(tuple(int(i) for i in index))
        begin += block.size
    return BadElements(counts, int(values.size), tuple(places))
