"""Lines of prose on a screen that is narrower than they are."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable

from tfdbg_cli.commands.context import Context
from tfdbg_cli.common.documents import Line, Span, TextDocument

__all__ = ["CodeLine", "Prose", "columns_of", "wrapped"]

# Columns of which there are always enough, and with which a screen is still readable.
_UNBROKEN, _NARROWEST = 10_000, 40
# A number stays with what it belongs to: "[8, 16]", "4 +inf of 9", "min -2.5", "run 10".
_KEPT = (
    r"(?:(?<=\d) (?=[+-]?(?:inf|nan)\b)|(?<=\d,) (?=\d+[,\]])"
    r"|(?:(?<=\bof)|(?<=\b(?:min|max|run))|(?<=\bloss)) (?=[-\d]))"
)
_PIECE = re.compile(rf"\s+|\S+(?:{_KEPT}\S+){{0,8}}")


def columns_of(context: Context) -> int:
    """How many a line of prose may fill; what is printed stays in one line."""
    return _UNBROKEN if context.is_printed else max(context.width - 2, _NARROWEST)


class CodeLine(Line):
    """A line of a source file: a long one isn't wrapped, but cut around its call.

    Args:
        head: what stands before the source, such as the number of the line.
        text: the source.
        call: the first character of the call, and the one after its last; ``None``: there is no
            call, and the beginning of the line is shown.
    """

    __slots__ = ("_call", "_head", "_source")

    def __init__(
        self, head: Iterable[Span], text: str, call: tuple[int, int] | None = None
    ) -> None:
        self._head, self._source, self._call = tuple(head), text, call
        start, end = call or (0, 0)
        parts = (text[:start], "source"), (text[start:end], "bold"), (text[end:], "source")
        super().__init__([*self._head, *(Span(*each) for each in parts if each[0])])

    def within(self, columns: int) -> Line:
        """The line, with as much of it as these columns have room for."""
        room = max(columns - sum(len(each.text) for each in self._head), _NARROWEST // 2)
        left = len(self._source) - room
        if left <= 0:
            return self
        start, end = self._call or (0, 0)
        first = min(max((start + min(end, start + room) - room) // 2, 0), left)
        text = self._source[first : first + room]
        text = f"{'…' if first else ''}{text[bool(first) :]}"
        text = f"{text[:-1]}…" if first < left else text
        call = (max(start - first, 0), min(end - first, len(text))) if self._call else None
        return CodeLine(self._head, text, call)


class Prose(TextDocument):
    """Lines that are broken between words, again whenever the width changes."""

    def __init__(
        self, lines: Iterable[Line], columns: int, indent: int = 2, title: str = ""
    ) -> None:
        self._whole, self._columns, self._indent = list(lines), columns, indent
        super().__init__(wrapped(self._whole, columns, indent), title)

    def resized(self, width: int) -> TextDocument:
        """The same lines for another width."""
        columns = max(width - 1, _NARROWEST)
        if columns == self._columns:
            return self
        made = copy.copy(self)
        made._columns = columns
        made._lines = wrapped(self._whole, columns, self._indent)
        return made


def wrapped(lines: Iterable[Line], columns: int, indent: int = 2) -> list[Line]:
    """Lines broken between words, where they are too long; a longer word, or a link, stays whole.

    Args:
        lines: what they say.
        columns: that a line may fill.
        indent: of what has been broken off.
    """
    return [part for each in lines for part in _wrapped(each, columns, indent)]


def _wrapped(whole: Line, columns: int, indent: int) -> list[Line]:
    if len(whole.text) <= columns:
        return [whole]
    if isinstance(whole, CodeLine):
        return [whole.within(columns)]
    made: list[list[Span]] = [[]]
    used, word = 0, list[Span]()
    gap: Span | None = None

    def put() -> None:
        nonlocal used, gap
        size = sum(len(span.text) for span in word)
        if not size:
            return
        room = len(gap.text) if gap is not None else 0
        if used > (indent if len(made) > 1 else 0) and used + room + size > columns:
            made.append([Span(" " * indent)])
            used = indent
        elif gap is not None:
            made[-1].append(gap)
            used += room
        made[-1] += word
        used += size
        gap = None
        word.clear()

    for span in whole.spans:
        for text in [span.text] if span.link else _PIECE.findall(span.text):
            if text.isspace():
                put()
                gap = span._replace(text=(gap.text if gap is not None else "") + text)
            else:
                word.append(span._replace(text=text))
    put()
    return [Line(spans) for spans in made]
