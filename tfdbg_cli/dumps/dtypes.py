"""Element types: TensorFlow's DataType numbers, their names, and the arrays that hold them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import DumpError

__all__ = [
    "DTYPES",
    "LAYOUTS",
    "DType",
    "Layout",
    "blocks",
    "decode",
    "dtype_by_name",
    "dtype_by_number",
    "dtype_of",
    "encode",
    "name_of",
]

# Elements a block: large enough for NumPy to be quick, small enough to stay in cache and memory.
_BLOCK = 1 << 20

_REF = 100


@dataclass(frozen=True)
class DType:
    """One element type.

    Attributes:
        name: as users see it: ``float32``, ``bfloat16``, ``qint8``, ``string``.
        number: TensorFlow's DataType number, ``None`` where it has none.
        raw: NumPy dtype with the same bytes per element as a dump stores; empty for types
            that have no raw bytes (``string``, ``resource``, ``variant``).
        is_native: whether NumPy itself has the type, so that ``raw`` is the type of the values.
    """

    name: str
    number: int | None
    raw: str = ""
    is_native: bool = True

    @property
    def itemsize(self) -> int:
        """Bytes per element in a dump, 0 where there are none."""
        return np.dtype(self.raw).itemsize if self.raw else 0

    @property
    def is_small_float(self) -> bool:
        """Whether it is one of the floating point types that NumPy doesn't have."""
        return self.name in LAYOUTS and not self.is_native


@dataclass(frozen=True)
class Layout:
    """Bits of a type of 16 bits or less (sign first), its bias, and what its top codes mean.

    ``special``: ``ieee`` has infinities and NaNs; ``fn`` has NaN as all ones only; ``fnuz`` has
    one NaN in place of the negative zero; ``finite`` has neither; ``scale`` is a bare exponent.
    """

    exponent: int
    mantissa: int
    bias: int
    special: str


#: The floating point types of 16 bits or less.
LAYOUTS = {
    "float16": Layout(5, 10, 15, "ieee"),
    "bfloat16": Layout(8, 7, 127, "ieee"),
    "float8_e5m2": Layout(5, 2, 15, "ieee"),
    "float8_e4m3": Layout(4, 3, 7, "ieee"),
    "float8_e3m4": Layout(3, 4, 3, "ieee"),
    "float8_e4m3fn": Layout(4, 3, 7, "fn"),
    "float8_e4m3fnuz": Layout(4, 3, 8, "fnuz"),
    "float8_e4m3b11fnuz": Layout(4, 3, 11, "fnuz"),
    "float8_e5m2fnuz": Layout(5, 2, 16, "fnuz"),
    "float8_e8m0fnu": Layout(8, 0, 127, "scale"),
    "float4_e2m1fn": Layout(2, 1, 1, "finite"),
}

# Integers of less than a byte: bits, signed. A dump spends a byte on each.
_SUB_BYTE = {"int4": (4, True), "uint4": (4, False), "int2": (2, True), "uint2": (2, False)}

