"""A scan of a tree: what isn't in its index yet is done, by whoever does the work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from functools import partial
from itertools import chain
from typing import NamedTuple

from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.scanning.executors import give_up
from tfdbg_cli.scanning.index import Index
from tfdbg_cli.scanning.tree import Folder, batches
from tfdbg_cli.scanning.work import Finding

__all__ = ["Do", "Progress", "scan"]

#: What a worker does with a piece of work: a function of a module, as others are sent it.
Do = Callable[[Sequence[Folder]], list[Finding]]

# So many pieces of work are handed out at once: workers never wait, and little is lost with one.
_AHEAD = 64
# Seconds that a piece should take at most: what was found is written down after each.
_LONG = 1.0
_AT_FIRST, _FADES = 16, 0.9


class Progress(NamedTuple):
    """How far a scan has come, in dumps and their bytes; of all that was to be done."""

    done: float
    all: float
    done_bytes: int
    all_bytes: int


def scan(
    folders: Sequence[Folder],
    index: Index,
    do: Do,
    make: Callable[[], Executor],
    tell: Callable[[Progress], None],
    *,
    has_parts: bool,
) -> list[Finding]:
    """Do something with dumps, and give what is known of all in their order.

    Args:
        folders: the dumps.
        index: what is in there isn't done again, and what is found goes there at once.
        do: what is done; workers on other machines see the same files at the same paths.
        make: makes the executor; once more where a worker's death has broken it.
        tell: is told how far it has come.
        has_parts: whether it can be done with parts of a large dump.

    Raises:
        UserError: of what is done.
    """
    index.keep_only(each.path for each in folders)
    left = [each for each in folders if not index.is_done(each)]
    pieces = list(batches(left, has_parts=has_parts))
    # Parts that an earlier scan has done are of the same size now.
    pieces = [left for piece in pieces if (left := [e for e in piece if not index.is_done(e)])]
    _Work(index, do, make, tell).do(pieces)
    return [index.findings[each.path] for each in folders]


class _Work:
    """What `scan` does with what is left to do."""

    def __init__(
        self,
        index: Index,
        do: Do,
        make: Callable[[], Executor],
        tell: Callable[[Progress], None],
    ) -> None:
        self._index, self._do = index, do
        self._make, self._tell = make, tell
        self._progress = Progress(0, 0, 0, 0)
        self._seconds: float | None = None  # that a dump takes

    def do(self, pieces: Sequence[list[Folder]]) -> None:
        folders = list(chain(*pieces))
        self._progress = Progress(0, _count(folders), 0, sum(each.size for each in folders))
        left = self._until_a_death(pieces)
        while left is not None:
            # One of those that were at work has killed its worker. Alone, it is found.
            suspects, others = left
            for each in suspects:
                if self._until_a_death([[each]]) is not None:
                    self._done([each], [_failed(each, "its worker was killed")])
            left = self._until_a_death(others)

    def _until_a_death(
        self, pieces: Iterable[list[Folder]]
    ) -> tuple[list[Folder], list[list[Folder]]] | None:
        """Do pieces of work; ``None``, or what was at work when a worker died, and what wasn't."""
        waiting = list(pieces)
        if not waiting:
            return None
        waiting.reverse()
        running: dict[Future[tuple[float, list[Finding]]], list[Folder]] = {}
        executor = self._make()
        try:
            while waiting or running:
                while waiting and len(running) < self._ahead:
                    piece, rest = self._short(waiting[-1])
                    running[executor.submit(partial(_timed, self._do), piece)] = piece
                    waiting.pop()  # a pool that is broken already takes none
                    waiting += [rest] * bool(rest)
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    self._take(future, running[future])
                    del running[future]
        except BrokenExecutor:
            executor.shutdown()
            waiting.reverse()
            return list(chain(*running.values())), waiting
        except BaseException:
            give_up(executor, running)
            raise
        # Python's own threads of a pool that is left alone stumble at its end.
        executor.shutdown()
        return None

    @property
    def _ahead(self) -> int:
        # How long one takes isn't known before some are done.
        return _AHEAD if self._seconds is not None else _AT_FIRST

    def _short(self, piece: list[Folder]) -> tuple[list[Folder], list[Folder]]:
        """What of a piece is done within a second, one dump at least, and the rest."""
        count = 1 if self._seconds is None else max(int(_LONG / max(self._seconds, 1e-9)), 1)
        return piece[:count], piece[count:]

    def _take(self, future: Future[tuple[float, list[Finding]]], piece: list[Folder]) -> None:
        try:
            seconds, findings = future.result()
            # The slowest so far, which fades.
            each = seconds / len(piece)
            self._seconds = max(each, (self._seconds or 0.0) * _FADES)
        except (BrokenExecutor, UserError):
            raise
        except Exception as error:  # of a cluster that has lost a worker too often
            findings = [_failed(each, one_line(error)) for each in piece]
        self._done(piece, findings)

    def _done(self, piece: Sequence[Folder], findings: Iterable[Finding]) -> None:
        self._index.add(findings)
        done, all_done, done_bytes, all_bytes = self._progress
        done_bytes += sum(each.size for each in piece)
        self._progress = Progress(done + _count(piece), all_done, done_bytes, all_bytes)
        self._tell(self._progress)


def _timed(do: Do, piece: Sequence[Folder]) -> tuple[float, list[Finding]]:
    """What a worker does, and how many seconds that took."""
    start = time.monotonic()
    findings = do(piece)
    return time.monotonic() - start, findings


def _count(folders: Iterable[Folder]) -> float:
    """How many dumps some parts of dumps are."""
    return sum(1 / folder.part[1] for folder in folders)


def _failed(folder: Folder, problem: str) -> Finding:
    # Its state is not a folder's: the next scan tries again.
    finding: Finding = {"folder": folder.path, "state": "", "bytes": folder.size}
    if folder.part != (0, 1):
        finding["part"] = list(folder.part)
    return finding | {"problems": [problem]}
