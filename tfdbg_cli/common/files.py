"""Files that are replaced whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tfdbg_cli.common.errors import UserError, one_line

__all__ = ["lines_of", "replacing"]


@contextlib.contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of ``path`` when the block ends well, and only then.

    Something that is no regular file (``/dev/stderr``, a FIFO) is written to directly. Of a link,
    the file that it points to is replaced.

    Raises:
        OSError: the file can't be written.
        ValueError: ``path`` is no path.
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
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


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
