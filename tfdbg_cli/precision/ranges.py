"""How the numbers of a tensor lie in the range of a narrower type, over the runs."""

from __future__ import annotations

from dataclasses import dataclass

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.precision.target import Target
from tfdbg_cli.tensors.numeric import blocks, dtype_kind, widened

__all__ = ["Range"]


@dataclass
class Range:
    """Counts of a tensor's finite elements; those of several runs are added.

    Attributes:
        largest: magnitude.
        count: finite elements.
        nonzero: those of them that aren't 0.
        beyond: those that are beyond the limit once they are rounded.
        small: nonzero ones that have fewer digits than others, and are not lost.
        lost: nonzero ones that become 0.
    """

    largest: float = 0.0
    count: int = 0
    nonzero: int = 0
    beyond: int = 0
    small: int = 0
    lost: int = 0

    def add(self, values: Array, target: Target) -> None:
        """Count a tensor.

        Args:
            values: floating point; masks (the lowest number of the type, infinities) don't count.
            target: the narrower type.
        """
        if dtype_kind(values.dtype) != "float":
            return
        for raw in blocks(values):
            block = widened(raw)
            with np.errstate(all="ignore"):
                block = np.abs(block.astype(np.float64 if block.itemsize > 4 else np.float32))
            block = block[np.isfinite(block)]
            if not block.size:
                continue
            rounded = target.rounded(block)
            is_nonzero = block > 0
            self.largest = max(self.largest, float(block.max()))
            self.count += int(block.size)
            self.nonzero += int(np.count_nonzero(is_nonzero))
            self.beyond += int(np.count_nonzero(~np.isfinite(rounded)))
            self.lost += int(np.count_nonzero(is_nonzero & (rounded == 0)))
            is_small = (rounded > 0) & (block < target.normal)
            self.small += int(np.count_nonzero(is_small))

    def joined(self, other: Range) -> Range:
        """Both of them."""
        return Range(
            max(self.largest, other.largest),
            self.count + other.count,
            self.nonzero + other.nonzero,
            self.beyond + other.beyond,
            self.small + other.small,
            self.lost + other.lost,
        )

    @property
    def share_beyond(self) -> float:
        """Of the finite elements, from 0 to 1."""
        return self.beyond / self.count if self.count else 0.0

    @property
    def share_small(self) -> float:
        """Of the nonzero elements, from 0 to 1."""
        return self.small / self.nonzero if self.nonzero else 0.0

    @property
    def share_lost(self) -> float:
        """Of the nonzero elements, from 0 to 1."""
        return self.lost / self.nonzero if self.nonzero else 0.0
