"""Filters about how large the elements of a tensor are: far too large, far too small, all zero."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.settings import FIELDS
from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.filters.lineage import TensorLineage, array_of, value_of
from tfdbg_cli.tensors.numeric import blocks, widened

__all__ = [
    "GRADIENT",
    "dead",
    "exploding",
    "finite",
    "largest_magnitude",
    "largest_number",
    "overflow_risk",
    "unmasked",
    "vanishing",
]

# The thresholds are settings, of the same names in lower case, and documented there.
_DEFAULTS = {field.name: field.default for field in FIELDS}
_EXPLODING_ABOVE: float = _DEFAULTS["exploding_above"]
_VANISHING_BELOW: float = _DEFAULTS["vanishing_below"]
_OVERFLOW_SHARE: float = _DEFAULTS["overflow_share"]

# IEEE 754, bfloat16, and OCP 8-bit floating point with its fnuz variants.
_LARGEST = {
    "float16": 65504.0,
    "bfloat16": (2 - 2**-7) * 2.0**127,
    "float32": (2 - 2**-23) * 2.0**127,
    "float64": (2 - 2**-52) * 2.0**1023,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
    "float8_e4m3": 240.0,
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e4m3b11fnuz": 30.0,
    "float8_e3m4": 15.5,
    "float8_e8m0fnu": 2.0**127,
}
_LARGEST |= {
    "complex32": _LARGEST["float16"],
    "complex64": _LARGEST["float32"],
    "complex128": _LARGEST["float64"],
}

# Masks hold the lowest number of their dtype, and what is added to it moves it a little.
_MASKED = -0.99

#: The names of what a program differentiates: TensorFlow's, PyTorch's as this debugger gives them.
GRADIENT = re.compile(r"(^|/)(gradients(_\d+)?|gradient_tape)/")
# They make zeros because they were asked to.
_ZEROING = re.compile(
    r"(new_)?(zeros|full|fill|empty)(_like|_strided)?_?|zero_?|ZerosLike|Fill|Const|BroadcastTo"
)


def largest_number(dtype: str) -> float | None:
    """The largest finite number of a floating point type (of complex types: of either part)."""
    return _LARGEST.get(dtype)


def exploding(datum: Datum, tensor: Any, *, above: float = _EXPLODING_ABOVE) -> bool:
    """Whether a finite element is larger than 1e4 in magnitude (config set exploding_above).

    Floating point and complex tensors, gradients included; integers are left out. Elements at the
    lowest number of their dtype are those of a mask and don't count.

    Args:
        datum: the tensor.
        tensor: its value.
        above: the limit, in the tensor's own units.
    """
    return any(largest_magnitude(block) > above for block in unmasked(datum, tensor))


def overflow_risk(datum: Datum, tensor: Any, *, share: float = _OVERFLOW_SHARE) -> bool:
    """Whether a finite element is above a quarter of its dtype's range (config set overflow_share).

    That is 16376 in float16, 8.5e37 in bfloat16 and float32, 112 in float8_e4m3fn. Elements at the
    lowest number of their dtype are those of a mask and don't count.

    Args:
        datum: the tensor.
        tensor: its value.
        share: of the largest finite number of the tensor's dtype.
    """
    limit = largest_number(_dtype(datum, tensor))
    if limit is None:
        return False
    return any(largest_magnitude(block) > share * limit for block in unmasked(datum, tensor))


def vanishing(datum: Datum, tensor: Any, *, below: float = _VANISHING_BELOW) -> bool:
    """Whether a gradient has nonzero elements, all below 1e-8 (config set vanishing_below).

    Gradients are told by their names (``gradients/...``). Elements that are nan or infinite are
    left out, and a gradient that is zero everywhere is for the filter ``dead``.

    Args:
        datum: the tensor.
        tensor: its value.
        below: the limit, in the gradient's own units.
    """
    if GRADIENT.search(datum.node_name) is None:
        return False
    largest = 0.0
    for block in finite(tensor):
        largest = max(largest, largest_magnitude(block))
        if largest >= below:
            return False
    return largest > 0


def dead(datum: Datum, tensor: Any, dump: Dump) -> bool:
    """Whether a float tensor of several elements is all zero, though none of its inputs is.

    So it finds the layer that died and not all that come after it. What zeros were asked for
    (``zeros_like``) and what is no result (parameters, inputs) don't count.

    Args:
        datum: the tensor.
        tensor: its value.
        dump: whose tensor it is. Its inputs are read if it is all zero, and only then.
    """
    if not _is_zero(tensor) or np.size(tensor) < 2:
        return False
    lineage = TensorLineage.of(dump)
    if not lineage.has_graph:
        return True
    node = lineage.node(datum)
    if node is None or _ZEROING.fullmatch(node.op_type):
        return False
    inputs = lineage.inputs(datum)
    return bool(inputs) and not any(_is_zero(value_of(each)) for each in inputs)


def _is_zero(value: Any) -> bool:
    array = array_of(value, "float", "complex")
    return array is not None and array.size > 0 and not any(bool(b.any()) for b in blocks(array))


def _dtype(datum: Datum, tensor: Any) -> str:
    """The true dtype's name: without ml_dtypes small floats come as float32."""
    told = datum.dtype if datum is not None else ""
    return told if told in _LARGEST else np.asarray(tensor).dtype.name


def finite(value: Any) -> Iterator[Array]:
    """The finite elements in blocks, of complex numbers their absolute values, as wide floats."""
    array = array_of(value, "float", "complex")
    if array is None:
        return
    for raw in blocks(array):
        block = widened(raw)
        if block.dtype.kind == "c":
            with np.errstate(all="ignore"):
                block = np.abs(block.astype(np.complex128))
        elif block.dtype.itemsize < 4:
            block = block.astype(np.float32)
        is_finite = np.isfinite(block)
        yield block if is_finite.all() else block[is_finite]


def unmasked(datum: Datum, value: Any) -> Iterator[Array]:
    """The same without the elements of masks."""
    largest = largest_number(_dtype(datum, value))
    if largest is None:
        yield from finite(value)
        return
    lowest = _MASKED * largest
    for block in finite(value):
        yield block[block > lowest] if block.size and block.min() <= lowest else block


def largest_magnitude(block: Array) -> float:
    """Of a block as `finite` gives it; 0 where it is empty."""
    return max(float(block.max()), -float(block.min())) if block.size else 0.0
