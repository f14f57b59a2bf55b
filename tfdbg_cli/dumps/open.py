"""Opens whatever dump is in a folder."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from tfdbg_cli.common.errors import DumpError, UserError, one_line
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.joined import RANK_NAME, JoinedDump
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump
from tfdbg_cli.dumps.run_folder.writer import INDEX_FILE, RUN_FILE
from tfdbg_cli.dumps.tfdbg_dir.debug_dump_dir import DebugDumpDir
from tfdbg_cli.dumps.tfdbg_dir.names import DEVICE_PREFIX, METADATA_PREFIX

__all__ = [
    "RankRun",
    "are_of_dump",
    "find_ranks",
    "find_runs",
    "is_dump",
    "list_runs",
    "open_dump",
    "open_ranks",
    "rank_runs",
]

_RUN_NAME = re.compile(r"run_(\d+)(?:_(\d+))?")
_HINT = (
    f"A dump has folders called {DEVICE_PREFIX}..., or the files {RUN_FILE} and {INDEX_FILE}; "
    "a folder of runs has one folder for each."
)


def _kind(path: Path) -> type[DebugDumpDir] | type[RunFolderDump] | None:
    """Which dump a folder is, by the names in it."""
    try:
        with os.scandir(path) as entries:
            return _kind_of({entry.name for entry in entries})
    except OSError:
        return None


def _kind_of(names: Collection[str]) -> type[DebugDumpDir] | type[RunFolderDump] | None:
    """Likewise, by the names."""
    if any(name.startswith(METADATA_PREFIX) for name in names):
        return DebugDumpDir
    if INDEX_FILE in names or RUN_FILE in names:
        return RunFolderDump
    # What is left when the index is lost still holds tensors.
    is_part = any(name.startswith("tensors-") and name.endswith(".safetensors") for name in names)
    return RunFolderDump if is_part else None


def are_of_dump(names: Collection[str]) -> bool:
    """Whether a folder with files and folders of these names is a dump of either kind."""
    return _kind_of(names) is not None


def is_dump(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is a dump of either kind, by the names in it."""
    return _kind(Path(path)) is not None


def _check(path: str | os.PathLike[str]) -> Path:
    folder = Path(path).expanduser()
    if not folder.exists():
        raise UserError(f"There is no dump at {folder}: the folder doesn't exist.")
    if not folder.is_dir():
        above = next((each for each in folder.parents if _kind(each) is not None), None)
        hint = f"Open the folder {above}." if above is not None else _HINT
        raise UserError(f"{folder} is a file, not the folder of a dump.", hint)
    try:
        with os.scandir(folder) as entries:
            is_empty = next(entries, None) is None
    except OSError as error:
        raise DumpError(f"{folder} can't be listed: {error.strerror or error}.") from None
    if is_empty:
        raise UserError(f"{folder} is empty: there is no dump in it.", _HINT)
    return folder


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _run_order(folder: Path) -> tuple[int, int, str]:
    match = _RUN_NAME.fullmatch(folder.name)
    if match is not None:
        return int(match[1]), int(match[2] or 0), folder.name
    try:
        return folder.stat().st_mtime_ns // 1000, 0, folder.name
    except OSError:
        return 0, 0, folder.name


def list_runs(path: str | os.PathLike[str]) -> list[Path]:
    """The runs in a folder, in time order: the folder itself if it is a dump, else those in it.

    Args:
        path: a dump, or the session root of a dumping wrapper (``run_<microseconds>_<n>`` each).

    Returns:
        Their folders; empty if there are none.

    Raises:
        UserError: there is no such folder, or it is a file or empty.
    """
    folder = _check(path)
    if _kind(folder) is not None:
        return [folder]
    found = [each for each in folder.iterdir() if each.is_dir() and _kind(each) is not None]
    return sorted(found, key=_run_order)


