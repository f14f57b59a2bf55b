"""Files that are replaced whole or not at all, and files that are read without being asked for."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tfdbg_cli.common.errors import UserError, one_line

__all__ = [
    "RefusedError",
    "lines_of",
    "near_path",
    "open_at_once",
    "read_plain",
    "replacing",
    "written",
]


@contextlib.contextmanager
def replacing(path: str, *, is_private: bool = False) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of ``path`` when the block ends well, and only then.

    Something that is not a regular file (``/dev/stderr``, a FIFO) is written to directly. If it is
    a link, the file that it points to is replaced.

    Args:
        path: of the file.
        is_private: nobody but the user may read it.

    Raises:
        OSError: the file can't be written.
        ValueError: ``path`` is not a path.
    """
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        with open(path, "wb") as file:
            yield file
        return
    target = os.path.realpath(path)
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".tfdbg-")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        if not is_private:  # as it is now
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def written(path: str, hint: str = "") -> Iterator[None]:
    """Say in the user's words what is wrong with a path that is written to.

    Args:
        path: as it was named.
        hint: what to do where it can't be written.

    Raises:
        UserError: instead of an OSError or ValueError.
    """
    try:
        yield
    except OSError as error:
        raise UserError(f"{path} can't be written: {error.strerror or error}.", hint) from None
    except ValueError as error:  # a NUL, or what no file name can be
        raise UserError(f'"{path}" is not a path: {error}.') from None


class RefusedError(OSError):
    """A file that isn't read without being asked for."""


def open_at_once(path: str, flags: int) -> int:
    """An opener for `open` that waits for nobody, were it a FIFO."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_plain(path: str | os.PathLike[str], most: int, *, is_end: bool = False) -> bytes:
    """The bytes of a file that nobody has asked for by name: it may be anything.

    Args:
        path: a plain file, or a link to one: never a device or a FIFO, which have no end.
        most: bytes.
        is_end: of a larger file its end is read.

    Raises:
        RefusedError: it is not a plain file, or larger.
        OSError: it can't be read.
        ValueError: ``path`` is not a path.
    """
    with open(path, "rb", opener=open_at_once) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise RefusedError(errno.EINVAL, "it is not a plain file")
        if status.st_size > most:
            if not is_end:
                raise RefusedError(errno.EFBIG, f"it has more than {most} bytes")
            file.seek(-most, os.SEEK_END)
        return file.read(min(most, status.st_size) or most)


def lines_of(path: str) -> list[str]:
    """The lines of a file that somebody has named.

    Raises:
        UserError: it can't be read.
    """
    try:
        return Path(path).expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or one_line(error)
        raise UserError(f"{path} can't be read: {why}.") from None


def near_path(path: str) -> str:
    """A path as it is seen from the working directory; one outside of it as it is."""
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):  # the folder is gone; another drive
        return path
    return os.path.normpath(path) if relative.startswith("..") else relative
