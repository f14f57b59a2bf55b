"""The largest magnitudes of tensors in the last runs, by which it can be seen what grew."""

from __future__ import annotations

import itertools
import math
import time
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tfdbg_cli.common.arrays import np
from tfdbg_cli.dumps.series.points import Points, Series

__all__ = [
    "GRADIENT",
    "KEPT_RUNS",
    "OUTPUT",
    "OUTPUT_GRADIENT",
    "Growth",
    "History",
    "MeasuredTensor",
]

#: Of how many runs of a kind the magnitudes are kept.
KEPT_RUNS = 200
#: What is measured: what a module returns, the gradient of that, the gradient of a parameter.
OUTPUT, OUTPUT_GRADIENT, GRADIENT = "output", "output_gradient", "gradient"

# Of so many kinds of runs the magnitudes are kept: a program may open a thousand sessions.
_MOST_KINDS = 64
# Growth by less than this is none: no run is like the one before.
_LEAST_GROWTH = 1.5


class MeasuredTensor(NamedTuple):
    """A tensor whose largest magnitude is kept.

    Attributes:
        name: ``output of fc1``.
        module: its path; empty: the main one.
        what: `OUTPUT`, `OUTPUT_GRADIENT` or `GRADIENT`.
    """

    name: str
    module: str
    what: str


class _Row(NamedTuple):
    """What was measured in one run."""

    run: int
    moment: float
    tensors: Sequence[MeasuredTensor]
    values: array[float]


class _Rows:
    """The last rows; in columns, as the garbage collector would go through each row otherwise."""

    def __init__(self) -> None:
        self._columns = tuple(deque[Any](maxlen=KEPT_RUNS) for _ in _Row._fields)

    def add(self, row: _Row) -> None:
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)

    def __iter__(self) -> Iterator[_Row]:
        return itertools.starmap(_Row, zip(*map(list, self._columns), strict=True))


class Growth(NamedTuple):
    """How far the magnitudes of a tensor have grown, from the smallest one on.

    Attributes:
        first, last: the smallest magnitude, and the last finite one.
        at: the run of the last one.
        runs: how many runs lie between the two.
        measured: how many runs of these were measured, both ends included.
        end: a magnitude after ``last`` that is infinite or nan; ``None``: there is none.
    """

    first: float
    last: float
    at: int
    runs: int
    measured: int
    end: float | None

    @classmethod
    def of(cls, points: Points) -> Growth | None:
        """Of some magnitudes in the order of the runs; ``None``: none of them is finite."""
        finite = np.flatnonzero(np.isfinite(points.values))
        if not finite.size:
            return None
        values, runs = points.values[finite], points.runs[finite]
        # Of several that are equally small the last one: from there on it grew.
        lowest = len(values) - 1 - int(np.argmin(values[::-1]))
        is_cut = finite[-1] + 1 < len(points.values)
        return cls(
            float(values[lowest]),
            float(values[-1]),
            int(runs[-1]),
            int(runs[-1] - runs[lowest]),
            len(values) - lowest,
            float(points.values[finite[-1] + 1]) if is_cut else None,
        )

    @property
    def factor(self) -> float:
        """The last magnitude as a multiple of the smallest; infinite if that is 0."""
        if not self.first:
            return math.inf if self.last else 1.0
        return self.last / self.first

    @property
    def has_grown(self) -> bool:
        """Whether it has grown by more than runs differ in any case."""
        return self.factor >= _LEAST_GROWTH

    @property
    def doubling(self) -> float | None:
        """In how many runs it has doubled, on average; ``None``: it hasn't."""
        if not 1 < self.factor < math.inf or self.factor < 2 or self.runs < 1:
            return None
        return self.runs / math.log2(self.factor)


class History:
    """The largest magnitudes of tensors in the last runs of each kind."""

    def __init__(self) -> None:
        self._rows: dict[str, _Rows] = {}

    def __bool__(self) -> bool:
        return bool(self._rows)

    def add(
        self,
        kind: str,
        run: int,
        tensors: Sequence[MeasuredTensor],
        values: Iterable[float],
        moment: float | None = None,
    ) -> None:
        """A run is over.

        Args:
            kind: of the run: `RunInfo.measured_as`.
            run: its number among those.
            tensors: what was measured; the same object for many runs.
            values: the largest magnitude of each, which is nan or infinite if one element is.
            moment: when; ``None``: now.
        """
        rows = self._rows.get(kind)
        if rows is None:
            if len(self._rows) >= _MOST_KINDS:
                del self._rows[next(iter(self._rows))]
            rows = self._rows[kind] = _Rows()
        moment = time.time() if moment is None else moment
        rows.add(_Row(run, moment, tensors, array("d", values)))

    @property
    def kinds(self) -> list[str]:
        """The kinds of runs that were measured."""
        return [*self._rows]

    def zeros(self, kind: str, last: int) -> Mapping[MeasuredTensor, Sequence[int]]:
        """Tensors that are 0 since some measured runs -> these runs, the last one first.

        Args:
            kind: of the runs.
            last: the number of the last run that counts.
        """
        found: dict[MeasuredTensor, list[int]] = {}
        over: set[MeasuredTensor] = set()
        for row in reversed([*self._rows.get(kind, ())]):
            if row.run > last:
                continue
            for tensor, value in zip(row.tensors, row.values, strict=True):
                if value or tensor in over:
                    over.add(tensor)
                else:
                    found.setdefault(tensor, []).append(row.run)
            if not found.keys() - over:
                break
        return found

    def series(self, kind: str) -> Mapping[MeasuredTensor, Series]:
        """The magnitudes of each tensor in runs of a kind, as numbers over runs."""
        found: dict[MeasuredTensor, Series] = {}
        for row in [*self._rows.get(kind, ())]:
            for tensor, value in zip(row.tensors, row.values, strict=True):
                if tensor not in found:
                    found[tensor] = Series(tensor.name, capacity=KEPT_RUNS)
                found[tensor].add(row.run, value, row.moment)
        return found
