"""The numeric summary of ``pt -s``: how many elements of each kind, and their statistics."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfdbg_cli.documents import Line, Span
from tfdbg_cli.tensors.numeric import blocks, dtype_kind, widened

__all__ = ["Summary", "summarize", "summary_lines"]


@dataclass
class Summary:
    """Counts and statistics of the elements of one array.

    Attributes:
        counts: label -> number of elements, in display order, zeros included.
        total: all elements.
        minimum, maximum, mean, std: over the finite elements; ``None`` where there are none or
            they are no numbers. Of complex numbers: over the absolute values.
        note: a word on what was counted.
    """

    counts: dict[str, int]
    total: int
    minimum: float | int | None = None
    maximum: float | int | None = None
    mean: float | None = None
    std: float | None = None
    note: str = ""


def _is_empty(item: object) -> bool:
    return isinstance(item, bytes | str) and not item


def summarize(value: np.ndarray[Any, Any]) -> Summary:
    """Count and measure the elements in one pass over bounded blocks, in float64."""
    kind = dtype_kind(value.dtype)
    if kind == "bool":
        true = int(np.count_nonzero(value))
        return Summary({"False": value.size - true, "True": true}, int(value.size))
    if kind in ("string", "other"):
        empty = sum(1 for item in value.flat if _is_empty(item)) if kind == "string" else 0
        counts = {"empty": empty, "non-empty": int(value.size) - empty} if kind == "string" else {}
        note = "strings" if kind == "string" else f"no statistics of {value.dtype}"
        return Summary(counts, int(value.size), note=note)

    counts = dict.fromkeys(("nan", "-inf", "-", "0", "+", "+inf"), 0)
    found = Summary(counts, int(value.size))
    if kind == "complex":
        found.note = "of the absolute values"
    finite_count, mean, moment = 0, 0.0, 0.0
    low: Any = None
    high: Any = None
    for raw in blocks(value):
        block = widened(raw)
        if kind == "complex":
            # A complex number with a nan part is nan, whatever np.abs makes of (nan, inf).
            nan = np.isnan(block)
            with np.errstate(over="ignore", invalid="ignore"):
                block = np.abs(block.astype(np.complex128))
            block[nan] = np.nan
        if kind == "int":
            finite = block
        else:
            counts["nan"] += int(np.count_nonzero(np.isnan(block)))
            counts["-inf"] += int(np.count_nonzero(np.isneginf(block)))
            counts["+inf"] += int(np.count_nonzero(np.isposinf(block)))
            finite = block[np.isfinite(block)]
        if not finite.size:
            continue
        counts["-"] += int(np.count_nonzero(finite < 0))
        counts["0"] += int(np.count_nonzero(finite == 0))
        counts["+"] += int(np.count_nonzero(finite > 0))
        low = finite.min() if low is None else min(low, finite.min())
        high = finite.max() if high is None else max(high, finite.max())
        # Chan, Golub and LeVeque's update of mean and second moment from block to block.
        with np.errstate(over="ignore", invalid="ignore"):
            part = finite.astype(np.float64)
            part_mean = float(part.mean())
            part_moment = float(((part - part_mean) ** 2).sum())
            delta, both = part_mean - mean, finite_count + part.size
            mean += delta * part.size / both
            moment += part_moment + delta * delta * finite_count * part.size / both
            finite_count = both
    if finite_count:
        found.minimum, found.maximum = low.item(), high.item()
        found.mean, found.std = mean, math.sqrt(max(moment / finite_count, 0.0))
    return found


def _table(heads: list[str], cells: list[str], roles: list[str]) -> list[Line]:
    widths = [max(len(head), len(cell)) for head, cell in zip(heads, cells, strict=True)]
    top, row = [Span("|")], [Span("|")]
    for head, cell, role, width in zip(heads, cells, roles, widths, strict=True):
        top.append(Span(f" {head:>{width}}", "bold"))
        row.append(Span(f" {cell:>{width}}", role))
        if head == heads[-1] or (head == heads[-2] and heads[-1] == "total"):
            top.append(Span(" |"))
            row.append(Span(" |"))
    return [Line(top), Line(row)]


def summary_lines(summary: Summary) -> list[Line]:
    """Two small tables: counts of the kinds that occur with their total, then the statistics."""
    shown = {label: count for label, count in summary.counts.items() if count}
    roles = [{"nan": "nan", "-inf": "inf", "+inf": "inf"}.get(label, "") for label in shown]
    made = _table(
        [*shown, "total"], [str(count) for count in (*shown.values(), summary.total)], [*roles, ""]
    )
    if summary.mean is not None and summary.std is not None:
        numbers = (summary.minimum, summary.maximum, summary.mean, summary.std)
        cells = [str(n) if isinstance(n, int) else f"{n:.8g}" for n in numbers]
        made += _table(["min", "max", "mean", "std"], cells, [""] * 4)
    if summary.note:
        made.append(Line([Span(f"({summary.note})", "dim")]))
    return made
