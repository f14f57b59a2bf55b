"""Lines, Replies and completions as JSON, and back.

What comes from the other side is checked piece by piece, and its text is made printable as ours is:
neither side has to trust the other to draw what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tfdbg_cli.commands.reply import (
    Candidate,
    Choice,
    CommandInfo,
    Completion,
    Leave,
    Question,
    Reply,
    Toast,
    UiRequest,
)
from tfdbg_cli.common.documents import (
    ROLES,
    Cell,
    Document,
    ElementStep,
    Field,
    Ink,
    Line,
    Link,
    MenuItem,
    Span,
    TableLines,
)
from tfdbg_cli.common.printable import cut, printable
from tfdbg_cli.net.wire import MalformedError

__all__ = [
    "CELLS",
    "COMMAND",
    "COMMANDS",
    "COMPLETION",
    "FIELDS",
    "HEAD",
    "HIT",
    "HITS",
    "LINES",
    "LONGEST_LINE",
    "PART",
    "PLACE",
    "REPLY",
    "STEP",
    "TURNED",
    "Head",
    "Kind",
    "count",
    "encode_completion",
    "encode_document",
    "encode_reply",
    "integer",
]

#: Characters of a line, its links included; more are cut off, and the line ends in an ellipsis.
LONGEST_LINE = 100_000

# Lines go in parts of about so many characters, so that a message keeps well below its limit.
_PART = 500_000

# About what the colours of a span take.
_INK = 24

_LONGEST_TEXT = 10_000
_MOST_DETAILS = 2_000
_MOST_CANDIDATES = 2_000
_MOST_MENU_ITEMS = 200
_MOST_TABLES = 1000

_Value = TypeVar("_Value")


class Kind(Generic[_Value]):
    """How values of one kind are written as JSON in the program, and read in the client.

    Args:
        encode: JSON of a value.
        read: a value of JSON. Raises one of several errors if it is of nothing of the kind.
    """

    def __init__(self, encode: Callable[[Any], Any], read: Callable[[Any], _Value]) -> None:
        self.encode = encode
        self.read = read

    def decode(self, data: Any) -> _Value:
        """As `read`.

        Raises:
            MalformedError: the JSON is of nothing of the kind.
        """
        try:
            return self.read(data)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            raise MalformedError(f"{type(error).__name__}: {error}") from None


def _maybe(kind: Kind[_Value]) -> Kind[_Value | None]:
    return Kind(
        lambda value: None if value is None else kind.encode(value),
        lambda data: None if data is None else kind.read(data),
    )


def _many(kind: Kind[Any], most: int | None = None, make: Callable[..., Any] = tuple) -> Kind[Any]:
    return Kind(
        lambda values: [*map(kind.encode, values[:most])],
        lambda data: make(map(kind.read, data)),
    )


def _in_line(kind: Kind[_Value]) -> Kind[list[_Value]]:
    """Those of a line, as far as lines are sent."""
    return Kind(
        lambda values: [kind.encode(each) for each in values if each.stop <= LONGEST_LINE],
        lambda data: [*map(kind.read, data)],
    )


def _row(make: Callable[..., _Value], *kinds: Kind[Any]) -> Kind[_Value]:
    """A named tuple, as a list of its parts."""
    return Kind(
        lambda value: [kind.encode(part) for kind, part in zip(kinds, value, strict=True)],
        lambda data: make(*(kind.read(part) for kind, part in zip(kinds, data, strict=True))),
    )


def _named(make: Callable[..., _Value], **kinds: Kind[Any]) -> Kind[_Value]:
    """An object, by the names of its attributes."""
    return Kind(
        lambda value: {name: kind.encode(getattr(value, name)) for name, kind in kinds.items()},
        lambda data: make(**{name: kind.read(data[name]) for name, kind in kinds.items()}),
    )


# Parts.


def _text(data: Any) -> str:
    if not isinstance(data, str):
        raise TypeError(f"{data!r} is not text")
    return data


def integer(data: Any) -> int:
    """A number of lines, columns or indices as it came; raises TypeError or ValueError."""
    if type(data) is not int:
        raise TypeError(f"{data!r} is not a number")
    if abs(data) >= 1 << 63:
        raise ValueError("a number without end")
    return data


def count(data: Any) -> int:
    """The same, of a number that isn't negative."""
    if integer(data) < 0:
        raise ValueError("a negative number")
    return integer(data)


