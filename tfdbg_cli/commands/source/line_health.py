"""How bad what the lines of a source file made is: looked at while somebody looks at them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.tensors.measurements import Background, Measurements
from tfdbg_cli.tensors.statistics import Health

__all__ = ["LineHealth", "Worst", "bad_text", "in_time"]

# Making lines takes about so long at most for the health of their ops, and for their colours.
_BUDGET_SECONDS = 0.005

# Bytes of a tensor that is measured on the spot; how many of others wait for a line at once.
_SMALL, _WAITING = 1 << 16, 1000

# So many of a line are looked at before the clock is.
_AT_LEAST = 64


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


class LineHealth:
    """The health of the ops of each line.

    Args:
        dump: the dump that has their tensors.
        lines: line number -> names of nodes.
    """

    def __init__(self, dump: Dump, lines: Mapping[int, Sequence[str]]) -> None:
        self._dump = dump
        self._lines = lines
        self._measurements = Measurements.of(dump)
        self._background = Background(self._measurements)
        self._found: dict[int, Worst] = {}
        self._left: dict[int, list[Datum]] = {}
        self._bad_lines: list[int] | None = None

    def of_line(self, number: int, is_in_time: Callable[[], bool]) -> Worst:
        """What is known of a line; what isn't yet is computed in the background.

        Args:
            number: of the line.
            is_in_time: see `in_time`.
        """
        found = self._found.get(number, Worst(is_known=number not in self._lines))
        if found.is_known:
            return found
        left = self._left.get(number)
        if left is None:
            left = self._data(self._lines[number])
        rest: list[Datum] = []
        for at, datum in enumerate(left):
            is_late = at >= _AT_LEAST and at % _AT_LEAST == 0 and not is_in_time()
            if is_late or len(rest) >= _WAITING:
                rest += left[at:]
                break
            health = self._health(datum, is_in_time)
            if health is None:
                rest.append(datum)
            else:
                found = _worse(found, datum, health)
        found = found._replace(is_known=not rest)
        self._found[number], self._left[number] = found, rest
        if rest:
            self._background.want(rest[:_WAITING])
        else:
            del self._left[number]
        return found

    def of_node(self, name: str) -> str:
        """The role of what is known of a node's tensors: ``nan``, ``inf``, or empty."""
        found = Worst()
        for datum in self._data([name]):
            known = self._measurements.peek(datum, numbers=False)
            if known is not None and known.health is not None:
                found = _worse(found, datum, known.health)
        return found.role

    def _data(self, names: Iterable[str]) -> list[Datum]:
        # A view has the elements of another one, which are told of there.
        return [datum for name in names for datum in self._dump.by_node(name) if not datum.is_view]

    def _health(self, datum: Datum, is_in_time: Callable[[], bool]) -> Health | None:
        """The health of a tensor, if it is known or known soon; of what can't be bad, a clean one.

        What can't be read says so elsewhere.
        """
        known = self._measurements.peek(datum, numbers=False)
        if known is None and is_in_time() and _is_small(datum):
            known = self._measurements.measure(datum)
        return None if known is None else (known.health or Health(0, 0, 0))

    @property
    def pending(self) -> bool:
        """Whether some line waits; asking keeps the thread at work."""
        return self._background.is_pending

    def settle(self, number: int) -> None:
        """Look at all tensors of a line, however long that takes."""
        for datum in self._left.get(number) or self._data(self._lines.get(number, ())):
            if self._measurements.peek(datum, numbers=False) is None:
                self._measurements.measure(datum)
        while not self.of_line(number, lambda: True).is_known:
            pass

    def bad_lines(self) -> list[int]:
        """The lines of which an op made something bad, ascending; reads what it has to."""
        if self._bad_lines is None:
            names = dict.fromkeys(name for names in self._lines.values() for name in names)
            bad: set[str] = set()
            for datum in self._dump.maybe_nonfinite(self._data(names)):
                if datum.node_name not in bad:
                    known = self._measurements.peek(datum, numbers=False)
                    health = (known or self._measurements.measure(datum)).health
                    if health is not None and health.bad:
                        bad.add(datum.node_name)
            lines = (number for number, each in self._lines.items() if not bad.isdisjoint(each))
            self._bad_lines = sorted(lines)
        return self._bad_lines


def _worse(found: Worst, datum: Datum, health: Health) -> Worst:
    if not health.bad:
        return found
    role = "nan" if health.nan or found.role == "nan" else "inf"
    first, its = found.first, found.health
    if first is None or datum.timestamp < first.timestamp:
        first, its = datum, health
    return Worst(first, its, found.total + 1, role, found.is_known)


def _is_small(datum: Datum) -> bool:
    try:
        return datum.nbytes <= _SMALL
    except Exception:  # it fails to load: quickly
        return True
