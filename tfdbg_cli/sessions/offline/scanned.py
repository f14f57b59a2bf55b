"""What `tfdbg scan` has found in runs, where its index lies beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.filters.builtin import BUILTIN, FOLLOWS
from tfdbg_cli.filters.registry import FilterRegistry
from tfdbg_cli.scanning.index import read_index
from tfdbg_cli.scanning.tree import INDEX_NAMES, state_of
from tfdbg_cli.scanning.work import Finding
from tfdbg_cli.sessions.offline.survey import SurveyedRun

__all__ = ["Scanned"]

# So many folders above a run may be the tree that was scanned.
_LEVELS = 6


class Scanned:
    """Answers for filters from the index of a scan, as far as that holds for the files as they are.

    Only filters that are what they were for the scan count: built-in ones without thresholds.

    Args:
        filters: the tensor filters.
    """

    def __init__(self, filters: FilterRegistry) -> None:
        self._filters = filters
        self._indexes: dict[Path, tuple[dict[str, Any], dict[str, Finding]] | None] = {}

    def finding(self, run: SurveyedRun, name: str) -> Finding | None:
        """What was found in a run; ``None``: nobody has looked, or not at what is there now."""
        if name not in BUILTIN or name in FOLLOWS or self._filters.is_replaced(name):
            return None
        if run.joined is not None:
            return None
        path = run.path.absolute()
        for tree in (path, *path.parents)[:_LEVELS]:
            about, findings = self._index(tree) or ({}, {})
            found = findings.get(path.relative_to(tree).as_posix())
            if found is None or about.get("filter") != name or "files" in about:
                continue
            if _is_whole(found) and found.get("state") == state_of(str(path))[1]:
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

    def _index(self, tree: Path) -> tuple[dict[str, Any], dict[str, Finding]] | None:
        if tree not in self._indexes:
            self._indexes[tree] = read_index(str(tree / INDEX_NAMES[0]))
        return self._indexes[tree]


def _is_whole(found: Finding) -> bool:
    """Whether a line of the index says what one that was written says of a dump without damage."""
    first, passed = found.get("first"), found.get("passed")
    if found.get("problems") or not isinstance(passed, int) or not isinstance(first, list):
        return False
    are_tensors = all(isinstance(each, dict) and "tensor" in each for each in first)
    return are_tensors and bool(first) == (passed > 0)
