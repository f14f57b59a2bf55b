"""What is known of the tensors of a stepped run: of the real one, and of what was computed anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.engines.tensorflow.stepping.layout import UnitLayout

__all__ = ["RunRecord"]


class RunRecord:
    """The tensors of one execution, by the units that made them.

    Args:
        layout: the units.
        data: the tensors in time order. Those inside of a function's body belong to the unit
            that calls it.

    Attributes:
        by_unit: unit -> its tensors.
        fed: the tensors that were fed.
    """

    def __init__(self, layout: UnitLayout, data: Iterable[Datum]) -> None:
        self.by_unit: dict[int, list[Datum]] = {}
        self.fed: list[Datum] = []
        self._last: dict[str, tuple[int, Datum]] = {}
        fed = {(op.name, slot) for op, slot in layout.fed}
        places = layout.places
        for datum in data:
            if (datum.node_name, datum.output_slot) in fed:
                self.fed.append(datum)
                self._last[datum.tensor_name] = -1, datum
                continue
            place = _place(places, datum.node_name)
            if place is not None:
                self.by_unit.setdefault(place, []).append(datum)
                self._last[datum.tensor_name] = place, datum

    def take_over(self, other: RunRecord, units: Iterable[int]) -> None:
        """Add what another execution gave for units of which nothing, or not all, is known."""
        for unit in units:
            for datum in other.of(unit):
                if datum.tensor_name not in self._last:
                    self.by_unit.setdefault(unit, []).append(datum)
                    self._last[datum.tensor_name] = unit, datum

    @property
    def names(self) -> Iterable[str]:
        """The names of the tensors."""
        return self._last

    def place(self, tensor_name: str) -> int | None:
        """The unit that made a tensor; -1: it was fed; ``None``: it has no value."""
        found = self._last.get(tensor_name)
        return found[0] if found is not None else None

    def value(self, tensor_name: str) -> Any:
        """The last value of a tensor, which others hold as well; ``None``: there is none."""
        found = self._last.get(tensor_name)
        return found[1].get_tensor() if found is not None else None

    def array(self, tensor: Any) -> Any:
        """The last value of a tensor where it is an array, else ``None``."""
        value = self.value(tensor.name)
        return value if isinstance(value, np.ndarray | np.generic) else None

    def of(self, unit: int) -> Sequence[Datum]:
        """The tensors of a unit, in time order."""
        return self.by_unit.get(unit, ())


def _place(places: Mapping[str, int], name: str) -> int | None:
    """The unit of a node, which may be inside of a function that the unit calls."""
    while name not in places:
        name, slash, _ = name.rpartition("/")
        if not slash:
            return None
    return places[name]
