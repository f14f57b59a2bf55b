"""Saving a value as a file of another program: .npy, .npz, .safetensors or .csv."""

from __future__ import annotations

import csv
import io
import json
import os
import struct
import zipfile
from collections.abc import Callable, Iterable
from typing import IO, Any

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.files import replacing, written
from tfdbg_cli.dumps.dtypes import dtype_by_name, encode
from tfdbg_cli.dumps.proto.wire import encoded
from tfdbg_cli.tensors.numeric import blocks, dtype_kind, dtype_name, widened

__all__ = ["FORMATS", "save_value", "save_values"]

# https://github.com/huggingface/safetensors: the element types of the format by our names.
_SAFETENSORS = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "uint32": "U32",
    "int32": "I32",
    "uint64": "U64",
    "int64": "I64",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
    "bfloat16": "BF16",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
}

_LARGEST_PADDED = 1 << 30  # bytes of strings in fixed width, unless they are that long by nature
_PIECE = 1 << 16  # elements of a CSV file that are written at once


def save_value(value: Array, path: str, name: str, dtype: str = "") -> tuple[str, int]:
    """Save an array in the format that the file's extension names; without one as .npy.

    The file is replaced whole or not at all. Only something that isn't a regular file (a FIFO,
    ``/dev/null``) is written to directly.

    Args:
        value: an array of any dtype; nothing is ever pickled.
        path: where to; ``~`` is the home folder.
        name: the key of the array, for formats that have keys.
        dtype: the element type by name, where the array's own doesn't say.

    Returns:
        The path that was written, and its size in bytes.

    Raises:
        UserError: the format is unknown, it can't hold such an array, or the file can't be
            written.
    """
    target, extension = _target(path)
    stored = value if dtype_kind(value.dtype) != "string" else _fixed_width(value, extension)

    def write(file: IO[bytes]) -> None:
        FORMATS[extension](file, stored, name, dtype or dtype_name(value.dtype))

    return target, _written(path, target, write, value.nbytes)


def save_values(values: Iterable[tuple[str, Array]], path: str) -> tuple[str, int]:
    """Save several arrays in one .npz file, each under its name; asked for one after the other.

    Returns:
        The path that was written, and its size in bytes.

    Raises:
        UserError: the path names another format, or see `save_value`.
    """
    target, extension = _target(path)
    if extension != ".npz":
        raise UserError("Several tensors are saved in one .npz file.", "Write for example: x.npz")

    def write(file: IO[bytes]) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, value in values:
                is_text = dtype_kind(value.dtype) == "string"
                stored = _fixed_width(value, extension) if is_text else value
                _write_entry(archive, name, stored)

    return target, _written(path, target, write, 0)


def _target(path: str) -> tuple[str, str]:
    """Where to, and the extension that names the format."""
    target = os.path.expanduser(path)
    if target.endswith(("/", os.sep)) or os.path.isdir(target):
        raise UserError(f"{path} is a folder.", "Add the name of a file.")
    extension = os.path.splitext(target)[1].lower() or ".npy"
    if extension not in FORMATS:
        raise UserError(
            f"{path} has no extension that says how to save it.",
            f"Use one of {', '.join(FORMATS)}; a name without any is saved as .npy.",
        )
    return target, extension


def _written(path: str, target: str, write: Callable[[IO[bytes]], None], nbytes: int) -> int:
    """Have a file written whole or not at all.

    Returns:
        Its size; of what is not a regular file that of the value.
    """
    with written(path, "Free some space or choose another folder."), replacing(target) as file:
        write(file)
        return file.tell() if file.seekable() else nbytes
    raise AssertionError


