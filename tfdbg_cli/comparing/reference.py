"""A reference for a living program: the run of the same number, kept earlier."""

from __future__ import annotations

import itertools
import os
import weakref
from typing import Any

from tfdbg_cli.comparing.terms import Terms
from tfdbg_cli.dumps.datum import Datum
from tfdbg_cli.dumps.dump import Dump

__all__ = ["Reference", "run_name"]


def run_name(number: int) -> str:
    """What the folder of a run is called, counted from 1."""
    return f"run_{number:06d}"


class Reference:
    """Whether a tensor is the first of its run that differs from the one in a kept run.

    It is a tensor filter (`tfdbg_cli.dumps.dump.Predicate`). Runs that have no counterpart don't
    differ.

    Args:
        folder: of the kept runs, which are told by the names of their folders.
        terms: what they are compared by.

    Attributes:
        folder: as an absolute path: the program may change its folder.
        shown_by: the command whose screen a stop opens with; empty: the list of what passes.

    Raises:
        UserError: there are no runs, or the terms say something that they can't.
    """

    shown_by = ""

    def __init__(self, folder: str, terms: Terms | None = None) -> None:
        # `run` knows this class; few programs are compared.
        from tfdbg_cli.comparing.left import Left
        from tfdbg_cli.dumps.open import list_runs

        terms = terms or Terms()
        self._bars, self._renamed = terms.bars(), terms.renamed()
        self._before = Left()
        self.folder = os.path.abspath(os.path.expanduser(folder))
        self._paths = {path.name: path for path in list_runs(self.folder)}
        # By identity: through a tensor its dump would stay alive.
        self._known: weakref.WeakKeyDictionary[Dump, int | None] = weakref.WeakKeyDictionary()

    def __call__(self, datum: Datum, tensor: Any, dump: Dump) -> bool:
        """Whether it is that tensor."""
        if dump not in self._known:
            self._known[dump] = self._first_apart(dump)
        return id(datum) == self._known[dump]

    def _first_apart(self, dump: Dump) -> int | None:
        from tfdbg_cli.comparing.alignment import align
        from tfdbg_cli.comparing.comparison import Comparison
        from tfdbg_cli.dumps.open import open_dump

        info = dump.run_info()
        path = self._paths.get(run_name(info.call_count)) if info is not None else None
        if path is None:
            return None
        other = open_dump(path)
        try:
            pairs = align(dump, other, self._renamed)
            rows = Comparison(dump, other, pairs, self._bars, self._before)
            found = rows.first_apart()
            if found is not None and found.datum.is_view:
                # No filter is asked of views: what was computed with it comes next.
                behind = itertools.dropwhile(lambda row: row is not found, rows.rows())
                found = next(itertools.islice(behind, 1, None))
        finally:
            other.close()
        return id(found.pair.first) if found is not None else None
