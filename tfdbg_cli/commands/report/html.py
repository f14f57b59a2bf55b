"""HTML made of strings, of which none gets in without being escaped."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable

from tfdbg_cli.common.documents import Line, Span
from tfdbg_cli.common.printable import printable

__all__ = ["Markup", "element", "escaped", "image", "joined", "shown_lines", "shown_spans"]

# Elements that have no end.
_VOID = frozenset({"meta", "img", "br", "hr"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """A text as HTML shows it: what a terminal or a parser would obey is written out."""
    return text if isinstance(text, Markup) else Markup(html.escape(printable(text)))


def joined(parts: Iterable[str], between: str = "") -> Markup:
    """Several pieces, one after the other."""
    return Markup(between.join(escaped(part) for part in parts))


def element(tag: str, *content: str, **attributes: str) -> Markup:
    """An element with what is in it.

    Args:
        tag: its name.
        content: texts, which are escaped, and other elements.
        attributes: ``class_`` is ``class``, and ``aria_label`` is ``aria-label``.
    """
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for name, value in attributes.items()
    )
    if tag in _VOID:
        return Markup(f"<{tag}{given}>")
    return Markup(f"<{tag}{given}>{joined(content)}</{tag}>")


def image(png: bytes, text: str, *, width: int, height: int) -> Markup:
    """A PNG in the page itself.

    Args:
        png: its bytes.
        text: what it shows, for those who can't see it.
        width, height: in pixels of the page.
    """
    source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    return element("img", src=source, alt=text, width=str(width), height=str(height))


def shown_lines(lines: Iterable[Line]) -> Markup:
    """Lines of a Document, with the roles of their spans as classes; on a phone they are broken."""
    # A scrolled region has to be reached by keys, too.
    rows = (shown_spans(each.spans) for each in lines)
    return element("pre", joined(rows, "\n"), tabindex="0", class_="told")


def shown_spans(spans: Iterable[Span]) -> Markup:
    """Spans with their roles as classes."""
    return joined(
        element("span", span.text, class_=f"r-{span.role}")
        if span.role not in ("", "link")
        else escaped(span.text)
        for span in spans
    )
