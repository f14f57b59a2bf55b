"""ONNX Runtime's values as arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.dumps.datum import InconvertibleTensorProto
from tfdbg_cli.dumps.dtypes import decode, dtype_by_name
from tfdbg_cli.dumps.finite import all_finite

__all__ = ["ELEMENTS", "arrays_of", "as_feed", "as_value", "bits_of", "is_finite"]

#: ONNX's number of an element type -> its name.
ELEMENTS = {
    **{1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64"},
    **{8: "string", 9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64"},
    **{14: "complex64", 15: "complex128", 16: "bfloat16", 17: "float8_e4m3fn"},
    **{18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4"},
    **{22: "int4", 23: "float4_e2m1fn", 24: "float8_e8m0fnu", 25: "uint2", 26: "int2"},
}
_BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2}


class _Arrays(InconvertibleTensorProto):
    """A sequence of arrays: a line about it, for dumps, and what bodies of loops are given."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        shapes = ", ".join(str(list(np.shape(item))) for item in arrays[:8])
        more = ", …" if len(arrays) > 8 else ""
        super().__init__(f"a sequence of {len(arrays)} tensors: {shapes}{more}")
        self.arrays = arrays

    def __reduce__(self) -> tuple[Any, ...]:
        return InconvertibleTensorProto, (self.description,)


def arrays_of(value: Any) -> Sequence[Any] | None:
    """The arrays of a sequence that `as_value` has given; ``None``: it is none."""
    found: Sequence[Any] | None = getattr(value, "arrays", None)
    return found


def as_feed(value: Any) -> Any:
    """What the program feeds, as nobody else's: the dump keeps it."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, onnxruntime.OrtValue) and value.is_tensor():
        try:
            return onnxruntime.OrtValue.ortvalue_from_numpy(value.numpy())
        except RuntimeError:  # NumPy hasn't its type
            return value
    if isinstance(value, list) and value and not isinstance(value[0], dict):
        return [as_feed(item) for item in value]
    return value


def as_value(value: Any) -> Any:
    """A value as a dump holds it: an array, or a line about what no array can hold."""
    if isinstance(value, onnxruntime.OrtValue):
        return _of_ort_value(value)
    if isinstance(value, np.ndarray | np.generic):
        return value
    if value is None:
        return InconvertibleTensorProto("an optional without a value")
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return _of_map(value)
    if isinstance(value, Mapping):
        return _of_map([value])
    if isinstance(value, list) and all(isinstance(item, np.ndarray) for item in value):
        return _Arrays(value)
    if type(value).__name__ == "SparseTensor":
        return _of_sparse(value)
    try:
        return np.asarray(value)
    except (TypeError, ValueError):
        return InconvertibleTensorProto(f"a {type(value).__name__}")


def _of_map(rows: Sequence[Mapping[Any, Any]]) -> Any:
    """Rows of class -> probability, as classifiers give them: an array if their keys agree."""
    keys = list(rows[0])
    if all(list(row) == keys for row in rows):
        try:
            return np.array([[row[key] for key in keys] for row in rows])
        except (TypeError, ValueError):
            pass
    return InconvertibleTensorProto(f"{len(rows)} maps, the first with the keys {keys[:8]}")


def _of_sparse(value: Any) -> InconvertibleTensorProto:
    shape = list(value.dense_shape())
    return InconvertibleTensorProto(f"a sparse tensor of shape {shape}: {value.data_type()}")


def _of_ort_value(value: Any) -> Any:
    kind = value.data_type()
    try:
        if value.is_sparse_tensor():
            return _of_sparse(value.as_sparse_tensor())
        if not value.has_value():
            return InconvertibleTensorProto("an optional without a value")
        if not value.is_tensor():
            return InconvertibleTensorProto(f"a {kind}")
        number = value.element_type()
        name = ELEMENTS.get(number, "")
        dtype = dtype_by_name(name)
        if dtype is None or dtype.is_native or not dtype.raw:
            return value.numpy()
        return _raw(value, number, name)
    except Exception as error:  # of types that this version can't give
        pass_on(error)
        return InconvertibleTensorProto(f"a {kind}, which can't be read: {one_line(error)}")


def bits_of(number: int) -> int:
    """How many bits an element has where it is stored; 0: a text, or of an unknown type."""
    dtype = dtype_by_name(ELEMENTS.get(number, ""))
    return _BITS.get(number, dtype.itemsize * 8 if dtype is not None else 0)


def _raw(value: Any, number: int, name: str) -> Any:
    """The elements of a type that NumPy hasn't, from memory."""
    if value.device_name().lower() != "cpu":
        return InconvertibleTensorProto(f"{name} on {value.device_name()}: it can't be read there")
    dtype = dtype_by_name(name)
    assert dtype is not None
    shape = tuple(value.shape())
    count = int(np.prod(shape, dtype=np.int64))
    bits = bits_of(number)
    size = (count * bits + 7) // 8
    held = np.frombuffer(ctypes.string_at(value.data_ptr(), size), np.uint8)
    if number in _BITS:
        parts = 8 // bits
        shifts = np.arange(parts, dtype=np.uint8) * np.uint8(bits)
        held = ((held[:, None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(-1)[:count]
        return decode(held.astype(dtype.raw).reshape(shape), dtype)
    return decode(held.view(dtype.raw).reshape(shape), dtype)


def is_finite(value: Any) -> bool:
    """Whether a value has no nan and no infinity, as far as it is an array."""
    if isinstance(value, onnxruntime.OrtValue):
        value = _borrowed(value)
    value = getattr(value, "arrays", value)
    if isinstance(value, list):
        return all(is_finite(item) for item in value)
    if isinstance(value, Mapping):
        return all(is_finite(np.asarray(item)) for item in value.values())
    return not isinstance(value, np.ndarray | np.generic) or all_finite(np.asarray(value))


def _borrowed(value: Any) -> Any:
    """The array of a tensor in its own memory, which is valid as long as the tensor is."""
    is_near = value.is_tensor() and value.device_name().lower() == "cpu"
    dtype = dtype_by_name(ELEMENTS.get(value.element_type(), "")) if is_near else None
    if dtype is None or not dtype.is_native or dtype.name == "string":
        return _of_ort_value(value)
    shape = tuple(value.shape())
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not size:
        return np.zeros(0)
    held = (ctypes.c_byte * size).from_address(value.data_ptr())
    return np.ndarray(shape, dtype.name, memoryview(held))
