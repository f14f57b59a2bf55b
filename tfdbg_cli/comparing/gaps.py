"""How far the elements of two arrays are apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.dumps.dtypes import LAYOUTS, blocks, name_of
from tfdbg_cli.tensors.numeric import dtype_kind, widened

__all__ = [
    "CODES",
    "SHAPES",
    "Allowed",
    "Difference",
    "Gap",
    "beyond",
    "delta",
    "difference",
    "epsilon",
    "gap",
    "largest",
    "ulps",
]

#: How far two arrays may be apart, if the largest absolute value of the first one is so much.
Allowed = Callable[[float], float]

#: What stands for the dtype of numbers that were computed of codes of 8 bits.
CODES = "8-bit codes"

#: How the problem of two arrays begins whose elements don't belong together.
SHAPES = "the shapes differ"

# Elements that are looked at together: they, and what is computed of them, stay in a core's cache.
_PIECE = 1 << 16
_GLANCE = 1 << 10  # bytes
# By so much a difference is beyond what is allowed of the elements that were looked at, before the
# others of one array are looked at alone, to know what is allowed of all.
_SURELY = 2.0


class Gap(NamedTuple):
    """How far two arrays are apart, as far as it takes to judge them.

    Attributes:
        total: elements of the first one.
        is_equal: all elements are equal, nan to nan as well.
        max_abs: the largest absolute difference of two finite elements.
        scale: the largest absolute value among the finite elements of the first one.
        differing: how many elements differ; for floating point numbers, how many are there at
            most: they are counted only where they have to be.
        is_bad: an element is finite in one of them and not in the other, or not in the same way.
        problem: why they can't be compared element by element; empty: they can.
        note: what is known of them where the elements of one weren't kept, so that the numbers are
            the least that they can be; empty: they were.
        is_partial: ``max_abs`` and ``scale`` are the least that they can be, ``differing`` is of
            some elements: no more had to be looked at to tell whether that is too far.
    """

    total: int = 0
    is_equal: bool = False
    max_abs: float = 0.0
    scale: float = 0.0
    differing: int = 0
    is_bad: bool = False
    problem: str = ""
    note: str = ""
    is_partial: bool = False


class Difference(NamedTuple):
    """All that is told of two arrays.

    Attributes:
        differing, total: how many elements differ, and how many there are.
        max_abs, max_rel: the largest absolute difference, and the largest relative to the element
            of the first one, of finite elements.
        max_ulps: the largest number of floating point numbers between two elements, in the
            coarser of the two dtypes; ``None``: they are no such numbers.
        cosine: of the angle between them, of the elements that are finite in both; ``None``: those
            of one are 0 everywhere.
        flips: elements of which the sign differs, zeros aside.
    """

    differing: int
    total: int
    max_abs: float
    max_rel: float
    max_ulps: int | None
    cosine: float | None
    flips: int


def epsilon(dtype: str) -> float:
    """The distance of 1 to the next number of a dtype; 0 where there are only whole numbers."""
    if dtype == CODES:
        return 2.0**-7
    if dtype in LAYOUTS:
        return 2.0 ** -LAYOUTS[dtype].mantissa
    return {"float32": 2.0**-23, "complex64": 2.0**-23}.get(
        dtype,
        2.0**-52 if dtype in ("float64", "complex128") or dtype.startswith("longdouble") else 0.0,
    )


def gap(first: Any, second: Any, allowed: Allowed | None = None) -> Gap:
    """How far two values of a dump are apart.

    Args:
        first, second: arrays, or what a dump has instead of one.
        allowed: nobody wants to know more than whether they are farther apart than this.
    """
    if not isinstance(first, np.ndarray | np.generic) or not isinstance(
        second, np.ndarray | np.generic
    ):
        is_equal = str(first) == str(second)
        return Gap(is_equal=is_equal, problem="" if is_equal else "not both are arrays")
    one, other = np.asarray(first), np.asarray(second)
    if one.shape != other.shape:
        shapes = f"{list(one.shape)} and {list(other.shape)}"
        return Gap(one.size, problem=f"{SHAPES}: {shapes}")
    kinds = {dtype_kind(one.dtype), dtype_kind(other.dtype)}
    if len(kinds) > 1 and kinds & {"string", "other"}:
        return Gap(one.size, problem=f"{name_of(one.dtype)} and {name_of(other.dtype)}")
    if one.dtype == other.dtype and _same_bytes(one, other):
        return Gap(one.size, True)
    with np.errstate(all="ignore"):
        if kinds.isdisjoint({"float", "complex"}):
            return _exact_gap(one, other)
        return _float_gap(one, other, allowed)


def _same_bytes(one: Array, other: Array) -> bool:
    """Whether two arrays of one dtype are equal bit for bit; ``False``: they may be equal yet."""
    if one.dtype.hasobject or not (one.flags.c_contiguous and other.flags.c_contiguous):
        return False
    if not one.nbytes:
        return True
    pieces = [each.reshape(-1).view(np.uint8) for each in (one, other)]
    step = _PIECE * 4
    # Most that differ do so at once.
    if (pieces[0][:_GLANCE] != pieces[1][:_GLANCE]).any():
        return False
    for at in range(0, one.nbytes, step):
        left, right = (piece[at : at + step] for piece in pieces)
        if len(left) % 8 == 0:
            left, right = left.view(np.uint64), right.view(np.uint64)
        if not (left == right).all():
            return False
    return True


def _exact_gap(one: Array, other: Array) -> Gap:
    """Whole numbers, booleans, strings: an element is the same, or it isn't."""
    differing, most, scale = 0, 0.0, 0.0
    is_number = dtype_kind(one.dtype) != "string"
    for left, right in _pairs(one, other):
        unequal = left != right
        count = int(np.count_nonzero(unequal))
        differing += count
        if is_number:
            scale = max(scale, float(np.abs(left.astype(np.float64)).max(initial=0)))
        if count and is_number:
            most = max(most, float(_apart(left[unequal], right[unequal]).max()))
    return Gap(one.size, not differing, most, scale, differing)


