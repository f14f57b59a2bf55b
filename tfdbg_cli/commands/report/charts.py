"""The histogram of a report, as SVG in the page."""

from __future__ import annotations

from tfdbg_cli.commands.report.html import Markup, element
from tfdbg_cli.tensors.histogram import Histogram

__all__ = ["histogram_chart"]

_WIDTH, _HEIGHT = 640, 180
_LEFT, _BELOW, _ABOVE = 24, 24, 20
_MOST_BARS, _WIDEST_BAR, _BESIDE = 100, 40, 70
_BAD = ("nan", "-inf", "+inf")


def histogram_chart(found: Histogram) -> Markup:
    """Bars of a histogram, and beside them a bar for each kind of bad element."""
    bad = [(label, count) for label, count in zip(_BAD, found.bad, strict=True) if count]
    found = found.merged(_MOST_BARS)
    counts, edges = found.counts, found.edges
    room = _WIDTH - _BESIDE * len(bad) - 2 * _LEFT
    top = max([*counts, *(count for _, count in bad), 1])
    floor = _ABOVE + _HEIGHT
    parts = []
    step = room / max(len(counts), 1)
    for at, count in enumerate(counts):
        if count:
            height = max(_HEIGHT * count / top, 1.0)
            x, width = _LEFT + at * step, min(max(step - 1, 0.5), _WIDEST_BAR)
            parts.append(_bar(x, floor - height, width, height, ""))
    for at, (label, count) in enumerate(bad):
        height = max(_HEIGHT * count / top, 1.0)
        x = _LEFT + room + _BESIDE * at + 15
        parts.append(_bar(x, floor - height, _WIDEST_BAR, height, "bad"))
        parts.append(_text(x + 20, floor + 16, label, "middle", "bad"))
        parts.append(_text(x + 20, floor - height - 5, f"{count:,}", "middle", "bad"))
    parts.append(_line(_LEFT, floor, _LEFT + room, floor))
    about = "Histogram: no element is finite"
    if edges:
        about = f"Histogram of the finite elements from {edges[0]:.6g} to {edges[-1]:.6g}"
        about += ", in logarithmic bins" if found.is_log else ""
        marks = [(number, found.share(number)) for number in found.ticks()]
        if not marks:
            parts.append(_text(_LEFT, floor + 16, f"{edges[0]:.6g}"))
        for number, share in marks:
            x = _LEFT + share * room
            parts.append(_line(x, floor, x, floor + 4))
            parts.append(_text(x, floor + 17, f"{number:.6g}", "middle"))
    if bad:
        about += "; beside it " + ", ".join(f"{count:,} {label}" for label, count in bad)
    height = floor + _BELOW
    return element(
        "svg",
        *parts,
        class_="chart",
        viewBox=f"0 0 {_WIDTH} {height}",
        width=str(_WIDTH),
        height=str(height),
        role="img",
        aria_label=about,
    )


def _bar(x: float, y: float, width: float, height: float, kind: str) -> Markup:
    sizes = {"x": x, "y": y, "width": width, "height": height}
    given = {name: f"{size:.1f}" for name, size in sizes.items()}
    return element("rect", **given, **({"class_": kind} if kind else {}))


def _line(x1: float, y1: float, x2: float, y2: float) -> Markup:
    return element("line", x1=f"{x1:g}", y1=f"{y1:g}", x2=f"{x2:g}", y2=f"{y2:g}")


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> Markup:
    given = {"class_": kind} if kind else {}
    return element("text", text, x=f"{x:g}", y=f"{y:g}", text_anchor=anchor, **given)
