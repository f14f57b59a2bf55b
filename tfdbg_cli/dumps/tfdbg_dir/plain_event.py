"""Dump files of plain numbers, as TensorFlow's debugger writes them, read in a few looks.

Of most files little has to be known: what the elements are, and where. A file that isn't written
exactly so is left to `tfdbg_cli.dumps.tfdbg_dir.events`, which goes through the fields of a message
and can say what is wrong with it.
"""

from __future__ import annotations

import functools
import os
import re

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dtypes import DType
from tfdbg_cli.dumps.files import readers
from tfdbg_cli.dumps.proto import wire
from tfdbg_cli.dumps.proto.tensor_proto import TensorProto

__all__ = ["PlainTensor", "plain_tensor", "read_small"]

# What is larger is better mapped than read.
_SMALL = 1 << 14

# A FIFO isn't waited for.
_FLAGS = os.O_RDONLY
for _flag in ("O_BINARY", "O_CLOEXEC", "O_NONBLOCK"):
    _FLAGS |= getattr(os, _flag, 0)

# The fields of an Event, and of the only value of its summary.
_WALL_TIME, _SUMMARY, _VALUE = 0x09, 0x2A, 0x0A
_TAG, _NODE_NAME, _METADATA = 0x0A, 0x3A, 0x4A
# The field of the tensor up to its elements: its length, its type and shape, how many bytes follow.
_HEAD = re.compile(
    rb"\x42([\x80-\xff]{0,2}[\0-\x7f])"
    rb"(\x08[\x01-\x7f]\x12[\0-\x7f](?:\x12[\0-\x7f](?:\x08[\x80-\xff]{0,4}[\0-\x7f])?)*)"
    rb"\x22([\x80-\xff]{0,2}[\0-\x7f])"
)


#: Numbers in a file: what they are, their shape, and where their bytes begin and end.
PlainTensor = tuple[DType, tuple[int, ...], int, int]


def read_small(path: str) -> bytes | None:
    """The bytes of a small file; ``None``: it is none, or can't be read."""
    if readers and path in readers:  # it lies elsewhere: what is here is none
        return None
    try:
        file = os.open(path, _FLAGS)
        try:
            data = os.read(file, _SMALL)
        finally:
            os.close(file)
    except (OSError, ValueError):
        return None
    return data if len(data) < _SMALL else None


def plain_tensor(data: bytes) -> PlainTensor | None:
    """The tensor of a file that holds one Event with nothing but a tensor of plain numbers.

    Returns:
        What reading it field by field gives as well; ``None``: it has to be read so.
    """
    start = _start(len(data))
    if not data.startswith(start, 9) or data[0] != _WALL_TIME:
        return None
    at = 9 + len(start)
    try:
        if data[at] != _TAG:
            return None
        size = data[at + 1]
        at += 2
        if size > 0x7F:
            size, at = _long(data, at)
        at += size
        if data[at] != _NODE_NAME:
            return None
        size = data[at + 1]
        at += 2
        if size > 0x7F:
            size, at = _long(data, at)
        at += size
        match = _HEAD.match(data, at)
        head = _tensor_of(match[0]) if match is not None else None
        if match is None or head is None:
            return None
        dtype, shape, size = head
        begin = match.end()
        at = end = begin + size
        if at != len(data):
            if data[at] != _METADATA:
                return None
            size = data[at + 1]
            at += 2
            if size > 0x7F:
                size, at = _long(data, at)
            if at + size != len(data):
                return None
    except IndexError:
        return None
    return dtype, shape, begin, end


def _long(data: bytes, at: int) -> tuple[int, int]:
    """A length of two bytes, of which the second one is at a place; and what comes behind it.

    Raises:
        IndexError: it has more, or the data ends.
    """
    if data[at] > 0x7F:
        raise IndexError
    return data[at - 1] - 0x80 + (data[at] << 7), at + 1


@functools.lru_cache(1 << 14)
def _start(size: int) -> bytes:
    """What stands behind the wall time in a file of so many bytes: the summary and its value."""
    left, start = size - 9, b""
    for tag in (_SUMMARY, _VALUE):
        for width in (1, 2, 3):
            length = wire.varint(max(left - 1 - width, 0))
            if len(length) == width:
                start += bytes([tag]) + length
                left -= 1 + width
                break
    return start


@functools.lru_cache(1 << 10)
def _tensor_of(head: bytes) -> tuple[DType, tuple[int, ...], int] | None:
    """Type, shape and bytes of a tensor, if its head (see `_HEAD`) tells nothing contradictory."""
    match = _HEAD.fullmatch(head)
    if match is None:
        return None
    (whole,) = wire.varints(head, wire.LENGTH, *match.span(1))
    (size,) = wire.varints(head, wire.LENGTH, *match.span(3))
    try:
        tensor = TensorProto(memoryview(match[2]))
    except DumpError:
        return None
    dtype, shape = tensor.dtype, tensor.shape
    if dtype is None or shape is None or not size or size != tensor.size * dtype.itemsize:
        return None
    return (dtype, shape, size) if whole == match.end() - match.start(2) + size else None
