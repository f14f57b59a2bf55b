"""TensorFlow's TensorProto message to NumPy arrays and back.

The field numbers are those of ``tensorflow/core/framework/tensor.proto`` and its neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dtypes import DType, decode, dtype_by_name, dtype_by_number, dtype_of, encode
from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.dumps.files import Chunk
from tfdbg_cli.dumps.proto import wire

__all__ = ["TensorProto", "parse_shape", "put_shape", "string_elements", "tensor_chunks"]

_DTYPE, _SHAPE, _CONTENT, _STRINGS = 1, 2, 4, 8
_HANDLES, _VARIANTS, _FLOAT8 = 14, 15, 18

# Fields whose integers are the bits of the elements, or the elements themselves.
_INTEGER_FIELDS = {7, 10, 11, 13, 16, 17}
_FLOAT_FIELDS = {5: 4, 6: 8, 9: 4, 12: 8}  # field -> bytes of one number

# Of a value that isn't written out, and of any tensor at all: a damaged shape has more. Only
# constants of graphs aren't written out, and those are small.
_LARGEST_FILL = 1 << 24
_LARGEST = 1 << 62
_MOST_DIMENSIONS = 254  # TensorFlow's own limit


def parse_shape(data: memoryview, start: int, end: int) -> tuple[int, ...] | None:
    """A TensorShapeProto; unknown dimensions are -1, an unknown rank gives ``None``."""
    sizes: list[int] = []
    for number, kind, a, b in wire.fields(data, start, end):
        if number == 2 and kind == wire.LENGTH:
            size = 0
            for inner, inner_kind, value, _ in wire.fields(data, a, b):
                if inner == 1 and inner_kind == wire.VARINT:
                    size = wire.signed(value)
            sizes.append(size)
            if len(sizes) > _MOST_DIMENSIONS:
                raise DumpError(f"A tensor cannot have more than {_MOST_DIMENSIONS} dimensions.")
        elif number == 3 and kind == wire.VARINT and a:
            return None
    return tuple(sizes)


def put_shape(number: int, shape: Iterable[int] | None) -> bytes:
    """A TensorShapeProto field."""
    if shape is None:
        return wire.put_bytes(number, wire.put_varint(3, 1))
    dims = [wire.put_bytes(2, wire.put_varint(1, size) if size else b"") for size in shape]
    return wire.put_bytes(number, b"".join(dims))


class TensorProto:
    """One TensorProto, scanned but not converted.

    Args:
        data: holds the message.
        start: where it begins.
        end: where it ends; default: at the end of the data.

    Attributes:
        dtype_number: TensorFlow's DataType, as stored.
        dtype: what it stands for, ``None`` for a type unknown to tfdbg_cli.
        shape: dimensions; ``None`` for an unknown rank.

    Raises:
        DumpError: the bytes aren't a TensorProto.
    """

    __slots__ = ("_content", "_data", "_lists", "dtype", "dtype_number", "shape")

    def __init__(self, data: memoryview, start: int = 0, end: int | None = None) -> None:
        self._data = data
        self.dtype_number = 0
        self.shape: tuple[int, ...] | None = ()
        self._content: tuple[int, int] | None = None
        self._lists: list[tuple[int, int, int, int]] = []
        for number, kind, a, b in wire.fields(data, start, end):
            if number == _DTYPE and kind == wire.VARINT:
                self.dtype_number = a
            elif number == _SHAPE and kind == wire.LENGTH:
                self.shape = parse_shape(data, a, b)
            elif number == _CONTENT and kind == wire.LENGTH:
                self._content = (a, b) if b > a else None
            elif number >= 5:
                self._lists.append((number, kind, a, b))
        self.dtype = dtype_by_number(self.dtype_number)
        if self.shape is not None and (min(self.shape, default=0) < 0 or self.size >= _LARGEST):
            raise DumpError(f"A tensor cannot have the shape {list(self.shape)}.")

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape or ())

    @property
    def nbytes(self) -> int:
        """Bytes of the elements: of strings, their own bytes; 0 for what has no value."""
        if self.dtype is None or not self.is_initialized:
            return 0
        if self.dtype.name == "string":
            texts = (each for each in self._lists if each[:2] == (_STRINGS, wire.LENGTH))
            return sum(b - a for _, _, a, b in texts)
        return self.size * self.dtype.itemsize

    @property
    def is_initialized(self) -> bool:
        """False for a variable that was read before it had a value."""
        return self._content is not None or bool(self._lists) or self.size == 0

    def value(self, zero_default: bool = False) -> Any:
        """The tensor as an array, or why there is none.

        Args:
            zero_default: read a tensor without any value as zeros, as constants of a graph mean
                it; in a dump it is an uninitialized variable.

        Returns:
            An ndarray that shares the memory of the message wherever its type allows (string
            tensors are object arrays of bytes), or an `InconvertibleTensorProto`.

        Raises:
            DumpError: the message contradicts itself.
        """
        dtype = self.dtype
        if dtype is None:
            return InconvertibleTensorProto(
                f"Tensor of the unknown type {self.dtype_number}, shape {self._shape_text()}"
            )
        if self.shape is None:
            raise DumpError("The tensor's shape is missing.")
        if not self.is_initialized and not zero_default:
            return InconvertibleTensorProto(
                f"Uninitialized {dtype.name} tensor of shape {self._shape_text()}", False
            )
        if dtype.name in ("resource", "variant"):
            return InconvertibleTensorProto(self._describe_handle(dtype.name))
        try:
            return self._strings() if dtype.name == "string" else decode(self._raw(dtype), dtype)
        except (ValueError, TypeError, OverflowError, MemoryError) as error:
            raise DumpError(
                f"A {dtype.name} tensor of shape {self._shape_text()} can't be made: {error}."
            ) from None

    def _shape_text(self) -> str:
        return "?" if self.shape is None else str(self.shape)

    def _raw(self, dtype: DType) -> np.ndarray[Any, Any]:
        shape = self.shape or ()
        size = self.size
        if self._content is not None:
            start, end = self._content
            if end - start != size * dtype.itemsize:
                raise DumpError(
                    f"A {dtype.name} tensor of shape {shape} needs {size * dtype.itemsize} bytes, "
                    f"but {end - start} are there."
                )
            return np.frombuffer(self._data[start:end], dtype.raw).reshape(shape)
        listed = self._listed(dtype)
        if listed.size > size:
            raise DumpError(f"A tensor of shape {shape} holds {listed.size} values.")
        if listed.size == size:
            return listed.reshape(shape)
        self._check_size(dtype.itemsize)
        # The last value stands for all that aren't written.
        full = np.full(size, listed[-1] if listed.size else 0, dtype.raw)
        full[: listed.size] = listed
        return full.reshape(shape)

    def _check_size(self, itemsize: int) -> None:
        # Nobody writes so much with a few values: a damaged shape must not eat the memory.
        if self.size * itemsize > _LARGEST_FILL:
            raise DumpError(f"A tensor of shape {self._shape_text()} has almost no values.")

    def _listed(self, dtype: DType) -> np.ndarray[Any, Any]:
        """The elements of the ``*_val`` lists."""
        numbers: list[int] = []
        joined: list[bytes] = []
        item = ""
        raw = np.dtype(dtype.raw)
        for number, kind, a, b in self._lists:
            if number in _INTEGER_FIELDS:
                numbers.extend(wire.varints(self._data, kind, a, b))
            elif number in _FLOAT_FIELDS:
                size = _FLOAT_FIELDS[number]
                item = {5: "<f4", 6: "<f8", 9: "<c8", 12: "<c16"}[number]
                joined.append(wire.floats(self._data, kind, a, b, size))
            elif number == _FLOAT8 and kind == wire.LENGTH:
                item = "|u1"
                joined.append(bytes(self._data[a:b]))
        if joined:
            content = b"".join(joined)
            if len(content) % np.dtype(item).itemsize:
                raise DumpError("A list of complex numbers ends within a number.")
            if np.dtype(item) != raw:
                raise DumpError(f"Values of another type are listed for {dtype.name}.")
            return np.frombuffer(bytearray(content), raw)
        if not numbers:
            return np.empty(0, raw)
        if raw.kind == "b":
            return np.array(numbers, np.uint64).astype(raw)
        # The low bits are the element: negative numbers are stored as 64 bits.
        unsigned = np.array(numbers, np.uint64).astype(f"<u{raw.itemsize}")
        return unsigned.view(raw)

    def _strings(self) -> np.ndarray[Any, Any]:
        found = [
            bytes(self._data[a:b])
            for number, kind, a, b in self._lists
            if number == _STRINGS and kind == wire.LENGTH
        ]
        size = self.size
        if len(found) > size:
            raise DumpError(f"A tensor of {size} strings holds {len(found)}.")
        self._check_size(8)
        array = np.empty(size, object)
        array[: len(found)] = found
        array[len(found) :] = found[-1] if found else b""
        return array.reshape(self.shape or ())

    def _describe_handle(self, kind: str) -> str:
        parts: list[str] = []
        for number, wire_type, a, b in self._lists:
            if wire_type != wire.LENGTH:
                continue
            if number == _HANDLES:
                parts.append(_resource_text(self._data, a, b))
            elif number == _VARIANTS:
                parts.append(_variant_text(self._data, a, b))
        if self._content is not None:
            parts.extend(_content_texts(self._data, *self._content, kind))
        head = f"{kind} of shape {self._shape_text()}"
        if len(parts) == 1 and parts[0].startswith(head):
            # Written by `tensor_chunks`: the description itself.
            return parts[0]
        return head + "".join(f": {part}" for part in parts)


def _resource_text(data: memoryview, start: int, end: int) -> str:
    """A ResourceHandleProto in one line."""
    found = {
        number: wire.text(data, a, b)
        for number, kind, a, b in wire.fields(data, start, end)
        if kind == wire.LENGTH and number in (1, 2, 3, 5)
    }
    labels = ((3, "name"), (2, "container"), (1, "device"), (5, "type"))
    return ", ".join(f"{label} {found[number]!r}" for number, label in labels if found.get(number))


def _variant_text(data: memoryview, start: int, end: int) -> str:
    """What a VariantTensorDataProto says of its own type."""
    for number, kind, a, b in wire.fields(data, start, end):
        if number == 1 and kind == wire.LENGTH:
            return wire.text(data, a, b)
    return ""


def _content_texts(data: memoryview, start: int, end: int, kind: str) -> Iterator[str]:
    """The handles in a tensor's content: their lengths as varints, then one message each."""
    render = _resource_text if kind == "resource" else _variant_text
    try:
        sizes: list[int] = []
        lengths = wire.varints(data, wire.LENGTH, start, end)
        at, total = start, 0
        while total + at < end:
            size = next(lengths)
            sizes.append(size)
            total += size
            at += len(wire.varint(size))
        if total + at != end:
            raise DumpError("The lengths don't add up.")
        texts = []
        for size in sizes:
            texts.append(render(data, at, at + size))
            at += size
        yield from filter(None, texts)
    except (DumpError, StopIteration):
        yield wire.text(data, start, min(end, start + 200))


