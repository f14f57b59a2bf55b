"""The tensors of a run folder: what the index says of each, and where its value is."""

from __future__ import annotations

import functools
import os
import sys
import zlib
from collections.abc import Callable
from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dtypes import decode, dtype_by_name
from tfdbg_cli.dumps.dump import Datum, InconvertibleTensorProto
from tfdbg_cli.dumps.files import read_part
from tfdbg_cli.dumps.run_folder.json_fields import LARGEST, Fields, fail
from tfdbg_cli.dumps.run_folder.strings_part import decode_strings
from tfdbg_cli.dumps.run_folder.view_places import view_in

__all__ = [
    "Kind",
    "Plain",
    "Record",
    "RunFolderDatum",
    "StoredValue",
    "plain_datum",
    "plain_datum_of",
    "plain_fields",
]

#: A line of the index, as it was parsed.
Record = dict[str, Any]


#: Op type, debug op, device, element type and shape: what many tensors have in common.
Kind = tuple[str, str, str, str, tuple[int, ...] | None]

#: What nearly all lines say, and no more: node, slot, time; bytes, file, start, end, checksum and
#: counts of bad elements; the kind.
Plain = tuple[str, int, int, tuple[int, str, int, int, int | None, tuple[int, int, int]], Kind]


class RunFolderDatum(Datum):
    """One tensor of a run folder.

    Attributes:
        op_type: of its node, as the index has it.
        health: how many elements are NaN, minus infinity and plus infinity; ``None`` where they
            weren't counted.
    """

    __slots__ = ("_report", "_stored", "health", "op_type")

    def __init__(self, stored: StoredValue, record: Record, report: Callable[[str], None]) -> None:
        found = Fields(record, fail)
        if "node" not in found or "slot" not in found:
            raise ValueError("it doesn't say which tensor it is")
        super().__init__(
            found.text("node"),
            found.size("slot"),
            stored.load,
            debug_op=found.text("debug_op") or "DebugIdentity",
            timestamp=found.number("time"),
            device_name=found.text("device"),
            dtype=stored.dtype,
            shape=stored.shape,
            nbytes=found.size("bytes"),
            is_view=found.flag("view"),
            note=found.text("note"),
        )
        self.op_type = found.text("op_type")
        self.health: tuple[int, int, int] | None = None
        if "nan" in found:
            self.health = found.size("nan"), found.size("neg_inf"), found.size("pos_inf")
        self._stored = stored
        self._report = report

    def plain(self) -> Plain:
        """What is said of it, as far as nearly all tensors have it."""
        stored = self._stored
        file, counts = os.path.basename(stored.path), self.health or (0, 0, 0)
        place = self._nbytes or 0, file, stored.start, stored.end, stored.checksum, counts
        kind = self.op_type, self.debug_op, self.device_name, stored.dtype, stored.shape
        return self.node_name, self.output_slot, self.timestamp, place, kind

    @property
    def is_kept(self) -> bool:
        """Whether its value was stored."""
        return not self._stored.missing

    def is_view_of(self, base: RunFolderDatum) -> None:
        """Say whose elements it shows."""
        self._stored.base = base._stored

    @property
    def file_path(self) -> str:
        return self._stored.path

    def get_tensor(self) -> Any:
        """The value: an ndarray, or an `InconvertibleTensorProto`.

        Raises:
            DumpError: the value wasn't stored, or its file is missing or damaged.
        """
        try:
            return self._stored.load()
        except DumpError as error:
            if not self._stored.missing:
                self._report(error.message)
            raise


class StoredValue:
    """Where a value is and how to read it.

    Args:
        root: the folder.
        record: what the index says.

    Attributes:
        base: of a view: whose elements it shows.
        checksum: CRC-32 of the bytes, ``None`` where it isn't known, or has been compared.

    Raises:
        ValueError: the record is damaged.
    """

    __slots__ = (
        "as_text",
        "base",
        "checksum",
        "dtype",
        "end",
        "given",
        "missing",
        "path",
        "place",
        "root",
        "shape",
        "start",
    )

    def __init__(self, root: str, record: Record) -> None:
        found = Fields(record, fail)
        self.shape = found.sizes("shape")
        self.dtype = found.text("dtype")
        self.missing = found.text("missing")
        self.as_text = found.flag("text")
        self.given: InconvertibleTensorProto | None = None
        self.root = root
        self.path = ""
        self.place: Record | None = record if "of" in found else None
        self.base: StoredValue | None = None
        self.start, self.end = found.size("start"), found.size("end")
        self.checksum = found.size("value_crc32") if "value_crc32" in found else None
        if "description" in found:
            is_initialized = found.flag("initialized", True)
            self.given = InconvertibleTensorProto(found.text("description"), is_initialized)
        elif not self.missing and self.place is None:
            file = found.text("file")
            if not file or os.path.basename(file) != file or self.end < self.start:
                raise ValueError(f"{file!r} is not a place in this folder")
            self.path = os.path.join(root, file)

    def load(self) -> Any:
        """The value.

        Raises:
            DumpError: it wasn't stored, or its file is missing or damaged.
        """
        if self.given is not None:
            return self.given
        if self.missing:
            raise DumpError(f"The dump has no value of this tensor. {self.missing}")
        if self.place is not None:
            return self._view(self.place)
        data = self._data()
        try:
            if self.dtype == "string":
                return decode_strings(bytes(data), self.as_text)
            dtype = dtype_by_name(self.dtype)
            if dtype is None or not dtype.raw:
                return InconvertibleTensorProto(f"Tensor of the unknown type {self.dtype}")
            return decode(np.frombuffer(data, dtype.raw).reshape(self.shape or ()), dtype)
        except (ValueError, TypeError, OverflowError, MemoryError) as error:
            raise DumpError(f"{self.path} is damaged: {error}.") from None
        except DumpError as error:
            raise DumpError(f"{self.path} is damaged: {error.message}") from None

    def _view(self, place: Record) -> Any:
        base = self.base
        dtype = dtype_by_name(self.dtype)
        if base is None or not base.path or dtype is None or not dtype.raw:
            raise DumpError("The dump has no value of the tensor that this one is a view of.")
        try:
            return view_in(base._data(), place, self.shape or (), dtype)
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise DumpError(f"{base.path} is damaged: {error}.") from None

    def _data(self) -> memoryview:
        """The bytes of the elements."""
        found = read_part(self.path, self.root, self.start, self.end)
        if len(found) < self.end - self.start:
            size = os.path.getsize(self.path)
            raise DumpError(
                f"{self.path} is damaged: it ends at byte {size}, but the tensor at {self.end}."
            )
        if self.checksum is not None:
            if zlib.crc32(found) != self.checksum:
                where = f"bytes {self.start} to {self.end}"
                raise DumpError(f"{self.path} is damaged: {where} aren't those that were written.")
            self.checksum = None  # once is enough
        return found


