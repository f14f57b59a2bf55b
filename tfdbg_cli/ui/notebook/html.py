"""Lines of a Document as HTML that reads well on light and on dark pages."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from html import escape
from itertools import groupby

from tfdbg_cli.commands.table import TableRow
from tfdbg_cli.common.documents import Line, Span
from tfdbg_cli.ui.inks import css_of

__all__ = ["image_html", "to_html"]

# JupyterLab's own colours where they are known, as these follow its theme; else ones that have a
# contrast of at least 3 to 1 on white and on black.
_RED = "color:var(--jp-error-color1,#d9453d)"
_ORANGE = "color:var(--jp-warn-color0,#b8740a)"
_GREEN = "color:var(--jp-success-color0,#2e8b3d)"
_BLUE = "color:var(--jp-info-color0,#2f86c8)"
_PURPLE = "color:#a561c4"
_BOLD = "font-weight:bold"

_STYLES = {
    "bold": _BOLD,
    "heading": _BOLD,
    "dim": "opacity:.65",
    "error": f"{_RED};{_BOLD}",
    "warning": _ORANGE,
    "info": _BLUE,
    "success": _GREEN,
    "highlight": f"{_ORANGE};{_BOLD}",
    "match": "background:rgba(255,200,0,.4)",
    "nan": f"{_RED};{_BOLD};text-decoration:underline",
    "inf": f"{_PURPLE};{_BOLD};text-decoration:underline",
    "op_type": _BLUE,
    "number": _GREEN,
    "string": _ORANGE,
    "keyword": _BLUE,
    "comment": "opacity:.65;font-style:italic",
    "definition": _BOLD,
    "builtin": _GREEN,
}
# A notebook's own tables are set in its text font, to the right, and striped.
_CELL = "font-family:monospace;white-space:pre;padding:0 1.5em 0 0;text-align:{}"
_LINK = "text-decoration:underline dotted"
_PAGE = "margin:0;padding:0;line-height:1.3;white-space:pre;overflow-x:auto"
_TITLES = {"error": _RED, "": ""}


def _span(span: Span) -> str:
    style = _STYLES.get(span.role, "")
    text = escape(span.text)
    if span.ink is not None:
        is_alone = span.ink.halves or not style
        style = css_of(span.ink) if is_alone else f"{style};{css_of(span.ink)}"
        if span.ink.halves:
            text = " " * len(span.text)
    if span.link is not None:
        # Followed by typing what the tooltip says: output that ran code when it is clicked would
        # not work in a saved notebook.
        style = f"{style};{_LINK}" if style else _LINK
        typed = escape(f"%tfdbg {span.link.command}")
        return f'<span style="{style}" title="{typed}">{text}</span>'
    return f'<span style="{style}">{text}</span>' if style else text


def image_html(png: bytes, alt: str) -> str:
    """An image that is part of the page. Its pixels are cells, and stay sharp."""
    data = base64.b64encode(png).decode("ascii")
    style = "image-rendering:pixelated;max-width:100%"
    return f'<img alt="{escape(alt)}" style="{style}" src="data:image/png;base64,{data}">'


def to_html(lines: Iterable[Line], title: str = "", title_role: str = "") -> str:
    """Lines as one piece of HTML, with inline styles only.

    Args:
        lines: of a Document. Links are text with the command in a tooltip.
        title: a heading; empty: none.
        title_role: ``error`` for an alert.
    """
    parts = []
    if title:
        color = _TITLES.get(title_role, "")
        parts.append(f'<div style="{_BOLD};{color}">{escape(title)}</div>')
    for is_table, group in groupby(lines, lambda made: isinstance(made, TableRow)):
        if is_table:
            rows = [made for made in group if isinstance(made, TableRow)]
            parts.append(_table(rows))
        else:
            body = "\n".join(_spans(made.spans) for made in group)
            parts += [f'<pre style="{_PAGE}">{body}</pre>'] if body else []
    return "\n".join(parts)


def _spans(spans: Iterable[Span]) -> str:
    return "".join(_span(span) for span in spans)


def _table(rows: list[TableRow]) -> str:
    """Rows as a table. The first one holds the heads, but for a list that goes on from above."""
    has_heads = not any(map(str.isdigit, rows[0].text))
    # Columns of numbers end at one place and begin at several.
    ends = [{row.places[at][1] for row in rows[has_heads:]} for at in range(len(rows[0].places))]
    starts = [{row.places[at][0] for row in rows[has_heads:]} for at in range(len(ends))]
    written = []
    for row in rows:
        is_head = has_heads and row is rows[0]
        tag = "th" if is_head else "td"
        cells = []
        for at, place in enumerate(row.places):
            side = "right" if len(ends[at]) == 1 and len(starts[at]) > 1 else "left"
            text = _spans(_cut(row, *place))
            cells.append(f'<{tag} style="{_CELL.format(side)}">{text}</{tag}>')
        written.append(f"<tr>{''.join(cells)}</tr>")
    body = "\n".join(written)
    return f'<div style="overflow-x:auto"><table class="tfdbg-list">\n{body}\n</table></div>'


def _cut(row: Line, start: int, stop: int) -> Iterator[Span]:
    """The spans of a stretch of a line."""
    at = 0
    for span in row.spans:
        text = span.text[max(start - at, 0) : max(stop - at, 0)]
        if text:
            yield span._replace(text=text)
        at += len(span.text)
