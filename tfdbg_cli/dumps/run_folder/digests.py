"""A hash and a few numbers of each tensor of a run folder, by which runs are told apart unread."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dtypes import blocks
from tfdbg_cli.dumps.files import Chunk
from tfdbg_cli.dumps.finite import count_bad

__all__ = ["DIGESTS_FILE", "Digest", "digest_of", "read_digests", "written_digests"]

DIGESTS_FILE = "digests.bin"

# A row for each tensor, in the order of the index; one that has none is all zeros.
_ROW = [("hash", "V16"), ("bad", "<i8", 3), ("numbers", "<f8", 4)]
_ROW_BYTES = 72
_NONE = bytes(16)
# What is computed of so many stays in a core's cache.
_PIECE = 1 << 13


class Digest(NamedTuple):
    """A tensor in 72 bytes.

    Attributes:
        hash: 16 bytes of the SHA-256 of its elements as a run folder stores them.
        bad: how many elements are NaN, minus infinity and plus infinity.
        least, most, mean, std: of the finite elements, as float64; NaN where there are none, and
            of what isn't a real number.
    """

    hash: bytes
    bad: tuple[int, int, int]
    least: float
    most: float
    mean: float
    std: float

    @property
    def range(self) -> str:
        """The numbers in words."""
        return f"{self.least:.6g} to {self.most:.6g}, mean {self.mean:.6g}, std {self.std:.6g}"


def digest_of(
    value: np.ndarray[Any, Any], stored: Any, bad: tuple[int, int, int] | None = None
) -> Digest:
    """The digest of an array.

    Args:
        value: numbers, booleans or strings.
        stored: the bytes of its elements, as a run folder has them.
        bad: as `Digest.bad`, where it was counted.
    """
    import hashlib  # brings OpenSSL, 10 ms

    found = hashlib.sha256(stored).digest()[:16]
    is_text = value.dtype.kind in "OSUT"
    if bad is None:
        bad = (0, 0, 0) if is_text else count_bad(value)
    if is_text or value.dtype.kind == "c":
        return Digest(found, bad, math.nan, math.nan, math.nan, math.nan)
    return Digest(found, bad, *_statistics(value))


def _statistics(value: np.ndarray[Any, Any]) -> tuple[float, float, float, float]:
    """Minimum, maximum, mean and standard deviation of the finite elements.

    The parts are joined as Chan, Golub and LeVeque do it (1979, "Updating formulae and a pairwise
    algorithm for computing sample variances").
    """
    least, most = math.inf, -math.inf
    count, mean, squares = 0, 0.0, 0.0
    with np.errstate(all="ignore"):
        for block in blocks(value, _PIECE):
            part = _finite(_plain(block))
            if not part.size:
                continue
            low, high = float(part.min()), float(part.max())
            least, most = min(least, low), max(most, high)
            # From the middle nothing is far: the squares of the differences stay exact.
            shift = low / 2 + high / 2
            apart = np.subtract(part, shift, dtype=np.float64)
            total = float(apart.sum())
            middle = shift + total / part.size
            whole = count + part.size
            between = middle - mean
            squares += float(np.dot(apart, apart)) - total * total / part.size
            squares += between * between * count * part.size / whole
            mean += between * part.size / whole
            count = whole
    if not count:
        return math.nan, math.nan, math.nan, math.nan
    return least, most, mean, math.sqrt(max(squares, 0.0) / count)


def _plain(part: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same numbers in a dtype that NumPy computes with: bfloat16 and smaller: float32."""
    if part.dtype.kind == "b":
        return part.view(np.uint8)
    return part if part.dtype.isbuiltin == 1 else part.astype(np.float32)


def _finite(part: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The elements that are neither NaN nor infinite."""
    if part.dtype.kind != "f" or (
        np.isfinite(part.min(initial=0)) and np.isfinite(part.max(initial=0))
    ):
        return part
    found: np.ndarray[Any, Any] = part[np.isfinite(part)]
    return found


def written_digests(digests: Mapping[int, Digest], count: int) -> Iterable[Chunk]:
    """The content of the file.

    Args:
        digests: by the numbers of the tensors.
        count: of all tensors.
    """
    rows = np.zeros(count, _ROW)
    for number, each in digests.items():
        rows[number] = (each.hash, each.bad, (each.least, each.most, each.mean, each.std))
    yield rows.tobytes()


def read_digests(data: memoryview, count: int) -> Mapping[int, Digest]:
    """The digests by the numbers of the tensors.

    Raises:
        DumpError: it isn't as long as it must be.
    """
    if len(data) != count * _ROW_BYTES:
        raise DumpError(f"it has {len(data)} bytes in place of {count * _ROW_BYTES}")
    rows: Any = np.frombuffer(data, _ROW)
    return {
        number: Digest(bytes(row["hash"]), tuple(row["bad"].tolist()), *row["numbers"].tolist())
        for number, row in enumerate(rows)
        if bytes(row["hash"]) != _NONE
    }
