"""The dumps in a tree of folders, told by listing alone."""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.joined import RANK_NAME, JoinedDump
from tfdbg_cli.dumps.open import are_of_dump, is_dump, open_dump
from tfdbg_cli.dumps.remote.shadow import Shadow
from tfdbg_cli.dumps.remote.systems import RemoteFile, inside, is_remote, remote_files

__all__ = [
    "INDEX_NAMES",
    "Folder",
    "batches",
    "find_folders",
    "joined",
    "listed",
    "opened",
    "opened_pair",
    "pairs_of",
    "state_of",
]

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
        ranks: for each of two trees the parts of a run that are joined there, to be compared with a
            run of one process; empty: it has the dump at this path.
    """

    path: str
    size: int
    state: str
    part: tuple[int, int] = (0, 1)
    ranks: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


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


@contextlib.contextmanager
def opened_pair(trees: tuple[str, str], folder: Folder) -> Iterator[tuple[Dump, Dump]]:
    """A dump of each of two trees; the parts of several ranks as one dump.

    Raises:
        UserError: one can't be opened.
    """
    with contextlib.ExitStack() as stack:

        def of(tree: str, ranks: Sequence[str]) -> Dump:
            if not ranks:
                return stack.enter_context(opened(tree, folder.path))
            return JoinedDump(
                {_rank(path): stack.enter_context(opened(tree, path)) for path in ranks}
            )

        yield of(trees[0], folder.ranks[0]), of(trees[1], folder.ranks[1])


def pairs_of(
    folders: Iterable[Folder], others: Iterable[Folder]
) -> tuple[list[Folder], list[Folder]]:
    """The dumps of a tree, each with the state of its counterpart in another one as well.

    The counterpart has the same path; else, if one of the trees has ``rank_0``, ``rank_1`` … where
    the other one has one dump, these are joined.

    Returns:
        The pairs, and what only the other tree has.
    """
    mine, there = ({each.path: each for each in side} for side in (folders, others))
    left = {path: each for path, each in there.items() if path not in mine}
    ranks = _by_run(each for path, each in mine.items() if path not in there)
    other_ranks = _by_run(left.values())
    found = []
    for path, each in mine.items():
        run = _common(path)
        if path in there:
            found.append(_pair(path, [each], [there[path]]))
        elif path in other_ranks:
            found.append(_pair(path, [each], other_ranks[path]))
            left = {other: one for other, one in left.items() if one not in other_ranks[path]}
        elif run in ranks and run in left and run not in mine:
            found.append(_pair(run, ranks.pop(run), [left.pop(run)]))
        elif run == path or run in ranks or run not in there:
            found.append(each._replace(state=f"{each.state} "))  # nothing belongs to it
    return found, list(left.values())


def _by_run(folders: Iterable[Folder]) -> dict[str, list[Folder]]:
    """The parts that ranks have of runs, by the path that such a run of one process has."""
    runs: dict[str, list[Folder]] = {}
    for each in folders:
        if _common(each.path) != each.path:
            runs.setdefault(_common(each.path), []).append(each)
    return runs


def _pair(path: str, mine: Sequence[Folder], other: Sequence[Folder]) -> Folder:
    states = " ".join(each.state for each in (*mine, *other))
    ranks = (
        tuple(each.path for each in mine if each.path != path),
        tuple(each.path for each in other if each.path != path),
    )
    return Folder(path, sum(each.size for each in mine), states, ranks=ranks)


def _common(path: str) -> str:
    """The path that a part of a run has in the other tree, where one process did it all."""
    parts = path.split("/")
    at = [number for number, part in enumerate(parts) if RANK_NAME.fullmatch(part)]
    return "/".join(part for number, part in enumerate(parts) if number != at[-1]) if at else path


def _rank(path: str) -> int:
    ranks = [found for part in path.split("/") if (found := RANK_NAME.fullmatch(part))]
    return int(ranks[-1][1])


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


class _Listing:
    """A folder at an address, with the files and folders in it."""

    def __init__(self) -> None:
        self.files: list[RemoteFile] = []
        self.inner: dict[str, _Listing] = {}

    def add(self, file: RemoteFile) -> None:
        at = self
        *folders, _ = file.name.split("/")
        for name in folders:
            at = at.inner.setdefault(name, _Listing())
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


def listed(files: Iterable[RemoteFile]) -> Iterator[Folder]:
    """As `find_folders`, of a listing."""
    root = _Listing()
    for file in files:
        root.add(file)
    yield from root.dumps("")


def _find_listed(tree: str) -> Iterator[Folder]:
    """As `find_folders`, by one listing."""
    try:
        files = [*inside(remote_files(tree).files(tree))]
    except UserError:
        raise
    except Exception as error:  # each file system has its own
        raise UserError(f"{tree} can't be listed: {one_line(error)}") from error
    yield from listed(files)
