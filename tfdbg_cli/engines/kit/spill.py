"""A file for values that there is no memory for."""

from __future__ import annotations

import tempfile
import weakref

__all__ = ["SpillFile"]


class SpillFile:
    """Values one behind the other in a file that has no name; it goes when nobody has it any more.

    Nothing waits in a buffer: what was taken can be read, whatever the disk refuses later.

    Args:
        folder: where; default: the system's for temporary files.

    Attributes:
        size: bytes of the values.

    Raises:
        OSError: there is no place for one.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._file = tempfile.TemporaryFile(prefix="tfdbg_", dir=folder, buffering=0)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self.size = 0

    def add(self, data: bytes | memoryview) -> int:
        """Write a value down.

        Args:
            data: its bytes, in one piece.

        Returns:
            Where it begins.

        Raises:
            OSError: it couldn't be written; those before it are as they were.
        """
        self._file.seek(self.size)
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]
        begin, self.size = self.size, self.size + len(data)
        return begin

    def read(self, begin: int, size: int) -> bytearray:
        """The bytes of a value.

        Raises:
            OSError: they can't be read.
        """
        data = bytearray(size)
        left = memoryview(data)
        self._file.seek(begin)
        while left and (count := self._file.readinto(left)):
            left = left[count:]
        if len(left):
            raise OSError("the file ends before the value does")
        return data

    def close(self) -> None:
        """Let go of it; nothing can be read any more."""
        self._file.close()