def _fixed_width(value: Array, extension: str) -> Array:
    """Strings as an array that needs no pickling: bytes (``S``) or text (``U``) of one width.

    Raises:
        UserError: the format has no strings, or these can't be told apart again in fixed width.
    """
    if extension == ".safetensors":
        raise UserError("A .safetensors file holds no strings.", "Save them as .npy or .csv.")
    kinds = {type(item) for item in value.reshape(-1).tolist()}
    if not all(issubclass(kind, bytes | str) for kind in kinds):
        raise UserError("Python objects can't be saved: nothing is pickled.", "Save a part of it.")
    if extension == ".csv" or value.dtype.kind in "SU":
        return value
    is_text = bool(kinds) and all(issubclass(kind, str) for kind in kinds)
    items = [
        encoded(item) if isinstance(item, str) and not is_text else item
        for item in value.reshape(-1).tolist()
    ]
    nul: Any = "\0" if is_text else b"\0"
    if any(item.endswith(nul) for item in items):
        raise UserError(
            "Some strings end in a zero byte, which NumPy's strings of fixed width would lose.",
            "Save them as .csv.",
        )
    width = max(map(len, items), default=0) * (4 if is_text else 1)
    if width * len(items) > max(_LARGEST_PADDED, 8 * sum(map(len, items))):
        raise UserError(
            "In NumPy's fixed width these strings would take "
            f"{width * len(items) / 1e9:.1f} GB: one of them is very long.",
            "Save them as .csv.",
        )
    return np.array(items, "U" if is_text else "S").reshape(value.shape)


class _WriteOnly:
    """Write access and nothing else, so that NumPy doesn't go past Python's error messages."""

    def __init__(self, file: IO[bytes]) -> None:
        self.write = file.write


def _write_array(file: IO[bytes], value: Array) -> None:
    if value.dtype.hasobject:
        raise UserError("Python objects can't be saved: nothing is pickled.", "Save a part of it.")
    # NumPy's files know no bfloat16 and the like: those are saved as exact float32 or int8.
    if value.dtype.isbuiltin == 2:
        value = widened(value)
    np.lib.format.write_array(_WriteOnly(file), value, allow_pickle=False)


def _write_npy(file: IO[bytes], value: Array, name: str, dtype: str) -> None:
    _write_array(file, value)


def _write_npz(file: IO[bytes], value: Array, name: str, dtype: str) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _write_entry(archive, name, value)


def _write_entry(archive: zipfile.ZipFile, name: str, value: Array) -> None:
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as entry:
        _write_array(entry, value)


def _write_safetensors(file: IO[bytes], value: Array, name: str, dtype: str) -> None:
    # What is no type of the format by name (a quantized one) is stored as what it is in memory.
    known = dtype if dtype in _SAFETENSORS else value.dtype.name
    element = dtype_by_name(known)
    if known not in _SAFETENSORS or element is None:
        raise UserError(f"A .safetensors file holds no {known}.", "Save it as .npy.")
    entry = {
        "dtype": _SAFETENSORS[known],
        "shape": list(value.shape),
        "data_offsets": [0, value.size * element.itemsize],
    }
    header = json.dumps({name: entry}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    file.write(struct.pack("<Q", len(header)) + header)
    for block in blocks(value):
        file.write(encode(block, element).tobytes())


def _write_csv(file: IO[bytes], value: Array, name: str, dtype: str) -> None:
    if value.ndim > 2:
        raise UserError(
            f"A .csv file holds one or two dimensions, and the shape is {value.shape}.",
            "Save a slice, or save it as .npy.",
        )
    text = io.TextIOWrapper(file, "utf-8", "surrogateescape", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    columns = value.shape[1] if value.ndim == 2 else 1
    rows = value.reshape(-1, columns) if columns else value.reshape(len(value), 0)
    step = max(_PIECE // max(columns, 1), 1)
    for at in range(0, len(rows), step):
        part = rows[at : at + step]
        cells = _cells(part.reshape(-1))
        width = part.shape[1]
        writer.writerows(cells[i * width : (i + 1) * width] for i in range(len(part)))
    text.flush()
    text.detach()


def _cells(values: Array) -> list[str]:
    """The elements as text that reads back as the same value."""
    kind = dtype_kind(values.dtype)
    numbers = widened(values)
    if kind == "complex":
        return [str(number).strip("()") for number in numbers]
    if kind == "string":
        return [_text(item) for item in values.tolist()]
    # str() of a NumPy number is the shortest text of its own dtype: 0.1, not 0.10000000149011612.
    return [str(number) for number in numbers]


def _text(item: bytes | str) -> str:
    return item if isinstance(item, str) else item.decode("utf-8", "surrogateescape")


#: Extension -> what writes it.
FORMATS: dict[str, Callable[[IO[bytes], Array, str, str], None]] = {
    ".npy": _write_npy,
    ".npz": _write_npz,
    ".safetensors": _write_safetensors,
    ".csv": _write_csv,
}
