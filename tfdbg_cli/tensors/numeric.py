"""What the elements of an array are, for every dtype: NumPy's own and those of ml_dtypes.

NumPy doesn't regard bfloat16 and the float8 family as floating: `numpy.issubdtype` is false for
them. Everything here looks at what a dtype holds instead of at NumPy's class tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.dumps.dtypes import blocks, name_of
from tfdbg_cli.dumps.finite import all_finite

__all__ = [
    "any_nonfinite",
    "blocks",
    "dtype_kind",
    "dtype_name",
    "exact_sum",
    "has_nonfinite",
    "widened",
]


def dtype_kind(dtype: np.dtype[Any]) -> str:
    """``float``, ``complex``, ``int``, ``bool``, ``string`` or ``other``."""
    kind = dtype.kind
    if kind in "fciub":
        return {"f": "float", "c": "complex", "b": "bool"}.get(kind, "int")
    if kind in "OSUT":
        return "string"
    name = dtype.name
    if name.startswith(("bfloat", "float")):
        return "float"
    if name.startswith(("int", "uint")):
        return "int"
    if name.startswith(("complex", "bcomplex")):
        return "complex"
    return "other"


def dtype_name(dtype: np.dtype[Any]) -> str:
    """The name people know: ``float32``, ``bfloat16``, ``string``; of a structure, its fields."""
    return name_of(dtype)


def widened(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same numbers in a dtype that every NumPy function knows.

    bfloat16, float8 and smaller floats become float32, int4 and int2 int8; all others stay.
    """
    if values.dtype.isbuiltin != 2:  # 2: registered by a user of NumPy, whatever its kind says
        return values
    kind = dtype_kind(values.dtype)
    if kind == "float":
        return values.astype(np.float32)
    if kind == "int":
        return values.astype(np.uint8 if values.dtype.name.startswith("u") else np.int8)
    if kind == "complex":
        return values.astype(np.complex64)
    return values


def exact_sum(block: np.ndarray[Any, Any], largest: int) -> int:
    """The sum of a block of integers, of which none is larger in magnitude than ``largest``."""
    if largest * block.size < 1 << 63:
        return int(block.sum(dtype=np.int64))
    # Halves of 32 bits: a block has too few elements for their sums to overflow.
    high, low = block >> 32, block & 0xFFFFFFFF
    return (int(high.sum(dtype=np.int64)) << 32) + int(low.sum(dtype=np.uint64))


# Arrays of up to so many elements cost more to ask than to copy.
_SMALL = 1024


def any_nonfinite(arrays: Sequence[Any], dtype: np.dtype[Any]) -> bool:
    """Whether one of several arrays of one dtype holds a nan or an infinity.

    Small ones are looked at together: a thousand of them cost little more than one.

    Args:
        arrays: arrays, or scalars as NumPy has them.
        dtype: of all of them.
    """
    if dtype.kind not in "fc":
        return any(map(has_nonfinite, arrays))
    small = [array for array in arrays if array.size <= _SMALL]
    if small and not np.isfinite(np.concatenate(small, axis=None)).all():
        return True
    if len(small) == len(arrays):
        return False
    return any(has_nonfinite(array) for array in arrays if array.size > _SMALL)


def has_nonfinite(value: object) -> bool:
    """Whether an array of any dtype holds a nan or an infinity. Stops at the first piece."""
    return isinstance(value, np.ndarray | np.generic) and not all_finite(np.asarray(value))
