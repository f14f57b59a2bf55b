"""What `tfdbg scan` has found in runs, where its index lies beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.dumps.remote.shadow import Origin, origin_of
from tfdbg_cli.filters.builtin import BUILTIN, FOLLOWS
from tfdbg_cli.filters.registry import FilterRegistry
from tfdbg_cli.scanning.index import read_index
from tfdbg_cli.scanning.tree import INDEX_NAMES, joined, listed, state_of
from tfdbg_cli.scanning.work import Finding
from tfdbg_cli.sessions.offline.survey import SurveyedRun

__all__ = ["ScanAnswers"]

# So many folders above a run may be the tree that was scanned.
_LEVELS = 6


class ScanAnswers:
    """Answers for filters from the index of a scan, as far as that holds for the files as they are.

    Only filters that are what they were for the scan count: built-in ones without thresholds.

    Args:
        filters: the tensor filters.
    """

    def __init__(self, filters: FilterRegistry) -> None:
        self._filters = filters
        self._indexes: dict[str, tuple[dict[str, Any], dict[str, Finding]] | None] = {}

    def finding(self, run: SurveyedRun, name: str) -> Finding | None:
        """What was found in a run; ``None``: nobody has looked, or not at what is there now."""
        if name not in BUILTIN or name in FOLLOWS or self._filters.is_replaced(name):
            return None
        if run.joined is not None:
            return None
        path = run.path.absolute()
        origin = origin_of(str(path))
        for tree, inside in _trees(path) if origin is None else _trees_there(path, origin):
            about, findings = self._index(tree) or ({}, {})
            found = findings.get(inside)
            if found is None or about.get("filter") != name or "files" in about:
                continue
            if _is_whole(found) and found.get("state") == _state(path, inside, origin):
                return found
        return None

    def data(self, run: SurveyedRun, dump: Dump, name: str) -> Sequence[Datum] | None:
        """The tensors of a run that pass a filter, if the index names all of them."""
        found = self.finding(run, name)
        if found is None or len(found["first"]) != found["passed"]:
            return None
        data = []
        for each in found["first"]:
            dumps = dump.by_tensor(str(each.get("tensor")))
            number = each.get("number") or 0
            if not (isinstance(number, int) and 0 <= number < len(dumps)):
                return None
            data.append(dumps[number])
        return data

    def _index(self, tree: str) -> tuple[dict[str, Any], dict[str, Finding]] | None:
        if tree not in self._indexes:
            self._indexes[tree] = read_index(joined(tree, INDEX_NAMES[0]))
        return self._indexes[tree]


def _trees(path: Path) -> Iterator[tuple[str, str]]:
    """The folders that may have been scanned, and the path of a dump in each."""
    for tree in (path, *path.parents)[:_LEVELS]:
        yield str(tree), path.relative_to(tree).as_posix()


def _trees_there(path: Path, origin: Origin) -> Iterator[tuple[str, str]]:
    """As `_trees`, of a dump whose folder stands for one at an address."""
    scheme, _, place = origin.address.partition("://")
    there = PurePosixPath(place, path.relative_to(origin.folder).as_posix())
    for tree in (there, *there.parents)[:_LEVELS]:
        if tree.name:
            yield f"{scheme}://{tree}", there.relative_to(tree).as_posix()


def _state(path: Path, inside: str, origin: Origin | None) -> str:
    """What the state of a dump is by now, as a scan of a tree tells it.

    Args:
        path: of the dump.
        inside: its path in the tree.
        origin: what its folder stands for.
    """
    if origin is None:
        return state_of(str(path))[1]
    own = path.relative_to(origin.folder).as_posix()
    above = PurePosixPath(inside).parts
    above = above[: len(above) - len(PurePosixPath(own).parts)]
    files = (each._replace(name="/".join((*above, each.name))) for each in origin.files)
    return next((each.state for each in listed(files) if each.path == inside), "")


def _is_whole(found: Finding) -> bool:
    """Whether a line of the index says what one that was written says of a dump without damage."""
    first, passed = found.get("first"), found.get("passed")
    if found.get("problems") or not isinstance(passed, int) or not isinstance(first, list):
        return False
    are_tensors = all(isinstance(each, dict) and "tensor" in each for each in first)
    return are_tensors and bool(first) == (passed > 0)
