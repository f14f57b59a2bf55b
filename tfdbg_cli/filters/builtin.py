"""The filters that are always there."""

from __future__ import annotations

from typing import Any

from tfdbg_cli.tensors.numeric import has_nonfinite

__all__ = ["BUILTIN", "has_inf_or_nan"]


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


BUILTIN = {"has_inf_or_nan": has_inf_or_nan}
