"""The folders that the runs of a dumping session are written to, and how much they may take."""

from __future__ import annotations

import atexit
import os
import posixpath
import threading
import time
from typing import Any

from tfdbg_cli.common import temporary
from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.common.streams import tell
from tfdbg_cli.dumps.files import make_folder
from tfdbg_cli.dumps.remote.systems import deliver, is_remote, remote_files
from tfdbg_cli.dumps.tfdbg_dir.writer import write_request_info

__all__ = ["DISK_LIMIT", "RunFolders"]

#: The environment variable with the bytes that the dumps of a session may take.
DISK_LIMIT = "TFDBG_DISK_BYTES_LIMIT"
_DEFAULT_DISK_LIMIT = 100 << 30


def _disk_limit() -> int:
    try:
        return int(os.environ.get(DISK_LIMIT, ""))
    except ValueError:
        return _DEFAULT_DISK_LIMIT


class RunFolders:
    """One session's runs, a folder each, ``run_<microseconds since the epoch>_<number from 0>``.

    Args:
        root: the folder above them; made if it doesn't exist. It may be an address
            (``gs://bucket/runs``): a run is copied there as soon as it is written.

    Attributes:
        root: the same.
        limit: bytes that the tensors of all runs may take.

    Raises:
        ValueError: it is a file, or a folder that isn't empty.
        OSError: it can't be made.
        UserError: an address can't be reached.
    """

    def __init__(self, root: str) -> None:
        self._here = ""  # where the runs of an address are written first
        if is_remote(root):
            self._here = _remote_root(root)
        elif os.path.exists(root := os.path.expanduser(root)):
            if not os.path.isdir(root):
                raise ValueError(f"session_root path points to a file: {root}")
            if os.listdir(root):
                raise ValueError(f"session_root path points to a non-empty directory: {root}")
        else:
            os.makedirs(root)
        self.root = root
        self.limit = _disk_limit()
        self._left = self.limit
        self._count = 0
        self._reported: set[str] = set()
        self._lock = threading.Lock()

    def new(self, fetches: Any, feed_dict: Any) -> str:
        """Make the folder of a run and note in it what the run is asked for.

        Raises:
            UserError: the file system doesn't allow it.
        """
        with self._lock:
            number = self._count
            self._count += 1
        folder = os.path.join(self._here or self.root, f"run_{time.time_ns() // 1000}_{number}")
        make_folder(folder)
        feeds = repr(feed_dict.keys()) if feed_dict else repr(feed_dict)
        write_request_info(folder, repr(fetches), feeds)
        self.written(folder)
        return folder

    def written(self, folder: str) -> None:
        """What was written to a run's folder until now is to stay.

        Raises:
            UserError: it can't be copied to where it belongs.
        """
        if self._here:
            deliver(folder, posixpath.join(self.root, os.path.basename(folder)))

    @property
    def is_full(self) -> bool:
        """Whether the limit was reached."""
        return self._left <= 0

    def allow(self, size: int) -> bool:
        """Whether a file of so many bytes may be written; counts it."""
        with self._lock:
            if size > self._left:
                self._left = 0
                return False
            self._left -= size
            return True

    def report(self, kind: str, text: str) -> None:
        """Say something on stderr, the first time that there is something of this kind to say."""
        with self._lock:
            if kind in self._reported:
                return
            self._reported.add(kind)
        tell(text)


def _remote_root(root: str) -> str:
    """Make the folder at an address; the folder of this machine to write to first.

    Raises:
        ValueError, UserError: as for `RunFolders`.
    """
    files = remote_files(root)
    try:
        if not files.exists(root):
            files.make_folder(root)
        elif not files.is_folder(root):
            raise ValueError(f"session_root path points to a file: {root}")
        elif files.names(root):
            raise ValueError(f"session_root path points to a non-empty directory: {root}")
    except ValueError:
        raise
    except Exception as error:  # each file system has its own
        raise UserError(f"{root} can't be made: {one_line(error)}") from error
    here = temporary.make_folder()
    atexit.register(temporary.remove_folder, here)
    return here