def find_runs(path: str | os.PathLike[str]) -> list[Path]:
    """As `list_runs`, with those whose folder is there but holds no dump any more.

    Folders that are called as runs are (``run_000001``, ``run_<microseconds>_<n>``) aren't looked
    into, as long as one of them is a run.

    Args:
        path: a dump, or a folder of runs.

    Raises:
        UserError: as `list_runs`.
    """
    folder = _check(path)
    if _kind(folder) is not None:
        return [folder]
    named: list[Path] = []
    found: list[Path] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if _is_folder(entry):
                is_named = _RUN_NAME.fullmatch(entry.name) is not None
                (named if is_named else found).append(Path(entry.path))
    found = [each for each in found if _kind(each) is not None]
    if found or any(_kind(each) is not None for each in named):
        found += named
    return sorted(found, key=_run_order)


@dataclass(frozen=True)
class RankRun:
    """One run of a program of several ranks.

    Attributes:
        name: of its folders.
        folders: rank -> the folder of its part.
    """

    name: str
    folders: Mapping[int, Path]


def find_ranks(path: str | os.PathLike[str]) -> dict[int, Path]:
    """The folders ``rank_<number>`` in a folder, by rank; empty if there are none."""
    found: dict[int, Path] = {}
    with contextlib.suppress(OSError), os.scandir(Path(path).expanduser()) as entries:
        for entry in entries:
            match = RANK_NAME.fullmatch(entry.name)
            if match is not None and _is_folder(entry):
                found[int(match[1])] = Path(entry.path)
    return dict(sorted(found.items()))


def rank_runs(ranks: Mapping[int, Path]) -> list[RankRun]:
    """The runs of several ranks, in time order: parts of one run have folders of one name.

    Args:
        ranks: as `find_ranks` gives them.
    """
    named: dict[str, dict[int, Path]] = {}
    for rank, folder in ranks.items():
        with contextlib.suppress(UserError):  # a rank may have written nothing
            for run in find_runs(folder):
                named.setdefault(run.name, {})[rank] = run
    ordered = sorted(named.items(), key=lambda item: _run_order(next(iter(item[1].values()))))
    return [RankRun(name, folders) for name, folders in ordered]


def open_ranks(run: RankRun, *, validate: bool = True) -> Dump:
    """Open one run of several ranks as one dump.

    A rank whose part can't be opened is left out, and a line of `Dump.warnings` says why.

    Raises:
        UserError: no part can be opened.
    """
    parts: dict[int, Dump] = {}
    problems: list[str] = []
    last: UserError | None = None
    for rank, folder in run.folders.items():
        try:
            parts[rank] = open_dump(folder, validate=validate)
        except UserError as error:
            last = error
            problems.append(f"Rank {rank} can't be opened: {error.message}")
    if not parts and last is not None:
        raise last
    dump = JoinedDump(parts)
    dump.warnings[:0] = problems
    return dump


def open_dump(path: str | os.PathLike[str], *, validate: bool = True) -> Dump:
    """Open a dump of either kind.

    Args:
        path: a run in the original's format, a run folder, or a folder of runs: then the last
            one is opened, and a line of its `Dump.warnings` names it. Of a folder of several
            ranks' runs the last one is opened over all ranks.
        validate: whether a dump in the original's format is compared with its graph.

    Raises:
        UserError: there is no dump; the message says what is there instead.
    """
    runs = list_runs(path)
    folder = Path(path).expanduser()
    joined = rank_runs(find_ranks(folder)) if not runs else []
    if joined:
        return open_ranks(joined[-1], validate=validate)
    if not runs:
        raise UserError(f"{folder} holds no dump.", _HINT)
    last = runs[-1]
    try:
        is_ours = _kind(last) is RunFolderDump
        dump = RunFolderDump(last) if is_ours else DebugDumpDir(last, validate=validate)
    except UserError:
        raise
    except Exception as error:  # nothing that lies in a folder may be more than a line
        raise DumpError(f"{last} can't be opened: {one_line(error)}.") from error
    if len(runs) > 1:
        dump.warnings.insert(
            0, f"{folder} holds {len(runs)} runs; this is the last, {last.name}. Open any by name."
        )
    return dump