def _float_gap(one: Array, other: Array, allowed: Allowed | None) -> Gap:
    most, scale, differing, is_bad = 0.0, 0.0, 0, False
    room: Array = np.empty(0)
    pieces = seen = 0
    for left, right in _pairs(one, other):
        pieces, seen = pieces + 1, seen + left.size
        if room.size < left.size:
            room = np.empty(left.size, np.result_type(left, right))
        apart = np.subtract(left, right, out=room[: left.size])
        here = _most(apart)
        if math.isfinite(here):  # so all elements are
            if allowed is None or pieces == 1:
                scale = max(scale, _scale(left))
            differing += left.size if here else 0
        else:
            here, scale_here, unequal, bad = _gap_of_some(left, right, np.abs(apart))
            scale, differing = max(scale, scale_here), differing + unequal
            is_bad |= bad
        most = max(most, here)
        if allowed is not None and (is_bad or most > _SURELY * allowed(scale)):
            break
    is_equal = not most and not is_bad
    found = Gap(one.size, is_equal, most, scale, 0 if is_equal else differing, is_bad)
    if allowed is None or (pieces <= 1 and seen == one.size):
        return found
    found = found._replace(is_partial=True)
    if is_bad or most <= allowed(scale):
        return found
    scale = max((_scale(piece) for piece in map(widened, blocks(one, _PIECE))), default=0.0)
    if most > allowed(scale):
        return found._replace(scale=scale)
    return _float_gap(one, other, None)  # what came later is larger


def _gap_of_some(left: Array, right: Array, apart: Array) -> tuple[float, float, int, bool]:
    """How far the finite elements are apart, their scale, how many differ, whether one is bad."""
    both = np.isfinite(left) & np.isfinite(right)
    differing = int(np.count_nonzero(~(both | _same(left, right))))
    is_bad = differing > 0
    if not both.any():
        return 0.0, 0.0, differing, is_bad
    # The difference of two finite numbers may be beyond what the dtype can hold.
    most, scale = float(apart[both].max()), float(np.abs(left[both]).max())
    differing += int(np.count_nonzero(apart[both])) if most else 0
    return most, scale, differing, is_bad


def _most(values: Array) -> float:
    """The largest absolute value; nan or infinite where an element is."""
    if values.dtype.kind != "f":
        return float(np.abs(values).max())
    return max(float(np.maximum.reduce(values)), -float(np.minimum.reduce(values)))


def _scale(values: Array) -> float:
    """The largest absolute value of the finite elements."""
    most = _most(values)
    if math.isfinite(most):
        return most
    return float(np.abs(values[np.isfinite(values)]).max(initial=0))


def _same(left: Array, right: Array) -> Array:
    """Where two arrays of numbers are equal, nan to nan as well."""
    equal: Array = left == right
    return equal if equal.all() else equal | (np.isnan(left) & np.isnan(right))


def _apart(left: Array, right: Array) -> Array:
    """How far elements are apart; of whole numbers exactly, if both are signed or both aren't."""
    kinds = left.dtype.kind + right.dtype.kind
    if kinds in ("ii", "uu"):
        # As far as two int64 are ever apart is a uint64, if it is computed without a sign.
        wide = np.int64 if kinds == "ii" else np.uint64
        one, other = (np.asarray(each, wide).view(np.uint64) for each in (left, right))
        return np.where(left > right, one - other, other - one)
    if set(kinds) & set("biu"):
        left = left.astype(np.float64)
    return np.asarray(np.abs(left - right))


def _pairs(one: Array, other: Array) -> Iterator[tuple[Array, Array]]:
    """Both in pieces, in dtypes that NumPy can compute with."""
    for left, right in _blocks(one, other):
        yield widened(left), widened(right)


def _blocks(one: Array, other: Array) -> Iterator[tuple[Array, Array]]:
    if one.flags.c_contiguous != other.flags.c_contiguous:
        one, other = np.ascontiguousarray(one), np.ascontiguousarray(other)
    for left, right in zip(blocks(one, _PIECE), blocks(other, _PIECE), strict=True):
        if left.size:
            yield left, right


