"""What a list of tensors says of each, read when a row is made and not before."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.dumps.graph import Node
from tfdbg_cli.tensors.histogram import Histogram
from tfdbg_cli.tensors.measurements import Measurements
from tfdbg_cli.tensors.statistics import Statistics

__all__ = ["Facts", "TensorFacts"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a row is made of.

    Attributes:
        datum: the tensor.
        op_type: of its node; empty where unknown.
        milliseconds: since the first dump of the run.
        nbytes, dtype, shape: of the value; ``None`` and empty where they can't be read.
        statistics: ``None``: not known yet.
        number: which of its tensor's dumps, as ``pt -n`` counts; ``None``: it is the only one.
        histogram: ``None``: not known yet, or not asked for.
        look_up: gives the node that made it, where the graph has it; the graph may be large.
    """

    datum: Datum
    op_type: str
    milliseconds: float
    nbytes: int | None
    dtype: str
    shape: tuple[int, ...] | None
    statistics: Statistics | None
    number: int | None
    histogram: Histogram | None = None
    look_up: Callable[[Datum], Node | None] = lambda datum: None

    def attribute(self, name: str) -> str:
        """An attribute of its node; empty where it has none."""
        node = self.look_up(self.datum)
        return node.attributes.get(name, "") if node is not None else ""

    @property
    def is_damaged(self) -> bool:
        """Whether the value can't be read, as far as that is known."""
        return not self.dtype and (
            self.nbytes is None or (self.statistics is not None and bool(self.statistics.error))
        )


class TensorFacts:
    """Where a list looks up the facts of its tensors.

    Args:
        dump: the dump that all of them are from.
    """

    def __init__(self, dump: Dump) -> None:
        self.dump = dump
        self.measurements = Measurements.of(dump)
        self._numbers: dict[str, dict[int, int]] = {}

    def milliseconds(self, datum: Datum) -> float:
        """When it was dumped, after the first dump of the run."""
        return (datum.timestamp - self._t0) / 1000

    @functools.cached_property
    def _t0(self) -> int:
        return self.dump.t0()

    def op_type(self, datum: Datum) -> str:
        """The op type of its node; empty where unknown."""
        # Some dumps say it of each tensor: no node has to be looked up.
        return getattr(datum, "op_type", "") or self.dump.op_type(datum.node_name)

    def attribute(self, datum: Datum, name: str) -> str:
        """An attribute of its node; empty where it has none."""
        node = self._node(datum)
        return node.attributes.get(name, "") if node is not None else ""

    def _node(self, datum: Datum) -> Node | None:
        return self.dump.node(datum.node_name)

    def measured(self, datum: Datum, *, numbers: bool = True) -> Statistics:
        """Its statistics, computed if need be; without ``numbers`` the health is enough."""
        found = self.measurements.peek(datum, numbers=numbers)
        return found if found is not None else self.measurements.measure(datum)

    def number(self, datum: Datum) -> int | None:
        """Which of its tensor's dumps it is, as ``pt -n`` counts; ``None``: it is the only one.

        That is its execution index, unless several devices or debug ops dumped the tensor.
        """
        if self._repeated is not None:
            is_repeated = (datum.node_name, datum.output_slot) in self._repeated
            return datum.execution if is_repeated else None
        name = datum.tensor_name
        all_of = self.dump.by_tensor(name)
        if len(all_of) < 2:
            return None
        if name not in self._numbers:
            self._numbers[name] = {id(each): number for number, each in enumerate(all_of)}
        return self._numbers[name].get(id(datum))

    @functools.cached_property
    def _repeated(self) -> set[tuple[str, int]] | None:
        """The tensors with several dumps; ``None`` where one device or debug op isn't all."""
        return self.dump.tables().repeated()

    def facts(
        self,
        datum: Datum,
        statistics: Statistics | None = None,
        histogram: Histogram | None = None,
    ) -> Facts:
        """All facts of a tensor."""
        nbytes, dtype, shape = None, "", None
        with contained:  # the row says that it is damaged, pt says why
            nbytes, dtype, shape = datum.nbytes, datum.dtype, datum.shape
        return Facts(
            datum,
            self.op_type(datum),
            self.milliseconds(datum),
            nbytes,
            dtype,
            shape,
            statistics,
            self.number(datum),
            histogram,
            self._node,
        )
