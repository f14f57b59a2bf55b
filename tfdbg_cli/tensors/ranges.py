"""Closed ranges of numbers, for the elements that ``pt -r`` highlights."""

from __future__ import annotations

import math
import re
from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.tensors.numeric import dtype_kind, widened

__all__ = ["Ranges"]

_PAIR = re.compile(r"[\[(]([^\[\]()]*)[\])]")
_WHOLE = re.compile(r"[+-]?\d{1,40}\Z")


def _bound(text: str) -> int | float:
    """A number; a whole one exactly, whatever its size."""
    text = text.strip()
    return int(text) if _WHOLE.match(text) else float(text)


def _shown(bound: int | float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"


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
            f'"{self.text}" is not a range.',
            "Write low,high or [low,high] or [[low,high],[low,high]], without blanks or quoted.",
        )

    def _pair(self, text: str) -> tuple[int | float, int | float]:
        try:
            low, high = (_bound(part) for part in text.split(","))
        except ValueError:
            raise self._error() from None
        if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
            raise UserError(f"The range {text} isn't valid: nan can't be a bound.")
        if low > high:
            raise UserError(
                f"The range {text} is empty: {_shown(low)} is above {_shown(high)}.",
                f"Write {_shown(high)},{_shown(low)}.",
            )
        return low, high

    @property
    def description(self) -> str:
        """As it is shown: ``[0, 1e-08]``."""
        return " or ".join(f"[{_shown(low)}, {_shown(high)}]" for low, high in self.pairs)

    def _beyond(self, limit: float) -> bool:
        return any(limit < abs(bound) < math.inf for pair in self.pairs for bound in pair)

    def mask(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Which elements lie in one of the ranges; complex ones by their absolute value.

        Raises:
            UserError: the values are no numbers.
        """
        kind = dtype_kind(values.dtype)
        if kind in ("string", "other"):
            what = "strings" if kind == "string" else f"of type {values.dtype.name}"
            raise UserError(f"Ranges need numbers, but the elements are {what}.", "Leave out -r.")
        numbers = widened(values)
        if kind == "int":
            return self._mask_of_integers(numbers)
        found = np.zeros(numbers.shape, dtype=bool)
        with np.errstate(all="ignore"):
            if kind == "complex":
                # The absolute value of (inf, nan) is inf; it is shown and counted as nan.
                is_nan = np.isnan(numbers)
                numbers = np.abs(numbers)
                numbers[is_nan] = np.nan
            if numbers.dtype.kind == "f" and self._beyond(float(np.finfo(numbers.dtype).max)):
                # In a narrow dtype a large bound would become inf, and include it.
                numbers = numbers.astype(np.float64)
            for low, high in self.pairs:
                found |= (numbers >= _limited(low)) & (numbers <= _limited(high))
        return found

    def _mask_of_integers(self, numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """As whole numbers: large ones would be rounded in a comparison with a float."""
        info = np.iinfo(numbers.dtype)
        found = np.zeros(numbers.shape, dtype=bool)
        for low, high in self.pairs:
            first = info.min if low == -math.inf else max(_ceil(low), info.min)
            last = info.max if high == math.inf else min(_floor(high), info.max)
            if first <= last:
                found |= (numbers >= first) & (numbers <= last)
        return found


def _limited(bound: int | float) -> float:
    try:
        return float(bound)
    except OverflowError:
        return math.copysign(math.inf, bound)


def _ceil(bound: int | float) -> int | float:
    return bound if math.isinf(bound) else math.ceil(bound)


def _floor(bound: int | float) -> int | float:
    return bound if math.isinf(bound) else math.floor(bound)
