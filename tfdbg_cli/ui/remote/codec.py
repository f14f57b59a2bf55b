"""Lines, Replies and completions as JSON, and back.

What comes from the other side is checked piece by piece, and its text is made printable as ours is:
neither side has to trust the other to draw what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

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
from tfdbg_cli.common.printable import printable
from tfdbg_cli.net.wire import MalformedError

__all__ = [
    "LONGEST_LINE",
    "Head",
    "decode_cells",
    "decode_command",
    "decode_commands",
    "decode_completion",
    "decode_fields",
    "decode_head",
    "decode_hit",
    "decode_lines",
    "decode_part",
    "decode_place",
    "decode_reply",
    "decode_turned",
    "encode_cells",
    "encode_commands",
    "encode_completion",
    "encode_document",
    "encode_fields",
    "encode_lines",
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

_Result = TypeVar("_Result")


def _cut(text: str, limit: int = _LONGEST_TEXT) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


# From the program.


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


def encode_lines(lines: Iterable[Line]) -> list[Any]:
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


def encode_document(document: Document, number: int) -> dict[str, Any]:
    """All about a Document but its lines.

    Args:
        document: which.
        number: what the client asks for it by.
    """
    return {
        "number": number,
        "title": _cut(document.title),
        "title_role": document.title_role,
        "menu": [[_cut(t), _cut(c), e] for t, c, e in document.menu[:_MOST_MENU_ITEMS]],
        "initial_line": int(document.initial_line),
        "initial_search": _cut(document.initial_search),
        "initial_element": [int(index) for index in document.initial_element or ()],
        "steps": _cut(document.steps),
        "kind": _cut(document.kind),
        "tables": [list(table) for table in document.tables[:_MOST_TABLES]],
        "turns": sorted(document.turns),
        "is_paged": type(document).paged is not Document.paged,
        "is_data": document.is_data,
        "count": int(document.line_count),
        # Whether a line may be drawn before all of it is known.
        "pends": type(document).pending is not Document.pending,
    }


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
    document, question = reply.document, reply.question
    return {
        "command": _cut(reply.command),
        "document": None if document is None else encode_document(document, register(document)),
        "message": None
        if reply.message is None
        else [_cut(reply.message.text), reply.message.role],
        "details": [_cut(text) for text in reply.details[:_MOST_DETAILS]],
        "leave": reply.leave is not None,
        "request": None if reply.request is None else list(reply.request),
        "question": None
        if question is None
        else [_cut(question.text), [list(choice) for choice in question.choices]],
        "rest": list(reply.rest),
        "settings": dict(settings),
        "prompt": prompt,
    }


def encode_completion(completion: Completion) -> dict[str, Any]:
    """A completion. Of very many candidates those are sent that keep their common prefix right."""
    found = completion.candidates
    if len(found) > _MOST_CANDIDATES:
        low, high = min(found), max(found)
        found = [*found[: _MOST_CANDIDATES - 2], low, high]
    return {
        "start": completion.start,
        "candidates": [[_cut(candidate.text), _cut(candidate.summary, 200)] for candidate in found],
    }


def encode_cells(cells: Sequence[Cell]) -> list[Any]:
    """The cells of a line, as far as lines are sent."""
    return [
        [c.start, c.stop, [*map(int, c.indices)], None if c.last is None else [*map(int, c.last)]]
        for c in cells
        if c.stop <= LONGEST_LINE
    ]


def encode_fields(fields: Sequence[Field]) -> list[Any]:
    """The fields of a line, as far as lines are sent."""
    return [[*found[:2], *map(_cut, found[2:])] for found in fields if found.stop <= LONGEST_LINE]


def encode_step(step: ElementStep | None) -> list[Any] | None:
    """A step from element to element."""
    if step is None:
        return None
    return [step.line, [*map(int, step.indices)], step.number, step.total, step.wrapped]


def encode_commands(commands: Sequence[CommandInfo]) -> list[Any]:
    """The commands of a stop."""
    return [[info.name, [*info.aliases], info.summary, info.needs_argument] for info in commands]


# In the client.


def _checked(read: Callable[[Any], _Result]) -> Callable[[Any], _Result]:
    """The same function; whatever it raises, the message was malformed."""

    def checked(data: Any) -> _Result:
        try:
            return read(data)
        except MalformedError:
            raise
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            raise MalformedError(f"{read.__name__}: {error}") from None

    return checked


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


def _indices(data: Any) -> tuple[int, ...]:
    return tuple(integer(number) for number in data)


def _colour(data: Any) -> int | None:
    if data is None:
        return None
    if not 0 <= integer(data) <= 0xFFFFFF:
        raise ValueError("no colour")
    return integer(data)


def _decode_span(data: Any) -> Span:
    text, role, command, colours = [*data, *("", "", None)[len(data) - 1 :]][:4]
    if role not in ROLES:
        role = ""
    link = Link(_text(command)) if command else None
    ink = None
    if colours is not None:
        foreground, background, halves = colours
        ink = Ink(_colour(foreground), _colour(background), bool(halves))
    return Span(_text(text), role, link, ink)


@_checked
def decode_lines(data: Any) -> list[Line]:
    """What `encode_lines` made."""
    return [
        Line(
            map(_decode_span, spans),
            None if indices is None else (_indices(indices[0]), _indices(indices[1])),
        )
        for spans, indices in data
    ]


@_checked
def decode_reply(data: Any) -> Reply:
    """What `encode_reply` made, without its Document and settings."""
    message, request, question = data["message"], data["request"], data["question"]
    return Reply(
        _text(data["command"]),
        message=None if message is None else Toast(_text(message[0]), _text(message[1])),
        details=tuple(_text(text) for text in data["details"]),
        leave=Leave(None) if data["leave"] else None,
        request=None if request is None else UiRequest(_text(request[0]), _text(request[1])),
        question=None if question is None else _decode_question(question),
        rest=tuple(_text(text) for text in data["rest"]),
    )


def _decode_question(data: Any) -> Question:
    text, choices = data
    return Question(
        _text(text),
        tuple(Choice(_text(k), _text(caption), _text(command)) for k, caption, command in choices),
    )


class Head(NamedTuple):
    """All about a Document but its lines; see `encode_document`."""

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
    line_count: int
    pends: bool


@_checked
def decode_head(data: Any) -> Head:
    """What `encode_document` made."""
    return Head(
        integer(data["number"]),
        _text(data["title"]),
        _text(data["title_role"]),
        tuple(
            MenuItem(_text(caption), _text(command), bool(enabled))
            for caption, command, enabled in data["menu"]
        ),
        integer(data["initial_line"]),
        _text(data["initial_search"]),
        tuple(integer(index) for index in data["initial_element"]) or None,
        printable(_text(data["steps"])),
        _text(data["kind"]),
        tuple(_decode_table(*table) for table in data["tables"]),
        frozenset(_text(way) for way in data.get("turns", ())),
        bool(data.get("is_paged", False)),
        bool(data["is_data"]),
        integer(data["count"]),
        bool(data["pends"]),
    )


@_checked
def decode_part(data: Any) -> tuple[list[Line], bool]:
    """Some lines of a Document, and whether they hold placeholders."""
    return decode_lines(data["lines"]), bool(data["pending"])


@_checked
def decode_hit(data: Any) -> tuple[int | None, int]:
    """The line that a search found, and the line up to which (exclusive) there is no match."""
    hit = data["hit"]
    return None if hit is None else integer(hit), integer(data["upto"])


@_checked
def decode_hits(data: Any) -> tuple[list[int], int]:
    """The lines that match, and the line up to which (exclusive) there are no others."""
    return [integer(hit) for hit in data["hits"]], integer(data["upto"])


@_checked
def decode_completion(data: Any) -> Completion:
    """What `encode_completion` made."""
    return Completion(
        integer(data["start"]),
        [Candidate(_text(t), _text(s)) for t, s in data["candidates"]],
    )


#: A line number.
decode_place = _checked(integer)


@_checked
def decode_cells(data: Any) -> list[Cell]:
    """What `encode_cells` made."""
    return [
        Cell(integer(a), integer(b), _indices(first), None if last is None else _indices(last))
        for a, b, first, last in ([*cell, None][:4] for cell in data)
    ]


@_checked
def decode_turned(data: Any) -> tuple[Any, tuple[int, ...] | None]:
    """The head of a Document that is seen otherwise, and where the cursor goes."""
    indices = data["indices"]
    return data["document"], None if indices is None else _indices(indices)


def _decode_table(first: Any, behind: Any, frozen: Any, has_heads: Any) -> TableLines:
    if integer(frozen) < 0:
        raise ValueError("a negative number")
    return TableLines(integer(first), integer(behind), frozen, bool(has_heads))


@_checked
def decode_fields(data: Any) -> list[Field]:
    """What `encode_fields` made."""
    return [
        Field(integer(a), integer(b), printable(_text(column)), printable(_text(head)))
        for a, b, column, head in data
    ]


@_checked
def decode_command(data: Any) -> str:
    """A command line."""
    return printable(_text(data))


@_checked
def decode_step(data: Any) -> ElementStep | None:
    """What `encode_step` made."""
    if data is None:
        return None
    line, indices, number, total, wrapped = data
    return ElementStep(
        None if line is None else integer(line),
        _indices(indices),
        integer(number),
        integer(total),
        bool(wrapped),
    )


@_checked
def decode_commands(data: Any) -> list[CommandInfo]:
    """What `encode_commands` made."""
    return [
        CommandInfo(
            _text(name),
            tuple(printable(_text(alias)) for alias in aliases),
            _text(summary),
            bool(needs),
        )
        for name, aliases, summary, needs in data
    ]
