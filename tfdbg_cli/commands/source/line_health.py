"""How bad what the lines of a source file made is: looked at while somebody looks at them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.tensors.measurements import Background, Measurements
from tfdbg_cli.tensors.statistics import Health

__all__ = ["LineHealth", "Worst", "bad_text", "in_time"]

# Making lines takes about so long at most for the health of their ops, and for their colours.
_BUDGET_SECONDS = 0.005

# Bytes of a tensor that is measured on the spot.
_SMALL = 1 << 16


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


def bad_text(health: Health) -> str:
    """``3 nan, 1 +inf``."""
    names = zip(health, ("nan", "-inf", "+inf"), strict=True)
    return ", ".join(f"{count} {name}" for count, name in names if count)


def in_time() -> Callable[[], bool]:
    """A clock for the lines of a page: tells whether there is time for more."""
    until = time.perf_counter() + _BUDGET_SECONDS
    return lambda: time.perf_counter() < until


class _Line:
    """The tensors of a line, looked at one after the other.

    Args:
        data: the tensors.
    """

    def __init__(self, data: Iterator[Datum]) -> None:
        self._data = data
        self.next = next(data, None)
        self.worst = Worst(is_known=self.next is None)
        self.bad_nodes: list[str] = []
        self.is_given = False
        self.lock = threading.Lock()

    def go_on(self) -> None:
        """To the next tensor."""
        self.next = next(self._data, None)
        if self.next is None:
            self.worst = self.worst._replace(is_known=True)


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
        self._background: Background[_Line] = Background(self)
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
            while not found.worst.is_known and is_in_time() and self._is_quick(found.next):
                self._look(found)
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
            self.measure(found, lambda: None)
            self._background.drop([found])

    def measure(self, item: _Line, check: Callable[[], object]) -> None:
        """Look at all tensors of a line; see `tfdbg_cli.tensors.measurements.Measures`."""
        while not item.worst.is_known:
            check()
            with item.lock:
                self._look(item, check)

    def _line(self, number: int) -> _Line | None:
        if number not in self._lines and number in self._names:
            self._lines[number] = _Line(self._data(self._names[number]))
        return self._lines.get(number)

    def _data(self, names: Iterable[str]) -> Iterator[Datum]:
        for name in names:
            for datum in self._dump.by_node(name):
                if not datum.is_view:  # it has the elements of another one, which tells of them
                    yield datum

    def _is_quick(self, datum: Datum | None) -> bool:
        is_known = datum is None or self._measurements.peek(datum, numbers=False) is not None
        return is_known or (datum is not None and _is_small(datum))

    def _look(self, found: _Line, check: Callable[[], object] = lambda: None) -> None:
        """Look at the next tensor of a line. What can't be read says so elsewhere."""
        datum = found.next
        if datum is None:
            return
        known = self._measurements.peek(datum, numbers=False)
        health = (known or self._measurements.measure(datum, check)).health
        if health is not None and health.bad:
            self._note(found, datum, health)
        found.go_on()

    def _note(self, found: _Line, datum: Datum, health: Health) -> None:
        """A tensor of a line is bad."""
        name, worst = datum.node_name, found.worst
        role = "nan" if health.nan or self._roles.get(name) == "nan" else "inf"
        self._roles[name] = role
        found.bad_nodes.append(name)
        first, its = worst.first, worst.health
        if first is None or datum.timestamp < first.timestamp:
            first, its = datum, health
        role = "nan" if "nan" in (role, worst.role) else role
        found.worst = Worst(first, its, worst.total + 1, role, False)

    def bad_lines(self) -> list[int]:
        """The lines of which an op made something bad, ascending; reads what it has to."""
        if self._bad_lines is None:
            names = dict.fromkeys(name for names in self._names.values() for name in names)
            bad: set[str] = set()
            for datum in self._dump.maybe_nonfinite(self._data(names)):
                if datum.node_name not in bad:
                    known = self._measurements.peek(datum, numbers=False)
                    health = (known or self._measurements.measure(datum)).health
                    if health is not None and health.bad:
                        bad.add(datum.node_name)
            lines = (number for number, each in self._names.items() if not bad.isdisjoint(each))
            self._bad_lines = sorted(lines)
        return self._bad_lines


def _is_small(datum: Datum) -> bool:
    try:
        return datum.nbytes <= _SMALL
    except Exception:  # it fails to load: quickly
        return True
