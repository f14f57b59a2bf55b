"""A file for values that there is no memory for."""

from __future__ import annotations

import tempfile
import weakref
from typing import ClassVar

from tfdbg_cli.common.memory import spare_memory
from tfdbg_cli.common.streams import tell

__all__ = ["SizeWarning", "SpillFile"]


# Values that are no matter, whatever memory there is.
_SMALL = 1 << 26


class SizeWarning:
    """Tells once that values of a run take more than a quarter of the memory that was left.

    Args:
        limit: bytes in memory, beyond which values go to disk; ``None``: they don't.
    """

    is_told: ClassVar[bool] = False

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._look_at = _SMALL

    def see(self, held: int) -> None:
        """So many bytes are held by now, or are about to be."""
        if held <= self._look_at or SizeWarning.is_told:
            return
        quarter = (held + spare_memory(4 * held)) // 4
        self._look_at = quarter
        if held > quarter:
            SizeWarning.is_told = True
            disk = f"; values above {self._limit / 1e9:.1f} GB goes to disk" if self._limit else ""
            tell(
                f"the values of this run take {held / 1e9:.1f} GB by now, more than a quarter of "
                f"the memory that was left{disk}. config set level ops holds only bad values."
            )


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