# What nearly all lines of an index hold, and of which type. JSON has no others.
_PLAIN: dict[str, type] = {
    **dict.fromkeys(("n", "slot", "time", "bytes", "start", "end"), int),
    **dict.fromkeys(("nan", "neg_inf", "pos_inf"), int),
    **dict.fromkeys(("node", "op_type", "debug_op", "device", "key", "dtype"), str),
    **dict.fromkeys(("stored", "file"), str),
    "shape": list,
}
_INTEGERS = frozenset({int})
# What older folders don't have.
_WRITTEN: dict[str, type] = {**_PLAIN, "value_crc32": int}
_SUMMED: dict[str, type] = {**_WRITTEN, "crc32": str}


def plain_fields(record: Record) -> Plain | None:
    """What a line says that holds what nearly all do; ``None``: each field has to be looked at."""
    if not _is_plain(tuple(record), tuple(map(type, record.values()))):
        return None
    slot, nbytes, start, end = record["slot"], record["bytes"], record["start"], record["end"]
    counts = record["nan"], record["neg_inf"], record["pos_inf"]
    file, sizes = record["file"], record["shape"]
    shape = _shape_of(tuple(sizes)) if set(map(type, sizes)) <= _INTEGERS else None
    checksum = record.get("value_crc32")
    sums = *counts, checksum or 0
    least, most = min(slot, nbytes, start, *sums), max(slot, nbytes, end, *sums)
    is_right = least >= 0 and most < LARGEST and start <= end and abs(record["time"]) < LARGEST
    if not is_right or shape is None or not _is_name(file):
        return None
    place = nbytes, file, start, end, checksum, _shared(counts)
    debug_op = record["debug_op"] or "DebugIdentity"
    kind = record["op_type"], debug_op, record["device"], record["dtype"], shape
    return record["node"], slot, record["time"], place, kind


def plain_datum(root: str, record: Record, report: Callable[[str], None]) -> RunFolderDatum | None:
    """The tensor of a line that holds what nearly all do; ``None``: each field has to be looked at.

    It is what `StoredValue` and `RunFolderDatum` make of the line, in a third of the time.
    """
    plain = plain_fields(record)
    return None if plain is None else plain_datum_of(root, plain, report)


def plain_datum_of(root: str, plain: Plain, report: Callable[[str], None]) -> RunFolderDatum:
    """The tensor of which a line says so."""
    stored = StoredValue.__new__(StoredValue)
    datum = RunFolderDatum.__new__(RunFolderDatum)
    node, slot, time, (nbytes, file, start, end, checksum, counts), kind = plain
    op_type, debug_op, device, dtype, shape = kind
    stored.root, stored.path, stored.start, stored.end = root, _path_in(root, file), start, end
    stored.dtype, stored.shape = sys.intern(dtype), shape
    stored.missing, stored.as_text, stored.checksum = "", False, checksum
    stored.given = stored.place = stored.base = None
    datum.node_name, datum.output_slot, datum.timestamp = node, slot, time
    datum.debug_op = sys.intern(debug_op)
    datum.device_name, datum.op_type = sys.intern(device), sys.intern(op_type)
    datum.execution, datum.is_view, datum.health = 0, False, counts
    datum._dtype, datum._shape, datum._nbytes = stored.dtype, shape, nbytes
    datum._load, datum._note = _load_stored, ""
    datum._stored, datum._report = stored, report
    return datum


def _load_stored() -> Any:
    # `RunFolderDatum.get_tensor` reads what is stored: no bound method is kept for each.
    raise NotImplementedError


@functools.lru_cache(64)
def _is_plain(names: tuple[str, ...], kinds: tuple[type, ...]) -> bool:
    """Whether a line has all of the fields and no others, each of its type."""
    known = dict(zip(names, kinds, strict=True))
    return known in (_SUMMED, _WRITTEN, _PLAIN)


@functools.lru_cache(1 << 10)
def _is_name(file: str) -> bool:
    """Whether that may be a file of the folder."""
    return bool(file) and os.path.basename(file) == file


@functools.lru_cache(1 << 10)
def _path_in(root: str, file: str) -> str:
    return os.path.join(root, file)


@functools.lru_cache(1 << 12)
def _shape_of(sizes: tuple[int, ...]) -> tuple[int, ...] | None:
    """A shape, the same object for all that are equal; ``None``: there is none such."""
    return Fields({"shape": list(sizes)}, lambda name: None).sizes("shape")


@functools.lru_cache(1 << 10)
def _shared(counts: tuple[int, int, int]) -> tuple[int, int, int]:
    return counts
