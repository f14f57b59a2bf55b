"""A scan of a tree: what isn't in its index yet is done, by whoever does the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from itertools import chain
from typing import NamedTuple

from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.scanning.executors import give_up
from tfdbg_cli.scanning.index import Index
from tfdbg_cli.scanning.tree import Folder, batches, find_folders
from tfdbg_cli.scanning.work import Finding, scan_folders

__all__ = ["Progress", "scan"]

# So many pieces of work are handed out at once: workers never wait, and little is lost with one.
_AHEAD = 64


class Progress(NamedTuple):
    """How far a scan has come, in dumps and their bytes; of all that was to be done."""

    done: int
    all: int
    done_bytes: int
    all_bytes: int


def scan(
    tree: str,
    index: Index,
    filter_name: str,
    files: Sequence[str],
    make: Callable[[], Executor],
    tell: Callable[[Progress], None],
) -> list[Finding]:
    """Scan the dumps of a tree, and give what is known of all in the tree's order.

    Args:
        tree: a folder; workers on other machines see it at the same path.
        index: what is in there isn't done again, and what is found goes there at once.
        filter_name: of the filter.
        files: of filters of the user's.
        make: makes the executor; once more where a worker's death has broken it.
        tell: is told how far it has come.

    Raises:
        UserError: there is nothing to scan, or no such filter.
    """
    folders = list(find_folders(tree))
    if not folders:
        raise UserError(f"there is no dump in {tree}.")
    index.keep_only(each.path for each in folders)
    work = _Work(tree, index, filter_name, files, make, tell)
    work.do([each for each in folders if not index.is_done(each)])
    return [index.findings[each.path] for each in folders]


class _Work:
    """What `scan` does with what is left to do."""

    def __init__(
        self,
        tree: str,
        index: Index,
        filter_name: str,
        files: Sequence[str],
        make: Callable[[], Executor],
        tell: Callable[[Progress], None],
    ) -> None:
        self._tree, self._filter_name, self._files = tree, filter_name, files
        self._index = index
        self._make, self._tell = make, tell
        self._progress = Progress(0, 0, 0, 0)

    def do(self, folders: Sequence[Folder]) -> None:
        self._progress = Progress(0, len(folders), 0, sum(each.size for each in folders))
        left = self._until_a_death(batches(folders))
        while left is not None:
            # One of those that were at work has killed its worker. Alone, it is found.
            suspects, others = left
            for each in suspects:
                if self._until_a_death([[each]]) is not None:
                    self._done([each], [_failed(each, "its worker was killed")])
            left = self._until_a_death(batches(others))

    def _until_a_death(
        self, pieces: Iterable[list[Folder]]
    ) -> tuple[list[Folder], list[Folder]] | None:
        """Do pieces of work; ``None``, or what was at work when a worker died, and what wasn't."""
        waiting = list(pieces)
        if not waiting:
            return None
        waiting.reverse()
        running: dict[Future[list[Finding]], list[Folder]] = {}
        executor = self._make()
        try:
            while waiting or running:
                while waiting and len(running) < _AHEAD:
                    piece = waiting.pop()
                    future = executor.submit(
                        scan_folders, self._tree, piece, self._filter_name, self._files
                    )
                    running[future] = piece
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    self._take(future, running[future])
                    del running[future]
        except BrokenExecutor:
            waiting.reverse()
            return list(chain(*running.values())), list(chain(*waiting))
        except BaseException:
            give_up(executor, running)
            raise
        finally:
            executor.shutdown(wait=False)
        return None

    def _take(self, future: Future[list[Finding]], piece: list[Folder]) -> None:
        try:
            findings = future.result()
        except (BrokenExecutor, UserError):
            raise
        except Exception as error:  # of a cluster that has lost a worker too often
            findings = [_failed(each, one_line(error)) for each in piece]
        self._done(piece, findings)

    def _done(self, piece: Sequence[Folder], findings: Iterable[Finding]) -> None:
        self._index.add(findings)
        done, all_done, done_bytes, all_bytes = self._progress
        done_bytes += sum(each.size for each in piece)
        self._progress = Progress(done + len(piece), all_done, done_bytes, all_bytes)
        self._tell(self._progress)


def _failed(folder: Folder, problem: str) -> Finding:
    # Its state is no folder's: the next scan tries again.
    return {"folder": folder.path, "state": "", "bytes": folder.size, "problems": [problem]}
