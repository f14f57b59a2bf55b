"""From numbers to levels: which of the colours a cell has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.tensors.pictures.colours import LEVELS

__all__ = ["SCALES", "Scale", "scale_for"]

#: How numbers become levels.
SCALES = ("minmax", "quantile", "symmetric", "log")

_QUANTILES = (0.02, 0.98)


@dataclass(frozen=True)
class Scale:
    """Maps numbers onto levels.

    Attributes:
        name: one of `SCALES`.
        low, high: the numbers of the first and of the last level. What is beyond has these.
    """

    name: str
    low: float
    high: float

    @property
    def is_diverging(self) -> bool:
        """Whether the level in the middle is a zero between two directions."""
        return self.name == "symmetric"

    @property
    def description(self) -> str:
        """What it does, in a few words."""
        return {
            "minmax": "min to max",
            "quantile": "quantiles 2% to 98%",
            "symmetric": "symmetric about 0",
            "log": "log of the magnitude",
        }[self.name]

    def levels(self, values: Array) -> Array:
        """The level of each number, ``uint8``; that of a nan is 0."""
        with np.errstate(all="ignore"):
            if self.name == "log":
                low, high = np.log(self.low), np.log(self.high)
                values = np.log(np.abs(values))
            else:
                low, high = self.low, self.high
            # Halves: the distance of the largest numbers from the smallest is infinite.
            width = high / 2 - low / 2
            shares = (values / 2 - low / 2) / width if width > 0 else np.full(values.shape, 0.5)
            shares = np.nan_to_num(shares, nan=0.0, posinf=1.0, neginf=0.0)
        levels: Array = np.clip(shares * LEVELS, 0, LEVELS - 1).astype(np.uint8)
        return levels


def scale_for(name: str, grids: Sequence[Array]) -> Scale:
    """The scale of some numbers, which several pictures may share.

    Args:
        name: one of `SCALES`.
        grids: the numbers; what isn't finite is left out.
    """
    finite = [grid[np.isfinite(grid)] for grid in grids]
    numbers = np.concatenate(finite) if finite else np.empty(0)
    if name == "log":
        numbers = np.abs(numbers)
        numbers = numbers[numbers > 0]
    if not numbers.size:
        return Scale(name, 1.0 if name == "log" else 0.0, 1.0)
    if name == "quantile":
        low, high = np.quantile(numbers, _QUANTILES)
    else:
        low, high = numbers.min(), numbers.max()
    if name == "symmetric":
        high = max(abs(low), abs(high))
        low = -high
    return Scale(name, float(low), float(high))
