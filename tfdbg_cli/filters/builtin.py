"""The filters that are always there, and the settings that they follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfdbg_cli.dumps.dump import Predicate, only_nonfinite
from tfdbg_cli.filters.collapsed import constant
from tfdbg_cli.filters.magnitude import dead, exploding, overflow_risk, vanishing
from tfdbg_cli.filters.narrow import overflows, underflows
from tfdbg_cli.filters.origins import origin_of_nonfinite
from tfdbg_cli.filters.pairs import broadcast
from tfdbg_cli.filters.quantized import clipped
from tfdbg_cli.filters.unused import unused
from tfdbg_cli.filters.updates import stuck
from tfdbg_cli.tensors.numeric import has_nonfinite

__all__ = ["BUILTIN", "FOLLOWS", "RECOMMENDED", "has_inf_or_nan"]

#: The filter of whoever names none: it passes over masks, and stops where something went wrong.
RECOMMENDED = "origin_of_nonfinite"


@only_nonfinite
def has_inf_or_nan(datum: Any, tensor: Any) -> bool:
    """Whether a tensor holds a nan or an infinity.

    Right for every dtype that can hold one: float16/32/64, bfloat16, the float8 family, complex
    (either part). False for integers, booleans, strings, and for values that are no array
    (uninitialized variables, resource handles).

    Args:
        datum: the dumped tensor's `Datum`; not looked at.
        tensor: its value.
    """
    return has_nonfinite(tensor)


BUILTIN: Mapping[str, Predicate] = {
    "has_inf_or_nan": has_inf_or_nan,
    "origin_of_nonfinite": origin_of_nonfinite,
    "exploding": exploding,
    "vanishing": vanishing,
    "dead": dead,
    "overflow_risk": overflow_risk,
    "overflows": overflows,
    "underflows": underflows,
    "clipped": clipped,
    "constant": constant,
    "broadcast": broadcast,
    "stuck": stuck,
    "unused": unused,
}

#: Filter -> its parameter -> the setting that is passed for it.
FOLLOWS: Mapping[str, Mapping[str, str]] = {
    "exploding": {"above": "exploding_above"},
    "vanishing": {"below": "vanishing_below"},
    "overflow_risk": {"share": "overflow_share"},
}