# https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/framework/types.proto
DTYPES = (
    DType("float32", 1, "<f4"),
    DType("float64", 2, "<f8"),
    DType("int32", 3, "<i4"),
    DType("uint8", 4, "|u1"),
    DType("int16", 5, "<i2"),
    DType("int8", 6, "|i1"),
    DType("string", 7),
    DType("complex64", 8, "<c8"),
    DType("int64", 9, "<i8"),
    DType("bool", 10, "|b1"),
    DType("qint8", 11, "|i1"),
    DType("quint8", 12, "|u1"),
    DType("qint32", 13, "<i4"),
    DType("bfloat16", 14, "<u2", is_native=False),
    DType("qint16", 15, "<i2"),
    DType("quint16", 16, "<u2"),
    DType("uint16", 17, "<u2"),
    DType("complex128", 18, "<c16"),
    DType("float16", 19, "<f2"),
    DType("resource", 20),
    DType("variant", 21),
    DType("uint32", 22, "<u4"),
    DType("uint64", 23, "<u8"),
    DType("float8_e5m2", 24, "|u1", is_native=False),
    DType("float8_e4m3fn", 25, "|u1", is_native=False),
    DType("float8_e4m3fnuz", 26, "|u1", is_native=False),
    DType("float8_e4m3b11fnuz", 27, "|u1", is_native=False),
    DType("float8_e5m2fnuz", 28, "|u1", is_native=False),
    DType("int4", 29, "|i1", is_native=False),
    DType("uint4", 30, "|u1", is_native=False),
    DType("int2", 31, "|i1", is_native=False),
    DType("uint2", 32, "|u1", is_native=False),
    DType("float4_e2m1fn", 33, "|u1", is_native=False),
    DType("float8_e4m3", None, "|u1", is_native=False),
    DType("float8_e3m4", None, "|u1", is_native=False),
    DType("float8_e8m0fnu", None, "|u1", is_native=False),
)

_BY_NUMBER = {dtype.number: dtype for dtype in DTYPES if dtype.number is not None}
_BY_NAME = {dtype.name: dtype for dtype in DTYPES}


def dtype_by_number(number: int) -> DType | None:
    """The type with a DataType number; a reference type (number + 100) is the type it refers to."""
    return _BY_NUMBER.get(number - _REF if number > _REF else number)


def dtype_by_name(name: str) -> DType | None:
    """The type with a name; ``float32_ref`` is ``float32``."""
    return _BY_NAME.get(name.removesuffix("_ref"))


def name_of(dtype: np.dtype[Any]) -> str:
    """The name people know: ``float32``, ``bfloat16``, ``string``; of a structure, its fields."""
    if dtype.names is not None:
        return str(np.dtype((np.void, dtype)))
    return "string" if dtype.kind in "OSUT" else dtype.name


def dtype_of(array: np.ndarray[Any, Any]) -> DType | None:
    """The type of an array's elements; ``None`` if no dump can hold it."""
    if array.dtype.kind in "OSUT":
        return _BY_NAME["string"]
    return _BY_NAME.get(array.dtype.name)


@functools.cache
def _ml_dtypes() -> ModuleType | None:
    try:
        import ml_dtypes
    except ImportError:
        return None
    return ml_dtypes  # type: ignore[no-any-return]


def _extension_dtype(name: str) -> np.dtype[Any] | None:
    """The ml_dtypes type of a name, ``None`` where it isn't installed or doesn't know it."""
    found = getattr(_ml_dtypes(), name, None)
    return np.dtype(found) if found is not None else None


@functools.cache
def _float_table(name: str) -> np.ndarray[Any, Any]:
    """The float32 value of each code of a floating point type of 8 bits or less."""
    layout = LAYOUTS[name]
    codes = np.arange(256)
    if layout.special == "scale":
        values = np.exp2((codes - layout.bias).astype(np.float64))
        values[255] = np.nan
        with np.errstate(over="ignore", under="ignore"):
            return values.astype(np.float32)
    bits = 1 + layout.exponent + layout.mantissa
    codes &= (1 << bits) - 1
    sign = np.where(codes >> (bits - 1), -1.0, 1.0)
    exponent = codes >> layout.mantissa & (1 << layout.exponent) - 1
    fraction = (codes & (1 << layout.mantissa) - 1) / (1 << layout.mantissa)
    normal = np.exp2(exponent - float(layout.bias)) * (1 + fraction)
    subnormal = np.exp2(1.0 - layout.bias) * fraction
    values = sign * np.where(exponent == 0, subnormal, normal)
    top = exponent == (1 << layout.exponent) - 1
    if layout.special == "ieee":
        values[top & (fraction == 0)] *= np.inf
        values[top & (fraction > 0)] = np.nan
    elif layout.special == "fn":
        values[codes & (1 << bits - 1) - 1 == (1 << bits - 1) - 1] = np.nan
    elif layout.special == "fnuz":
        values[codes == 1 << (bits - 1)] = np.nan
    return np.asarray(values, np.float32)


