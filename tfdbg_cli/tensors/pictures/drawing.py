"""Cells to spans: two pixels to a character in colour, a shade or a letter without."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.lines import Ink, Line, Span
from tfdbg_cli.tensors.pictures.colours import BAD, LEVELS, SHADES, bad_kind, colour_table
from tfdbg_cli.tensors.pictures.layout import Panel
from tfdbg_cli.tensors.pictures.picture import coloured
from tfdbg_cli.tensors.pictures.reduction import NAN, Grid
from tfdbg_cli.tensors.pictures.scales import Scale

__all__ = ["joined", "legend", "painted"]


@functools.lru_cache(1 << 13)
def _ink(upper: int, lower: int) -> Ink:
    return Ink(upper, None if lower < 0 else lower, halves=True)


def painted(panel: Panel, grid: Grid, scale: Scale, how: str) -> list[list[Span]]:
    """The spans of each line of a panel."""
    parts = coloured(grid, scale, how).astype(np.int64)
    colours = parts[..., 0] << 16 | parts[..., 1] << 8 | parts[..., 2]
    levels = scale.levels(grid.values(how)).astype(np.int64)
    lines = []
    for number in range(panel.lines):
        upper, lower = panel.halves(number)
        other = upper if lower is None else lower
        shade = (levels[upper] + levels[other]) * len(SHADES) // (2 * LEVELS)
        bad = grid.bad[upper] | grid.bad[other]
        below = np.full(len(shade), -1) if lower is None else colours[lower]
        lines.append(_runs(colours[upper], below, shade, bad, panel.wide))
    return lines


def _runs(upper: Array, lower: Array, shade: Array, bad: Array, wide: int) -> list[Span]:
    """The spans of one line: neighbours of the same colours are one."""
    glyphs = [
        (BAD[bad_kind(bits)][2] if bits else SHADES[level]) * wide
        for level, bits in zip(shade.tolist(), bad.tolist(), strict=True)
    ]
    changes = np.flatnonzero((np.diff(upper) != 0) | (np.diff(lower) != 0)) + 1
    begins = [0, *changes.tolist()]
    ends = [*begins[1:], len(glyphs)]
    above, below = upper[begins].tolist(), lower[begins].tolist()
    return [
        Span("".join(glyphs[begin:end]), _role(int(bad[begin])), None, _ink(one, other))
        for begin, end, one, other in zip(begins, ends, above, below, strict=True)
    ]


def _role(bits: int) -> str:
    """What a cell is where there are no colours."""
    if not bits:
        return ""
    return "nan" if bits & NAN else "inf"


def joined(parts: Sequence[tuple[int, list[Span]]]) -> list[Span]:
    """Spans of several panels in one line, each from its column on."""
    made: list[Span] = []
    at = 0
    for column, spans in parts:
        if column > at:
            made.append(Span(" " * (column - at)))
        made += spans
        at = max(column, at) + sum(len(span.text) for span in spans)
    return made


def legend(scale: Scale, grids: Sequence[Grid], width: int) -> Line:
    """The scale with its ends, and what is bad in the pictures with its colours."""
    spans: list[Span] = []
    if any(np.isfinite(grid.mean).any() for grid in grids):
        columns = 16 if width >= 64 else 8
        table = colour_table(diverging=scale.is_diverging).astype(int)
        spans.append(Span(f"{scale.low:.4g} ", "number"))
        for column in range(columns):
            level = column * (LEVELS - 1) // (columns - 1)
            red, green, blue = table[level].tolist()
            ink = _ink(*[red << 16 | green << 8 | blue] * 2)
            spans.append(Span(SHADES[level * len(SHADES) // LEVELS], "", None, ink))
        spans.append(Span(f" {scale.high:.4g}", "number"))
    else:
        spans.append(Span("no finite element", "warning"))
    kinds = {bad_kind(int(bits)) for grid in grids for bits in np.unique(grid.bad) if bits}
    for kind, (name, colour, letter) in BAD.items():
        if kind in kinds:
            role = "inf" if name.endswith("inf") else "nan"
            spans += [Span("  "), Span(letter, role, None, _ink(colour, colour)), Span(f" {name}")]
    return Line(spans)
