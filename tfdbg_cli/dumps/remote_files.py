"""Dump roots that are addresses (``gs://bucket/runs``) and no folders of this machine.

Files are copied: what is written goes there file by file as it is finished, what is read is
fetched once. A framework's own file systems do it where one is installed that has some
(`EngineTraits.files`), else ``fsspec``.
"""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import os
import posixpath
import re
import shutil
import tempfile
from collections.abc import Sequence
from typing import Any, Protocol

from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.common.traits import all_traits

__all__ = ["RemoteFiles", "deliver", "fetched", "is_remote", "remote_files"]

# A drive letter of Windows is no scheme.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


class RemoteFiles(Protocol):
    """What dumps need of a file system; addresses are whole, with their scheme."""

    def exists(self, address: str) -> bool:
        """Whether there is a file or a folder."""

    def is_folder(self, address: str) -> bool:
        """Whether there is a folder."""

    def names(self, address: str) -> Sequence[str]:
        """The names in a folder."""

    def make_folder(self, address: str) -> None:
        """Make a folder and those above it, as far as they aren't there."""

    def get(self, address: str, path: str) -> None:
        """Copy a file to this machine."""

    def put(self, path: str, address: str) -> None:
        """Copy a file from this machine."""


def is_remote(path: Any) -> bool:
    """Whether a dump root is an address and no path of this machine."""
    return isinstance(path, str) and _SCHEME.match(path) is not None


class _Fsspec:
    def __init__(self, address: str) -> None:
        import fsspec

        self._system: Any = fsspec.core.url_to_fs(address)[0]

    def exists(self, address: str) -> bool:
        return bool(self._system.exists(address))

    def is_folder(self, address: str) -> bool:
        return bool(self._system.isdir(address))

    def names(self, address: str) -> Sequence[str]:
        found = self._system.ls(address, detail=False)
        return [posixpath.basename(str(each).rstrip("/")) for each in found]

    def make_folder(self, address: str) -> None:
        self._system.makedirs(address, exist_ok=True)

    def get(self, address: str, path: str) -> None:
        self._system.get_file(address, path)

    def put(self, path: str, address: str) -> None:
        self._system.put_file(path, address)


def remote_files(address: str) -> RemoteFiles:
    """The file system of an address.

    Raises:
        UserError: no framework that is installed knows it, nor does fsspec.
    """
    problems = []
    known = [(traits.package, traits.files) for traits in all_traits() if traits.files]
    for package, target in (*known, ("fsspec", f"{__name__}:_Fsspec")):
        if importlib.util.find_spec(package) is None:
            problems.append(f"{package} is not installed")
            continue
        module, _, kind = target.partition(":")
        try:
            found: RemoteFiles = getattr(importlib.import_module(module), kind)(address)
            return found
        except Exception as error:  # that doesn't know it
            problems.append(f"{package}: {one_line(error)}")
    raise UserError(
        f"{address} can't be reached: {'; '.join(problems)}.",
        "Name a folder, or install fsspec with what it needs for this address.",
    )


def deliver(folder: str, address: str) -> None:
    """Copy what is in a folder of this machine to an address and remove it here.

    Raises:
        UserError: it can't be copied.
    """
    files = remote_files(address)
    try:
        for where, _, names in os.walk(folder):
            below = os.path.relpath(where, folder).replace(os.sep, "/")
            there = address if below == "." else posixpath.join(address, below)
            if names:
                files.make_folder(there)
            for name in names:
                path = os.path.join(where, name)
                files.put(path, posixpath.join(there, name))
                os.remove(path)
    except Exception as error:  # each file system has its own
        raise UserError(f"{address} can't be written: {one_line(error)}") from error


def fetched(path: Any) -> Any:
    """A dump folder of this machine: a copy of one at an address, which goes with the process.

    Args:
        path: anything but an address is returned as it is.

    Raises:
        UserError: there is no folder at the address, or it can't be read.
    """
    if not is_remote(path):
        return path
    files = remote_files(path)
    copy = tempfile.mkdtemp(prefix="tfdbg_")
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    folder = os.path.join(copy, posixpath.basename(path.rstrip("/")) or "dump")
    try:
        if not files.is_folder(path):
            raise UserError(f"There is no dump at {path}: the folder doesn't exist.")
        pending = [(path, folder)]
        while pending:
            address, here = pending.pop()
            os.makedirs(here, exist_ok=True)
            for name in files.names(address):
                if not name or name in (".", "..") or "/" in name or os.sep in name:
                    continue  # nothing is written outside of the copy
                there, target = posixpath.join(address, name), os.path.join(here, name)
                if files.is_folder(there):
                    pending.append((there, target))
                else:
                    files.get(there, target)
    except UserError:
        raise
    except Exception as error:  # each file system has its own
        raise UserError(f"{path} can't be read: {one_line(error)}") from error
    return folder