def decode(raw: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """The values of an array of raw elements.

    Args:
        raw: elements of type ``dtype.raw``.
        dtype: what they mean.

    Returns:
        The array itself for the types that NumPy has, and a view of it where ml_dtypes has the
        type. Without ml_dtypes, small floating point types are computed as float32 (exactly), and
        integers of less than a byte as one byte each.
    """
    if dtype.is_native:
        return raw
    extension = _extension_dtype(dtype.name)
    if extension is not None:
        return raw.view(extension)
    if dtype.name == "bfloat16":
        return np.asarray(raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype.name in LAYOUTS:
        return np.asarray(_float_table(dtype.name)[raw])
    bits, is_signed = _SUB_BYTE[dtype.name]
    shift = 8 - bits
    kind = np.int8 if is_signed else np.uint8
    return np.asarray(np.asarray(raw.view(np.uint8) << np.uint8(shift)).view(kind) >> kind(shift))


def encode(values: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """The raw elements of an array of values: the inverse of `decode`.

    Args:
        values: of the type itself, or what `decode` gives without ml_dtypes.
        dtype: the type to store them as; not ``string``, ``resource`` or ``variant``.

    Returns:
        A contiguous little endian array of type ``dtype.raw``; the array itself where it is one.

    Raises:
        DumpError: the values are of another type and don't fit.
    """
    contiguous = np.ascontiguousarray(values).reshape(values.shape)
    if contiguous.dtype.byteorder == ">" or not contiguous.dtype.isnative:
        contiguous = contiguous.astype(contiguous.dtype.newbyteorder("<"))
    raw = np.dtype(dtype.raw)
    if contiguous.dtype.name == dtype.name or contiguous.dtype == raw:
        return contiguous.view(raw)
    if dtype.is_native and np.can_cast(contiguous.dtype, raw, "safe"):
        return contiguous.astype(raw)
    if dtype.name == "bfloat16" and contiguous.dtype.kind == "f":
        bits = contiguous.astype("<f4").view("<u4")
        return np.asarray(bits >> np.uint32(16)).astype("<u2")
    if dtype.is_small_float and contiguous.dtype.kind == "f":
        return _nearest_codes(contiguous, dtype.name)
    if dtype.name in _SUB_BYTE and contiguous.dtype.kind in "iu":
        return contiguous.astype(raw)
    raise DumpError(f"Values of type {values.dtype} can't be stored as {dtype.name}.")


def _nearest_codes(values: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """The codes of values that a floating point type of 8 bits or less can hold exactly."""
    table = _float_table(name)
    count = 1 << min(8, 1 + LAYOUTS[name].exponent + LAYOUTS[name].mantissa)
    if LAYOUTS[name].special == "scale":
        count = 256
    keys = {key: code for code, key in reversed(list(enumerate(table[:count].view(np.uint32))))}
    nan = next((code for code in range(count) if np.isnan(table[code])), 0)
    bits, places = np.unique(values.astype(np.float32).view(np.uint32), return_inverse=True)
    codes = [keys.get(key, nan) for key in bits]
    return np.asarray(np.array(codes, np.uint8)[places]).reshape(values.shape)


def blocks(values: np.ndarray[Any, Any], size: int = _BLOCK) -> Iterator[np.ndarray[Any, Any]]:
    """The elements in row-major order as 1-d pieces of so many at most, without a whole copy."""
    if values.size <= size:
        yield values.reshape(-1)
    elif values.flags.c_contiguous:
        flat = values.reshape(-1)
        for at in range(0, flat.size, size):
            yield flat[at : at + size]
    else:
        row = values.size // len(values)
        if row > size:
            for part in values:
                yield from blocks(part, size)
            return
        step = size // row
        for at in range(0, len(values), step):
            yield values[at : at + step].reshape(-1)
