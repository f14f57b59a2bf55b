"""Element types and static shapes: NumPy's dtypes under TensorFlow's names and defaults."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tfdbg_cli.engines.kit.fitting import bytes_array

__all__ = [
    "Array",
    "DType",
    "Shape",
    "as_dtype",
    "bool_",
    "broadcast_shapes",
    "compatible",
    "dtype_name",
    "float16",
    "float32",
    "float64",
    "int32",
    "int64",
    "is_differentiable",
    "is_fully_known",
    "merge_shapes",
    "string",
    "to_array",
]

Array: TypeAlias = NDArray[Any]
DType: TypeAlias = np.dtype[Any]

#: A static shape: ``None`` for an unknown dimension, or for an unknown rank.
Shape: TypeAlias = tuple[int | None, ...] | None

float16 = np.dtype(np.float16)
float32 = np.dtype(np.float32)
float64 = np.dtype(np.float64)
int32 = np.dtype(np.int32)
int64 = np.dtype(np.int64)
bool_ = np.dtype(np.bool_)
#: Byte strings, held in object arrays.
string = np.dtype(object)


def as_dtype(value: Any) -> DType:
    """A dtype from anything that NumPy takes as one, or from the name ``string``."""
    if isinstance(value, str) and value == "string":
        return string
    made: DType = np.dtype(value)
    return string if made.kind in "SU" else made


def dtype_name(dtype: DType) -> str:
    """The name a person reads: ``float32``, ``string``."""
    return "string" if dtype.kind == "O" else dtype.name


def is_differentiable(dtype: DType) -> bool:
    """Whether a type is real and floating-point, those of ``ml_dtypes`` included."""
    return dtype.kind == "f" or dtype.name.startswith(("bfloat", "float"))


def to_array(value: Any, dtype: DType | None = None) -> Array:
    """A new array of a value; Python numbers become float32 and int32 unless a dtype is given."""
    try:
        made: Array = np.array(value, dtype=dtype)
        if made.dtype.kind in "SUO":
            return bytes_array(made)
        if made.dtype.kind in "iu" and not hasattr(value, "dtype"):
            _check_range(value, made)
    except (TypeError, ValueError, OverflowError) as error:
        wanted = f" of {dtype_name(dtype)}" if dtype is not None else ""
        raise TypeError(f"{value!r} can't be made a tensor{wanted}: {error}.") from None
    if dtype is None and not isinstance(value, np.ndarray | np.generic):
        if made.dtype == float64:
            return made.astype(float32)
        if made.dtype == int64 and made.size and np.abs(made).max() < 2**31:
            return made.astype(int32)
    return made


def _check_range(value: Any, made: Array) -> None:
    """NumPy before 2.0 cuts Python's integers to what fits."""
    given = np.asarray(value)
    if given.dtype.kind in "iuO" and not np.array_equal(made, given):
        raise OverflowError(f"it is out of the bounds of {made.dtype}")


def is_fully_known(shape: Shape) -> bool:
    """Whether the rank and every dimension are known."""
    return shape is not None and None not in shape


def compatible(one: Shape, other: Shape) -> bool:
    """Whether the same array could have both static shapes."""
    if one is None or other is None:
        return True
    return len(one) == len(other) and all(
        a is None or b is None or a == b for a, b in zip(one, other, strict=True)
    )


def merge_shapes(one: Shape, other: Shape) -> Shape:
    """What is known of an array that has both static shapes; ValueError: none can have both."""
    if not compatible(one, other):
        raise ValueError(f"Shapes {one} and {other} are not compatible.")
    if one is None or other is None:
        return other if one is None else one
    return tuple(b if a is None else a for a, b in zip(one, other, strict=True))


def broadcast_shapes(shapes: Sequence[Shape]) -> Shape:
    """The static shape of an elementwise result; ValueError: there is none."""
    if None in shapes:
        return None
    result: list[int | None] = []
    turned = (reversed(shape) for shape in shapes if shape is not None)
    for sizes in zip_longest(*turned, fillvalue=1):
        known = set(sizes) - {None, 1}
        if len(known) > 1:
            raise ValueError(f"Shapes {', '.join(map(str, shapes))} can't be broadcast together.")
        result.append(known.pop() if known else None if None in sizes else 1)
    return tuple(reversed(result))
