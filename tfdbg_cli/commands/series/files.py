"""Series as files: numbers as .csv, pictures as .svg and .png."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Mapping, Sequence
from html import escape

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.files import replacing, written
from tfdbg_cli.common.printable import printable
from tfdbg_cli.dumps.series.points import Points
from tfdbg_cli.dumps.series.tracks import Mark
from tfdbg_cli.tensors.curve import Frame, framed

__all__ = ["STYLE", "save_series", "svg_text"]

# Of one curve of a picture, in pixels.
_WIDTH, _HEIGHT = 720, 180
_LEFT, _TOP, _BOTTOM = 76, 26, 26
# More points than pixels show nothing more.
_MOST_POINTS = 2 * _WIDTH
#: How the classes of a picture look, in light and dark; for a page that holds pictures.
STYLE = """\
.series { color-scheme: light dark; }
.series text { fill: CanvasText; font: 12px system-ui, sans-serif; }
.series .a { stroke: GrayText; fill: none; }
.series .c { stroke: #2a78d2; fill: none; stroke-width: 1.5; }
.series .p { fill: #2a78d2; }
.series .b { stroke: #d0342c; }
.series .s { stroke: #2e9e5b; stroke-dasharray: 3 3; }
@media (max-width: 40rem) { .series text { font-size: 15px; } }
"""


def save_series(
    path: str, series: Mapping[str, Points], marks: Sequence[Mark], *, is_log: bool
) -> str:
    """Write series to a file whose extension says how.

    Args:
        path: where to; ``~`` is the home folder.
        series: name -> numbers, none of them empty.
        marks: runs to mark in pictures.
        is_log: whether pictures are logarithmic.

    Returns:
        The path that was written.

    Raises:
        UserError: the extension is unknown, the file can't be written, or what makes such files
            isn't installed.
    """
    target = os.path.expanduser(path)
    write = _FORMATS.get(os.path.splitext(target)[1].lower())
    if write is None:
        raise UserError(
            f"{path} has no extension that says how to save it.", f"Use {', '.join(_FORMATS)}."
        )
    data = write(series, marks, is_log)
    with written(path), replacing(target) as file:
        file.write(data)
    return target


def _csv(series: Mapping[str, Points], marks: Sequence[Mark], is_log: bool) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("name", "run", "time", "value"))
    for name, points in series.items():
        for run, moment, value in zip(*(each.tolist() for each in points), strict=True):
            writer.writerow((name, run, repr(moment), repr(value)))
    return text.getvalue().encode("utf-8", "replace")


def svg_text(
    series: Mapping[str, Points],
    marks: Sequence[Mark] = (),
    *,
    is_log: bool = False,
    is_inline: bool = False,
) -> str:
    """A picture of series, one below the other, in the colours of the page around it.

    Args:
        series: name -> numbers, none of them empty.
        marks: runs to mark.
        is_log: whether the axis is logarithmic.
        is_inline: it becomes a part of a page that has `STYLE` already.
    """
    height, title = _HEIGHT * len(series), _safe(", ".join(series))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="series" role="img" width="{_WIDTH}" '
        f'height="{height}" viewBox="0 0 {_WIDTH} {height}" aria-label="{title}">'
    ]
    if not is_inline:
        own = ".series { background: Canvas; }"
        parts.append(f"<title>{title}</title><style>{STYLE}{own}</style>")
    for at, (name, points) in enumerate(series.items()):
        first, last = int(points.runs.min()), int(points.runs.max())
        frame = framed(points.values, first, last, is_log=is_log)
        parts.append(f'<g transform="translate(0 {at * _HEIGHT})">')
        parts += _one(name, points, marks, frame)
        parts.append("</g>")
    return "".join([*parts, "</svg>\n"])


def _one(name: str, points: Points, marks: Sequence[Mark], frame: Frame) -> list[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - 12

    def x_of(runs: Array) -> Array:
        span = max(frame.last - frame.first, 1)
        return np.asarray(_LEFT + (runs - frame.first) * ((right - _LEFT) / span))

    last = points.values[-1]
    parts = [
        f'<text x="{_LEFT}" y="16"><tspan font-weight="bold">{_safe(name)}</tspan>'
        f"  {last:.5g} at run {points.runs[-1]}</text>",
        f'<path class="a" d="M{_LEFT} {_TOP}V{bottom}H{right}"/>',
    ]
    for share in (0.0, 0.5, 1.0):
        y = bottom - share * (bottom - _TOP)
        label = f"{frame.value(share):.4g}"
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.0f}" text-anchor="end">{label}</text>')
    for run, anchor in ((frame.first, "start"), (frame.last, "end")):
        x = float(x_of(np.array([run]))[0])
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="{anchor}">{run}</text>')
    for mark in marks:
        if frame.first <= mark.run <= frame.last:
            x = float(x_of(np.array([mark.run]))[0])
            kind = "b" if mark.is_bad else "s"
            parts.append(f'<path class="{kind}" d="M{x:.1f} {_TOP}V{bottom}"/>')
    with np.errstate(all="ignore"):
        heights = frame.height(points.values)
    xs, ys = x_of(points.runs), bottom - heights * (bottom - _TOP)
    is_there = np.isfinite(ys)
    for x in xs[~np.isfinite(points.values)][:_MOST_POINTS]:
        parts.append(
            f'<path class="b" d="M{x - 4:.1f} {_TOP - 8}l8 8m0 -8l-8 8"><title>bad</title></path>'
        )
    for begin, end in _stretches(is_there):
        shown = _thinned(ys[begin:end]) + begin
        if len(shown) == 1:
            parts.append(f'<circle class="p" r="2" cx="{xs[begin]:.1f}" cy="{ys[begin]:.1f}"/>')
            continue
        line = " ".join(f"{xs[each]:.1f},{ys[each]:.1f}" for each in shown)
        parts.append(f'<polyline class="c" points="{line}"/>')
    return parts


def _stretches(is_there: Array) -> list[tuple[int, int]]:
    """Where numbers follow each other with nothing bad between them."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_there, [False]]).astype(np.int8)))
    return [(int(begin), int(end)) for begin, end in edges.reshape(-1, 2)]


def _thinned(values: Array) -> Array:
    """Which of many points to draw: the highest and the lowest of each pixel, and both ends."""
    if len(values) <= _MOST_POINTS:
        return np.arange(len(values))
    chosen = {0, len(values) - 1}
    edges = np.linspace(0, len(values), _MOST_POINTS // 2 + 1).astype(np.int64)
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        part = values[begin:end]
        chosen |= {begin + int(part.argmin()), begin + int(part.argmax())}
    return np.array(sorted(chosen))


def _safe(text: str) -> str:
    return escape(printable(text).encode("utf-8", "replace").decode())


def _svg(series: Mapping[str, Points], marks: Sequence[Mark], is_log: bool) -> bytes:
    return svg_text(series, marks, is_log=is_log).encode()


def _png(series: Mapping[str, Points], marks: Sequence[Mark], is_log: bool) -> bytes:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError(
            "A .png needs matplotlib, which isn't installed.",
            'pip install "tfdbg_cli[plot]", or save it as .svg, which needs nothing.',
        ) from None
    # No pyplot: the program's own figures and its choice of a backend are left alone.
    figure = Figure(figsize=(9, 2.4 * len(series)), layout="constrained")
    canvas = FigureCanvasAgg(figure)
    all_axes = figure.subplots(len(series), squeeze=False)[:, 0]
    for axes, (name, points) in zip(all_axes, series.items(), strict=True):
        finite = np.isfinite(points.values)
        axes.plot(points.runs, np.where(finite, points.values, np.nan), linewidth=1.2)
        for run in points.runs[~finite][:_MOST_POINTS]:
            axes.axvline(run, color="tab:red", linewidth=0.8)
        for mark in marks:
            if points.runs.min() <= mark.run <= points.runs.max():
                colour = "tab:red" if mark.is_bad else "tab:green"
                axes.axvline(mark.run, color=colour, linewidth=0.8, linestyle=":")
        if is_log and (points.values[finite] > 0).any():
            axes.set_yscale("log")
        axes.set_title(printable(name).replace("$", r"\$"), loc="left", fontsize=10)
        axes.set_xlabel("run")
    data = io.BytesIO()
    canvas.print_png(data)
    return data.getvalue()


_FORMATS: dict[str, Callable[[Mapping[str, Points], Sequence[Mark], bool], bytes]] = {
    ".csv": _csv,
    ".svg": _svg,
    ".png": _png,
}
