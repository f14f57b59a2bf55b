"""The dumps in a tree of folders, told by listing alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.open import is_dump

__all__ = ["INDEX_NAME", "Folder", "batches", "find_folders"]

#: Of the index beside the dumps.
INDEX_NAME = "tfdbg-scan.jsonl"

# Less is not worth the way to another machine.
_BATCH_BYTES = 64 << 20
_MOST_IN_BATCH = 64


class Folder(NamedTuple):
    """A dump in a tree.

    Attributes:
        path: from the tree on, with ``/``; ``.``: the tree itself is a dump.
        size: of all its files, in bytes.
        state: changes when a file of it is written.
    """

    path: str
    size: int
    state: str


def find_folders(tree: str) -> Iterator[Folder]:
    """All dumps in a tree, by name; numbers in names are compared as numbers.

    Raises:
        UserError: there is no such folder.
    """
    if not os.path.isdir(tree):
        raise UserError(f"there is no folder {tree}.")
    for folder, inner, _ in os.walk(tree):
        if is_dump(folder):
            inner.clear()
            yield _seen(tree, folder)
        inner.sort(key=_in_order)


def batches(folders: Iterable[Folder]) -> Iterator[list[Folder]]:
    """Folders in pieces of work of 64 MB or more, as far as there are so many small ones."""
    batch: list[Folder] = []
    for folder in folders:
        batch.append(folder)
        if sum(each.size for each in batch) >= _BATCH_BYTES or len(batch) >= _MOST_IN_BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _in_order(name: str) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
    ]


def _seen(tree: str, folder: str) -> Folder:
    count, size, latest = 0, 0, 0
    for inside, _, names in os.walk(folder):
        for name in names:
            if name.startswith(INDEX_NAME):
                continue  # the tree is a dump itself
            try:
                found = os.stat(os.path.join(inside, name))
            except OSError:
                continue
            count, size, latest = count + 1, size + found.st_size, max(latest, found.st_mtime_ns)
    path = os.path.relpath(folder, tree).replace(os.sep, "/")
    return Folder(path, size, f"{count}-{size}-{latest}")