def beyond(first: Array, second: Array, limit: float) -> int:
    """How many elements are farther apart than a limit, or bad in one array only."""
    count = 0
    with np.errstate(all="ignore"):
        for left, right in _pairs(first, second):
            same = (_apart(left, right) <= limit) | _same(left, right)
            count += left.size - int(np.count_nonzero(same))
    return count


def difference(first: Array, second: Array) -> Difference:
    """All that is told of two arrays of one shape, of numbers or booleans."""
    differing = flips = 0
    most = relative = 0.0
    farthest: int | None = None
    products = lengths = others = 0.0
    with np.errstate(all="ignore"):
        for raw, raw_other in _blocks(first, second):
            plain, other = widened(raw), widened(raw_other)
            differing += plain.size - int(np.count_nonzero(_same(plain, other)))
            left, right = _wide(raw), _wide(raw_other)
            if left.dtype.kind != "c":
                flips += int(np.count_nonzero((left < 0) & (right > 0) | (left > 0) & (right < 0)))
            both = np.isfinite(left) & np.isfinite(right)
            are_whole = not {plain.dtype.kind, other.dtype.kind} & set("fc")
            apart = _apart(plain, other) if are_whole else np.abs(left - right)
            most = max(most, float(apart.max(initial=0, where=both)))
            if not both.all():
                left, right = (np.where(both, each, 0) for each in (left, right))
            size = np.abs(left)
            ratio = np.divide(apart, size, out=np.zeros_like(size), where=both & (size > 0))
            relative = max(relative, float(ratio.max()))
            products += float((left * right.conj()).real.sum())
            lengths += float((size * size).sum())
            others += float((np.abs(right) ** 2).sum())
            found = ulps(raw, raw_other)
            if found is not None:
                at = int(np.where(both, found, 0).max())
                farthest = at if farthest is None else max(farthest, at)
    length = math.sqrt(lengths) * math.sqrt(others)
    cosine = products / length if length and math.isfinite(length) else None
    if cosine is not None:
        cosine = min(max(cosine, -1.0), 1.0)
    return Difference(differing, first.size, most, relative, farthest, cosine, flips)


def _wide(values: Array) -> Array:
    """The same numbers with room for their differences and squares."""
    plain = widened(values)
    return plain.astype(np.complex128 if plain.dtype.kind == "c" else np.float64)


def ulps(one: Array, other: Array) -> Array | None:
    """How many numbers of the coarser dtype lie between each two elements.

    Returns:
        int64; ``None``: they aren't floating point numbers of 8 bytes or less.
    """
    if dtype_kind(one.dtype) != "float" or dtype_kind(other.dtype) != "float":
        return None
    names = [name_of(one.dtype), name_of(other.dtype)]
    coarser = one.dtype if epsilon(names[0]) >= epsilon(names[1]) else other.dtype
    if coarser.itemsize > 8:
        return None
    places = []
    for each in (one, other):
        codes = each.astype(coarser).view(f"i{coarser.itemsize}").astype(np.int64)
        # Negative numbers count down from zero.
        bits = 8 * coarser.itemsize
        lowest = -(1 << (bits - 1))
        places.append(np.where(codes < 0, np.int64(lowest) - codes, codes))
    apart = places[0] - places[1]
    # Between the ends of float64 there are more than an int64 counts.
    is_beyond = (places[0] >= 0) != (places[1] >= 0)
    far = np.abs(places[0].astype(np.float64)) + np.abs(places[1].astype(np.float64))
    most = np.iinfo(np.int64).max
    return np.where(is_beyond & (far >= 2.0**63), most, np.abs(apart))


def delta(first: Array, second: Array) -> Array:
    """The second array minus the first; 0 where both are infinite or not a number alike."""
    left, right = widened(first), widened(second)
    with np.errstate(all="ignore"):
        if not {left.dtype.kind, right.dtype.kind} & set("fc"):
            apart = _apart(left, right).astype(np.float64)
            return np.where(right < left, -apart, apart)
        return np.where(_same(left, right), 0, np.asarray(right - left))


def largest(first: Array, second: Array, count: int) -> list[tuple[int, ...]]:
    """The indices of the elements that are farthest apart, those that are bad in one only first.

    Args:
        first, second: of one shape.
        count: how many at most.
    """
    if first.dtype.hasobject or dtype_kind(first.dtype) in ("string", "other"):
        apart = (first != second).astype(np.float64)
    else:
        with np.errstate(all="ignore"):
            left, right = widened(first), widened(second)
            apart = np.where(_same(left, right), 0, _apart(left, right)).astype(np.float64)
            apart = np.where(np.isfinite(apart), apart, np.inf)
    flat = apart.reshape(-1)
    found = np.argsort(-flat, kind="stable")[:count] if flat.size <= 1 << 20 else _top(flat, count)
    chosen = [int(at) for at in found if flat[at] > 0]
    return [tuple(int(i) for i in np.unravel_index(at, first.shape)) for at in chosen]


def _top(flat: Array, count: int) -> Array:
    found = np.argpartition(flat, -count)[-count:]
    return found[np.argsort(-flat[found], kind="stable")]
