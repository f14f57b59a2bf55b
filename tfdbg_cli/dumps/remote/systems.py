"""Dump roots that are addresses (``gs://bucket/runs``) and no folders of this machine.

What is written goes there file by file as it is finished; for what is read see `shadow`. The file
systems of a framework that the program uses do it, where it has some (`EngineTraits.files`); else
``fsspec``; else those of one that is installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import posixpath
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.common.traits import all_traits

__all__ = ["RemoteFile", "RemoteFiles", "deliver", "inside", "is_remote", "remote_files"]

# A drive letter of Windows is not a scheme.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
# What fsspec's file systems call it; those of object stores first.
_STAMPS = ("ETag", "etag", "mtime", "LastModified", "last_modified", "updated", "created")


# What no part of a name can have here: it would lead elsewhere, or to no file at all.
_MARKS = ("\0", os.sep) if os.sep == "/" else ("\0", os.sep, ":")
# Bytes of a name in object stores, and of a part of one on file systems.
_LONGEST, _LONGEST_PART = 1024, 255


class RemoteFile(NamedTuple):
    """A file at an address.

    Attributes:
        name: from the address on, with ``/``.
        size: in bytes.
        stamp: another one when it was written to.
    """

    name: str
    size: int
    stamp: str


class RemoteFiles(Protocol):
    """What dumps need of a file system; addresses are whole, with their scheme."""

    def exists(self, address: str) -> bool:
        """Whether there is a file or a folder."""

    def is_folder(self, address: str) -> bool:
        """Whether there is a folder."""

    def names(self, address: str) -> Sequence[str]:
        """The names in a folder."""

    def files(self, address: str) -> Iterable[RemoteFile]:
        """All files in a folder and those in it."""

    def read(self, address: str, start: int, end: int) -> bytes:
        """Some bytes of a file; no others are fetched."""

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

    def files(self, address: str) -> Iterable[RemoteFile]:
        root = str(self._system._strip_protocol(address)).rstrip("/")
        found = self._system.find(address, detail=True)
        for path, info in sorted(found.items()):
            stamp = next((info[key] for key in _STAMPS if info.get(key) is not None), "")
            yield RemoteFile(path[len(root) :].lstrip("/"), int(info["size"] or 0), str(stamp))

    def read(self, address: str, start: int, end: int) -> bytes:
        return bytes(self._system.cat_file(address, start=start, end=end))

    def make_folder(self, address: str) -> None:
        self._system.makedirs(address, exist_ok=True)

    def get(self, address: str, path: str) -> None:
        self._system.get_file(address, path)

    def put(self, path: str, address: str) -> None:
        self._system.put_file(path, address)


def inside(files: Iterable[RemoteFile]) -> Iterator[RemoteFile]:
    """The files of a listing whose names a folder of this machine can have, and keep inside."""
    for file in files:
        try:
            is_short = len(file.name.encode()) <= _LONGEST
        except UnicodeError:  # half of a character
            continue
        if is_short and all(map(_is_name, file.name.split("/"))):
            yield file


def _is_name(part: str) -> bool:
    is_short = len(part.encode()) <= _LONGEST_PART
    return is_short and part not in ("", ".", "..") and not any(mark in part for mark in _MARKS)


def remote_files(address: str) -> RemoteFiles:
    """The file system of an address.

    Raises:
        UserError: no framework that is installed knows it, nor does fsspec.
    """
    problems = []
    known = list(
        {
            traits.files: (traits.package, traits.files) for traits in all_traits() if traits.files
        }.values()
    )
    # A framework that the program doesn't use is imported for it last: that takes seconds.
    known.append(("fsspec", f"{__name__}:_Fsspec"))
    known.sort(key=lambda each: (each[0] not in sys.modules, each[0] != "fsspec"))
    for package, target in known:
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
        "Name a folder, or install fsspec and its package for this address.",
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
