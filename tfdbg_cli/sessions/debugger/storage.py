"""Where dumps go: memory, or run folders for what is large or meant to stay."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

from tfdbg_cli.common.errors import UserError, one_line, related
from tfdbg_cli.common.interpreter.program_signals import contained, pass_on
from tfdbg_cli.common.memory import spare_memory
from tfdbg_cli.common.streams import tell
from tfdbg_cli.common.temporary import make_folder, remove_folder
from tfdbg_cli.dumps import files
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.joined import JoinedDump, rank_name
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.remote.systems import is_remote
from tfdbg_cli.dumps.run_folder.states import States

__all__ = ["DumpStore", "check_dump_root"]

# Bytes of memory that are left where nothing is known of it.
_UNKNOWN = 8 << 30
# Seconds for which the limit holds that the spare memory sets.
_RENEWED_AFTER = 0.1


def check_dump_root(path: str) -> None:
    """Whether a folder may be used for dumps.

    Raises:
        ValueError: it is a file, or a folder that isn't empty.
    """
    if os.path.isfile(path):
        raise ValueError(f"dump_root path points to a file: {path}")
    if os.path.isdir(path) and os.listdir(path):
        raise ValueError(f"dump_root path points to a non-empty directory: {path}")


class DumpStore:
    """Keeps the dumps of a program's runs within bounds.

    Args:
        root: where run folders are made; default: a temporary folder, made when first needed.
        keep: whether the dumps of runs that stopped stay after the program's end.
        limit: bytes of tensors held in memory per run; default: half of what is left by then.
        as_directory: what stays is written in the original's format, for TensorFlow's own tools.
        digest: of what stays there are hashes and statistics, but no values.
        rank: of this process, where it is one of several: its runs go to a folder ``rank_<rank>``
            below the root.

    Attributes:
        has_failed: whether a dump that was to stay could not be kept.
        kept_count: how many were.
        limit: of the last run, see `renew_limit`.
        number: names the folder of the next run that is written; 0: they are counted. The ranks
            give the parts of one run the same number.

    Raises:
        UserError: ``root`` is a file.
    """

    def __init__(
        self,
        root: str | None = None,
        keep: bool = False,
        limit: int | None = None,
        rank: int | None = None,
        as_directory: bool = False,
        digest: bool = False,
    ) -> None:
        if is_remote(root):
            raise UserError(f"--dump-root {root} is an address.", "Name a folder.")
        if root is not None and os.path.exists(root) and not os.path.isdir(root):
            raise UserError(f"--dump-root {root} is a file.", "Name a folder.")
        self.root = root
        self.keep = keep
        self._given_limit = limit
        self._renew_at = 0.0
        self.limit = self.renew_limit()
        self.rank = rank
        self.as_directory, self.digest = as_directory, digest
        self.has_failed = False
        self.kept_count = 0
        self._causes: set[int | str] = set()
        self._untold = 0
        self.number = 0
        self._temporary: str | None = None
        self._guest_of: str | None = None
        self._spilled: list[tuple[Dump, Path]] = []
        self._kept: tuple[weakref.ref[Dump], Path] | None = None
        self._count = 0

    def renew_limit(self) -> int:
        """A run begins: the bytes of its tensors that may be in memory."""
        given, now = self._given_limit, time.monotonic()
        if given is not None:
            self.limit = given
        elif now >= self._renew_at:  # the system takes longer to tell than a small run
            self._renew_at = now + _RENEWED_AFTER
            self.limit = spare_memory(_UNKNOWN) // 2
        return self.limit

    def shared_root(self) -> Path:
        """The folder below which all ranks put their runs."""
        if self.root is not None or self.keep:
            return Path(self.root or "tfdbg_dumps").absolute()
        if self._guest_of is not None:
            return Path(self._guest_of)
        if self._temporary is None:
            self._temporary = make_folder()
        return Path(self._temporary)

    def use_root(self, path: str) -> None:
        """Put temporary dumps below a folder of another rank, which removes it in the end.

        Where it isn't there, because the other rank is on another machine, ours is used.
        """
        if self._temporary is None and os.path.isdir(path):
            self._guest_of = path

    @property
    def _spills_stay(self) -> bool:
        """Whether a run folder that was written for want of memory is what is kept."""
        return self.keep and not self.as_directory and not self.digest

    def _folder(self, name: str = "run") -> Path:
        base = self.shared_root()
        if self.rank is not None:
            base = base / rank_name(self.rank)
        files.make_folder(base)
        if self.number:
            path = base / f"{name}_{self.number:06d}"
            others = (path.with_name(f"{path.name}_{again}") for again in itertools.count(2))
            return path if not path.exists() else next(p for p in others if not p.exists())
        while True:
            self._count += 1
            path = base / f"{name}_{self._count:06d}"
            if not path.exists():
                return path

    def on_disk(self, dump: Dump) -> Path:
        """The run folder that holds a dump, which is written unless it was.

        Raises:
            UserError: it can't be written.
            OSError: likewise.
        """
        for known, path in self._spilled:
            if known is dump:
                return path
        if self._kept is not None and self._kept[0]() is dump:
            return self._kept[1]
        from tfdbg_cli.dumps.run_folder.dump import write_run_folder

        path = self._folder()
        with _whole(path):
            write_run_folder(dump, path)
        self._spilled.append((dump, path))
        return path

    def bound(self, dump: MemoryDump, states: States | None = None) -> tuple[Dump, str]:
        """The dump, in memory if it is small enough, else as a run folder.

        Args:
            dump: of a run.
            states: of the runs of its session.

        Returns:
            The dump to go on with, and a note for the user where one is due.
        """
        size = dump.nbytes
        if size <= self.limit:
            return dump, ""
        from tfdbg_cli.dumps.run_folder.dump import RunFolderDump, write_run_folder

        try:
            path = self._folder("spilled" if self.as_directory or self.digest else "run")
            with _whole(path):
                write_run_folder(dump, path, states=states)
                found = RunFolderDump(path)
        except (OSError, UserError, ValueError, MemoryError) as error:
            pass_on(error)
            return dump, f"The dump of {size} bytes stays in memory: {one_line(error)}"
        self._spilled.append((found, path))
        return found, f"The dump of {size} bytes is above --dump-limit and lies in {path}."

    def retain(self, dump: Dump, states: States | None = None) -> str:
        """Keep the dump of a run that stopped, if dumps are to stay; says where, or why not.

        What could not be kept is told at once, too: in a batch nobody may come to read it. Of many
        for the same reason the first is, and at the end how many more there were.

        Args:
            dump: of a run.
            states: of the runs of its session.
        """
        if not self.keep:
            return ""
        from tfdbg_cli.dumps.run_folder.dump import RunFolderDump, write_run_folder
        from tfdbg_cli.dumps.tfdbg_dir.writer import write_dump_directory

        problems: list[str] = []
        try:
            if self.as_directory:
                path = self._folder()
                with _whole(path):
                    problems = write_dump_directory(dump, path)
            elif isinstance(dump, RunFolderDump) and not self.digest:
                return ""
            else:
                path = self._folder()
                with _whole(path):
                    write_run_folder(dump, path, values=not self.digest, states=states)
            self._kept = weakref.ref(dump), path
            self.kept_count += 1
        except (OSError, UserError, ValueError, MemoryError) as error:
            pass_on(error)
            self.has_failed = True
            text = f"The dump could not be kept: {error}"
            refused = (each.errno for each in related(error) if isinstance(each, OSError))
            cause = next(refused, None) or str(error)  # a path in the text differs from run to run
            if cause in self._causes:
                self._untold += 1
            else:
                self._causes.add(cause)
                tell(text)
            return text
        lost = f" {problems[0]} ({len(problems)} in all.)" if problems else ""
        return f"The dump is kept in {path}.{lost}"

    def folder_of(self, dump: Dump) -> str:
        """Where the dump of a stop is kept; empty: nowhere that stays."""
        if not self.keep:
            return ""
        if self._kept is not None and self._kept[0]() is dump:
            return str(self._kept[1])
        return next((str(path) for known, path in self._spilled if known is dump), "")

    def release(self, dump: Dump | None) -> None:
        """A dump is no longer asked for: a spilled one that needn't stay is removed."""
        if dump is None:
            return
        _close(dump)
        parts = dump.parts.values() if isinstance(dump, JoinedDump) else ()
        for entry in list(self._spilled):
            spilled, path = entry
            if spilled is dump or any(spilled is part for part in parts):
                self._spilled.remove(entry)
                if not self._spills_stay:
                    shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        """Remove what was only temporary."""
        if self._untold:
            tell(f"{self._untold} more dump(s) could not be kept.")
            self._untold = 0
        if not self._spills_stay:
            for dump, path in self._spilled:
                _close(dump)
                shutil.rmtree(path, ignore_errors=True)
        self._spilled.clear()
        if self._temporary is not None:
            remove_folder(self._temporary)
            self._temporary = None


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Writes a folder as a whole, or leaves none."""
    try:
        yield
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise


def _close(dump: Dump) -> None:
    """Let go of a dump; what goes wrong with it is nobody's business any more."""
    with contained:
        dump.close()
