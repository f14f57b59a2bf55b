"""How the tensors are that the wires of a picture carry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tfdbg_cli.commands.tensors.health import TensorHealth
from tfdbg_cli.common.documents import Link
from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.tensors.measurements import Background, Measurements
from tfdbg_cli.tensors.statistics import Statistics

__all__ = ["LABEL", "UNKNOWN", "State", "States"]

#: The columns of the longest words of a state.
LABEL = 14

# Of a tensor that a loop has made again and again so many are looked at.
_MOST_DUMPS = 100


class State(NamedTuple):
    """How a tensor is.

    Attributes:
        text: a mark, and how many bad elements it has.
        role: of the text and of its wires.
        link: what leads to the tensor, if it was dumped.
        is_bad: it holds a nan or an infinity.
        is_pending: it is still looked through.
    """

    text: str
    role: str = "dim"
    link: Link | None = None
    is_bad: bool = False
    is_pending: bool = False


#: Of what carries no tensor that could be looked at.
UNKNOWN = State("")


class States:
    """Looks up how tensors are, and has those looked through of which nobody knows.

    Args:
        dump: whose tensors.
        health: of the dump; ``None``: it keeps no tensors.
    """

    def __init__(self, dump: Dump, health: TensorHealth | None) -> None:
        self._dump = dump
        self._health = health
        self._measurements = Measurements.of(dump)
        self._background = Background(self._measurements)

    def of(self, tensors: Iterable[str]) -> State:
        """How some tensors are: as the worst dump of any of them."""
        if self._health is None:
            return UNKNOWN
        data = [datum for tensor in tensors for datum in self._dump.by_tensor(tensor)]
        if not data:
            is_clean = self._dump.lists_only_bad
            return State("✓", "success") if is_clean else State("○ not dumped")
        del data[_MOST_DUMPS:]
        known = [(datum, self._measurements.peek(datum, numbers=False)) for datum in data]
        unknown = [datum for datum, statistics in known if statistics is None]
        self._background.want(unknown)
        bad = [(datum, found) for datum, found in known if found is not None and _bad(found)]
        if bad:
            return self._bad(*max(bad, key=lambda each: _bad(each[1])))
        link = self._health.link(data[0])
        if unknown:
            return State("…", link=link, is_pending=True)
        if any(found is not None and found.error for _, found in known):
            return State("? unreadable", "error", link)
        return State("✓", "success", link)

    def _bad(self, datum: Datum, found: Statistics) -> State:
        assert self._health is not None
        assert found.health is not None
        words = [f"{_short(count)} {word}" for count, word in found.health.kinds]
        text = f"✗ {' '.join(words)}"
        if len(text) > LABEL:
            text = f"✗ {words[0]} …"
        link = self._health.link(datum, bad=True)
        return State(text, "nan" if found.health.nan else "inf", link, is_bad=True)

    @property
    def is_pending(self) -> bool:
        """Whether something that was asked for is still looked through."""
        return self._background.is_pending

    def settle(self, tensors: Iterable[str]) -> None:
        """Look through some tensors now."""
        if self._health is None:
            return
        for tensor in tensors:
            data = self._dump.by_tensor(tensor)[:_MOST_DUMPS]
            for datum in data:
                self._health.of(datum)
            self._background.drop(data)


def _bad(found: Statistics) -> int:
    return found.health.bad if found.health is not None else 0


def _short(count: int) -> str:
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= 10 * size:
            return f"{count // size}{unit}"
    return str(count)
