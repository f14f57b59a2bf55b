"""Numbers of one kind, one a run, the last ones of which are kept."""

from __future__ import annotations

import threading
import time
from array import array
from typing import NamedTuple

from tfdbg_cli.common.arrays import Array, np

__all__ = ["CAPACITY", "Points", "Series"]

#: How many numbers of a series are kept.
CAPACITY = 10_000


class Points(NamedTuple):
    """The numbers of a series in the order in which they came, as arrays.

    Attributes:
        runs: the number of the run of each.
        times: when it came, in seconds since the epoch.
        values: the numbers.
    """

    runs: Array
    times: Array
    values: Array


class Series:
    """The last numbers of one kind. Any thread may add some.

    Args:
        name: what it is called.
        expression: what it is the value of; empty: an engine tells it by itself.
        capacity: how many are kept.

    Attributes:
        problem: why the last run has given none; empty: it has.
    """

    def __init__(self, name: str, expression: str = "", capacity: int = CAPACITY) -> None:
        self.name = name
        self.expression = expression
        self.problem = ""
        self._capacity = capacity
        self._count = 0
        self._runs, self._times, self._values = array("q"), array("d"), array("d")
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._values)

    @property
    def count(self) -> int:
        """How many there were, those that aren't kept included."""
        return self._count

    def add(self, run: int, value: float, moment: float | None = None) -> None:
        """The next one.

        Args:
            run: the number of the run that it is of.
            value: the number.
            moment: when it came; ``None``: now.
        """
        moment = time.time() if moment is None else moment
        with self._lock:
            at = self._count % self._capacity
            self._count += 1
            if at == len(self._values):
                self._runs.append(run)
                self._times.append(moment)
                self._values.append(value)
            else:
                self._runs[at], self._times[at], self._values[at] = run, moment, value

    def points(self) -> Points:
        """What is kept."""
        with self._lock:
            first = self._count % self._capacity if self._count > len(self._values) else 0
            made = (np.array(each) for each in (self._runs, self._times, self._values))
            return Points(*(np.roll(each, -first) for each in made))
