"""Numbers over runs: one a run, the last ones of which are kept."""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from tfdbg_cli.common.arrays import Array, np

__all__ = ["CAPACITY", "LOSS", "Mark", "Points", "Series", "Tracks"]

#: How many numbers of a series are kept.
CAPACITY = 10_000
#: The series that is followed without being asked for.
LOSS = "loss"

_MOST_MARKS = 1_000


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


class Mark(NamedTuple):
    """A run to be marked in a picture of a series.

    Attributes:
        run: its number.
        is_bad: something bad was found in it, or it failed; otherwise the program stopped there.
    """

    run: int
    is_bad: bool


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


class Tracks(Mapping[str, Series]):
    """The series of a program, by their names, and what is to be marked in them.

    Attributes:
        has_norms: whether norms of gradients and parameters are followed, too.
        marks: the runs that the program has stopped at.
    """

    def __init__(self, series: Iterable[Series] = (), marks: Iterable[Mark] = ()) -> None:
        self._series = {each.name: each for each in series}
        self.has_norms = False
        self.marks = [*marks]
        #: What tells the numbers that are still somewhere else, on a device, say.
        self.sources: list[Callable[[], None]] = []

    def __getitem__(self, name: str) -> Series:
        return self._series[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._series])

    def __len__(self) -> int:
        return len(self._series)

    @property
    def expressions(self) -> list[Series]:
        """The series that are values of expressions, which somebody has asked for."""
        return [each for each in [*self._series.values()] if each.expression]

    def follow(self, name: str, expression: str = "") -> Series:
        """Begin a series, in place of one of the same name."""
        made = self._series[name] = Series(name, expression)
        return made

    def forget(self, name: str) -> None:
        """Follow it no more, and let go of its numbers."""
        self._series.pop(name, None)

    def note(self, name: str, run: int, value: float, moment: float | None = None) -> None:
        """A number that an engine tells by itself, of a series that begins with its first one."""
        found = self._series.get(name)
        if found is None:
            found = self._series[name] = Series(name)
        if not found.expression:
            found.add(run, value, moment)

    def settle(self) -> None:
        """Somebody is going to look: read what is still on a device."""
        for source in self.sources:
            source()

    def mark(self, run: int, *, is_bad: bool) -> None:
        """The program stops at the end of a run."""
        self.marks = [*self.marks[1 - _MOST_MARKS :], Mark(run, is_bad)]
