"""The outputs that a printing UI can come back to: again, searched, or by their links."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from itertools import chain, islice

from tfdbg_cli.common.documents import Document, Line, Link, Span, line
from tfdbg_cli.common.errors import UserError, compile_regex
from tfdbg_cli.ui.marks import cut_at, match_places

__all__ = ["Outputs", "parse_indices"]

#: How many Documents `prev` and `next` can go back to.
_KEPT = 50

# Lines that are searched at once.
_BLOCK = 1024


def parse_indices(text: str) -> tuple[int, ...]:
    """Element indices of a ``scroll`` request, ``"1,0"`` or ``"[1, 0]"``.

    Raises:
        UserError: they are no numbers.
    """
    inner = text.strip().strip("[]")
    try:
        found = tuple(int(part) for part in inner.split(",") if part.strip())
    except ValueError:
        raise UserError(f'"{text}" names no element.', "Use @[i,j].") from None
    if not found:
        raise UserError("Which element?", "Write its indices: @10,0")
    return found


class Outputs:
    """The last Documents that were shown, and which of them is the current one."""

    def __init__(self) -> None:
        self._shown: deque[tuple[str, Document]] = deque(maxlen=_KEPT)
        self._at = -1
        self._pattern: re.Pattern[str] | None = None

    def add(self, command: str, document: Document) -> None:
        """A Document is shown; it is the current one now."""
        self._shown.append((command, document))
        self._at = len(self._shown) - 1
        if document.steps:
            self._pattern = None
        elif document.initial_search:
            self._pattern = re.compile(document.initial_search)

    def clear(self) -> None:
        """Forget the Documents."""
        self._shown.clear()
        self._at = -1

    @property
    def current(self) -> Document:
        """The Document that was shown last, or gone back to.

        Raises:
            UserError: there is none.
        """
        if not self._shown:
            raise UserError("There is no output yet.")
        return self._shown[self._at][1]

    def move(self, step: int) -> tuple[str, Document]:
        """Go back (-1) or forward (1).

        Returns:
            The command and its Document.

        Raises:
            UserError: there is nothing further.
        """
        at = self._at + step
        if not 0 <= at < len(self._shown):
            end = "first" if step < 0 else "last"
            raise UserError(f"This is the {end} output.")
        self._at = at
        return self._shown[at]

    def search(self, regex: str) -> Iterator[Line]:
        """The matching lines of the current Document, each with its number.

        Args:
            regex: what to search for; empty: the same as before.

        Raises:
            UserError: it is none, or nothing matches.
        """
        if regex:
            self._pattern = compile_regex(regex)
        if self._pattern is None and self.current.steps:
            return _elements(self.current)
        if self._pattern is None:
            raise UserError("There was no search yet.", "Use /regex.")
        found = _matches(self.current, self._pattern)
        first = next(found, None)
        if first is None:
            raise UserError(f'Nothing matches "{self._pattern.pattern}".')
        return chain([first], found)

    def element(self, indices: str) -> list[Line]:
        """The line of the current Document that shows a tensor element.

        Args:
            indices: as `parse_indices` takes them.

        Raises:
            UserError: they are none, or there is no such element.
        """
        at = self.current.locate(parse_indices(indices))
        return self.current.lines(at, at + 1)

    def _links(self) -> Iterator[tuple[str, str]]:
        """What the current Document leads to: texts and commands, its menu first, each once."""
        document = self.current
        seen: set[str] = set()
        menu = (Span(m.caption, "", Link(m.command)) for m in document.menu if m.enabled)
        for span in chain(menu, (span for made in document for span in made.spans)):
            if span.link is not None and span.link.command not in seen:
                seen.add(span.link.command)
                yield span.text.strip(), span.link.command

    def links(self) -> Iterator[Line]:
        """The links of the current Document, numbered from 1, with what they lead to.

        Raises:
            UserError: there are none.
        """
        if next(self._links(), None) is None:
            raise UserError("The last output has no links.")
        for number, (text, command) in enumerate(self._links(), 1):
            told = f"  ({text})" if text and text not in command else ""
            yield line((f"{number:5d} ", "dim"), (command, "link", command), told)

    def link(self, number: int) -> str:
        """The command of a link by its number.

        Raises:
            UserError: there is no such link.
        """
        if number < 1:
            raise UserError(f"There is no link {number}.", "link lists them from 1 on.")
        found = next(islice(self._links(), number - 1, None), None)
        if found is None:
            count = sum(1 for _ in self._links())
            raise UserError(f"There is no link {number}.", f"The last output has {count}.")
        return found[1]


def _elements(document: Document) -> Iterator[Line]:
    """The elements that a Document is about, e.g. the bad ones, with their values."""
    found = document.step(None)
    while found is not None and not found.wrapped:
        about = document.element(found.indices)
        text = about.lines(0, 1)[0].text if about is not None else str(list(found.indices))
        yield line((f"{document.steps} {found.number} of {found.total}: ", "dim"), text)
        found = document.step(found.indices)


def _matches(document: Document, pattern: re.Pattern[str]) -> Iterator[Line]:
    for start in range(0, document.line_count, _BLOCK):
        for at in document.matches(pattern, start, min(start + _BLOCK, document.line_count)):
            for made in document.lines(at, at + 1):
                number = Span(f"{at + 1}: ", "dim")
                yield Line((number, *_marked(made, pattern)), made.indices)


def _marked(made: Line, pattern: re.Pattern[str]) -> Iterator[Span]:
    """The spans of a line, with what the pattern found cut out as spans of role ``match``."""
    places = match_places(pattern, made.text)
    for index, text, found in cut_at([span.text for span in made.spans], places):
        span = made.spans[index]
        yield span._replace(text=text, role="match" if found else span.role)
