"""Where the tensors of one dump are found: by name, by node, and those that a list begins with.

`Tables` goes through all of them once. A dump on disk that knows the answers without making a
`Datum` of each has `LazyData` and tables of its own.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.interpreter.garbage import collector_paused
from tfdbg_cli.dumps.datum import Datum

__all__ = ["DatumMaker", "LazyData", "Tables"]

# Whoever goes through a sequence gets so many made at once.
_CHUNK = 1024


class DatumMaker(ABC):
    """Makes the tensors of a dump when somebody asks for them, each once."""

    def __init__(self) -> None:
        self._made: dict[int, Datum] = {}

    @abstractmethod
    def make(self, places: np.ndarray[Any, Any]) -> Iterable[Datum]:
        """New tensors for places in the order of the dump."""

    def get(self, places: np.ndarray[Any, Any]) -> list[Datum]:
        """The tensors at some places; the same object for the same place, always."""
        wanted: list[int] = places.tolist()
        made = self._made
        missing = [at for at in wanted if at not in made]
        if missing:
            with collector_paused():
                for at, datum in zip(missing, self.make(np.array(missing)), strict=True):
                    made.setdefault(at, datum)
        return [made[at] for at in wanted]


class LazyData(Sequence[Datum]):
    """Tensors of a dump that are made as they are looked at; a slice of it makes none.

    Args:
        maker: what makes them.
        places: of which tensors, by their places in the order of the dump.
    """

    def __init__(self, maker: DatumMaker, places: np.ndarray[Any, Any]) -> None:
        self._maker = maker
        self.places = places

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, at: int) -> Datum: ...
    @overload
    def __getitem__(self, at: slice) -> LazyData: ...
    def __getitem__(self, at: int | slice) -> Datum | LazyData:
        if isinstance(at, slice):
            return LazyData(self._maker, self.places[at])
        at = operator.index(at)
        if not -len(self.places) <= at < len(self.places):
            raise IndexError(at)
        return self._maker.get(self.places[at : at + 1 or None])[0]

    def __iter__(self) -> Iterator[Datum]:
        for begin in range(0, len(self.places), _CHUNK):
            yield from self._maker.get(self.places[begin : begin + _CHUNK])

    def __reversed__(self) -> Iterator[Datum]:
        return iter(self[::-1])

    def where(self, holds: np.ndarray[Any, Any]) -> LazyData:
        """Those for whose places in the order of the dump something holds."""
        return LazyData(self._maker, self.places[holds[self.places]])


class Tables:
    """What is asked of all tensors of a dump, without their values.

    Args:
        data: the tensors in time order, numbered.
    """

    def __init__(self, data: Sequence[Datum]) -> None:
        self._data = data
        self._by_tensor: dict[str, list[Datum]] | None = None
        self._by_node: dict[str, list[Datum]] | None = None

    def by_tensor(self, tensor_name: str) -> list[Datum]:
        """The dumps of ``node:slot``, in time order."""
        return self._tensors().get(tensor_name, [])

    def by_node(self, node_name: str) -> list[Datum]:
        """The dumps of all slots of a node, in time order."""
        return self._nodes().get(node_name, [])

    def tensor_names(self) -> list[str]:
        """All names, in the order of their first dumps."""
        return list(self._tensors())

    def node_names(self) -> list[str]:
        """The nodes of all, in the order of their first dumps."""
        return list(self._nodes())

    def _tensors(self) -> dict[str, list[Datum]]:
        if self._by_tensor is None:
            self._by_tensor = _table(self._data, "tensor_name")
        return self._by_tensor

    def _nodes(self) -> dict[str, list[Datum]]:
        if self._by_node is None:
            self._by_node = _table(self._data, "node_name")
        return self._by_node

    def first_time(self) -> int:
        """The time of the first dump, 0 where there is none."""
        return min(map(operator.attrgetter("timestamp"), self._data), default=0)

    def without_views(self) -> Sequence[Datum]:
        """Those that aren't views, in time order."""
        return [datum for datum in self._data if not datum.is_view]

    def repeated(self) -> set[tuple[str, int]] | None:
        """Nodes and slots with several dumps; ``None``: several devices or debug ops made them."""
        data = self._data
        if len({datum.device_name for datum in data}) > 1:
            return None
        if len({datum.debug_op for datum in data}) > 1:
            return None
        return {(datum.node_name, datum.output_slot) for datum in data if datum.execution}


def _table(data: Iterable[Datum], attribute: str) -> dict[str, list[Datum]]:
    """Tensors by one of their attributes."""
    table: defaultdict[str, list[Datum]] = defaultdict(list)
    read = operator.attrgetter(attribute)
    with collector_paused():
        for datum in data:
            table[read(datum)].append(datum)
    return dict(table)
