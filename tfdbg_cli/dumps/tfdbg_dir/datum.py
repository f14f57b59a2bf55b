"""One file of the original's dump directory as a `Datum`, and the search for all of them."""

from __future__ import annotations

import itertools
import operator
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dtypes import decode
from tfdbg_cli.dumps.dump import Datum, number_executions
from tfdbg_cli.dumps.files import is_inside
from tfdbg_cli.dumps.proto.tensor_proto import TensorProto
from tfdbg_cli.dumps.tfdbg_dir.events import damaged, read_event
from tfdbg_cli.dumps.tfdbg_dir.names import (
    DEVICE_PREFIX,
    GRAPH_PREFIX,
    decode_node_name,
    device_path_to_device_name,
    is_canonical_device,
    parse_dump_name,
)
from tfdbg_cli.dumps.tfdbg_dir.plain_event import PlainTensor, plain_tensor, read_small

__all__ = [
    "DebugTensorDatum",
    "DeviceFolder",
    "name_empty_files",
    "scan_device_folder",
    "scan_root",
    "sort_by_time",
]

Report = Callable[[str], None]

_FOREIGN = "is not a dump file: its name has another pattern."


class DebugTensorDatum(Datum):
    """One tensor in a file of the original's format.

    Its dtype, shape and bytes are read from the head of the file when somebody asks; the value is
    mapped, not copied. Of a damaged file they are empty, ``None`` and 0.

    Args:
        dump_root: the run's folder.
        debug_dump_rel_path: the file below it; the first folder is the device's.

    Raises:
        ValueError: the file's name isn't ``node_slot_DebugOp_timestamp[-n]``.
    """

    __slots__ = ("_base", "_folder", "_report")

    # The same for all: not kept for each of many thousands.
    is_view = False
    note = ""

    def __init__(self, dump_root: str, debug_dump_rel_path: str) -> None:
        folders, base = os.path.split(os.path.normpath(debug_dump_rel_path))
        name = parse_dump_name(base)
        if name is None or not folders:
            raise ValueError(f"Dump file path does not conform to the naming pattern: {base}")
        device, *scopes = folders.split(os.sep)
        self.node_name = decode_node_name("/".join([*scopes, name.node_base]))
        self.output_slot, self.debug_op, self.timestamp = name[1:4]
        self.device_name = device_path_to_device_name(device)
        self.execution = 0
        self._dtype = self._shape = self._nbytes = None
        self._folder = os.path.join(dump_root, folders)
        self._base = base
        self._report: Report | None = None

    def renamed(self, node_name: str, output_slot: int) -> DebugTensorDatum:
        """The same file under another tensor's name."""
        datum = DebugTensorDatum.__new__(DebugTensorDatum)
        datum.node_name, datum.output_slot = node_name, output_slot
        datum.debug_op, datum.timestamp = self.debug_op, self.timestamp
        datum.device_name, datum.execution = self.device_name, 0
        datum._dtype = datum._shape = datum._nbytes = None
        datum._folder, datum._base, datum._report = self._folder, self._base, self._report
        return datum

    @property
    def order(self) -> tuple[int, int, str, int]:
        """Sorts by time; ``-10`` comes after ``-2``."""
        suffix = self._base.rpartition("_")[2].partition("-")[2]
        return self.timestamp, int(suffix or 0), self.node_name, self.output_slot

    @property
    def extended_timestamp(self) -> str:
        """``timestamp`` or ``timestamp-n``, as in the file's name."""
        return self._base.rpartition("_")[2]

    @property
    def file_path(self) -> str:
        """The file."""
        return f"{self._folder}{os.sep}{self._base}"

    @property
    def dump_size_bytes(self) -> int | None:
        """Size of the file; ``None`` if it is gone."""
        try:
            return os.stat(self.file_path).st_size
        except OSError:
            return None

    def _tensor(self) -> TensorProto:
        path = self.file_path
        event = read_event(path)
        try:
            return event.need_tensor()
        except DumpError as error:
            raise damaged(path, error) from None

    def plain(self) -> tuple[PlainTensor, bytes] | None:
        """Where the elements lie in the bytes of the file; ``None``: that takes a longer look."""
        data = read_small(self.file_path) if self.is_found else None
        plain = plain_tensor(data) if data is not None else None
        return (plain, data) if plain is not None and data is not None else None

    @property
    def is_found(self) -> bool:
        """Whether it was found in a folder, among plain files: others aren't just read."""
        return self._report is not None

    def get_tensor(self) -> Any:
        """The value: an ndarray, or an `InconvertibleTensorProto`.

        Raises:
            DumpError: the file is missing or damaged.
        """
        found = self.plain()
        if found is not None:
            (dtype, shape, start, end), data = found
            raw = np.frombuffer(bytearray(data[start:end]), dtype.raw)
            return decode(raw.reshape(shape), dtype)
        try:
            tensor = self._tensor()
            try:
                return tensor.value()
            except DumpError as error:
                raise damaged(self.file_path, error) from None
        except DumpError as error:
            self._tell(error)
            raise

    def _tell(self, error: DumpError) -> None:
        if self._report is not None:
            self._report(error.message)

    def _describe(self) -> None:
        found = self.plain()
        if found is not None:
            (dtype, self._shape, start, end), _ = found
            self._dtype, self._nbytes = dtype.name, end - start
            return
        try:
            tensor = self._tensor()
        except DumpError as error:
            self._tell(error)
            self._dtype, self._shape, self._nbytes = "", None, 0
            return
        self._dtype = tensor.dtype.name if tensor.dtype is not None else ""
        self._shape = tensor.shape
        self._nbytes = tensor.nbytes

    def __repr__(self) -> str:
        return (
            f"{{DebugTensorDatum ({self.device_name}) {self.node_name}:{self.output_slot} @ "
            f"{self.debug_op} @ {self.timestamp}}}"
        )

    __str__ = __repr__


