"""Reading files through memory maps and writing them in one step."""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from tfdbg_cli.common.errors import DumpError, UserError
from tfdbg_cli.common.files import open_at_once

__all__ = [
    "Chunk",
    "Reader",
    "is_inside",
    "make_folder",
    "read_file",
    "read_part",
    "readers",
    "write_error",
    "write_file",
]

#: Bytes as they come: what a file is written from without joining them first.
Chunk = bytes | bytearray | memoryview

#: Gives the bytes of a file from one offset to another; ``None``: to its end.
Reader = Callable[[int, int | None], Chunk]

#: Who reads files that lie elsewhere, by the paths of the empty ones that stand for them here.
readers: dict[str, Reader] = {}

# A read is faster than a map for anything that a few pages hold.
_MAP_FROM = 1 << 16


def is_inside(path: str | os.PathLike[str], root: str | os.PathLike[str]) -> bool:
    """Whether a path leads to something in a folder, links followed."""
    try:
        real, top = os.path.realpath(path), os.path.realpath(root)
        return os.path.commonpath([real, top]) == top
    except (OSError, ValueError):
        return False


def read_file(
    path: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    *,
    writable: bool = True,
) -> memoryview:
    """The bytes of a file; those of a large one are mapped, so that only what is used is read.

    What is written to the view never reaches the file.

    Args:
        path: a plain file, or a link to one: never a device or a FIFO, which have no end.
        root: the folder that it must be in, also after links were followed.
        writable: whether somebody may want to write to the view. What could be written to counts
            for the system's limits as if it had been.

    Raises:
        DumpError: the file is missing or can't be read.
    """
    reader = readers.get(os.fspath(path))
    if reader is not None:
        return memoryview(bytearray(reader(0, None)))
    try:
        is_own = root is None or (os.path.dirname(path) == root and not os.path.islink(path))
        if not (is_own or is_inside(path, root or "")):
            raise DumpError(f"{path} leads out of the dump.")
        # A FIFO isn't waited for.
        with open(path, "rb", buffering=0, opener=open_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise DumpError(f"{path} is not a plain file.")
            if status.st_size < _MAP_FROM:
                return memoryview(bytearray(file.read(status.st_size)))
            access = mmap.ACCESS_COPY if writable else mmap.ACCESS_READ
            return memoryview(mmap.mmap(file.fileno(), 0, access=access))
    except FileNotFoundError:
        raise DumpError(f"{path} is gone.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DumpError(f"{path} can't be read: {reason}.") from None


def read_part(
    path: str | os.PathLike[str], root: str | os.PathLike[str] | None, start: int, end: int
) -> memoryview:
    """The bytes of a file from one offset to another: no others of a file elsewhere are fetched.

    Args:
        path, root: as for `read_file`.
        start, end: offsets; fewer bytes are given where the file ends before.

    Raises:
        DumpError: as `read_file`.
    """
    reader = readers.get(os.fspath(path))
    if reader is not None:
        return memoryview(bytearray(reader(start, end)))
    return read_file(path, root)[start:end]


def write_error(path: str | os.PathLike[str], error: OSError) -> UserError:
    """What to tell a user when a file of a dump can't be written."""
    reason = error.strerror or str(error)
    return UserError(
        f"Can't write {os.fspath(path)}: {reason}.",
        "Free some space or choose another folder.",
    )


def make_folder(path: str | os.PathLike[str]) -> None:
    """Make a folder and those above it.

    Raises:
        UserError: the file system doesn't allow it.
    """
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise write_error(path, error) from error


def write_file(path: str | os.PathLike[str], chunks: Iterable[Chunk]) -> int:
    """Write a file whole or not at all: readers never see a part of it.

    Args:
        path: where; a file of this name is replaced. Its folder must exist.
        chunks: the bytes.

    Returns:
        How many bytes were written.

    Raises:
        UserError: the disk is full or the path can't be written to.
    """
    target = Path(path)
    temporary = target.with_name(f".tmp-{os.getpid()}-{threading.get_ident()}")
    size = 0
    try:
        with open(temporary, "wb") as file:
            for chunk in chunks:
                size += file.write(chunk)
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise write_error(target, error) from error
        raise
    return size
