"""What a Document is made of: lines of spans, and elements on them.

Spans carry *roles* (what a piece of text is): the themes of the UIs turn them into attributes.
Colours that *are* what is to be seen, as those of a picture, are an `Ink` beside the role.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

from tfdbg_cli.common.printable import printable, typeable

__all__ = ["ROLES", "Cell", "ElementStep", "Ink", "Line", "Link", "Span", "line"]

#: Every role a span may have. A theme gives each an attribute in colour and in monochrome.
ROLES = (
    "",  # plain text
    "bold",  # a name the screen is about
    "heading",  # column heads and section titles
    "dim",  # framework files, line numbers, hints
    "error",
    "warning",
    "info",
    "success",
    "link",  # a span with a link but no role of its own
    "highlight",  # elements inside the ranges of pt -r
    "match",  # what /regex found
    "nan",
    "inf",
    "op_type",
    "number",
    "string",
    "keyword",  # of source: keywords
    "comment",  # comments
    "definition",  # names of functions and classes where they are defined
    "builtin",  # what is built in, and decorators
    "source",  # the user's own source line
)


class _Link(NamedTuple):
    command: str


class Link(_Link):
    """A debugger command that runs when the span is clicked or opened by keyboard."""

    __slots__ = ()

    def __new__(cls, command: str) -> Self:
        """As `printed` does it, in the time that a hundred thousand rows allow."""
        return super().__new__(cls, typeable(command))


class Ink(NamedTuple):
    """Real colours of a span, each ``0xRRGGBB``; ``None``: as the role has it.

    They are painted where there are colours. The text has to tell as much without them.

    Attributes:
        foreground: of the text.
        background: behind it.
        halves: the span is a piece of a picture: in colours, each of its columns is two pixels, the
            upper one in ``foreground`` and the lower one in ``background``, in place of the text.
    """

    foreground: int | None = None
    background: int | None = None
    halves: bool = False


class _Span(NamedTuple):
    text: str
    role: str = ""
    link: Link | None = None
    ink: Ink | None = None


class Span(_Span):
    """A piece of text with one role, at most one link, and perhaps colours of its own.

    The text is made `printable`.
    """

    __slots__ = ()

    def __new__(
        cls, text: str, role: str = "", link: Link | None = None, ink: Ink | None = None
    ) -> Self:
        """As `printed` does it, in the time that a hundred thousand rows allow."""
        return super().__new__(cls, printable(text), role, link, ink)


class Line:
    """One line of a Document: spans, and for tensors the range of element indices it shows.

    Attributes:
        spans: the pieces, left to right.
        indices: ``(first, last)`` element indices on the line, each a tuple of int, or ``None``.
    """

    __slots__ = ("indices", "spans")

    def __init__(
        self,
        spans: Iterable[Span] = (),
        indices: tuple[tuple[int, ...], tuple[int, ...]] | None = None,
    ) -> None:
        self.spans: tuple[Span, ...] = tuple(spans)
        self.indices = indices

    @property
    def text(self) -> str:
        """The plain text of the line."""
        return "".join(span.text for span in self.spans)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Line):
            return NotImplemented
        return self.spans == other.spans and self.indices == other.indices

    def __hash__(self) -> int:
        return hash((self.spans, self.indices))

    def __repr__(self) -> str:
        return f"Line({self.text!r})"


class Cell(NamedTuple):
    """One element of a tensor where a line shows it, or a block of them.

    Attributes:
        start, stop: its characters in the line's text.
        indices: of the element, or the first one of the block.
        last: the indices of the last one of a block; ``None``: it is one element.
    """

    start: int
    stop: int
    indices: tuple[int, ...]
    last: tuple[int, ...] | None = None

    def holds(self, indices: Sequence[int]) -> bool:
        """Whether an element is the one, or one of the block."""
        if self.last is None or len(indices) != len(self.indices):
            return self.indices == tuple(indices)
        block = zip(self.indices, indices, self.last, strict=True)
        return all(first <= index <= last for first, index, last in block)


class ElementStep(NamedTuple):
    """One of the elements that a Document is about, e.g. the bad ones, and which of them it is.

    Attributes:
        line: where it is shown; ``None``: an ellipsis or a filter hides it.
        indices: of the element.
        number: 1 for the first in the order of the elements.
        total: how many there are.
        wrapped: whether the search for it went on at the other end.
    """

    line: int | None
    indices: tuple[int, ...]
    number: int
    total: int
    wrapped: bool = False


def line(*parts: str | Span | tuple[str, str] | tuple[str, str, str]) -> Line:
    """Build a line from strings, spans, ``(text, role)`` or ``(text, role, command)`` tuples."""
    spans = []
    for part in parts:
        if isinstance(part, str):
            span = Span(part)
        elif isinstance(part, Span):
            span = part
        elif len(part) == 2:
            span = Span(part[0], part[1])
        else:
            span = Span(part[0], part[1], Link(part[2]))
        if span.text:
            spans.append(span)
    return Line(spans)
