"""The numeric summary of ``pt -s``: how many elements of each kind, and their statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.documents import Line, Span
from tfdbg_cli.dumps.finite import count_bad
from tfdbg_cli.tensors.histogram import QUANTILES, Collector, Distribution, Histogram, bars
from tfdbg_cli.tensors.histogram_lines import histogram_lines
from tfdbg_cli.tensors.numeric import blocks, dtype_kind, dtype_name, exact_sum, widened
from tfdbg_cli.tensors.statistics import joined_mean

__all__ = ["Summary", "summarize", "summary_lines"]

#: How an element can be bad, in the order of `count_bad`.
_BAD = ("nan", "-inf", "+inf")

_BRIEF = 40  # bars of a histogram of one line

_DISTINCT = 1 << 20  # strings are told apart in arrays up to this size


@dataclass
class Summary:
    """Counts and statistics of the elements of one array.

    Attributes:
        counts: label -> number of elements, in display order, zeros included.
        total: all elements.
        minimum, maximum, mean, std: over the finite elements; ``None`` where there are none or
            they are no numbers. Of complex numbers: over the absolute values. Of strings: over
            their lengths.
        distribution: quantiles and histogram of the same numbers, unless all are equal.
        histogram: of the same numbers, or of booleans; ``None`` where there are none.
        parts: of complex numbers: ``real`` and ``imag`` -> label -> how many are nan or infinite.
        note: a word on what was counted.
    """

    counts: dict[str, int]
    total: int
    minimum: float | int | None = None
    maximum: float | int | None = None
    mean: float | None = None
    std: float | None = None
    distribution: Distribution | None = None
    histogram: Histogram | None = None
    parts: dict[str, dict[str, int]] | None = None
    note: str = ""


class _Moments:
    """Minimum, maximum, mean and variance of blocks of finite numbers, in float64."""

    def __init__(self) -> None:
        self.count, self.mean, self.moment = 0, 0.0, 0.0
        self.total = 0  # of integers, exactly
        self.low: Any = None
        self.high: Any = None

    def add(self, finite: Array) -> None:
        low, high = finite.min(), finite.max()
        if finite.dtype.kind in "iu":
            self.total += exact_sum(finite, max(abs(int(low)), abs(int(high))))
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)
        # Chan, Golub and LeVeque's update of mean and second moment from block to block.
        part = finite.astype(np.float64)
        mean = float(part.mean())
        if not math.isfinite(mean):  # the sum is, of the largest numbers
            mean = float((part / part.size).sum())
        # Rounding must not carry a mean beyond the extremes.
        mean = min(max(mean, float(low)), float(high))
        part -= mean
        part *= part
        delta, both = mean - self.mean, self.count + part.size
        self.moment += float(part.sum())
        if self.count:
            self.moment += delta * delta * self.count * part.size / both
        joined = joined_mean(self.mean, mean, part.size / both)
        self.mean = min(max(joined, float(self.low)), float(self.high))
        self.count = both

    def fill(self, summary: Summary) -> None:
        if self.count:
            summary.minimum, summary.maximum = self.low.item(), self.high.item()
            is_whole = isinstance(summary.minimum, int)
            summary.mean = self.total / self.count if is_whole else self.mean
            # The squares of the largest numbers are beyond what a float can hold.
            if math.isfinite(self.moment):
                summary.std = math.sqrt(max(self.moment / self.count, 0.0))


def _unchecked() -> None:
    pass


def summarize(
    value: Array, *, is_log: bool = False, check: Callable[[], object] = _unchecked
) -> Summary:
    """Count and measure the elements in one pass over bounded blocks.

    Quantiles and histogram of more than 16 million elements come from a sample of a million.

    Args:
        value: which.
        is_log: whether the bins of the histogram are to be equal in the logarithms.
        check: called before each block; what it raises ends the measuring.
    """
    kind = dtype_kind(value.dtype)
    if kind == "bool":
        true = int(np.count_nonzero(value))
        found = Summary({"False": value.size - true, "True": true}, int(value.size))
        if value.size:
            found.histogram = Histogram((0, 1, 2), (value.size - true, true))
        return found
    if kind == "string":
        return _summarize_strings(value, is_log, check)
    if kind == "other":
        return Summary({}, int(value.size), note=f"no statistics of {dtype_name(value.dtype)}")
    counts = dict.fromkeys(("nan", "-inf", "-", "0", "+", "+inf"), 0)
    found = Summary(counts, int(value.size))
    if kind == "complex":
        found.note = "of the absolute values"
        found.parts = {"real": dict.fromkeys(_BAD, 0), "imag": dict.fromkeys(_BAD, 0)}
    # Whatever the program wants NumPy to raise.
    with np.errstate(all="ignore"):
        moments, collector = _Moments(), Collector(value.size)
        for raw in blocks(value):
            check()
            block = widened(raw)
            if found.parts is not None:
                block = _absolute(block, found.parts)
            finite = block if kind == "int" else _split_off_bad(block, counts)
            if not finite.size:
                continue
            counts["-"] += int(np.count_nonzero(finite < 0))
            counts["0"] += int(np.count_nonzero(finite == 0))
            counts["+"] += int(np.count_nonzero(finite > 0))
            moments.add(finite)
            collector.add(finite)
        moments.fill(found)
        _distribute(found, collector, moments.count, is_log)
    return found


def _distribute(found: Summary, collector: Collector, finite: int, is_log: bool) -> None:
    """Say how the numbers are distributed that a collector has, so many of them in the array."""
    low, high = found.minimum, found.maximum
    nan, neg_inf, pos_inf = (found.counts.get(label, 0) for label in _BAD)
    bad = nan, neg_inf, pos_inf
    if low is None or high is None:
        found.histogram = Histogram((), (), bad) if any(bad) else None
    elif low == high:
        found.histogram = Histogram((low, high), (finite,), bad)
    else:
        found.distribution = collector.distribution(low, high, is_log=is_log)
        if found.distribution is not None:
            found.histogram = replace(found.distribution.histogram, bad=bad)


def _split_off_bad(block: Array, counts: dict[str, int]) -> Array:
    """Count what is not finite; returns the rest."""
    is_finite = np.isfinite(block)
    if is_finite.all():
        return block
    for label, count in zip(_BAD, count_bad(block[~is_finite]), strict=True):
        counts[label] += count
    return block[is_finite]


def _absolute(block: Array, parts: dict[str, dict[str, int]]) -> Array:
    """The absolute values of complex numbers; counts what is bad in their parts."""
    _split_off_bad(block.real, parts["real"])
    _split_off_bad(block.imag, parts["imag"])
    # A complex number with a nan part is nan, whatever np.abs makes of (nan, inf).
    nan = np.isnan(block)
    sizes: Array = np.abs(block.astype(np.complex128))
    sizes[nan] = np.nan
    return sizes


def _summarize_strings(value: Array, is_log: bool, check: Callable[[], object]) -> Summary:
    """Strings: how many are empty, how many differ, and their lengths.

    An array of objects that are no strings has none of it.
    """
    if value.dtype.hasobject and not _holds_strings(value):
        return Summary({}, int(value.size), note="no statistics of Python objects")
    found = Summary({"empty": 0, "non-empty": 0}, int(value.size))
    seen: set[Any] | None = set() if value.size <= _DISTINCT else None
    moments, collector = _Moments(), Collector(value.size)
    for items in _string_blocks(value):
        check()
        lengths = np.fromiter(map(len, items), np.int64, len(items))
        empty = int(np.count_nonzero(lengths == 0))
        found.counts["empty"] += empty
        found.counts["non-empty"] += len(items) - empty
        if seen is not None:
            seen.update(items)
        moments.add(lengths)
        collector.add(lengths)
    moments.fill(found)
    with np.errstate(all="ignore"):
        _distribute(found, collector, moments.count, is_log)
    found.note = "lengths of the strings" if value.size else "strings"
    if seen is not None and value.size:
        found.note += f"; {len(seen)} distinct"
    return found


def _holds_strings(value: Array) -> bool:
    return all(isinstance(item, bytes | str) for items in _string_blocks(value) for item in items)


def _string_blocks(value: Array) -> Iterator[list[Any]]:
    for block in blocks(value):
        if block.size:
            yield block.tolist()


def _table(heads: Sequence[str], cells: Sequence[str], roles: Sequence[str]) -> list[Line]:
    widths = [max(len(head), len(cell)) for head, cell in zip(heads, cells, strict=True)]
    top, row = [Span("|")], [Span("|")]
    for head, cell, role, width in zip(heads, cells, roles, widths, strict=True):
        top.append(Span(f" {head:>{width}}", "bold"))
        row.append(Span(f" {cell:>{width}}", role))
        if head == heads[-1] or (head == heads[-2] and heads[-1] == "total"):
            top.append(Span(" |"))
            row.append(Span(" |"))
    return [Line(top), Line(row)]


def _number(number: float | int | None, digits: int) -> str:
    return str(number) if isinstance(number, int) else f"{number:.{digits}g}"


def _bad_role(label: str) -> str:
    return {"nan": "nan", "-inf": "inf", "+inf": "inf"}.get(label, "")


def summary_lines(
    summary: Summary,
    width: int = 80,
    *,
    log_counts: bool = False,
    choices: Line | None = None,
    is_brief: bool = False,
) -> list[Line]:
    """Small tables and a histogram.

    Counts of the kinds that occur with their total, the statistics, the quantiles, the histogram
    between the smallest and the largest number, and what else there is to say.

    Args:
        summary: which.
        width: columns that the histogram may take.
        log_counts: whether its bars grow with the logarithm of their counts.
        choices: what stands above the histogram; default: what it is.
        is_brief: whether the histogram takes one line only, if there is anything to compare.
    """
    shown = {label: count for label, count in summary.counts.items() if count}
    made = _table(
        [*shown, "total"],
        [str(count) for count in (*shown.values(), summary.total)],
        [*map(_bad_role, shown), ""],
    )
    if summary.mean is not None and summary.std is not None:
        numbers = (summary.minimum, summary.maximum, summary.mean, summary.std)
        cells = [_number(number, 8) for number in numbers]
        made += _table(["min", "max", "mean", "std"], cells, [""] * 4)
    found = summary.distribution
    if found is not None:
        heads = [f"{fraction:.0%}" for fraction in QUANTILES]
        made += _table(heads, [_number(number, 4) for number in found.quantiles], [""] * len(heads))
    if is_brief and found is not None:
        low, high = _number(found.quantiles[0], 4), _number(found.quantiles[-1], 4)
        picture = bars(found.histogram.merged(_BRIEF).counts)
        made.append(Line([Span(f"{low} |"), Span(picture, "number"), Span(f"| {high}")]))
    elif summary.histogram is not None and not is_brief:
        made += [choices or Line([Span("Histogram:", "heading")])]
        made += histogram_lines(summary.histogram, width, log_counts=log_counts)
    if found is not None and found.sampled:
        note = f"(quantiles and histogram of a random sample of {found.sampled:,} elements)"
        made.append(Line([Span(note, "dim")]))
    for part, counts in (summary.parts or {}).items():
        spans = [
            Span(f" {count} {label}", _bad_role(label)) for label, count in counts.items() if count
        ]
        if spans:
            made.append(Line([Span(f"{part}:", "bold"), *spans]))
    if summary.note:
        made.append(Line([Span(f"({summary.note})", "dim")]))
    return made
