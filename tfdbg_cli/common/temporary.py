"""Temporary folders that don't outlive the process, however it ends.

Who owns a folder holds a lock on a file in it, which the system takes back at the owner's death:
whatever is found without one at a later start is nobody's. Until then a small process waits for the
death, which may be by a signal that runs nothing of ours (SIGTERM, SIGKILL); like the terminal's
watchdog it is no child of the program, and handles none of its signals.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

from tfdbg_cli.common.streams import OwnDescriptor

__all__ = ["SHARED_MEMORY", "at_death", "make_folder", "passing_folder", "remove_folder", "sweep"]

#: Where files are memory.
SHARED_MEMORY = "/dev/shm"

_PREFIX = "tfdbg-"
_OWNER = ".owner"

# Reads what is to be removed until the other end is closed (by a program that closes all it finds,
# perhaps, so it looks twice); of a token its file as well, if it is
# that token's still.
_JANITOR = """\
exec 3<&0 0</dev/null
( trap '' HUP INT TERM
  while IFS= read -r line <&3; do set -- "$@" "$line"; done
  while kill -0 "$0"; do sleep 1; done
  for line; do
    case $line in
      =*) token=${line#=}; file=${token#* }; token=${token%% *}
          IFS= read -r first <"$file" && [ "$first" = "$token" ] && rm -f -- "$file";;
      *) rm -rf -- "$line";;
    esac
  done ) >/dev/null 2>&1 &
"""

#: Descriptors of this process: the locks, and the janitor's pipe.
_locks: dict[str, OwnDescriptor] = {}
_pipes: list[OwnDescriptor] = []
#: What this process has made, and not its parent before a fork.
_made: set[str] = set()


def make_folder(parent: str | None = None) -> str:
    """An empty folder of our own; `remove_folder` removes it, or the end of the process.

    Args:
        parent: where; default: where temporary files go.
    """
    where = os.path.abspath(parent or tempfile.gettempdir())
    outer = os.path.join(where, _PREFIX + os.urandom(8).hex())
    _made.add(outer)
    at_death(outer)  # before it is there: a kill may come at any time
    os.mkdir(outer, 0o700)
    with contextlib.suppress(ImportError, OSError):  # no such system: nobody looks after it
        import fcntl

        # It is there only once it is locked.
        draft = os.path.join(outer, "draft")
        made = os.open(draft, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.write(made, str(os.getpid()).encode())
            fcntl.flock(made, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _locks[outer] = OwnDescriptor(made)
        finally:
            os.close(made)
        os.rename(draft, os.path.join(outer, _OWNER))
    folder = os.path.join(outer, "files")
    try:
        os.mkdir(folder)
    except OSError:
        remove_folder(folder)
        raise
    return folder


def remove_folder(folder: str) -> None:
    """Remove one that `make_folder` has made; in a forked child that of its parent stays."""
    outer = os.path.dirname(folder)
    if outer in _made:
        shutil.rmtree(outer, ignore_errors=True)
        _locks.pop(outer, None)
        _made.discard(outer)


@contextlib.contextmanager
def passing_folder() -> Iterator[str]:
    """An empty folder of our own, for as long as the block takes."""
    folder = make_folder()
    try:
        yield folder
    finally:
        remove_folder(folder)


def at_death(path: str, token: str = "") -> None:
    """Have something removed when this process is gone.

    Args:
        path: absolute.
        token: only if this is the first line of the file.
    """
    with contextlib.suppress(OSError, subprocess.SubprocessError):  # the next start sweeps
        if os.name != "nt" and "\n" not in path:
            if not _pipes:
                _pipes.append(_start_janitor())
            number = _pipes[0].number
            if number >= 0:
                os.write(number, (f"={token} {path}\n" if token else f"{path}\n").encode())


def _start_janitor() -> OwnDescriptor:
    reader, writer = os.pipe()
    try:
        subprocess.run(
            ["sh", "-c", _JANITOR, str(os.getpid())],
            stdin=reader,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            check=True,
        )
        return OwnDescriptor(writer)
    finally:
        os.close(reader)
        os.close(writer)


def _leave_to_parent() -> None:
    """In a forked child: all of it is its parent's."""
    _locks.clear()
    _pipes.clear()
    _made.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


def sweep() -> None:
    """Remove what dead processes of this user have left."""
    if os.name == "nt":
        return
    parents = [SHARED_MEMORY]
    with contextlib.suppress(OSError):  # no folder can be written to: every disk is full
        parents.append(tempfile.gettempdir())
    for parent in dict.fromkeys(parents):
        with contextlib.suppress(OSError), os.scandir(parent) as entries:
            for entry in entries:
                if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
                    _remove_orphan(entry.path)


def _remove_orphan(folder: str) -> None:
    import fcntl

    with contextlib.suppress(OSError):
        if os.lstat(folder).st_uid != os.getuid():
            return
        lock = os.open(os.path.join(folder, _OWNER), os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails if somebody has it
            try:
                os.kill(int(os.read(lock, 20)), 0)
            except (ProcessLookupError, ValueError, OverflowError):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
