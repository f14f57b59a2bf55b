"""A picture of a graph as SVG, for files and reports."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from tfdbg_cli.commands.graph.drawing.layers import BOX_ROWS, Port
from tfdbg_cli.commands.graph.drawing.picture import GraphPicture
from tfdbg_cli.commands.graph.drawing.state import State
from tfdbg_cli.common.printable import printable

__all__ = ["STYLE", "svg_of"]

# Pixels of a column and of a row.
_WIDE, _HIGH = 8, 18
_MARGIN = 8

#: How the classes of a picture look, in light and dark; for a page that holds pictures.
STYLE = """\
.graph { color-scheme: light dark; font: 13px ui-monospace, Menlo, Consolas, monospace;
  --text: #1f2328; --back: #fff; --edge: #8c959f; --dim: #656d76; --bad: #cf222e; --ok: #1a7f37;
  --op: #8250df; }
@media (prefers-color-scheme: dark) {
  .graph { --text: #e6edf3; --back: #0d1117; --edge: #6e7681; --dim: #8d96a0; --bad: #ff7b72;
    --ok: #3fb950; --op: #d2a8ff; } }
@media print {
  .graph { --text: #000; --back: #fff; --edge: #8c959f; --dim: #656d76; --bad: #cf222e;
    --ok: #1a7f37; --op: #8250df; } }
.graph text { fill: var(--text); white-space: pre; }
.graph .box { fill: var(--back); stroke: var(--edge); }
.graph .centre { stroke: var(--text); stroke-width: 2; }
.graph .word { stroke-dasharray: 3 3; }
.graph path { fill: none; stroke: var(--edge); stroke-width: 1.5; }
.graph path.bad { stroke: var(--bad); stroke-width: 3; }
.graph path.clean { stroke: var(--ok); }
.graph path.control { stroke-dasharray: 4 4; }
.graph path.tip { fill: var(--edge); stroke: none; }
.graph path.tip.bad, .graph text.bad { fill: var(--bad); }
.graph path.tip.clean, .graph text.clean { fill: var(--ok); }
.graph text.dim { fill: var(--dim); }
.graph text.op { fill: var(--op); }
.graph text.name { font-weight: 600; }
"""


def svg_of(picture: GraphPicture, *, title: str = "", is_inline: bool = False) -> str:
    """A picture as SVG.

    Args:
        picture: what to draw; what is still looked through is waited for.
        title: what it shows, for those who can't see it.
        is_inline: it becomes a part of a page that has `STYLE` already.
    """
    picture.settle()
    layout = picture.layout
    width, height = layout.width * _WIDE + 2 * _MARGIN, layout.height * _HIGH + 2 * _MARGIN
    title = title or _title(picture)
    attributes = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" {attributes} role="img"'
        f' aria-label="{escape(_clean(title))}">',
    ]
    if not is_inline:
        parts += [f"<title>{_escaped(title)}</title>", f"<style>{STYLE}</style>"]
        parts.append(f'<rect width="{width}" height="{height}" fill="var(--back)"/>')
    parts += _wires(picture)
    for box in range(len(picture.vertices)):
        parts += _box(picture, box)
    parts += _tips(picture)
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _title(picture: GraphPicture) -> str:
    if picture.centre is None:
        return "Part of the graph"
    return f"The graph around {picture.vertices[picture.centre].name}"


def _clean(text: str) -> str:
    """A text without characters that XML has no way to write."""
    return printable(text).replace("\ufffe", "\ufffd").replace("\uffff", "\ufffd")


def _escaped(text: str) -> str:
    return escape(_clean(text), quote=False)


def _kind(state: State) -> str:
    return "bad" if state.is_bad else "clean" if state.role == "success" else "dim"


def _x(column: int) -> float:
    return _MARGIN + (column + 0.5) * _WIDE


def _y(row: int) -> float:
    return _MARGIN + (row + 0.5) * _HIGH


def _wires(picture: GraphPicture) -> Iterator[str]:
    """The wires, the bad ones above the others."""
    paths: dict[int, list[str]] = {}
    for net, column, row, to_column, to_row in picture.layout.segments:
        # Borders of boxes lie in the middle of their rows: that is where wires begin and end.
        piece = f"M{_x(column):g} {_y(row):g}L{_x(to_column):g} {_y(to_row):g}"
        paths.setdefault(net, []).append(piece)
    drawn = []
    for net, path in paths.items():
        wire = picture.wires[net]
        state = picture.state(wire)
        names = f"{_kind(state)}{' control' if wire.is_control else ''}"
        drawn.append((state.is_bad, f'<path class="{names}" d="{"".join(path)}"/>'))
    return (text for _, text in sorted(drawn))


def _box(picture: GraphPicture, box: int) -> Iterator[str]:
    place = picture.layout.places[box]
    vertex = picture.vertices[box]
    x, y = _x(place.column), _y(place.row)
    width, height = (place.width - 1) * _WIDE, (BOX_ROWS - 1) * _HIGH
    names = (
        "box" + (" centre" if box == picture.centre else "") + ("" if vertex.is_node else " word")
    )
    yield f"<g><title>{_escaped(f'{vertex.op_type} {vertex.name}'.strip())}</title>"
    yield f'<rect class="{names}" x="{x:g}" y="{y:g}" width="{width}" height="{height}" rx="4"/>'
    left = x + 1.5 * _WIDE
    texts = (("name", picture.names[box]), ("op", picture.types[box]))
    for kind, (name, text) in enumerate(texts):
        if text:
            at = y + (0.95 + 0.9 * kind) * _HIGH
            yield f'<text class="{name}" x="{left:g}" y="{at:g}">{_escaped(text)}</text>'
    yield "</g>"


def _tips(picture: GraphPicture) -> Iterator[str]:
    """The ends of the wires, and the words where they begin."""
    for port in picture.layout.ports:
        if port.is_sink:
            kind = _kind(picture.state(picture.wires[port.net]))
            yield f'<path class="tip {kind}" d="{_tip(picture, port)}"/>'
    for box, place in enumerate(picture.layout.places):
        y = _y(place.row + BOX_ROWS - 1)
        for label_port, state in picture.labels(box):
            if not state.text:
                continue
            x = _x(label_port.column) + 6 if label_port is not None else _x(place.column) + 12
            text = _escaped(state.text)
            yield f'<text class="{_kind(state)}" x="{x:g}" y="{y - 5:g}">{text}</text>'


def _tip(picture: GraphPicture, port: Port) -> str:
    place = picture.layout.places[port.box]
    x = _x(port.column)
    if port.is_top:
        y = _y(place.row)
        return f"M{x:g} {y:g}L{x - 4:g} {y - 7:g}L{x + 4:g} {y - 7:g}Z"
    y = _y(place.row + BOX_ROWS - 1)
    return f"M{x:g} {y:g}L{x - 4:g} {y + 7:g}L{x + 4:g} {y + 7:g}Z"
