"""The dumps in a tree of folders, told by listing alone."""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.open import are_of_dump, is_dump, open_dump
from tfdbg_cli.dumps.remote.shadow import Shadow
from tfdbg_cli.dumps.remote.systems import RemoteFile, inside, is_remote, remote_files

__all__ = ["INDEX_NAMES", "Folder", "batches", "find_folders", "joined", "opened", "state_of"]

#: Of the indexes beside the dumps.
INDEX_NAMES = ("tfdbg-scan.jsonl", "tfdbg-compare.jsonl")

# Less is not worth the way to another machine.
_BATCH_BYTES = 64 << 20
_MOST_IN_BATCH = 64
# Each worker at a part of a dump reads the dump's index.
_MOST_PARTS = 64


class Folder(NamedTuple):
    """A dump in a tree, or a part of one that is a piece of work.

    Attributes:
        path: from the tree on, with ``/``; ``.``: the tree itself is a dump.
        size: of all its files, in bytes.
        state: changes when a file of it is written.
        part: which part of its tensors, and of how many.
    """

    path: str
    size: int
    state: str
    part: tuple[int, int] = (0, 1)


def find_folders(tree: str) -> Iterator[Folder]:
    """All dumps in a tree, by name; numbers in names are compared as numbers.

    Args:
        tree: a folder, or the address of one.

    Raises:
        UserError: there is no such folder.
    """
    if is_remote(tree):
        yield from _find_listed(tree)
        return
    if not os.path.isdir(tree):
        raise UserError(f"there is no folder {tree}.")
    for folder, inner, _ in os.walk(tree):
        if is_dump(folder):
            inner.clear()
            path = os.path.relpath(folder, tree).replace(os.sep, "/")
            yield Folder(path, *state_of(folder))
        inner.sort(key=_in_order)


def joined(tree: str, path: str) -> str:
    """The folder of a path in a tree."""
    return (posixpath if is_remote(tree) else os.path).join(tree, path) if path != "." else tree


@contextlib.contextmanager
def opened(tree: str, path: str) -> Iterator[Dump]:
    """A dump of a tree; of one at an address only what is asked for is fetched.

    Raises:
        UserError: it can't be opened.
    """
    place = joined(tree, path)
    with Shadow(place, keeps=False) if is_remote(tree) else contextlib.nullcontext(place) as folder:
        dump = open_dump(folder, validate=False)
        try:
            yield dump
        finally:
            dump.close()


def batches(folders: Iterable[Folder], *, has_parts: bool) -> Iterator[list[Folder]]:
    """Folders in pieces of work of 64 MB or more, as far as there are so many small ones.

    Args:
        folders: those to do.
        has_parts: whether several workers may do a large one.
    """
    batch: list[Folder] = []
    for folder in folders:
        parts = min(folder.size // _BATCH_BYTES, _MOST_PARTS) if has_parts else 1
        if parts > 1:
            size = folder.size // parts
            yield from ([folder._replace(size=size, part=(at, parts))] for at in range(parts))
            continue
        batch.append(folder)
        if sum(each.size for each in batch) >= _BATCH_BYTES or len(batch) >= _MOST_IN_BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def state_of(folder: str) -> tuple[int, str]:
    """The bytes of a dump's files, and a text that changes when one is written."""
    count, size, latest = 0, 0, 0
    for place, _, names in os.walk(folder):
        for name in names:
            if name.startswith(INDEX_NAMES):
                continue  # the tree is a dump itself
            try:
                found = os.stat(os.path.join(place, name))
            except OSError:
                continue
            count, size, latest = count + 1, size + found.st_size, max(latest, found.st_mtime_ns)
    return size, f"{count}-{size}-{latest}"


def _in_order(name: str) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
    ]


class _Listed:
    """A folder at an address, with the files and folders in it."""

    def __init__(self) -> None:
        self.files: list[RemoteFile] = []
        self.inner: dict[str, _Listed] = {}

    def add(self, file: RemoteFile) -> None:
        at = self
        *folders, _ = file.name.split("/")
        for name in folders:
            at = at.inner.setdefault(name, _Listed())
        at.files.append(file)

    def all_files(self) -> Iterator[RemoteFile]:
        waiting = [self]
        while waiting:
            folder = waiting.pop()
            yield from folder.files
            waiting += reversed(folder.inner.values())

    def dumps(self, path: str) -> Iterator[Folder]:
        names = {posixpath.basename(file.name) for file in self.files}
        if are_of_dump(names | set(self.inner)):
            files = [
                each
                for each in self.all_files()
                if not posixpath.basename(each.name).startswith(INDEX_NAMES)
            ]
            size = sum(each.size for each in files)
            stamps = zlib.crc32("\n".join(f"{each.name} {each.stamp}" for each in files).encode())
            yield Folder(path or ".", size, f"{len(files)}-{size}-{stamps}")
            return
        for name in sorted(self.inner, key=_in_order):
            yield from self.inner[name].dumps(f"{path}/{name}" if path else name)


def _find_listed(tree: str) -> Iterator[Folder]:
    """As `find_folders`, by one listing."""
    root = _Listed()
    try:
        for file in inside(remote_files(tree).files(tree)):
            root.add(file)
    except UserError:
        raise
    except Exception as error:  # each file system has its own
        raise UserError(f"{tree} can't be listed: {one_line(error)}") from error
    yield from root.dumps("")
