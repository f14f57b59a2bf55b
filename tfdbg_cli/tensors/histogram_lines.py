"""A histogram as lines of text: bars of several rows, axes, and what is bad beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tfdbg_cli.common.documents import Ink, Line, Span
from tfdbg_cli.tensors.histogram import Histogram

__all__ = ["histogram_lines"]

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_ROWS, _FEW_ROWS = 8, 5
# Narrower screens are lower, too: on 80x24 all of a summary is in sight with so few rows.
_NARROW = 100
# More bars say no more.
_MOST_BARS = 120
# Of few bars none is wider.
_WIDEST_BAR = 8

# Places in `Histogram.bad` in the order in which they are shown: what they are, the role of words
# on them, and the colour of their bars, which can be seen on black and on white. A role may turn
# colours round, and a bar into a hole.
_BAD = (
    (1, "-inf", "inf", Ink(0x0087AF)),
    (0, "nan", "nan", Ink(0xE0303A)),
    (2, "+inf", "inf", Ink(0xC030C0)),
)


class _Bar:
    """What stands for one kind of bad elements, beside the histogram."""

    def __init__(self, label: str, role: str, ink: Ink, count: int) -> None:
        self.label, self.role, self.ink = label, role, ink
        self.count, self.text = count, _short(count)
        self.width = max(len(label), len(self.text), 4)


def histogram_lines(found: Histogram, width: int, *, log_counts: bool = False) -> list[Line]:
    """Draw a histogram.

    The bars of bad elements have the scale of the others, and end at the top of the picture where
    they would be longer: the number below them counts.

    Args:
        found: the histogram.
        width: columns that may be used.
        log_counts: whether bars grow with the logarithm of their counts.
    """
    beside = [
        _Bar(label, role, ink, found.bad[at]) for at, label, role, ink in _BAD if found.bad[at]
    ]
    if len(found.edges) < 2 or found.edges[0] == found.edges[-1]:
        return _without_axis(found, beside)
    rows = _ROWS if width >= _NARROW else _FEW_ROWS
    top = max(found.counts)
    # What belongs to the left of the bars, above a bottom line of its own.
    half = round(math.expm1(math.log1p(top) / 2)) if log_counts else top / 2
    labels = {0: _short(top)}
    if top > 1 and half == int(half):
        labels[rows // 2] = _short(int(half))
    left = max(len(text) for text in (*labels.values(), "0"))
    room = width - left - 3 - sum(bar.width + 2 for bar in beside)
    merged = found.merged(min(max(room, 8), _MOST_BARS))
    top = max(merged.counts)
    if top != max(found.counts):
        return histogram_lines(merged, width, log_counts=log_counts)
    each = min(max(room // len(merged.counts), 1), _WIDEST_BAR)
    columns = each * len(merged.counts)
    heights = [_height(count, top, rows, log_counts) for count in merged.counts]
    made = []
    for row in range(rows):
        text = "".join(_block(height, rows - 1 - row) * each for height in heights)
        spans = [Span(f"{labels.get(row, ''):>{left}} {'┤' if row in labels else '│'}", "dim")]
        spans.append(Span(text, "number"))
        for bar in beside:
            height = min(_height(bar.count, top, rows, log_counts), 8 * rows)
            block = _block(height, rows - 1 - row) * 3
            spans += [Span("  "), Span(f"{block:>{bar.width}}", ink=bar.ink)]
        made.append(_stripped(spans))
    return [*made, *_axis(merged, left, columns, beside)]


def _height(count: int, top: int, rows: int, log_counts: bool) -> int:
    """Eighths of a row; what there is at all has one."""
    if not count:
        return 0
    share = math.log1p(count) / math.log1p(top) if log_counts else count / top
    return max(min(round(share * 8 * rows), 8 * rows), 1)


def _block(height: int, row: int) -> str:
    return _EIGHTHS[min(max(height - 8 * row, 0), 8)]


def _axis(found: Histogram, left: int, columns: int, beside: Sequence[_Bar]) -> list[Line]:
    """The line below the bars, and the numbers on it."""
    low, high = found.edges[0], found.edges[-1]
    if found.is_whole:
        high -= 1  # the edge is behind the last number
    marks = ["─"] * columns
    labels = [" "] * columns
    # The ends come first: others stand where there is room for them.
    for number in (low, high, 0, *found.ticks(max(columns // 10, 2))):
        if not min(low, high) <= number <= high:
            continue
        text = _number(number)
        place = min(int(found.share(number) * columns), columns - 1)
        if number in (low, high) and not found.is_whole:
            place = 0 if number == low else columns - 1
        start = min(max(place - len(text) // 2, 0), columns - len(text))
        if start < 0 or "".join(labels[max(start - 1, 0) : start + len(text) + 1]).strip():
            continue
        labels[start : start + len(text)] = text
        marks[place] = "┬"
    axis = [Span(f"{'0':>{left}} ┼{''.join(marks)}", "dim")]
    below = [Span(" " * (left + 2) + "".join(labels))]
    for bar in beside:
        axis += [Span("  "), Span(f"{bar.label:>{bar.width}}", bar.role)]
        below += [Span("  "), Span(f"{bar.text:>{bar.width}}", bar.role)]
    return [_stripped(axis), _stripped(below)]


def _without_axis(found: Histogram, beside: Sequence[_Bar]) -> list[Line]:
    """What is said where there is nothing to compare."""
    spans = []
    if found.counts:
        text = "the only finite element is" if found.counts[0] == 1 else "all finite elements are"
        spans.append(Span(f"{text} {_number(found.edges[0])}" if found.counts else ""))
    else:
        spans.append(Span("no element is finite"))
    for bar in beside:
        spans += [Span(", "), Span(f"{bar.count} {bar.label}", bar.role)]
    return [Line([Span("  "), *spans])]


def _stripped(spans: list[Span]) -> Line:
    """Without blanks at the end, nor spans of nothing."""
    kept = [span for span in spans if span.text]
    while kept and not kept[-1].text.strip():
        kept.pop()
    if kept:
        last = kept[-1]
        kept[-1] = last._replace(text=last.text.rstrip())
    return Line(kept)


def _number(number: float | int) -> str:
    if isinstance(number, int) and abs(number) < 1_000_000:
        return str(number)
    return f"{number + 0.0:.4g}"


def _short(count: int) -> str:
    """A count in few characters; exact below a hundred thousand."""
    if count < 100_000:
        return str(count)
    for size, suffix in ((1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")):
        if count >= size:
            return f"{count / size:.4g}{suffix}"
    raise AssertionError
