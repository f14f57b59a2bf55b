"""What is known of the tensors of a stepped run: of the real one, and of what was computed anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.engines.kit.replayed import StepData
from tfdbg_cli.engines.tensorflow.sessions.stepping.layout import UnitLayout

__all__ = ["RunRecord"]


class RunRecord(StepData):
    """The tensors of one execution, by the units that made them.

    Args:
        layout: the units.
        data: the tensors in time order. Those inside of a function's body belong to the unit
            that calls it.
    """

    def __init__(self, layout: UnitLayout, data: Iterable[Datum]) -> None:
        fed = {(op.name, slot) for op, slot in layout.fed}

        def place(datum: Datum) -> int | None:
            if (datum.node_name, datum.output_slot) in fed:
                return -1
            return _place(layout.places, datum.node_name)

        super().__init__(place, data)

    def array(self, tensor: Any) -> Any:
        """The last value of a tensor where it is an array, else ``None``."""
        value = self.value(tensor.name)
        return value if isinstance(value, np.ndarray | np.generic) else None


def _place(places: Mapping[str, int], name: str) -> int | None:
    """The unit of a node, which may be inside of a function that the unit calls."""
    while name not in places:
        name, slash, _ = name.rpartition("/")
        if not slash:
            return None
    return places[name]
