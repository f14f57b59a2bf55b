"""Floating point types that a program is to be converted to, and what they make of numbers."""

from __future__ import annotations

from dataclasses import dataclass

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.dumps.dtypes import LAYOUTS
from tfdbg_cli.filters.magnitude import largest_number
from tfdbg_cli.filters.narrow import Narrow

__all__ = ["TYPES", "Target", "target_of"]

#: The names of those that something can be converted to.
TYPES = tuple(each.value for each in Narrow)


@dataclass(frozen=True)
class Target:
    """A floating point type of 16 bits or less.

    Attributes:
        name: ``float16``.
        limit: the largest finite number.
        normal: the smallest number with all of its digits; smaller ones have fewer.
        digits: binary ones behind the leading one.
        has_infinities: what is beyond the limit is infinite; else it is NaN.
    """

    name: str
    limit: float
    normal: float
    digits: int
    has_infinities: bool

    def rounded(self, values: Array) -> Array:
        """Numbers rounded to the type, to the nearest and ties to even (IEEE 754).

        Args:
            values: of any shape, floating point.

        Returns:
            float32 (float64 for such); what is beyond the limit is infinite, or NaN where the type
            has no infinity.
        """
        kind = np.float64 if values.dtype == np.float64 else np.float32
        x = values.astype(kind)
        with np.errstate(all="ignore"):
            if self.name == "float16":
                return np.asarray(x.astype(np.float16)).astype(kind)
            # Numbers of one binary order are this far apart; below the normal ones, all are.
            _, exponent = np.frexp(np.where(np.isfinite(x), x, 1))
            lowest = int(np.frexp(self.normal)[1])
            apart = np.ldexp(kind(1), np.maximum(exponent, lowest) - 1 - self.digits)
            found = np.asarray(np.where(np.isfinite(x), np.rint(x / apart) * apart, x))
            beyond = np.abs(found) > self.limit
            if beyond.any():
                found[beyond] = np.copysign(
                    np.inf if self.has_infinities else np.nan, found[beyond]
                )
        return found


def target_of(name: str) -> Target:
    """A type by its name.

    Args:
        name: one of `TYPES`, or a shorter one: ``half``, ``bf16``, ``e4m3``.

    Raises:
        UserError: it is none that something could be converted to.
    """
    try:
        narrow = Narrow(name)
    except ValueError:
        hint = did_you_mean(name, TYPES) or f"There are {', '.join(TYPES)}."
        raise UserError(f'Nothing can be converted to "{name}".', hint) from None
    layout, limit = LAYOUTS[narrow.full_name], largest_number(narrow.full_name)
    assert limit is not None
    normal = 2.0 ** (1 - layout.bias)
    return Target(narrow.value, limit, normal, layout.mantissa, layout.special == "ieee")
