"""How much of a signal is left where codes of 8 bits stand for numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.comparing.comparison import Comparison, Row
from tfdbg_cli.comparing.gaps import CODES
from tfdbg_cli.tensors.numeric import widened

__all__ = ["Signal", "signals"]

_SILENT = 200.0  # dB, of what is equal


class Signal(NamedTuple):
    """A pair of which one was computed of codes.

    Attributes:
        row: the pair.
        decibels: ratio of the first run's tensor to how far the second one is from it.
        before: the least of those that it was computed from; ``None``: none of them is known.
    """

    row: Row
    decibels: float
    before: float | None

    @property
    def lost(self) -> float:
        """How much is lost at this op."""
        return (_SILENT if self.before is None else self.before) - self.decibels


def signals(comparison: Comparison) -> Iterator[Signal]:
    """All pairs that codes were involved in, in order."""
    known: dict[str, float] = {}
    for row in comparison.rows():
        first, second = row.pair.first, row.pair.second
        if first is None or second is None or row.bar.dtype != CODES or row.gap.problem:
            continue
        try:
            one, other = map(np.asarray, comparison.values(row.pair))
        except (DumpError, OSError):
            continue
        if one.shape != other.shape or not one.size:
            continue
        decibels = _ratio(one, other)
        names = comparison.sides[1].origins(second.node_name).matched
        before = [known[name] for name in names if name in known]
        known[second.tensor_name] = decibels
        yield Signal(row, decibels, min(before, default=None))


def _ratio(one: Array, other: Array) -> float:
    signal, noise = widened(one).astype(np.float64), widened(other).astype(np.float64)
    with np.errstate(all="ignore"):
        power, lost = float(np.square(signal).sum()), float(np.square(signal - noise).sum())
    if not lost:
        return _SILENT
    return 10 * math.log10(power / lost) if power > 0 and math.isfinite(power / lost) else -_SILENT
