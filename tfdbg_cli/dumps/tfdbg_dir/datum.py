"""One file of the original's dump directory as a `Datum`, and the search for all of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.files import is_inside
from tfdbg_cli.dumps.proto.tensor_proto import TensorProto
from tfdbg_cli.dumps.tfdbg_dir.events import damaged, read_event
from tfdbg_cli.dumps.tfdbg_dir.names import (
    DEVICE_PREFIX,
    GRAPH_PREFIX,
    DumpName,
    decode_node_name,
    device_path_to_device_name,
    is_canonical_device,
    parse_dump_name,
)

__all__ = ["DebugTensorDatum", "DeviceFolder", "scan_device_folder", "scan_root"]

Report = Callable[[str], None]


def _read_by_get_tensor() -> Any:
    # A function per datum would hold the datum: a cycle for each of many thousands.
    raise NotImplementedError


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

    __slots__ = ("_base", "_folder", "_report", "_size", "_suffix")

    def __init__(self, dump_root: str, debug_dump_rel_path: str) -> None:
        folders, base = os.path.split(os.path.normpath(debug_dump_rel_path))
        name = parse_dump_name(base)
        if name is None or not folders:
            raise ValueError(f"Dump file path does not conform to the naming pattern: {base}")
        device, *scopes = folders.split(os.sep)
        self._fill(
            os.path.join(dump_root, folders),
            base,
            "".join(f"{scope}/" for scope in scopes),
            name,
            device_path_to_device_name(device),
            None,
        )

    @classmethod
    def _found(
        cls, folder: str, base: str, scope: str, name: DumpName, device: str, report: Report
    ) -> DebugTensorDatum:
        """A file that was met while listing a folder: nothing is parsed twice."""
        datum = cls.__new__(cls)
        datum._fill(folder, base, scope, name, device, report)
        return datum

    def _fill(
        self,
        folder: str,
        base: str,
        scope: str,
        name: DumpName,
        device: str,
        report: Report | None,
    ) -> None:
        super().__init__(
            decode_node_name(scope + name.node_base),
            name.output_slot,
            _read_by_get_tensor,
            debug_op=name.debug_op,
            timestamp=name.timestamp,
            device_name=device,
        )
        self._suffix = name.suffix
        self._folder = folder
        self._base = base
        self._size = -1
        self._report = report

    def renamed(self, node_name: str, output_slot: int) -> DebugTensorDatum:
        """The same file under another tensor's name."""
        datum = type(self).__new__(type(self))
        name = DumpName("", output_slot, self.debug_op, self.timestamp, self._suffix)
        datum._fill(self._folder, self._base, "", name, self.device_name, self._report)
        datum.node_name = node_name
        return datum

    @property
    def order(self) -> tuple[int, int, str, int]:
        """Sorts by time; ``-10`` comes after ``-2``."""
        return self.timestamp, self._suffix, self.node_name, self.output_slot

    @property
    def extended_timestamp(self) -> str:
        """``timestamp`` or ``timestamp-n``, as in the file's name."""
        return self._base.rpartition("_")[2]

    @property
    def file_path(self) -> str:
        """The file."""
        return os.path.join(self._folder, self._base)

    @property
    def dump_size_bytes(self) -> int | None:
        """Size of the file; ``None`` if it is gone."""
        if self._size < 0:
            try:
                self._size = os.stat(self.file_path).st_size
            except OSError:
                return None
        return self._size

    def _tensor(self) -> TensorProto:
        path = self.file_path
        event = read_event(path)
        try:
            return event.need_tensor()
        except DumpError as error:
            raise damaged(path, error) from None

    def get_tensor(self) -> Any:
        """The value: an ndarray, or an `InconvertibleTensorProto`.

        Raises:
            DumpError: the file is missing or damaged.
        """
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
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        report(f"{path} can't be listed: {error.strerror or error}.")
        return []


def scan_root(root: str, report: Report) -> tuple[list[os.DirEntry[str]], list[str]]:
    """The files at the top of a run's folder, and its device folders, both by name."""
    files: list[os.DirEntry[str]] = []
    devices: list[str] = []
    for entry in _scan(root, report):
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
        report: called with one line for each file that doesn't belong there or is empty.
    """
    found = DeviceFolder(device_path_to_device_name(path), path)
    graphs: list[tuple[int, str]] = []
    stack = [(path, "")]
    while stack:
        folder, scope = stack.pop()
        for entry in _scan(folder, report):
            base = entry.name
            if entry.is_dir(follow_symlinks=False):
                stack.append((entry.path, f"{scope}{base}/"))
                continue
            if _leads_out(entry, os.path.dirname(path), report):
                continue
            if base.startswith(GRAPH_PREFIX) and not scope:
                stamp = base.rpartition("_")[2]
                graphs.append((int(stamp) if stamp.isdecimal() else 0, entry.path))
                continue
            name = parse_dump_name(base) if entry.is_file() else None
            if name is None:
                if base.startswith("."):
                    continue
                report(f"{entry.path} is no dump file: its name has another pattern.")
                continue
            datum = DebugTensorDatum._found(folder, base, scope, name, found.name, report)
            found.data.append(datum)
    found.graph_files = [graph for _, graph in sorted(graphs, reverse=True)]
    found.data.sort(key=lambda datum: datum.order)
    _check_sizes(found, report)
    if not is_canonical_device(found.name):
        _read_device_name(found)
    return found


def _check_sizes(found: DeviceFolder, report: Report) -> None:
    for datum in found.data:
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
