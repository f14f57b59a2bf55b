"""Dump roots at addresses that TensorFlow's file systems know."""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Iterable, Sequence

from tfdbg_cli.dumps.remote.systems import RemoteFile, RemoteFiles

__all__ = ["files_at"]


# A program that has imported it may have added others.
_KNOWN = ("gs://", "hdfs://", "viewfs://", "har://", "ram://")


class _GFiles:
    """What TensorFlow knows: ``gs://``, ``hdfs://``, ``ram://``."""

    def __init__(self, address: str) -> None:
        if "tensorflow" not in sys.modules and not address.startswith(_KNOWN):
            raise ValueError("it has no such file system")  # to ask it, it takes seconds to import
        from tensorflow.python.lib.io import file_io

        self._io = file_io
        self.exists(address)

    def exists(self, address: str) -> bool:
        return bool(self._io.file_exists_v2(address))

    def is_folder(self, address: str) -> bool:
        return bool(self._io.is_directory_v2(address))

    def names(self, address: str) -> Sequence[str]:
        # Some file systems mark folders with a slash.
        return [name.rstrip("/") for name in self._io.list_directory_v2(address)]

    def files(self, address: str) -> Iterable[RemoteFile]:
        for folder, _, names in self._io.walk_v2(address):
            for name in names:
                path = posixpath.join(folder, name)
                found = self._io.stat_v2(path)
                below = path.removeprefix(address.rstrip("/")).lstrip("/")
                yield RemoteFile(below, int(found.length), str(found.mtime_nsec))

    def read(self, address: str, start: int, end: int) -> bytes:
        with self._io.FileIO(address, "rb") as file:
            file.seek(start)
            return bytes(file.read(end - start))

    def make_folder(self, address: str) -> None:
        self._io.recursive_create_dir_v2(address)

    def get(self, address: str, path: str) -> None:
        self._io.copy_v2(address, path, overwrite=True)

    def put(self, path: str, address: str) -> None:
        self._io.copy_v2(path, address, overwrite=True)


def files_at(address: str) -> RemoteFiles:
    """The file system of an address.

    Raises:
        Exception: TensorFlow knows none.
    """
    return _GFiles(address)
