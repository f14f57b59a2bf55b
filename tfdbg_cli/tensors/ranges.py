"""Closed ranges of numbers, for the elements that ``pt -r`` highlights."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from tfdbg_cli.errors import UserError
from tfdbg_cli.tensors.numeric import dtype_kind, widened

__all__ = ["Ranges"]

_PAIR = re.compile(r"[\[(]([^\[\]()]*)[\])]")


class Ranges:
    """One or more closed ranges.

    Args:
        text: ``0,1e-8``, ``[-0.1,0.1]`` or ``[[-inf,-0.1],[0.1,inf]]``.

    Raises:
        UserError: not pairs of numbers.
    """

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        inner = self.text
        nested = inner.startswith("[[") and inner.endswith("]]")
        pieces = _PAIR.findall(inner[1:-1]) if nested else [inner.strip("[]() ")]
        self.pairs = [self._pair(piece) for piece in pieces]
        if not self.pairs:
            raise self._error()

    def _error(self) -> UserError:
        return UserError(
            f'"{self.text}" is no range.',
            "Write low,high or [low,high] or [[low,high],[low,high]], without blanks or quoted.",
        )

    def _pair(self, text: str) -> tuple[float, float]:
        try:
            low, high = (float(part) for part in text.split(","))
        except ValueError:
            raise self._error() from None
        if math.isnan(low) or math.isnan(high):
            raise UserError(f"The range {text} is no range: nan is no bound.")
        if low > high:
            raise UserError(f"The range {text} is empty: {low:g} is above {high:g}.")
        return low, high

    @property
    def description(self) -> str:
        """As it is shown: ``[0, 1e-08]``."""
        return " or ".join(f"[{low:g}, {high:g}]" for low, high in self.pairs)

    def _beyond(self, limit: float) -> bool:
        return any(limit < abs(bound) < math.inf for pair in self.pairs for bound in pair)

    def mask(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Which elements lie in one of the ranges; complex ones by their absolute value.

        Raises:
            UserError: the values are no numbers.
        """
        kind = dtype_kind(values.dtype)
        if kind in ("string", "other"):
            raise UserError("Ranges need numbers.", "This tensor holds none.")
        found = np.zeros(values.shape, dtype=bool)
        with np.errstate(over="ignore", invalid="ignore"):
            numbers = np.abs(widened(values)) if kind == "complex" else widened(values)
            if numbers.dtype.kind == "f" and self._beyond(float(np.finfo(numbers.dtype).max)):
                # In a narrow dtype a large bound would become inf, and include it.
                numbers = numbers.astype(np.float64)
            for low, high in self.pairs:
                found |= (numbers >= low) & (numbers <= high)
        return found