_NUMBER = Kind(int, integer)
_FLAG = Kind(bool, bool)
_TEXT = Kind(lambda text: cut(text, _LONGEST_TEXT), _text)
# A text that must not be cut, as somebody obeys it.
_WHOLE = Kind(str, _text)
# A text of which nothing else makes sure that it is printable.
_PRINTED = Kind(_TEXT.encode, lambda data: printable(_text(data)))
_INDICES: Kind[tuple[int, ...]] = _many(_NUMBER)


# Lines.


def _encode_line(made: Line) -> tuple[list[Any], int]:
    """A line, and about how many characters it takes."""
    spans: list[list[Any]] = []
    size = 0
    for span in made.spans:
        room = LONGEST_LINE - size
        if len(span.text) > room or len(spans) >= LONGEST_LINE:
            spans.append([span.text[: max(room, 0)] + "…", span.role])
            size = LONGEST_LINE
            break
        command = span.link.command if span.link is not None else ""
        if len(command) > min(room, _LONGEST_TEXT):
            command = ""
        if span.ink is not None:
            spans.append([span.text, span.role, command, [*span.ink]])
            size += _INK
        elif command:
            spans.append([span.text, span.role, command])
        else:
            spans.append([span.text, span.role] if span.role else [span.text])
        size += len(command) + len(span.text)
    indices = made.indices
    return [spans, None if indices is None else [[*indices[0]], [*indices[1]]]], size + 8


def _encode_lines(lines: Iterable[Line]) -> list[Any]:
    """The lines from the first on, as many as fit in a message; at least one if there is one."""
    encoded: list[Any] = []
    total = 0
    for made in lines:
        item, size = _encode_line(made)
        total += size
        if encoded and total > _PART:
            break
        encoded.append(item)
    return encoded


def _colour(data: Any) -> int | None:
    if data is None:
        return None
    if not 0 <= integer(data) <= 0xFFFFFF:
        raise ValueError("no colour")
    return integer(data)


def _read_span(data: Any) -> Span:
    text, role, command, colours = [*data, *("", "", None)[len(data) - 1 :]][:4]
    if role not in ROLES:
        role = ""
    link = Link(_text(command)) if command else None
    ink = None
    if colours is not None:
        foreground, background, halves = colours
        ink = Ink(_colour(foreground), _colour(background), bool(halves))
    return Span(_text(text), role, link, ink)


def _read_lines(data: Any) -> list[Line]:
    return [
        Line(
            map(_read_span, spans),
            None if indices is None else (_INDICES.read(indices[0]), _INDICES.read(indices[1])),
        )
        for spans, indices in data
    ]


#: Lines, in the program any number of them; so many are sent as fit in a message, at least one.
LINES = Kind(_encode_lines, _read_lines)
#: What is known of one line.
CELLS = _in_line(_row(Cell, _NUMBER, _NUMBER, _INDICES, _maybe(_INDICES)))
FIELDS = _in_line(_row(Field, _NUMBER, _NUMBER, _PRINTED, _PRINTED))
#: A step from element to element, if there is one.
STEP = _maybe(_row(ElementStep, _maybe(_NUMBER), _INDICES, _NUMBER, _NUMBER, _FLAG))
#: A line number.
PLACE = _NUMBER
#: A command line.
COMMAND = _PRINTED


# Documents.


@dataclass(frozen=True)
class Head:
    """All about a Document but its lines.

    Attributes:
        number: what the client asks for it by.
        is_paged: whether it is another one on pages of another height.
        count: of its lines.
        pends: whether a line may be drawn before all of it is known.
    """

    number: int
    title: str
    title_role: str
    menu: tuple[MenuItem, ...]
    initial_line: int
    initial_search: str
    initial_element: tuple[int, ...] | None
    steps: str
    kind: str
    tables: tuple[TableLines, ...]
    turns: frozenset[str]
    is_paged: bool
    is_data: bool
    count: int
    pends: bool


