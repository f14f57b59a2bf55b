"""How bad what the lines of a source file made is: looked at while somebody looks at them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tfdbg_cli.dumps.datum import is_quick
from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.tensors.measurements import Background, Itself, Measurements
from tfdbg_cli.tensors.statistics import Health

__all__ = ["LineHealth", "Worst", "in_time"]

# Making lines takes about so long at most for the health of their ops, and for their colours.
_BUDGET_SECONDS = 0.005


class Worst(NamedTuple):
    """What is known of the tensors of some ops.

    Attributes:
        first: the bad one that was dumped first; ``None``: none is known to be bad.
        health: of that one.
        total: how many are known to be bad.
        role: ``nan`` if one of them has a nan, ``inf`` if they have infinities only; else empty.
        is_known: whether all were looked at.
    """

    first: Datum | None = None
    health: Health | None = None
    total: int = 0
    role: str = ""
    is_known: bool = True


def in_time() -> Callable[[], bool]:
    """A clock for the lines of a page: tells whether there is time for more."""
    until = time.perf_counter() + _BUDGET_SECONDS
    return lambda: time.perf_counter() < until


class _Line:
    """The tensors of a line, looked at one after the other.

    Args:
        data: the tensors.
        measurements: of their dump.
        roles: the names of bad nodes -> ``nan`` or ``inf``, to be added to.
    """

    def __init__(
        self, data: Iterator[Datum], measurements: Measurements, roles: dict[str, str]
    ) -> None:
        self._data = data
        self._measurements = measurements
        self._roles = roles
        self._lock = threading.Lock()
        self._next = next(data, None)
        self.worst = Worst(is_known=self._next is None)
        self.bad_nodes: list[str] = []
        self.is_given = False

    @property
    def is_quick(self) -> bool:
        """Whether the next tensor takes no time worth mentioning."""
        datum = self._next
        if datum is None or self._measurements.peek(datum, numbers=False) is not None:
            return True
        return is_quick(datum)

    def look(self, check: Callable[[], object] = lambda: None) -> None:
        """Look at the next tensor. What can't be read says so elsewhere."""
        with self._lock:
            datum = self._next
            if datum is None:
                return
            known = self._measurements.peek(datum, numbers=False)
            health = (known or self._measurements.measure(datum, check)).health
            if health is not None and health.bad:
                self._note(datum, health)
            self._next = next(self._data, None)
            if self._next is None:
                self.worst = self.worst._replace(is_known=True)

    def work(self, check: Callable[[], object]) -> None:
        """Look at all of them."""
        while not self.worst.is_known:
            check()
            self.look(check)

    def _note(self, datum: Datum, health: Health) -> None:
        """A tensor is bad."""
        name, worst = datum.node_name, self.worst
        role = "nan" if health.nan or self._roles.get(name) == "nan" else "inf"
        self._roles[name] = role
        self.bad_nodes.append(name)
        first, its = worst.first, worst.health
        if first is None or datum.timestamp < first.timestamp:
            first, its = datum, health
        role = "nan" if "nan" in (role, worst.role) else role
        self.worst = Worst(first, its, worst.total + 1, role, False)


class LineHealth:
    """The health of the ops of each line.

    Args:
        dump: the dump that has their tensors.
        lines: line number -> names of nodes.
    """

    def __init__(self, dump: Dump, lines: Mapping[int, Sequence[str]]) -> None:
        self._dump = dump
        self._names = lines
        self._measurements = Measurements.of(dump)
        self._background: Background[_Line] = Background(Itself())
        self._lines: dict[int, _Line] = {}
        self._roles: dict[str, str] = {}
        self._bad_lines: list[int] | None = None

    def of_line(self, number: int, is_in_time: Callable[[], bool]) -> Worst:
        """What is known of a line; what isn't yet is computed in the background.

        Args:
            number: of the line.
            is_in_time: see `in_time`.
        """
        found = self._line(number)
        if found is None:
            return Worst()
        if not found.is_given:
            while not found.worst.is_known and is_in_time() and found.is_quick:
                found.look()
            found.is_given = not found.worst.is_known
        if not found.worst.is_known:
            self._background.want([found])
        return found.worst

    def of_node(self, name: str) -> str:
        """``nan`` or ``inf`` where a node made some, as far as its line was looked at."""
        return self._roles.get(name, "")

    def bad_nodes(self, number: int) -> Sequence[str]:
        """The nodes of a line that are known to have made something bad."""
        found = self._lines.get(number)
        return found.bad_nodes if found is not None else ()

    @property
    def pending(self) -> bool:
        """Whether some line waits; asking keeps the thread at work."""
        return self._background.is_pending

    def settle(self, number: int) -> None:
        """Look at all tensors of a line, however long that takes."""
        found = self._line(number)
        if found is not None:
            found.work(lambda: None)
            self._background.drop([found])

    def _line(self, number: int) -> _Line | None:
        if number not in self._lines and number in self._names:
            data = _data(self._dump, self._names[number])
            self._lines[number] = _Line(data, self._measurements, self._roles)
        return self._lines.get(number)

    def bad_lines(self) -> list[int]:
        """The lines of which an op made something bad, ascending; reads what it has to."""
        if self._bad_lines is None:
            names = dict.fromkeys(name for names in self._names.values() for name in names)
            bad: set[str] = set()
            for datum in self._dump.maybe_nonfinite(_data(self._dump, names)):
                if datum.node_name not in bad:
                    known = self._measurements.peek(datum, numbers=False)
                    health = (known or self._measurements.measure(datum)).health
                    if health is not None and health.bad:
                        bad.add(datum.node_name)
            lines = (number for number, each in self._names.items() if not bad.isdisjoint(each))
            self._bad_lines = sorted(lines)
        return self._bad_lines


def _data(dump: Dump, names: Iterable[str]) -> Iterator[Datum]:
    """The tensors of some nodes."""
    for name in names:
        for datum in dump.by_node(name):
            if not datum.is_view:  # it has the elements of another one, which tells of them
                yield datum
