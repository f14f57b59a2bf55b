"""How far two tensors are apart of which only hashes and statistics are there."""

from __future__ import annotations

import math
from math import prod

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.comparing.gaps import Gap
from tfdbg_cli.dumps.datum import Datum
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.run_folder.digests import Digest, digest_of
from tfdbg_cli.dumps.run_folder.safetensors_part import raw_bytes, storage_of

__all__ = ["digest_gap", "digest_in"]


def digest_in(dump: Dump, datum: Datum) -> Digest | None:
    """The digest of a tensor, as it was kept, or of its value.

    Returns:
        ``None``: the value can't be read, or is not an array of numbers.
    """
    try:
        found = dump.digest(datum)
        if found is not None:
            return found
        value = dump.value(datum)
        if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind in "OSUT":
            return None
        array = np.asarray(value)
        _, _, raw = storage_of(array, datum.dtype)
    except (DumpError, OSError):
        return None
    return digest_of(array, raw_bytes(raw))


def digest_gap(one: Digest, other: Digest, first: Datum, second: Datum) -> Gap:
    """The least that two tensors can be apart.

    If no element is farther from its counterpart than d, then neither are minima, maxima, means
    and standard deviations: the largest of these differences is a lower bound of d.
    """
    if first.shape != second.shape:
        shapes = f"{[*(first.shape or ())]} and {[*(second.shape or ())]}"
        return Gap(prod(first.shape or ()), problem=f"the shapes differ: {shapes}")
    total = prod(first.shape or ())
    if one.hash == other.hash and first.dtype == second.dtype:
        return Gap(total, True)
    pairs = (one.least, other.least), (one.most, other.most), (one.mean, other.mean)
    apart = [abs(a - b) for a, b in (*pairs, (one.std, other.std))]
    most = max((each for each in apart if math.isfinite(each)), default=0.0)
    scale = max((abs(each) for each in (one.least, one.most) if math.isfinite(each)), default=0.0)
    note = f"{one.range} | {other.range}" if math.isfinite(one.mean) else "other elements"
    return Gap(total, False, most, scale, total, one.bad != other.bad, note=note)
