"""The protobuf wire format: a scanner over bytes, and the few pieces needed to write it.

Only what TensorFlow's dumps use; https://protobuf.dev/programming-guides/encoding describes it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.files import Chunk

__all__ = [
    "FIXED32",
    "FIXED64",
    "LENGTH",
    "VARINT",
    "chunks_length",
    "encoded",
    "fields",
    "floats",
    "payload",
    "put_bytes",
    "put_double",
    "put_float",
    "put_message",
    "put_packed_varints",
    "put_text",
    "put_varint",
    "signed",
    "text",
    "varint",
    "varints",
]

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5

_Bytes = bytes | bytearray | memoryview


def _read_varint(data: _Bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift > 63:
            raise DumpError("A number is longer than 10 bytes: this is not a protobuf message.")
    raise DumpError("The data ends within a number.")


def fields(
    data: _Bytes, start: int = 0, end: int | None = None
) -> Iterator[tuple[int, int, int, int]]:
    """The fields of one message, in the order of the file, without copying any.

    Args:
        data: holds the message.
        start: where the message begins.
        end: where it ends; default: at the end of the data.

    Yields:
        ``(number, wire type, a, b)``. For a ``VARINT``, ``a`` is the value (unsigned, 64 bits)
        and ``b`` is 0. For the others, ``a`` and ``b`` are where the payload begins and ends.

    Raises:
        DumpError: the bytes are cut short or aren't a protobuf message.
    """
    at = start
    if end is None:
        end = len(data)
    while at < end:
        tag = data[at]
        at += 1
        if tag >= 0x80:
            tag, at = _read_varint(data, at - 1, end)
        number, wire_type = tag >> 3, tag & 7
        if number == 0:
            raise DumpError("A field has the number 0: this is not a protobuf message.")
        if wire_type == LENGTH:
            # Most lengths are one byte long: not worth a call.
            if at < end and data[at] < 0x80:
                size = data[at]
                at += 1
            else:
                size, at = _read_varint(data, at, end)
            stop = at + size
            if stop > end:
                raise DumpError(
                    f"Field {number} needs {size} bytes, but only {end - at} are there."
                )
            yield number, LENGTH, at, stop
            at = stop
        elif wire_type == VARINT:
            value, at = _read_varint(data, at, end)
            yield number, VARINT, value, 0
        elif wire_type in (FIXED64, FIXED32):
            stop = at + (8 if wire_type == FIXED64 else 4)
            if stop > end:
                raise DumpError(f"The data ends within field {number}.")
            yield number, wire_type, at, stop
            at = stop
        else:
            raise DumpError(f"Field {number} has wire type {wire_type}: this is not a dump.")


def payload(data: _Bytes, wanted: int, start: int = 0, end: int | None = None) -> tuple[int, int]:
    """Where the last bytes, string or message field of a number lies; an empty place: nowhere."""
    found = 0, 0
    for number, kind, first, last in fields(data, start, end):
        if number == wanted and kind == LENGTH:
            found = first, last
    return found


def text(data: _Bytes, start: int, end: int) -> str:
    """The payload of a string field. Bytes that aren't UTF-8 become replacement characters."""
    return bytes(data[start:end]).decode("utf-8", "replace")


def signed(value: int) -> int:
    """A varint's 64 bits as a signed number."""
    return value - (1 << 64) if value >= 1 << 63 else value


def varints(data: _Bytes, wire_type: int, start: int, end: int) -> Iterator[int]:
    """The numbers (unsigned, 64 bits) of one occurrence of a repeated field, packed or not."""
    if wire_type == VARINT:
        yield start
    elif wire_type == LENGTH:
        while start < end:
            value, start = _read_varint(data, start, end)
            yield value
    else:
        raise DumpError("A list of integers is stored as something else.")


def floats(data: _Bytes, wire_type: int, start: int, end: int, size: int) -> bytes:
    """The little endian bytes of one occurrence of a repeated float (4) or double (8) field."""
    if wire_type not in (LENGTH, FIXED32 if size == 4 else FIXED64) or (end - start) % size:
        raise DumpError("A list of floating point numbers is stored as something else.")
    return bytes(data[start:end])


def varint(value: int) -> bytes:
    """A number as a varint; negative ones take 10 bytes."""
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def put_varint(number: int, value: int) -> bytes:
    """An integer, bool or enum field."""
    return varint(number << 3 | VARINT) + varint(value)


def put_bytes(number: int, value: _Bytes) -> bytes:
    """A bytes, string or message field."""
    return varint(number << 3 | LENGTH) + varint(len(value)) + bytes(value)


def encoded(value: str) -> bytes:
    r"""A text as UTF-8: bytes that were none come back, other lone surrogates as ``\ud800``."""
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return value.encode("utf-8", "backslashreplace")


def put_text(number: int, value: str) -> bytes:
    """A string field."""
    return put_bytes(number, encoded(value))


def put_double(number: int, value: float) -> bytes:
    """A double field."""
    return varint(number << 3 | FIXED64) + struct.pack("<d", value)


def put_float(number: int, value: float) -> bytes:
    """A float field."""
    return varint(number << 3 | FIXED32) + struct.pack("<f", value)


def put_packed_varints(number: int, values: Iterable[int]) -> bytes:
    """A repeated integer field."""
    return put_bytes(number, b"".join(map(varint, values)))


def chunks_length(chunks: Iterable[Chunk]) -> int:
    """Bytes of all chunks."""
    return sum(len(chunk) for chunk in chunks)


def put_message(number: int, chunks: list[Chunk]) -> list[Chunk]:
    """A message field whose payload isn't joined: large tensors are written from where they are."""
    return [varint(number << 3 | LENGTH) + varint(chunks_length(chunks)), *chunks]