HEAD = _named(
    Head,
    number=_NUMBER,
    title=_TEXT,
    title_role=_WHOLE,
    menu=_many(_row(MenuItem, _TEXT, _TEXT, _FLAG), _MOST_MENU_ITEMS),
    initial_line=_NUMBER,
    initial_search=_TEXT,
    initial_element=Kind(
        lambda indices: _INDICES.encode(indices or ()), lambda data: _INDICES.read(data) or None
    ),
    steps=_PRINTED,
    kind=_TEXT,
    tables=_many(
        _row(TableLines, _NUMBER, _NUMBER, Kind(int, count), _FLAG),
        _MOST_TABLES,
    ),
    turns=Kind(sorted, lambda data: frozenset(map(_text, data))),
    is_paged=_FLAG,
    is_data=_FLAG,
    count=_NUMBER,
    pends=_FLAG,
)


def encode_document(document: Document, number: int) -> dict[str, Any]:
    """All about a Document but its lines, see `Head`."""
    kind = type(document)
    known: dict[str, Any] = {
        "number": number,
        "is_paged": kind.paged is not Document.paged,
        "count": document.line_count,
        "pends": kind.pending is not Document.pending,
    }
    others = {name: getattr(document, name) for name in Head.__annotations__ if name not in known}
    made: dict[str, Any] = HEAD.encode(Head(**known, **others))
    return made


def _values(**values: Any) -> Any:
    return (*values.values(),)


#: Some lines of a Document, and whether they hold placeholders.
PART: Kind[tuple[list[Line], bool]] = _named(_values, lines=LINES, pending=_FLAG)
#: The line that a search found, and the line up to which (exclusive) there is no match.
HIT: Kind[tuple[int | None, int]] = _named(_values, hit=_maybe(_NUMBER), upto=_NUMBER)
#: The lines that match, and the line up to which (exclusive) there are no others.
HITS: Kind[tuple[tuple[int, ...], int]] = _named(_values, hits=_INDICES, upto=_NUMBER)
#: A Document that is seen otherwise, as it came, and where the cursor goes.
TURNED: Kind[tuple[Any, tuple[int, ...] | None]] = _named(
    _values, document=Kind(dict, lambda data: data), indices=_maybe(_INDICES)
)


# Replies.

#: The parts of a Reply that are plain: all but its Document.
REPLY = _named(
    Reply,
    command=_TEXT,
    message=_maybe(_row(Toast, _TEXT, _WHOLE)),
    details=_many(_TEXT, _MOST_DETAILS),
    leave=Kind(lambda leave: leave is not None, lambda data: Leave(None) if data else None),
    request=_maybe(_row(UiRequest, _WHOLE, _WHOLE)),
    question=_maybe(_row(Question, _TEXT, _many(_row(Choice, _WHOLE, _WHOLE, _WHOLE)))),
    rest=_many(_WHOLE),
)


def encode_reply(
    reply: Reply, register: Callable[[Document], int], settings: Mapping[str, Any], prompt: str
) -> dict[str, Any]:
    """A Reply.

    Args:
        reply: which.
        register: makes the number of its Document.
        settings: those that the command changed.
        prompt: after the command.
    """
    document = reply.document
    return {
        **REPLY.encode(reply),
        "document": None if document is None else encode_document(document, register(document)),
        "settings": dict(settings),
        "prompt": prompt,
    }


COMPLETION = _named(
    Completion,
    start=_NUMBER,
    candidates=_many(_row(Candidate, _TEXT, Kind(lambda text: cut(text, 200), _text)), make=list),
)


def encode_completion(completion: Completion) -> dict[str, Any]:
    """A completion. Of very many candidates those are sent that keep their common prefix right."""
    found: Sequence[Candidate] = completion.candidates
    if len(found) > _MOST_CANDIDATES:
        found = [*found[: _MOST_CANDIDATES - 2], min(found), max(found)]
    made: dict[str, Any] = COMPLETION.encode(Completion(completion.start, found))
    return made


#: The commands of a stop.
COMMANDS: Kind[list[CommandInfo]] = _many(
    _row(CommandInfo, _TEXT, _many(_PRINTED), _TEXT, _FLAG), make=list
)