@dataclass
class DeviceFolder:
    """What one device's folder holds.

    Attributes:
        name: the device.
        path: the folder.
        data: its dumps, in time order.
        graph_files: its graphs, newest first.
    """

    name: str
    path: str
    data: list[DebugTensorDatum] = field(default_factory=list)
    graph_files: list[str] = field(default_factory=list)


def _scan(path: str, report: Report) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except OSError as error:
        report(f"{path} can't be listed: {error.strerror or error}.")
        return []


def _by_name(entries: Iterable[os.DirEntry[str]]) -> list[os.DirEntry[str]]:
    return sorted(entries, key=lambda entry: entry.name)


def scan_root(root: str, report: Report) -> tuple[list[os.DirEntry[str]], list[str]]:
    """The files at the top of a run's folder, and its device folders, both by name."""
    files: list[os.DirEntry[str]] = []
    devices: list[str] = []
    for entry in _by_name(_scan(root, report)):
        if _leads_out(entry, root, report):
            continue
        if entry.name.startswith(DEVICE_PREFIX) and entry.is_dir():
            devices.append(entry.path)
        elif entry.is_file() and not entry.name.startswith("."):
            files.append(entry)
    return files, devices


def _leads_out(entry: os.DirEntry[str], root: str, report: Report) -> bool:
    """Whether an entry is a link to something that isn't in the run's folder."""
    if not entry.is_symlink():
        return False
    is_there = os.path.exists(entry.path)
    if is_there and is_inside(entry.path, root):
        return False
    report(f"{entry.path} leads {'out of the dump' if is_there else 'nowhere'}.")
    return True


