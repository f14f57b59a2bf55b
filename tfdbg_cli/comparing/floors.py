"""What rounding may do to a pair by all that it was computed from."""

from __future__ import annotations

from typing import Any

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.comparing.alignment import Pair
from tfdbg_cli.comparing.digests import digest_in
from tfdbg_cli.comparing.gaps import Gap
from tfdbg_cli.comparing.given import CommonInputs
from tfdbg_cli.comparing.origins import Side
from tfdbg_cli.comparing.rounding import carried, summed
from tfdbg_cli.dumps.datum import Datum
from tfdbg_cli.dumps.dump import Dump

__all__ = ["floor_of"]


def floor_of(
    sides: tuple[Side, Side], pair: Pair, found: Gap, step: float, given: CommonInputs, added: int
) -> float:
    """How far a pair may be apart for its summands, and for how far its inputs are apart.

    Args:
        sides: the two runs.
        pair: the tensors.
        found: how far they are apart, exactly.
        step: of the coarsest dtype that they were computed in.
        given: what they were computed from.
        added: how many numbers make one element.
    """
    assert pair.first is not None
    dump, name = sides[0].dump, pair.first.node_name
    node, op_type = sides[0].nodes.get(name), dump.op_type(name)
    meaning = sides[0].roles.computes(op_type)
    read = [each._replace(scale=each.scale or _scale(dump, each.datum)) for each in given.read]
    return summed(meaning, op_type, read, added, step) + carried(
        *(meaning, op_type, read, added, found.scale, found.total),
        # What one run alone has computed explains nothing.
        lambda: [] if any(given.alone) else _inputs(sides, pair),
        node.attributes if node is not None else {},
    )


def _scale(dump: Dump, datum: Datum) -> float:
    """The largest element of a tensor, without its sign."""
    known = digest_in(dump, datum)
    if known is None or not known.least <= known.most:
        return 0.0
    return max(abs(known.least), abs(known.most))


def _inputs(sides: tuple[Side, Side], pair: Pair) -> list[list[Any]]:
    """The values that an op was given in each run; empty: one of them wasn't kept."""
    made: list[list[Any]] = []
    for side, datum in zip(sides, pair[:2], strict=True):
        assert datum is not None
        values = []
        for name in side.inputs(datum.node_name):
            data = side.dump.by_tensor(name)
            if not data:
                return []
            try:
                values.append(side.dump.value(data[min(datum.execution, len(data) - 1)]))
            except (DumpError, OSError):
                return []
        made.append(values)
    return made
