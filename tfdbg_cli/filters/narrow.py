"""Filters about what a tensor would lose in a narrower floating point type."""

from __future__ import annotations

import enum
import math
import re
from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.dumps.dtypes import LAYOUTS
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.filters.magnitude import finite, largest_magnitude, largest_number, unmasked

__all__ = ["Narrow", "Share", "overflows", "underflows"]

_HALF = re.compile(r"(half|f16|fp16)|(bf16)")
_EIGHT = re.compile(r"(?:(?:float|fp|f)8_?)?(?:(e4m3)(?:fn)?|(e5m2))")


class Narrow(enum.Enum):
    """A type that a tensor may be cast to. The usual short names are taken as well: bf16, e4m3.

    float8_e4m3 is the one of the Open Compute Project (OFP8), float8_e4m3fn in full.

    Attributes:
        full_name: float8_e4m3fn.
        limit: half a step above the largest number. What is larger in magnitude has no number in
            this type: it becomes an infinity, in float8_e4m3 a NaN.
        takes_limit: whether the limit itself is rounded down, to the largest number.
        lost: half the smallest number: magnitudes up to this one are rounded to 0.
    """

    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT8_E4M3 = "float8_e4m3"
    FLOAT8_E5M2 = "float8_e5m2"

    full_name: str
    limit: float
    takes_limit: bool
    lost: float

    def __init__(self, name: str) -> None:
        full = "float8_e4m3fn" if name == "float8_e4m3" else name
        self.full_name = full
        layout, top = LAYOUTS[full], largest_number(full) or 0.0
        step = math.ldexp(1.0, math.frexp(top)[1] - 1 - layout.mantissa)
        self.limit = top + step / 2
        # Ties go to the even neighbour, and only without an infinity is the largest number even.
        self.takes_limit = layout.special == "fn"
        self.lost = math.ldexp(1.0, -layout.bias - layout.mantissa)

    @classmethod
    def _missing_(cls, value: object) -> Narrow | None:
        text = str(value).lower()
        if (found := _HALF.fullmatch(text)) is not None:
            return cls.FLOAT16 if found[1] else cls.BFLOAT16
        if (found := _EIGHT.fullmatch(text)) is not None:
            return cls.FLOAT8_E4M3 if found[1] else cls.FLOAT8_E5M2
        return next((each for each in cls if each.value == text), None)


class Share(float):
    """A share is a number from 0 to below 1."""

    def __new__(cls, value: str | float) -> Share:
        found = super().__new__(cls, value)
        if not 0 <= found < 1:
            raise ValueError
        return found


_SHARE = Share(0.5)


def overflows(datum: Datum, tensor: Any, *, dtype: Narrow) -> bool:
    """Whether a finite element is too large for float16, bfloat16, float8_e4m3 or float8_e5m2.

    It would be infinite once it is rounded to the nearest number of that type: from 65520 on in
    float16, from 61440 on in float8_e5m2. float8_e4m3 has no infinity; what is above 464 becomes a
    NaN there. Elements at the lowest number of the tensor's own dtype are those of a mask and don't
    count.

    Args:
        datum: the tensor.
        tensor: its value.
        dtype: the narrower type.
    """
    found = max(map(largest_magnitude, unmasked(datum, tensor)), default=0.0)
    return found > dtype.limit or (found == dtype.limit and not dtype.takes_limit)


def underflows(datum: Datum, tensor: Any, *, dtype: Narrow, share: Share = _SHARE) -> bool:
    """Whether more than half of the nonzero elements would become 0 in such a type.

    They are so small that 0 is the nearest number of that type: up to 3e-8 in float16, 4.6e-41 in
    bfloat16, 9.8e-4 in float8_e4m3, 7.6e-6 in float8_e5m2. Elements that are nan or infinite are
    left out. Another share is a second argument: underflows:float16:0.1.

    Args:
        datum: the tensor.
        tensor: its value.
        dtype: the narrower type.
        share: of the finite elements that aren't 0; the filter passes above it.
    """
    lost = count = 0
    for block in finite(tensor):
        sizes = np.abs(block[block != 0])
        count += sizes.size
        lost += int(np.count_nonzero(sizes <= dtype.lost))
    return lost > share * count