def scan_device_folder(path: str, report: Report) -> DeviceFolder:
    """List a device's folder. No file is opened, except one where the folder's name is unclear.

    Args:
        path: the folder.
        report: called with one line for each file that doesn't belong there.
    """
    found = DeviceFolder(device_path_to_device_name(path), path)
    graphs: list[tuple[int, str]] = []
    has_encoded = False
    stack = [(path, "")]
    while stack:
        folder, scope = stack.pop()
        entries = _scan(folder, report)
        names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
        if len(names) < len(entries):
            for entry in _by_name(entries):
                if entry.is_dir(follow_symlinks=False):
                    stack.append((entry.path, f"{scope}{entry.name}/"))
                elif not entry.is_file(follow_symlinks=False) and not _leads_out(
                    entry, os.path.dirname(path), report
                ):
                    if entry.is_file():
                        names.append(entry.name)
                    elif not entry.name.startswith("."):
                        report(f"{entry.path} {_FOREIGN}")
        if not scope:
            for base in filter(_is_graph, names):
                stamp = base.rpartition("_")[2]
                number = int(stamp) if stamp.isdecimal() else 0
                graphs.append((number, os.path.join(folder, base)))
            names = [base for base in names if not _is_graph(base)]
        if names:
            has_encoded |= _take(folder, scope, sorted(names), found, report)
    found.graph_files = [graph for _, graph in sorted(graphs, reverse=True)]
    sort_by_time(found.data)
    if has_encoded:  # several folders may hold dumps of one tensor
        number_executions(found.data)
    if not is_canonical_device(found.name):
        _read_device_name(found)
    return found


def _is_graph(base: str) -> bool:
    return base.startswith(GRAPH_PREFIX)


def _take(folder: str, scope: str, names: list[str], found: DeviceFolder, report: Report) -> bool:
    """Take up the dumps of one folder; those of one tensor are numbered in the order of time.

    There may be hundreds of thousands of them: nothing is called for each that can be for all.

    Returns:
        Whether some name is encoded.
    """
    parts: list[Sequence[Any]] = [base.rsplit("_", 3) for base in names]
    if not _are_plain(names, parts):
        read = [(base, parse_dump_name(base)) for base in names]
        for base, name in read:
            if name is None and not base.startswith("."):
                report(f"{os.path.join(folder, base)} {_FOREIGN}")
        names = [base for base, name in read if name is not None]
        parts = [name[:4] for _, name in read if name is not None]
    data: list[DebugTensorDatum] = []
    new, device, debug_op = DebugTensorDatum.__new__, found.name, ""
    for base, (node, slot, op, time) in zip(names, parts, strict=True):
        if op != debug_op:
            debug_op = sys.intern(op)
        datum = new(DebugTensorDatum)
        datum.node_name = scope + node
        datum.output_slot = int(slot)
        datum.debug_op = debug_op
        datum.timestamp = int(time)
        datum.device_name = device
        datum.execution = 0
        datum._dtype = datum._shape = datum._nbytes = None
        datum._folder = folder
        datum._base = base
        datum._report = report
        data.append(datum)
    found.data += data
    if "%" in scope or "%" in "".join(names):
        for datum in data:
            datum.node_name = decode_node_name(datum.node_name)
        return True
    if len({part[0] for part in parts}) < len(parts):
        sort_by_time(data)
        number_executions(data)
    return False


def _are_plain(names: Sequence[str], parts: Sequence[Sequence[str]]) -> bool:
    """Whether all names are those of dumps, without ``-n``; ``parts``: split at the last ``_``."""
    if set(map(len, parts)) != {4}:
        return False
    nodes, slots, debug_ops, times = zip(*parts, strict=True)
    is_full = all(nodes) and all(slots) and all(debug_ops) and all(times)
    return is_full and "".join(slots + times).isdigit() and "".join(names).isascii()


def sort_by_time(data: list[DebugTensorDatum]) -> None:
    """Put dumps into the order of time."""
    data.sort(key=operator.attrgetter("timestamp"))
    # Most times are there once: the rest of the order is made for those that are equal.
    times = [datum.timestamp for datum in data]
    if len(set(times)) == len(times):
        return
    begin = 0
    for _, group in itertools.groupby(times):
        end = begin + sum(1 for _ in group)
        if end - begin > 1:
            data[begin:end] = sorted(data[begin:end], key=operator.attrgetter("order"))
        begin = end


def name_empty_files(data: Iterable[DebugTensorDatum], report: Report) -> None:
    """Report the dumps whose files are empty."""
    for datum in data:
        if datum.dump_size_bytes == 0:
            report(f"{datum.file_path} is damaged: The file is empty.")


def _read_device_name(found: DeviceFolder) -> None:
    """Take the device's name from the first file that tells it."""
    for datum in found.data[:8]:
        try:
            name = read_event(datum.file_path).device_name
        except DumpError:
            continue
        if name:
            found.name = name
            for each in found.data:
                each.device_name = name
            return
