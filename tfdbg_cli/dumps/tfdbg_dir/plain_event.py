"""Dump files of plain numbers, as TensorFlow's debugger writes them, read in a few looks.

Of most files little has to be known: what the elements are, and where. A file that isn't written
exactly so is left to `tfdbg_cli.dumps.tfdbg_dir.events`, which goes through the fields of a message
and can say what is wrong with it.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dtypes import DType
from tfdbg_cli.dumps.files import readers
from tfdbg_cli.dumps.proto import wire
from tfdbg_cli.dumps.proto.tensor_proto import TensorProto

__all__ = ["PlainTensor", "plain_tensor", "plain_tensors", "read_small", "read_smalls"]

# What is larger is better mapped than read.
_SMALL = 1 << 14

# So many are looked at one by one more quickly.
_FEW = 64

# A FIFO isn't waited for.
_FLAGS = os.O_RDONLY
for _flag in ("O_BINARY", "O_CLOEXEC", "O_NONBLOCK"):
    _FLAGS |= getattr(os, _flag, 0)

# The fields of an Event, and of the only value of its summary.
_WALL_TIME, _SUMMARY, _VALUE = 0x09, 0x2A, 0x0A
_TAG, _NODE_NAME, _METADATA = 0x0A, 0x3A, 0x4A
# Those of its tensor: the field itself, its type, its shape and its elements.
_TENSOR, _DTYPE, _SHAPE, _CONTENT = 0x42, 0x08, 0x12, 0x22
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
    return read_smalls([path])[0]


def read_smalls(paths: Iterable[str]) -> list[bytes | None]:
    """As `read_small` of each file."""
    found: list[bytes | None] = []
    begin, read, close, most = os.open, os.read, os.close, _SMALL
    for path in paths:
        data = None
        if readers and path in readers:  # it lies elsewhere: what is here is none
            found.append(None)
            continue
        try:
            file = begin(path, _FLAGS)
            try:
                data = read(file, most)
            finally:
                close(file)
        except (OSError, ValueError):
            pass
        found.append(data if data is None or len(data) < most else None)
    return found


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


def plain_tensors(files: Sequence[bytes]) -> list[PlainTensor | None]:
    """As `plain_tensor` of each file that `read_small` has read: one step for all is one look."""
    if len(files) < _FEW:
        return [plain_tensor(file) for file in files]
    ends = np.cumsum([len(file) for file in files])
    starts = np.concatenate([[0], ends[:-1]])
    data = np.frombuffer(b"".join([*files, b"\0"]), np.uint8)
    is_plain, at = np.ones(len(files), bool), starts

    def expect(tag: int) -> None:
        """A tag; behind it goes on."""
        nonlocal is_plain, at
        is_plain &= data.take(at, mode="clip") == tag
        at = at + 1

    def length() -> np.ndarray[Any, Any]:
        """A length of one or two bytes; behind it goes on."""
        nonlocal is_plain, at
        first, second = (data.take(at + k, mode="clip").astype(np.int64) for k in (0, 1))
        is_long = first > 0x7F
        is_plain &= ~is_long | ((second > 0) & (second <= 0x7F))
        at = at + 1 + is_long
        return np.where(is_long, first - 0x80 + (second << 7), first)

    expect(_WALL_TIME)
    at = at + 8
    for tag in (_SUMMARY, _VALUE):
        expect(tag)
        is_plain &= length() + at == ends
    for tag in (_TAG, _NODE_NAME):
        expect(tag)
        at = length() + at
    heads = at - starts
    expect(_TENSOR)
    length()
    expect(_DTYPE)
    at = at + 1
    expect(_SHAPE)
    at = length() + at
    expect(_CONTENT)
    length()
    begins = at - starts
    each = zip(files, is_plain.tolist(), heads.tolist(), begins.tolist(), strict=True)
    tensors = [_tensor_of(file[head:begin]) if good else None for file, good, head, begin in each]
    stops = begins + [0 if tensor is None else tensor[2] for tensor in tensors]
    at = starts + stops
    has_end, was_plain = at == ends, is_plain.copy()
    expect(_METADATA)
    is_plain &= length() + at == ends
    is_plain |= was_plain & has_end
    rows = zip(tensors, is_plain.tolist(), begins.tolist(), stops.tolist(), strict=True)
    return [
        (tensor[0], tensor[1], begin, stop) if good and tensor is not None else None
        for tensor, good, begin, stop in rows
    ]


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
