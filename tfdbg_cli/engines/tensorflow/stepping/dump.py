"""The tensors of the steps that were done of a stepped run."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.elements import split_tensor_name

__all__ = ["in_order"]


def in_order(
    groups: Iterable[Sequence[Datum]], overrides: Mapping[str, Any], now: int
) -> Iterator[Datum]:
    """Tensors a microsecond apart; those overridden that are not among them come last.

    Args:
        groups: the tensors of each step.
        overrides: tensor name -> value.
        now: when the run has begun.
    """
    shown = set()
    for group in groups:
        for datum in group:
            now += 1
            name = datum.tensor_name
            shown.add(name)
            if name in overrides:
                yield _datum(datum.node_name, datum.output_slot, overrides[name], now)
            else:
                found = copy.copy(datum)
                found.timestamp = now
                yield found
    for name, value in overrides.items():
        if name not in shown:
            now += 1
            yield _datum(*split_tensor_name(name), value, now)


def _datum(node: str, slot: int, value: Any, timestamp: int) -> Datum:
    return Datum(node, slot, lambda: value, timestamp=timestamp)
