"""Since which run a parameter has been different."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable
from pathlib import Path

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.comparing.alignment import Pair, Renamed, align
from tfdbg_cli.comparing.comparison import Comparison, Row
from tfdbg_cli.comparing.left import Left
from tfdbg_cli.dumps.open import open_dump

__all__ = ["different_since", "left_by"]

# Whoever asks waits for so many runs of each side to be opened, and for a tensor of each.
_MOST = 50


def different_since(
    comparison: Comparison, row: Row, earlier: Iterable[tuple[int, Path, Path]]
) -> tuple[int, bool] | None:
    """The earliest of the runs before in which a tensor is beyond the bar, without a gap.

    Args:
        comparison: of the run that is open.
        row: of the tensor, which both have.
        earlier: the runs before it, the latest first: number, folder, and that of the other side.

    Returns:
        Its number, and whether it is known that the run before it is within the bar or that there
        is none; ``None``: it isn't beyond the bar in the run before this one, or isn't there.
    """
    found: int | None = None
    for number, path, other in itertools.islice(earlier, _MOST):
        is_beyond = _is_beyond(comparison, row, path, other)
        if is_beyond is None:
            return None if found is None else (found, False)
        if not is_beyond:
            return None if found is None else (found, True)
        found = number
    return None if found is None else (found, found == 0)


def left_by(
    comparison: Comparison, earlier: Iterable[tuple[int, Path, Path]], renamed: Renamed
) -> Left:
    """What the runs before have left within the bar.

    Args:
        comparison, earlier: as `different_since` takes them.
        renamed: as `align` takes it.
    """
    left = Left()
    for _, path, other in reversed([*itertools.islice(earlier, _MOST)]):
        try:
            with (
                contextlib.closing(open_dump(path)) as first,
                contextlib.closing(open_dump(other)) as second,
            ):
                pairs = align(first, second, renamed)
                for _ in Comparison(first, second, pairs, comparison.bars, left).rows():
                    pass
        except UserError:
            continue
    return left


def _is_beyond(comparison: Comparison, row: Row, path: Path, other: Path) -> bool | None:
    """``None``: one of the runs hasn't got it, or can't be opened."""
    assert row.pair.first is not None
    assert row.pair.second is not None
    try:
        first = open_dump(path)
    except UserError:
        return None
    try:
        second = open_dump(other)
    except UserError:
        first.close()
        return None
    try:
        ones = first.by_tensor(row.pair.first.tensor_name)
        others = second.by_tensor(row.pair.second.tensor_name)
        if not ones or not others:
            return None
        again = Comparison(first, second, [Pair(ones[0], others[0], "name")], comparison.bars)
        return bool(again.beyond())
    finally:
        first.close()
        second.close()
