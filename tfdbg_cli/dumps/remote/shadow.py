"""A folder at an address as one of this machine, whose files are fetched as they are read.

What it holds here are empty files of the right names and sizes, which take no room on most disks;
`read_file` and `read_part` of `dumps.files` know who reads them.
"""

from __future__ import annotations

import atexit
import functools
import os
import posixpath
import shutil
import tempfile
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from tfdbg_cli.common.errors import DumpError, UserError, one_line
from tfdbg_cli.common.temporary import make_folder, remove_folder
from tfdbg_cli.dumps.files import readers
from tfdbg_cli.dumps.remote.systems import (
    RemoteFile,
    RemoteFiles,
    inside,
    is_remote,
    remote_files,
)

__all__ = ["Origin", "Shadow", "fetched", "origin_of", "place_of", "shadowed"]


class Origin(NamedTuple):
    """What a folder here stands for.

    Attributes:
        address: of the folder there.
        files: in it, as they were listed.
        folder: here.
    """

    address: str
    files: Sequence[RemoteFile]
    folder: str


_origins: dict[str, Origin] = {}


class Shadow:
    """A folder at an address, as long as it isn't closed.

    Args:
        address: of the folder.
        keeps: whether what was read once stays here, on the disk, until it is closed.

    Attributes:
        folder: the folder here.

    Raises:
        UserError: there is no folder at the address, or it can't be listed.
    """

    def __init__(self, address: str, *, keeps: bool) -> None:
        files = remote_files(address)
        self._process = os.getpid()
        self._copy = tempfile.mkdtemp(dir=_place(self._process))
        name = posixpath.basename(address.rstrip("/"))
        self.folder = os.path.join(self._copy, name if name.strip(".") else "dump")
        self._paths: list[str] = []
        try:
            found = list(files.files(address))
            if not found and not files.is_folder(address):
                raise UserError(f"There is no dump at {address}: the folder doesn't exist.")
            os.makedirs(self.folder)
            # Nothing is written outside of the folder.
            listed = [*inside(found)]
            _origins[self.folder] = Origin(address.rstrip("/"), listed, self.folder)
            for each in listed:
                path = os.path.join(self.folder, *each.name.split("/"))
                try:
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with open(path, "wb") as file:
                        file.truncate(each.size)
                except (FileExistsError, IsADirectoryError, NotADirectoryError):
                    continue  # a store may have a file and a folder of one name
                there = posixpath.join(address, each.name)
                readers[path] = _Distant(files, there, path, each.size, keeps).read
                self._paths.append(path)
        except UserError:
            self.close()
            raise
        except Exception as error:  # each file system has its own
            self.close()
            raise UserError(f"{address} can't be read: {one_line(error)}") from error

    def fetch(self) -> None:
        """Make copies of all files, for those who read them in another way.

        Raises:
            DumpError: one can't be read.
        """
        for path in self._paths:
            readers.pop(path)(0, None)

    def close(self) -> None:
        """Forget it, and what was kept; in a forked child it is still its parent's."""
        _origins.pop(self.folder, None)
        for path in self._paths:
            readers.pop(path, None)
        if os.getpid() == self._process:
            shutil.rmtree(self._copy, ignore_errors=True)

    def __enter__(self) -> str:
        return self.folder

    def __exit__(self, *_: object) -> None:
        self.close()


def origin_of(path: str) -> Origin | None:
    """What the folder that a path is in stands for; ``None``: it is of this machine alone."""
    while path not in _origins:
        above = os.path.dirname(path)
        if above == path:
            return None
        path = above
    return _origins[path]


def place_of(path: str | os.PathLike[str]) -> str:
    """What to call a path to people: the address that it stands for, if there is one."""
    origin = origin_of(os.fspath(path))
    if origin is None:
        return str(path)
    inside = os.path.relpath(path, origin.folder).replace(os.sep, "/")
    return origin.address if inside == "." else f"{origin.address}/{inside}"


def shadowed(path: Any) -> Any:
    """A dump folder of this machine: that of an address, which goes with the process.

    Args:
        path: anything but an address is returned as it is.

    Raises:
        UserError: there is no folder at the address, or it can't be listed.
    """
    return path if not is_remote(path) else _shadow_of(path).folder


def fetched(path: Any) -> Any:
    """As `shadowed`, but all of it is copied.

    Raises:
        UserError: likewise, or a file can't be read.
    """
    if not is_remote(path):
        return path
    made = _shadow_of(path)
    made.fetch()
    return made.folder


def _shadow_of(address: str) -> Shadow:
    """One that goes with the process."""
    made = Shadow(address, keeps=True)
    atexit.register(made.close)
    return made


@functools.cache
def _place(process: int) -> str:
    """The folder of all shadows of this process."""
    made = make_folder()
    atexit.register(remove_folder, made)
    return made


class _Distant:
    """One file of a shadow."""

    def __init__(self, files: RemoteFiles, address: str, path: str, size: int, keeps: bool) -> None:
        self._files, self._address, self._path = files, address, path
        self._size, self._keeps = size, keeps
        self._here: set[tuple[int, int]] = set()
        self._lock = threading.Lock()

    def read(self, start: int, end: int | None) -> bytes:
        """Fetch some bytes, or read them where they are kept.

        Raises:
            DumpError: they can't be read.
        """
        end = self._size if end is None else min(end, self._size)
        if start >= end:
            return b""
        try:
            with self._lock:
                if (start, end) in self._here:
                    with open(self._path, "rb") as file:
                        file.seek(start)
                        return file.read(end - start)
                found = self._files.read(self._address, start, end)
                if self._keeps and len(found) == end - start:
                    with open(self._path, "r+b") as file:
                        file.seek(start)
                        file.write(found)
                    self._here.add((start, end))
                return found
        except Exception as error:  # each file system has its own
            raise DumpError(f"{self._address} can't be read: {one_line(error)}.") from error