def string_elements(array: np.ndarray[Any, Any]) -> list[bytes] | None:
    """The elements of a string array as bytes, row by row; ``None`` if some are no strings."""
    found: list[bytes] = []
    for element in array.reshape(-1).tolist():
        if isinstance(element, bytes):
            found.append(element)
        elif isinstance(element, str):
            found.append(wire.encoded(element))
        else:
            return None
    return found


def tensor_chunks(
    value: Any, dtype_name: str = "", shape: tuple[int, ...] | None = None
) -> list[Chunk]:
    """A value as a serialized TensorProto, encoded as TensorFlow's debugger does.

    Args:
        value: an array, a number, or an `InconvertibleTensorProto`.
        dtype_name: what the values are, where the array's own type doesn't say (quantized types;
            small floating point types that were read as float32).
        shape: shape of a value that isn't an array.

    Returns:
        The message in pieces; the elements are the array's own memory.

    Raises:
        DumpError: no TensorProto can hold the value.
    """
    wanted = dtype_by_name(dtype_name)
    if isinstance(value, InconvertibleTensorProto):
        if not value.initialized and wanted is not None:
            return [_head(wanted, shape if shape is not None else (1,))]
        kind = wanted if wanted is not None and not wanted.raw else dtype_by_name("resource")
        assert kind is not None
        text = wire.encoded(str(getattr(value, "description", value))) or b"?"
        return [_head(kind, shape or ()), wire.put_bytes(_CONTENT, text)]
    array = np.asarray(value)
    own = dtype_of(array)
    if own is not None and own.name == "string":
        elements = string_elements(array)
        if elements is None:
            raise DumpError("An array of Python objects can't be stored as a tensor.")
        return [_head(own, array.shape), *(wire.put_bytes(_STRINGS, text) for text in elements)]
    dtype = wanted if wanted is not None and wanted.raw else own
    if dtype is not None and dtype.number is None:
        # The original has no number for it; float32 holds every value.
        array, dtype = array.astype(np.float32), dtype_by_name("float32")
    if dtype is None:
        raise DumpError(f"Values of type {array.dtype} can't be stored as a tensor.")
    raw = encode(array, dtype)
    if not raw.size:
        return [_head(dtype, array.shape)]
    content = memoryview(raw.reshape(-1).view(np.uint8).data)
    return [_head(dtype, array.shape), *wire.put_message(_CONTENT, [content])]


def _head(dtype: DType, shape: tuple[int, ...]) -> bytes:
    return wire.put_varint(_DTYPE, dtype.number or 0) + put_shape(_SHAPE, shape)
