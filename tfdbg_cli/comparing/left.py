"""What a run has left within the bar is within it at the start of the next one.

An optimizer may make something large of a gradient that is 0 but for rounding. Where the step that
did so was judged, its result is not judged again by what is allowed of it alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.comparing.alignment import Pair
from tfdbg_cli.comparing.digests import digest_in
from tfdbg_cli.comparing.origins import Side
from tfdbg_cli.dumps.datum import Datum

__all__ = ["Left"]


class Left:
    """The contents of tensors that were within the bar, though not equal, over several runs."""

    def __init__(self) -> None:
        self._known: set[tuple[bytes, bytes]] = set()

    def add(self, sides: Sequence[Side], pair: Pair) -> None:
        """Note a pair that is within the bar, if it may be what a variable holds from now on."""
        assert pair.first is not None
        node = sides[0].nodes.get(pair.first.node_name)
        is_kept = sides[0].dump.digest(pair.first) is not None
        if is_kept or (node is not None and "_writes" in node.attributes):
            found = _contents(sides, pair)
            if found is not None:
                self._known.add(found)

    def has(self, sides: Sequence[Side], pair: Pair) -> bool:
        """Whether the content of a pair was noted."""
        return bool(self._known) and _contents(sides, pair) in self._known


def _contents(sides: Sequence[Side], pair: Pair) -> tuple[bytes, bytes] | None:
    assert pair.first is not None
    assert pair.second is not None
    one, other = _hash(sides[0], pair.first), _hash(sides[1], pair.second)
    return (one, other) if one and other else None


def _hash(side: Side, datum: Datum) -> bytes | None:
    try:
        found = side.dump.digest(datum) or digest_in(side.dump, datum)
    except (DumpError, OSError):
        return None
    return found.hash if found is not None else None
