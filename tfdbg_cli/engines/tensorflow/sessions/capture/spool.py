"""Where the runtime's debug operations write during a run, and what they wrote."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.common.temporary import SHARED_MEMORY, make_folder, remove_folder
from tfdbg_cli.dumps.elements import parse_watch_key
from tfdbg_cli.dumps.tfdbg_dir.events import read_event
from tfdbg_cli.dumps.tfdbg_dir.names import GRAPH_PREFIX, METADATA_PREFIX, parse_dump_name

__all__ = ["SeenValue", "borrow_folder", "take"]

# Below this much free space the runtime's dumps go to the disk instead.
_ENOUGH = 1 << 30


class SeenValue(NamedTuple):
    """One value that a watch saw.

    Attributes:
        node: name of the node in the graph that ran.
        slot: which output.
        debug_op: e.g. ``DebugIdentity``.
        timestamp: microseconds since the epoch.
        device: where it was computed.
        dtype: the name of the element type; ``resource`` and ``variant`` have no elements.
        shape: as far as known.
        nbytes: bytes of the elements.
        load: gives the value, an ndarray or an `InconvertibleTensorProto`.
    """

    node: str
    slot: int
    debug_op: str
    timestamp: int
    device: str
    dtype: str
    shape: tuple[int, ...] | None
    nbytes: int
    load: Callable[[], Any]


class _Folders:
    """Folders that the runtime writes dumps to, one for each run that is under way.

    They are reused: a debug URL is part of the key of the runtime's cache of executors, and a new
    one each run would build, and never free, an executor each run.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Those for what is too large for memory, and the others.
        self._free: dict[bool, list[str]] = {}
        self._made: list[str] = []
        self._pid = os.getpid()

    def borrow(self, is_large: bool) -> str:
        with self._lock:
            if self._pid != os.getpid():  # a fork: these belong to the parent
                self._pid, self._free, self._made = os.getpid(), {}, []
            free = self._free.setdefault(is_large, [])
            while free:
                folder = free.pop()
                if os.path.isdir(folder):
                    return folder
            if not self._made:
                atexit.register(self.remove)
            folder = make_folder(None if is_large else _root())
            self._made.append(folder)
            return folder

    def give_back(self, folder: str, is_large: bool) -> None:
        with self._lock:
            self._free.setdefault(is_large, []).append(folder)

    def remove(self) -> None:
        """Delete them all; at exit."""
        with self._lock:
            if self._pid == os.getpid():
                for folder in self._made:
                    remove_folder(folder)
                self._made, self._free = [], {}


_FOLDERS = _Folders()


def _root() -> str | None:
    try:
        info = os.statvfs(SHARED_MEMORY)
        if info.f_bavail * info.f_frsize >= _ENOUGH and os.access(SHARED_MEMORY, os.W_OK):
            return SHARED_MEMORY
    except (OSError, AttributeError):
        pass
    return None


@contextmanager
def borrow_folder(is_large: bool = False) -> Iterator[str]:
    """A folder for the dumps of one run, empty; what is in it afterwards is deleted.

    Args:
        is_large: the dumps don't fit in memory.
    """
    folder = _FOLDERS.borrow(is_large)
    try:
        yield folder
    finally:
        for path in _files(folder):
            _unlink(path)
        _FOLDERS.give_back(folder, is_large)


def take(
    folder: str,
    report: Callable[[str], object],
    graph: Callable[[bytes], object] | None = None,
) -> list[SeenValue]:
    """Take over what the watches of a run wrote, in time order; the files are deleted.

    Large values stay where they are, in memory that is mapped and has no name any more.

    Args:
        folder: where the run wrote.
        report: gets a line for each file that can't be read.
        graph: gets each partition of the graph that ran, as a serialized ``GraphDef``. The
            runtime writes them when it has made a new executor.
    """
    found: list[tuple[int, int, SeenValue]] = []
    for path in _files(folder):
        base = os.path.basename(path)
        name = None if base.startswith(METADATA_PREFIX) else parse_dump_name(base)
        if name is None:
            if graph is not None and base.startswith(GRAPH_PREFIX):
                with contextlib.suppress(DumpError):
                    graph(bytes(read_event(path).graph_def or b""))
        else:
            try:
                found.append((name.timestamp, name.suffix, _read(path, name.timestamp)))
            except DumpError as error:
                report(error.message)
        _unlink(path)
    found.sort(key=lambda item: item[:2])
    return [item[2] for item in found]


def _read(path: str, timestamp: int) -> SeenValue:
    event = read_event(path, writable=False)
    tensor = event.need_tensor()
    node, slot, debug_op = parse_watch_key(event.watch_key)
    load: Callable[[], Any] = tensor.value
    if os.name == "nt":  # a file that is mapped can't be deleted there
        value = tensor.value()
        value = value.copy() if hasattr(value, "copy") else value

        def load() -> Any:
            return value

    dtype = tensor.dtype.name if tensor.dtype is not None else ""
    return SeenValue(
        node,
        slot or 0,
        debug_op,
        timestamp,
        event.device_name,
        dtype,
        tensor.shape,
        tensor.nbytes,
        load,
    )


def _files(folder: str) -> Iterator[str]:
    folders = [folder]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        yield entry.path
        except OSError:
            continue


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
