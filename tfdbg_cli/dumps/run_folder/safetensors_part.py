"""One file of tensors in the safetensors format, written so that every tensor can be mapped.

https://huggingface.co/docs/safetensors describes the format: the length of a JSON header (8 bytes,
little endian), the header, and the tensors without gaps. What keeps a tensor aligned is itself a
tensor, of bytes, whose name begins with `PADDING`.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dtypes import DType, dtype_by_name, dtype_of, encode
from tfdbg_cli.dumps.files import Chunk, read_file, write_file
from tfdbg_cli.dumps.run_folder.json_fields import parse_json

__all__ = [
    "PADDING",
    "PartEntry",
    "PartWriter",
    "dtype_of_stored",
    "entries_in",
    "raw_bytes",
    "read_header",
    "storage_of",
    "stored_dtype",
]

#: How the names of entries begin that hold nothing.
PADDING = ".padding/"

_ALIGNMENT = 64
_LARGEST_HEADER = 1 << 30

# Element types of the format, and the NumPy dtypes with the same bytes.
_RAW = {
    "BOOL": "|b1",
    "U8": "|u1",
    "I8": "|i1",
    "U16": "<u2",
    "I16": "<i2",
    "U32": "<u4",
    "I32": "<i4",
    "U64": "<u8",
    "I64": "<i8",
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
    "BF16": "<u2",
    "F8_E5M2": "|u1",
    "F8_E4M3": "|u1",
    "F8_E5M2FNUZ": "|u1",
    "F8_E4M3FNUZ": "|u1",
    "F8_E8M0": "|u1",
}
_BY_RAW = {raw: name for name, raw in reversed(_RAW.items())}
_SMALL_FLOATS = {
    "bfloat16": "BF16",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
}
_NAMES = {stored: name for name, stored in _SMALL_FLOATS.items()}


def stored_dtype(stored: str) -> np.dtype[Any] | None:
    """The NumPy dtype with the bytes of a format's element type, ``None`` for an unknown one."""
    raw = _RAW.get(stored)
    return np.dtype(raw) if raw is not None else None


def dtype_of_stored(stored: str) -> DType | None:
    """The element type that a format's element type most likely stands for."""
    raw = stored_dtype(stored)
    return dtype_by_name(_NAMES.get(stored, raw.name if raw is not None else ""))


def storage_of(
    value: np.ndarray[Any, Any], dtype_name: str
) -> tuple[DType, str, np.ndarray[Any, Any]]:
    """How an array is stored.

    Complex numbers become pairs of floating point numbers in a last dimension of 2, and types that
    the format doesn't have one byte per element.

    Args:
        value: numbers or bools.
        dtype_name: what the values are, where the array's own type doesn't say.

    Returns:
        The element type, the format's name for how it is stored, and the elements.

    Raises:
        DumpError: there is no way to store such an array.
    """
    wanted = dtype_by_name(dtype_name)
    dtype = wanted if wanted is not None and wanted.raw else dtype_of(value)
    if dtype is None or not dtype.raw:
        raise DumpError(f"Values of type {value.dtype} can't be stored.")
    raw = encode(value, dtype)
    if raw.dtype.kind == "c":
        parts = raw.reshape(*raw.shape, 1).view(f"<f{raw.dtype.itemsize // 2}")
        return dtype, _BY_RAW[parts.dtype.str], parts
    return dtype, _SMALL_FLOATS.get(dtype.name, _BY_RAW[raw.dtype.str]), raw


def raw_bytes(raw: np.ndarray[Any, Any]) -> Chunk:
    """The bytes of elements as `storage_of` gave them; they aren't copied."""
    return memoryview(raw.reshape(-1).view(np.uint8).data) if raw.size else b""


@dataclass(frozen=True)
class PartEntry:
    """Where a tensor lies in its file.

    Attributes:
        stored: the format's element type.
        shape: as stored: that of a complex tensor has a 2 at its end.
        start: offset in the file of the first byte.
        end: offset of the first byte after it.
    """

    stored: str
    shape: tuple[int, ...]
    start: int
    end: int


class PartWriter:
    """Collects tensors by reference and writes them into one file.

    Attributes:
        nbytes: bytes of the tensors collected.
    """

    def __init__(self) -> None:
        self._header: dict[str, Any] = {"__metadata__": {"written_by": "tfdbg_cli"}}
        self._chunks: list[Chunk] = []
        self._entries: dict[str, PartEntry] = {}
        self._offset = 0
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def _append(self, name: str, stored: str, shape: tuple[int, ...], data: Chunk) -> None:
        start = self._offset
        self._offset += len(data)
        self._header[name] = {
            "dtype": stored,
            "shape": list(shape),
            "data_offsets": [start, self._offset],
        }
        self._chunks.append(data)

    def add(self, name: str, stored: str, raw: np.ndarray[Any, Any]) -> None:
        """Add a tensor as `storage_of` gave it.

        Args:
            name: unique in this file.
            stored: the format's element type.
            raw: the elements; they must stay as they are until `write`.
        """
        alignment = _ALIGNMENT if raw.nbytes >= _ALIGNMENT else max(raw.itemsize, 1)
        gap = -self._offset % alignment
        if gap:
            self._append(f"{PADDING}{self._offset}", "U8", (gap,), bytes(gap))
        data = raw_bytes(raw)
        start = self._offset
        self._append(name, stored, raw.shape, data)
        self._entries[name] = PartEntry(stored, raw.shape, start, self._offset)
        self.nbytes += raw.nbytes

    def chunks(self) -> tuple[list[Chunk], int]:
        """What the file holds, and where the first tensor begins in it."""
        header = json.dumps(self._header, separators=(",", ":")).encode()
        header += b" " * (-(len(header) + 8) % _ALIGNMENT)
        return [struct.pack("<Q", len(header)), header, *self._chunks], 8 + len(header)

    def write(self, path: str | os.PathLike[str]) -> tuple[dict[str, PartEntry], int]:
        """Write the file in one step.

        Returns:
            Where each tensor lies, counted from the beginning of the file, and the file's size.

        Raises:
            UserError: the file can't be written.
        """
        chunks, base = self.chunks()
        size = write_file(path, chunks)
        places = {
            name: PartEntry(entry.stored, entry.shape, base + entry.start, base + entry.end)
            for name, entry in self._entries.items()
        }
        return places, size


def read_header(
    path: str | os.PathLike[str], root: str | os.PathLike[str] | None = None
) -> Mapping[str, PartEntry]:
    """The tensors of a file, without those that only fill gaps.

    Args:
        path: of the file.
        root: the folder that it must be in.

    Raises:
        DumpError: the file is missing or its header is damaged.
    """
    data = read_file(path, root)
    try:
        return entries_in(data)
    except ValueError as error:
        raise DumpError(f"{os.fspath(path)} is damaged: {error}.") from None


def entries_in(data: memoryview) -> dict[str, PartEntry]:
    """The tensors of what a file holds, without those that only fill gaps.

    Raises:
        ValueError: it is damaged.
    """
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > min(len(data) - 8, _LARGEST_HEADER):
        raise ValueError("the header is cut short")
    try:
        found = parse_json(bytes(data[8 : 8 + size]))
        return {
            name: PartEntry(
                str(entry["dtype"]),
                tuple(int(each) for each in entry["shape"]),
                8 + size + int(entry["data_offsets"][0]),
                8 + size + int(entry["data_offsets"][1]),
            )
            for name, entry in found.items()
            if name != "__metadata__" and not name.startswith(PADDING)
        }
    except (LookupError, ArithmeticError, TypeError, AttributeError) as error:
        raise ValueError(str(error)) from None
