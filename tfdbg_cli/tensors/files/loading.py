"""Arrays from a file of somebody else's, .npy or .npz: judged before their values are read."""

from __future__ import annotations

import contextlib
import io
import math
import os
import stat
import zipfile
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import numpy as np

from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.common.files import open_at_once
from tfdbg_cli.common.interpreter.unwarned import unwarned
from tfdbg_cli.dumps.dtypes import name_of

__all__ = ["ArrayFile", "Header", "open_arrays"]

_Array = np.ndarray[Any, Any]

# NumPy refuses headers of more than 10,000 bytes, but reads as many as they say that they have.
_LONGEST_HEADER = 1 << 14
# What NumPy writes into an archive, and how many bytes one byte of it can stand for: of deflate, by
# zlib's own bound.
_PACKED = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1032}


class Header(NamedTuple):
    """What a file says of an array.

    Attributes:
        dtype: of the elements.
        shape: sizes.
        nbytes: of the values in memory.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    nbytes: int


class ArrayFile:
    """An open file of arrays.

    Args:
        file: it, at its beginning.
        path: what to call it.

    Attributes:
        names: of its arrays; ``None``: it is a single one, whose name is "".
    """

    def __init__(self, file: IO[bytes], path: str) -> None:
        self._file = file
        self._path = path
        self._size = os.fstat(file.fileno()).st_size
        self._archive: zipfile.ZipFile | None = None
        self.names: list[str] | None = None
        if file.read(2) == b"PK":
            with self._reading(""):
                self._archive = zipfile.ZipFile(file)
            members = self._archive.namelist()
            self.names = [*dict.fromkeys(name.removesuffix(".npy") for name in members)]

    def header(self, name: str = "") -> Header:
        """What it says of an array, of which no value is read.

        Raises:
            UserError: it is damaged, or what it says can't be.
        """
        with self._reading(name), self._member(name) as (member, size):
            # No more is read than NumPy takes, whatever length the header says that it has.
            start = io.BytesIO(member.read(_LONGEST_HEADER))
            dtype, shape = _parsed(start)
            nbytes = math.prod(shape) * dtype.itemsize
            there = size - start.tell()
            if nbytes > there:
                raise UserError(
                    f"{name_of(dtype)} {list(shape)} needs {nbytes:,} bytes, and {there:,} are "
                    "there."
                )
        return Header(dtype, shape, nbytes)

    def load(self, name: str = "") -> _Array:
        """An array; whether there is room for it, `common.memory.check_room` tells.

        Raises:
            UserError: it is damaged.
        """
        self.header(name)
        with self._reading(name), self._member(name) as (member, _):
            found: _Array = np.lib.format.read_array(member, allow_pickle=False)
        return found

    @contextlib.contextmanager
    def _member(self, name: str) -> Iterator[tuple[IO[bytes], int]]:
        """An array as it was saved, and how many bytes that has."""
        if self._archive is None:
            self._file.seek(0)
            yield self._file, self._size
            return
        members = self._archive.NameToInfo
        found = members.get(f"{name}.npy") or members[name]
        most = _PACKED.get(found.compress_type)
        if most is None:
            raise UserError("it is compressed in a way that NumPy doesn't write.")
        if found.file_size > most * min(found.compress_size, self._size):
            raise UserError(f"{found.file_size:,} bytes can't be in {found.compress_size:,}.")
        with self._archive.open(found) as member:
            yield member, found.file_size

    @contextlib.contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        """What damaged files lead to is said in one line; what NumPy warns of concerns nobody."""
        what = f"{name} in {self._path}" if name else self._path
        try:
            with unwarned():
                yield
        except UserError as error:
            raise UserError(f"{what} can't be read: {error.message}") from None
        except Exception as error:
            raise UserError(f"{what} can't be read: {one_line(error)}.") from error


def _parsed(file: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """The element type and shape of a header; the file is behind it then."""
    version = np.lib.format.read_magic(file)
    # The third version is the second with names of fields in UTF-8.
    older = version == (1, 0)
    read = np.lib.format.read_array_header_1_0 if older else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise UserError(
            "it holds Python objects, which only unpickling gives: nothing is unpickled."
        )
    # NumPy itself writes the shape of elements that have one with the array's.
    if min(shape, default=0) < 0 or not dtype.itemsize or dtype.shape:
        raise UserError(f"there is no array of {name_of(dtype)} {list(shape)}.")
    return dtype, shape


@contextlib.contextmanager
def open_arrays(path: str) -> Iterator[ArrayFile]:
    """Open a file of arrays.

    Args:
        path: a plain file: a device or a FIFO has no end.

    Raises:
        UserError: there is none, or it is damaged.
    """
    with contextlib.ExitStack() as files:
        try:
            file = files.enter_context(open(path, "rb", opener=open_at_once))
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or one_line(error)
            raise UserError(f"{path} can't be read: {why}.") from None
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UserError(f"{path} can't be read: it is not a plain file.")
        yield ArrayFile(file, path)
