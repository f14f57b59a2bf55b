"""How numbers are distributed: histograms as data, and quantiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.tensors.numeric import blocks, dtype_kind, widened

__all__ = ["QUANTILES", "Collector", "Distribution", "Histogram", "bars", "histogram_of"]

_Number = float | int

#: The quantiles of a summary, as fractions.
QUANTILES = (0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0)

#: Arrays up to this size are measured whole.
EXACT = 1 << 24

_SAMPLE = 1 << 20  # elements of a larger one that are looked at
_BINS = 240  # what a picture has less room for is merged
_BLOCK = 1 << 20
_BLOCKS = "▁▂▃▄▅▆▇█"  # U+2581 to U+2588


@dataclass(frozen=True)
class Histogram:
    """How many numbers fall into each of the bins between the smallest and the largest.

    Attributes:
        edges: of the bins, ascending, one more than there are bins; none where no number is
            finite. A bin holds what is not smaller than its lower edge and smaller than the upper
            one, the last bin this one too. Of whole numbers they are whole.
        counts: elements in each bin. If all numbers are equal there is one bin, without a width.
        bad: how many elements are nan, minus infinity and plus infinity; they are in no bin.
        is_log: whether the bins are equal in the logarithms of absolute values: negative numbers,
            those that are zero in a bin of their own, then positive ones.
        zero: of a logarithmic one, the bin of what is zero; -1: there is none.
        sampled: how many elements were looked at for ``counts``; 0: all of them.
    """

    edges: tuple[_Number, ...]
    counts: tuple[int, ...]
    bad: tuple[int, int, int] = (0, 0, 0)
    is_log: bool = False
    zero: int = -1
    sampled: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether it is one of whole numbers."""
        return bool(self.edges) and isinstance(self.edges[0], int) and not self.is_log

    def merged(self, bins: int) -> Histogram:
        """The same with at most so many bins, neighbours together; zero stays alone."""
        count = len(self.counts)
        sides = [(0, count)] if self.zero < 0 else [(0, self.zero), (self.zero + 1, count)]
        alone = int(self.zero >= 0)
        step = 1
        while sum(-(-(last - first) // step) for first, last in sides) + alone > max(bins, 3):
            step += 1
        if step == 1:
            return self
        starts: list[int] = []
        zero = -1
        for first, last in sides:
            starts += range(first, last, step)
            if self.zero >= 0 and last == self.zero:
                zero = len(starts)
                starts.append(self.zero)
        ends = [*starts[1:], count]
        counts = [sum(self.counts[a:b]) for a, b in zip(starts, ends, strict=True)]
        edges = [*(self.edges[at] for at in starts), self.edges[-1]]
        return replace(self, edges=tuple(edges), counts=tuple(counts), zero=zero)

    def share(self, number: float) -> float:
        """Where a number is on the axis, from 0 to 1: every bin is as wide as any other."""
        bins = len(self.counts)
        if self.is_whole and number == math.floor(number):
            number += 0.5 * min(self.edges[1] - self.edges[0], 1)  # the middle of its bar
        if self.zero >= 0 and not number:
            return (self.zero + 0.5) / bins
        at = 0
        while at < bins - 1 and number >= self.edges[at + 1]:
            at += 1
        low, high = self.edges[at], self.edges[at + 1]
        if self.is_log and low and high and (low > 0) == (high > 0) and number:
            low, high, number = (math.log(abs(each)) for each in (low, high, number))
        # Halves: the span of the largest floating point numbers would be infinite.
        half = 0.5 if max(abs(low), abs(high)) > 1e300 else 1.0
        span = high * half - low * half
        inside = (number * half - low * half) / span if span else 0.5
        return (at + min(max(inside, 0.0), 1.0)) / bins

    def ticks(self, most: int = 7) -> list[float]:
        """Round numbers on the axis, ascending; the ends aren't among them unless they are round.

        Args:
            most: about how many.
        """
        if len(self.edges) < 2 or self.edges[0] == self.edges[-1]:
            return []
        low, high = float(self.edges[0]), float(self.edges[-1])
        if self.is_whole:
            found = _round_numbers(low, high - 1, most)
            return [number for number in found if number == math.floor(number)]
        if not self.is_log:
            return _round_numbers(low, high, most)
        found = [0.0] if self.zero >= 0 else []
        signs = [sign for sign, far in ((-1, low), (1, high)) if far * sign > 0]
        for sign in signs:
            sizes = [abs(float(edge)) for edge in self.edges if edge * sign > 0]
            first = math.ceil(math.log10(min(sizes)))
            last = math.floor(math.log10(max(sizes)))
            step = max(-(-(last - first + 1) * len(signs) // most), 1)
            found += [sign * 10.0**power for power in range(first, last + 1, step)]
        return sorted(found)


def _round_numbers(low: float, high: float, most: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten between two numbers."""
    span = high / most - low / most  # the difference itself may be infinite
    if not span or not math.isfinite(1 / span):
        return []
    power = 10.0 ** math.floor(math.log10(span))
    step = next(power * each for each in (1, 2, 5, 10, 20) if power * each >= span)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [each * step for each in range(first, last + 1)]


@dataclass(frozen=True)
class Distribution:
    """How finite numbers are distributed.

    Attributes:
        quantiles: one for each of `QUANTILES`, interpolated linearly as `numpy.quantile` does.
        histogram: of the same numbers.
    """

    quantiles: tuple[_Number, ...]
    histogram: Histogram

    @property
    def counts(self) -> tuple[int, ...]:
        """Elements in each bin of the histogram."""
        return self.histogram.counts

    @property
    def sampled(self) -> int:
        """How many elements were looked at; 0: all of them."""
        return self.histogram.sampled


class Collector:
    """Gathers the finite elements of an array, or a random sample of a very large one.

    Each block contributes in proportion to its size, at places that a fixed seed chooses: the same
    array gives the same sample.

    Args:
        size: elements of the whole array.
        exact: how many of them are at most gathered whole.
    """

    def __init__(self, size: int, exact: int = EXACT) -> None:
        self._share = 1.0 if size <= exact else min(_SAMPLE, exact) / size
        self._kept: list[Array] = []
        self._random = np.random.default_rng(0)

    def add(self, finite: Array) -> None:
        """Take the finite elements of a block: real numbers, 1-d."""
        if self._share < 1.0:
            count = math.ceil(finite.size * self._share)
            finite = finite[self._random.integers(0, finite.size, count)]
        self._kept.append(finite)

    def distribution(
        self, low: _Number, high: _Number, *, is_log: bool = False
    ) -> Distribution | None:
        """What was gathered, measured; ``None`` where nothing was.

        Args:
            low: the smallest element of the whole array.
            high: the largest one; larger than ``low``.
            is_log: whether the bins are to be equal in the logarithms.
        """
        if not self._kept:
            return None
        values = self._values()
        histogram = self._measured(values, low, high, is_log=is_log)
        inner = _quantiles(values, QUANTILES[1:-1])
        return Distribution((low, *inner, high), histogram)

    def histogram(self, low: _Number, high: _Number) -> Histogram:
        """A histogram alone, with bins of equal width; see `distribution`."""
        return self._measured(self._values(), low, high)

    def _values(self) -> Array:
        # One block is a view of the array itself, and partitioning works in place.
        values = self._kept[0].copy() if len(self._kept) == 1 else np.concatenate(self._kept)
        self._kept = []
        return values

    def _measured(
        self, values: Array, low: _Number, high: _Number, *, is_log: bool = False
    ) -> Histogram:
        found = (_logarithmic if is_log else _linear)(values, low, high)
        if self._share == 1.0:
            return found
        # No sample has both ends, and they are what one looks for.
        counts = list(found.counts)
        counts[0], counts[-1] = max(counts[0], 1), max(counts[-1], 1)
        return replace(found, counts=tuple(counts), sampled=values.size)


def histogram_of(
    value: Array, low: _Number, high: _Number, check: Callable[[], object], exact: int
) -> Histogram:
    """The histogram of an array of numbers whose ends are known, with bins of equal width.

    Args:
        value: numbers or booleans; complex numbers count by their absolute values.
        low: the smallest finite one.
        high: the largest one.
        check: called before each block; what it raises ends the measuring.
        exact: of larger arrays a sample is taken.
    """
    low, high = (int(each) if isinstance(each, bool) else each for each in (low, high))
    if low == high:
        return Histogram((low, high), (int(value.size),))
    collector = Collector(value.size, exact)
    with np.errstate(all="ignore"):
        for raw in blocks(value):
            check()
            block = widened(raw)
            kind = dtype_kind(block.dtype)
            if kind == "bool":
                block = block.view(np.uint8)
            elif kind in ("float", "complex"):
                block = block[np.isfinite(block)]
                block = np.abs(block.astype(np.complex128)) if kind == "complex" else block
            if block.size:
                collector.add(block)
        return collector.histogram(low, high)


def _quantiles(values: Array, fractions: Sequence[float]) -> list[_Number]:
    """Quantiles by linear interpolation; reorders ``values``."""
    places = [fraction * (values.size - 1) for fraction in fractions]
    ranks = sorted({rank for place in places for rank in (math.floor(place), math.ceil(place))})
    values.partition(ranks)
    found: list[_Number] = []
    for place in places:
        below, above = values[math.floor(place)].item(), values[math.ceil(place)].item()
        part = place - math.floor(place)
        # Weighted, because the difference of two large numbers may be infinite.
        found.append(below if below == above or not part else below * (1 - part) + above * part)
    return found


def _pieces(values: Array) -> Iterator[Array]:
    for at in range(0, values.size, _BLOCK):
        yield values[at : at + _BLOCK]


def _linear(values: Array, low: _Number, high: _Number) -> Histogram:
    if values.dtype.kind in "iu":
        return _whole(values, int(low), int(high))
    found = np.zeros(_BINS, dtype=np.int64)
    # Halves: the span of the largest floating point numbers would be infinite.
    half = 0.5 if max(abs(low), abs(high)) > 1e300 else 1.0
    begin, end = float(low) * half, float(high) * half
    for piece in _pieces(values):
        part = piece.astype(np.float64)
        part *= half
        part -= begin
        part /= end - begin
        part *= _BINS
        found += np.bincount(np.clip(part.astype(np.int64), 0, _BINS - 1), minlength=_BINS)
    inner = [(begin + (end - begin) * (at / _BINS)) / half for at in range(1, _BINS)]
    return Histogram((float(low), *inner, float(high)), tuple(found.tolist()))


def _whole(values: Array, low: int, high: int) -> Histogram:
    """Bins of the same whole width; integers of a small range have a bin each."""
    span = high - low + 1
    width = -(-span // _BINS)
    bins = -(-span // width)
    found = np.zeros(bins, dtype=np.int64)
    for piece in _pieces(values):
        # Modulo 2**64 the difference is right, whatever the ends.
        part = piece.astype(np.uint64) - np.uint64(low & 0xFFFFFFFFFFFFFFFF)
        found += np.bincount((part // np.uint64(width)).astype(np.int64), minlength=bins)
    edges = tuple(low + at * width for at in range(bins + 1))
    return Histogram(edges, tuple(found.tolist()))


def _logarithmic(values: Array, low: _Number, high: _Number) -> Histogram:
    """Bins that are equal in the logarithm, for each sign, with zero between them."""
    smallest = math.inf
    for piece in _pieces(values):
        sizes = np.abs(piece.astype(np.float64))
        smallest = min(smallest, float(np.min(sizes, where=sizes > 0, initial=math.inf)))
    tops = [max(float(-low), 0.0), max(float(high), 0.0)]
    smallest = min(smallest, *(top for top in tops if top))
    decades = [math.log10(top) - math.log10(smallest) if top else 0.0 for top in tops]
    has_zero = low <= 0 <= high
    room = _BINS - has_zero
    sides = [
        max(round(room * each / (sum(decades) or 1.0)), 1) if top else 0
        for top, each in zip(tops, decades, strict=True)
    ]
    found = [np.zeros(bins, dtype=np.int64) for bins in sides]
    zeros = 0
    for piece in _pieces(values):
        part = piece.astype(np.float64)
        zeros += int(np.count_nonzero(part == 0))
        for at, side in enumerate((-part[part < 0], part[part > 0])):
            if side.size:
                share = (np.log10(side) - math.log10(smallest)) / (decades[at] or 1.0)
                places = np.clip((share * sides[at]).astype(np.int64), 0, sides[at] - 1)
                found[at] += np.bincount(places, minlength=sides[at])
    sizes_of = [
        [smallest, *(_power(smallest, each / bins, top) for each in range(1, bins)), top]
        for bins, top in zip(sides, tops, strict=True)
        if bins
    ]
    below = [-size for size in reversed(sizes_of[0])] if sides[0] else []
    above = sizes_of[-1] if sides[1] else []
    counts = [*reversed(found[0].tolist()), *([zeros] if has_zero else []), *found[1].tolist()]
    if has_zero and not below:
        below = [0.0]
    if has_zero and not above:
        above = [0.0]
    return Histogram(
        (*below, *above), tuple(counts), is_log=True, zero=sides[0] if has_zero else -1
    )


def _power(low: float, share: float, high: float) -> float:
    """What is so far from one positive number to another in the logarithm."""
    return float(10.0 ** (math.log10(low) * (1 - share) + math.log10(high) * share))


def bars(counts: Sequence[int]) -> str:
    """Bars of eight heights, the tallest for the largest count; a blank for none at all."""
    top = max(counts, default=0)
    return "".join(_BLOCKS[(8 * count - 1) // top] if count else " " for count in counts)
