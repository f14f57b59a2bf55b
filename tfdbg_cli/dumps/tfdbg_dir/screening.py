"""Which of many dumps may hold something bad: small files are read and judged together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from tfdbg_cli.common.arrays import np
from tfdbg_cli.dumps.dtypes import DType, decode
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.finite import all_finite
from tfdbg_cli.dumps.tfdbg_dir.datum import DebugTensorDatum

__all__ = ["maybe_nonfinite"]

# So many tensors are judged together: few at first, somebody may want only one.
_FIRST, _MOST = 16, 1024


def maybe_nonfinite(data: Iterable[Datum]) -> Iterator[Datum]:
    """Those of some dumps that may hold a nan or an infinity; all that can't be told at once, too.

    Args:
        data: dumps of any kind, of which those in files of the original's format are looked at.
    """
    rest, count = iter(data), _FIRST
    while chunk := list(islice(rest, count)):
        count = min(2 * count, _MOST)
        yield from _suspects(chunk)


def _suspects(chunk: list[Datum]) -> list[Datum]:
    """As `maybe_nonfinite`: the elements of all tensors of a type are judged as one array."""
    found: list[int] = []
    held: dict[str, tuple[DType, list[int], list[bytes]]] = {}
    for number, datum in enumerate(chunk):
        plain = datum.plain() if isinstance(datum, DebugTensorDatum) else None
        if plain is None:
            found.append(number)
            continue
        (dtype, _, start, end), data = plain
        if dtype.name not in held:
            held[dtype.name] = dtype, [], []
        _, numbers, pieces = held[dtype.name]
        numbers.append(number)
        pieces.append(data[start:end])
    for dtype, numbers, pieces in held.values():
        values = decode(np.frombuffer(b"".join(pieces), dtype.raw), dtype)
        if all_finite(values):
            continue
        known = values if values.dtype.kind in "fc" else values.astype(np.float32)
        ends = np.cumsum([len(piece) for piece in pieces]) // dtype.itemsize
        places = np.searchsorted(ends, np.flatnonzero(~np.isfinite(known)), side="right")
        found += [numbers[at] for at in np.unique(places)]
    return [chunk[number] for number in sorted(found)]
