"""A Document on the screen: where it is scrolled to, which link has the focus, what was found."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from itertools import accumulate, islice
from typing import NamedTuple

import urwid

from tfdbg_cli.common.documents import Document, ElementStep, Line, TextDocument, line
from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.ui.screen.input.cursor import ElementCursor
from tfdbg_cli.ui.screen.input.table import TableCursor
from tfdbg_cli.ui.screen.jobs import FilteredDocument, Hit, find_steps
from tfdbg_cli.ui.screen.kept import KeptDocument, keep
from tfdbg_cli.ui.screen.paint.cells import Cells, text_width

__all__ = ["FoundLine", "LinkPlace", "View"]

# How far beyond the page Tab looks for a link, and how long matches are counted for.
_LINK_REACH = 4096
_COUNT_SECONDS = 0.05

# Matches of one line that are looked at for the last one.
_MOST_PLACES = 1000

# On a page of fewer rows the heads of a table scroll away.
_SMALLEST = 4


class LinkPlace(NamedTuple):
    """A link of a line: its ordinal there, its command, and the span indices it covers."""

    line: int
    ordinal: int
    command: str
    first_span: int
    last_span: int


class FoundLine(NamedTuple):
    """A match: its line, whether the search went on at the other end, and which of how many.

    ``total`` is 0 where there are too many lines to count.
    """

    line: int
    wrapped: bool
    number: int
    total: int


def links_of(made: Line, number: int) -> list[LinkPlace]:
    """The links of one line; neighbouring spans with the same command are one link."""
    places: list[LinkPlace] = []
    for index, span in enumerate(made.spans):
        if span.link is None:
            continue
        last = places[-1] if places else None
        if last and last.last_span == index - 1 and last.command == span.link.command:
            places[-1] = last._replace(last_span=index)
        else:
            places.append(LinkPlace(number, len(places), span.link.command, index, index))
    return places


class View:
    """The state of one screen. All positions are clipped to what exists.

    Args:
        document: what it shows.
        command: the command that made it.
        title: for the title bar.
        title_role: ``start``, ``end``, ``error`` or ``offline``.
        size: columns and rows of the page.

    Attributes:
        stop: the number of the stop that it was made at, see `ViewStack`.
        steps: what the next match is instead of a match: ``bad element``; empty: a match.
        painted: the rows of the page that was painted last, by the numbers of their lines: how
            they look, the lines, and their cells.
    """

    def __init__(
        self,
        document: Document,
        command: str,
        title: str,
        title_role: str,
        size: tuple[int, int] = (80, 20),
    ) -> None:
        self.document = document.paged(size[1])
        self.command = command
        self.title = title
        self.title_role = title_role
        self.width, self.height = size
        self.top = 0
        self.left = 0
        self.link: tuple[int, int] | None = None
        self.pattern: re.Pattern[str] | None = None
        self.steps = ""
        self._stepped: tuple[int, ...] | None = None
        self.match: int | None = None
        self.mark: int | None = None
        self.cursor = ElementCursor(self)
        self.table = TableCursor(self)
        self.stop = 0
        self.painted: dict[int, tuple[tuple[object, ...], Line, Cells]] = {}
        self._matches: list[int] | None = None
        self._counted: re.Pattern[str] | None = None
        self.go_to(document.initial_line)

    # -- scrolling

    def heads(self, top: int | None = None) -> Line | None:
        """The heads of a table that take the first row, where the lines below are in it.

        Args:
            top: the line below them; default: the one that is on top now.
        """
        if self.height < _SMALLEST:
            return None
        with contained:  # a damaged dump: the page says so
            return self.document.heads(self.top if top is None else top)
        return None

    def frozen(self, number: int) -> int:
        """The columns at the left of a line of a table that don't scroll sideways."""
        for table in self.document.tables:
            if table.first <= number < table.behind:
                return min(table.frozen, self.width // 2)
        return 0

    @property
    def rows(self) -> int:
        """The rows of the page that scroll."""
        return self.height - (self.heads() is not None)

    @property
    def last_top(self) -> int:
        """The line on top when the last one is at the bottom."""
        missing = self.document.line_count - self.height
        return max(missing + (self.heads(max(missing, 0)) is not None), 0)

    @property
    def bottom(self) -> int:
        """The line behind the last visible one."""
        return min(self.top + self.rows, self.document.line_count)

    def go_to(self, number: int) -> None:
        """Put a line on top."""
        self.top = min(max(number, 0), self.last_top)

    def scroll(self, lines: int) -> None:
        """Scroll by lines, downwards if positive."""
        top = self.top + lines
        if top > 0 and self.heads(top) is not None and self.heads(top - 1) is None:
            top += 1 if lines > 0 else -1  # the heads are in sight one line above it, too
        self.go_to(top)

    def scroll_sideways(self, columns: int) -> None:
        """Scroll by columns, but not beyond the end of the longest visible line."""
        widest = max((text_width(made.text) for made in self.visible()), default=0)
        limit = max(widest - self.width + 1, 0, self.left if columns < 0 else 0)
        self.left = min(max(self.left + columns, 0), limit)

    def show(self, number: int) -> None:
        """Scroll only if a line isn't visible; then it comes to a third of the page."""
        if not self.top <= number < self.top + self.rows:
            self.go_to(number - self.height // 3)

    def show_place(self, number: int, first: int, behind: int) -> None:
        """Scroll so that some characters of a line are visible."""
        self.show(number)
        text = self.lines(number, number + 1)[0].text
        start = text_width(text[:first])
        self._show_columns(number, start, start + text_width(text[first:behind]))

    def character_at(self, number: int, column: int) -> int:
        """The character of a line that a column of the page shows."""
        text = self.lines(number, number + 1)[0].text
        column += self.left if column >= self.frozen(number) else 0
        return int(urwid.calc_text_pos(text, 0, len(text), column)[0])

    def _show_columns(self, number: int, first: int, behind: int) -> None:
        frozen = self.frozen(number)
        if behind <= self.width - 1:
            self.left = 0
        elif behind > frozen and not (
            self.left + frozen <= first and behind <= self.left + self.width - 1
        ):
            self.left = max(first - max(self.width // 3, frozen), 0)

    def lines(self, start: int, stop: int) -> list[Line]:
        """Lines of the Document; one that says why, if it can't make them."""
        try:
            return self.document.lines(start, stop)
        except Exception as error:
            # A damaged dump, a bug of ours: this screen is spoilt, the others aren't.
            return [line((f"This part can't be shown: {one_line(error)}", "error"))]

    def status(self) -> str:
        """What the Document says of the visible lines."""
        try:
            return self.document.status(self.top, self.bottom)
        except Exception as error:
            return one_line(error)

    def visible(self) -> list[Line]:
        """The lines on the page, from its first row on."""
        lines = self.lines(self.top, self.top + self.rows)
        heads = self.heads()  # after the lines, by which the columns grow
        return lines if heads is None else [heads, *lines]

    def line_at(self, row: int) -> int:
        """The number of the line on a row of the page; beyond the ends there is none."""
        return self.top + row - (self.height - self.rows)

    def resize(self, width: int, height: int) -> None:
        """Fit the page of a resized terminal and keep the place.

        A Document that breaks its lines by the width is asked anew; the place is then kept by the
        element indices of the top line if it has any, else by its share of the whole.
        """
        on = self.cursor.indices if "closer" in self.document.turns else None
        if width != self.width:
            old, count = self.document, self.document.line_count
            first = self.lines(self.top, self.top + 1)
            self.document = old.resized(max(width - 1, 1))  # the last column is the scroll bar's
            if self.document is not old:
                self._matches = self._counted = None
                self.cursor.clear()
                if self.document.line_count != count:
                    self.link = self.match = self.mark = None
                    self.top = self._same_place(first, count)
        if height != self.height:
            self.document = self.document.paged(height)
        self.width, self.height = width, height
        self.go_to(self.top)
        if self.document.initial_element is not None:
            self.cursor.show()
        if on is not None and self.cursor.indices != on:  # it is another map of the same elements
            with contextlib.suppress(UserError):
                self.cursor.go_to(on)

    def turn(self, way: str) -> None:
        """Show the same thing otherwise, see `Document.turned`, with the cursor where it was.

        Raises:
            UserError: it can't be seen like that.
        """
        turned = self.document.turned(way, self.cursor.indices)
        if turned.document is not self.document:
            self.document = turned.document.paged(self.height)
            self._matches = self._counted = self.link = self.match = self.mark = None
            self.painted = {}
            self.steps = self.document.steps
            self.top = self.left = 0
        self.cursor.clear()
        if turned.indices is not None:
            with contextlib.suppress(UserError):  # it isn't in the part that is shown
                self.cursor.go_to(turned.indices)

    def _same_place(self, first: list[Line], count: int) -> int:
        indices = first[0].indices if first else None
        if indices is not None:
            try:
                return self.document.locate(indices[0])
            except UserError:
                pass
        return self.top * self.document.line_count // max(count, 1)

    # -- links

    def links(self, start: int, stop: int) -> list[LinkPlace]:
        """The links of some lines, in reading order."""
        start = max(start, 0)
        places: list[LinkPlace] = []
        for offset, made in enumerate(self.lines(start, stop)):
            places += links_of(made, start + offset)
        return places

    def focused_link(self) -> LinkPlace | None:
        """The link that has the focus, if it is visible."""
        if self.link is None or not self.top <= self.link[0] < self.bottom:
            return None
        for place in self.links(self.link[0], self.link[0] + 1):
            if place.ordinal == self.link[1]:
                return place
        return None

    def link_under_cursor(self) -> LinkPlace | None:
        """What Enter opens on an element that is a link, or where a link was focused since."""
        found = self.cursor.current
        if found is None or self.document.initial_element is None:
            return None
        number, cell = found
        if (focused := self.focused_link()) is not None:
            return focused
        spans = self.lines(number, number + 1)[0].spans
        starts = [*accumulate((len(span.text) for span in spans), initial=0)]
        for place in self.links(number, number + 1):
            if starts[place.first_span] <= cell.start < starts[place.last_span + 1]:
                return place
        return None

    def move_cursor(self, rows: int, columns: int) -> bool:
        """Move the cursor by a line or an element; it has the focus then, and no link.

        Returns:
            False if there is nothing that way.
        """
        self.link = None
        return self.cursor.move(rows, columns)

    def move_link(self, step: int) -> bool:
        """Focus the next link (``step`` 1) or the one before (-1).

        Starts at the edge of the page if no visible link has the focus. Goes on beyond the page,
        some thousand lines far, and scrolls there.

        Returns:
            False if there is no such link; the focus stays.
        """
        focused = self.focused_link()
        places = self.links(self.top, self.bottom)
        if focused is not None:
            here = (focused.line, focused.ordinal)
            places = [p for p in places if ((p.line, p.ordinal) > here) is (step > 0)]
            places = [p for p in places if (p.line, p.ordinal) != here]
        place = (places[0] if step > 0 else places[-1]) if places else self._link_beyond(step)
        if place is None:
            return False
        self.link = (place.line, place.ordinal)
        self.show(place.line)
        made = self.lines(place.line, place.line + 1)[0]
        before = "".join(span.text for span in made.spans[: place.first_span])
        inside = "".join(s.text for s in made.spans[place.first_span : place.last_span + 1])
        first = text_width(before)
        self._show_columns(place.line, first, first + text_width(inside))
        return True

    def _link_beyond(self, step: int) -> LinkPlace | None:
        for block in range(0, _LINK_REACH, 256):
            if step > 0:
                start = self.bottom + block
                found = self.links(start, start + 256)
                if found:
                    return found[0]
            else:
                stop = self.top - block
                if stop <= 0:
                    return None
                found = self.links(stop - 256, stop)
                if found:
                    return found[-1]
        return None

    # -- search

    def search(
        self, pattern: re.Pattern[str] | None, direction: int = 1, first: int | None = None
    ) -> Iterator[float | Hit]:
        """Look for a match; beyond the end the search goes on at the other end.

        Args:
            pattern: a new one is looked for from the top of the page on; ``None``: the next match
                of the old one, from the last match on if it is visible.
            direction: 1 downwards, -1 upwards.
            first: the line to begin at; default: as above.

        Returns:
            The steps of the search; what they end with is for `show_hit`.

        Raises:
            UserError: there was no search before.
        """
        if pattern is not None:
            self.pattern, self.match, self.steps = pattern, None, ""
        if self.pattern is None:
            raise UserError("There was no search on this screen yet.", "Use /regex.")
        if first is not None:
            start = first
        elif self.match is not None and self.top <= self.match < self.bottom:
            start = self.match + direction
        else:
            start = self.top if direction > 0 else self.bottom - 1
        return find_steps(self.document, self.pattern, start, direction)

    def show_hit(self, hit: Hit, direction: int = 1) -> FoundLine | None:
        """Go to what a search has found; ``None`` if nothing matches: the page stays."""
        if hit.line is None or self.pattern is None:
            return None
        self.match = hit.line
        self.show(hit.line)
        if self.table:
            self.table.put(hit.line)
        text = self.lines(hit.line, hit.line + 1)[0].text
        places = list(islice(self.pattern.finditer(text), _MOST_PLACES))
        if places:
            place = places[0 if direction > 0 else -1]
            first = text_width(text[: place.start()])
            self._show_columns(hit.line, first, first + text_width(place[0]))
            self.cursor.put_at(hit.line, place.start())
        matches = self._count()
        if matches is None or hit.line not in matches:
            return FoundLine(hit.line, hit.wrapped, 0, 0)
        return FoundLine(hit.line, hit.wrapped, matches.index(hit.line) + 1, len(matches))

    def step(self, direction: int) -> ElementStep:
        """Go to the next (1) or previous (-1) of the elements that the Document is about.

        From the cursor, if it is on an element, else from the last one that this has gone to; where
        they are lines, from that one if it is visible, else from the page.

        Raises:
            UserError: they are no longer there, or the next one isn't shown.
        """
        here = self.cursor.current
        start = here[1].indices if here else self._stepped
        if self.document.kind == "source" and (
            self.match is None or not self.top <= self.match < self.bottom
        ):
            start = self._first_indices(direction)
        found = self.document.step(start, direction)
        if found is None:
            text = f"No {self.steps} can be found here any more."
            raise UserError(text, "The tensor isn't kept any more, because its run is over.")
        self._stepped = found.indices
        if found.line is None:
            self.cursor.clear()
            place = f"{self.steps} {found.number} of {found.total}, {list(found.indices)},"
            raise UserError(f"{place} isn't shown.", "& alone shows all lines.")
        self.match = found.line
        self.show(found.line)
        if not self.cursor.put(found.line, found.indices):
            self.mark = found.line
            links = self.links(found.line, found.line + 1)
            self.link = (found.line, links[0].ordinal) if links else self.link
        return found

    def _first_indices(self, direction: int) -> tuple[int, ...] | None:
        """The indices of the first or last visible line that has any; ``None``: of the ends."""
        if self.top == 0 if direction > 0 else self.top == self.last_top:
            return None
        made = self.lines(self.top, self.bottom)
        found = (each.indices for each in (made if direction > 0 else reversed(made)))
        first = next((each for each in found if each is not None), None)
        return None if first is None else first[0]

    def narrow(self, document: Document) -> None:
        """Show a part of the Document, or the whole again, at the line that is on top now."""
        old, at = self.document, self.top
        if isinstance(old, FilteredDocument):
            at = old.number(at)
        self.document = document
        self._matches = self._counted = self.link = self.match = self.mark = None
        self.cursor.clear()
        self.table.clear()
        self.go_to(document.place(at) if isinstance(document, FilteredDocument) else at)

    def let_go(self, until: float) -> None:
        """Show from now on only what can be shown without the dump of the run.

        Args:
            until: the time (`time.monotonic`) after which no more lines are made.
        """
        try:
            kept = keep(self.document, self.top, self.height, until)
        except Exception as error:
            text = f"This screen could not be kept: {one_line(error)}"
            kept = TextDocument([line((text, "error"))], title=self.document.title)
            self.link = self.match = self.mark = None
        if kept is self.document:
            return
        self.document = kept
        self._matches = self._counted = None
        if isinstance(kept, KeptDocument):
            self.match = self.match if self.match is None else kept.place(self.match)
            self.mark = self.mark if self.mark is None else kept.place(self.mark)
            if self.link is not None:
                self.link = (kept.place(self.link[0]), self.link[1])
            self.top = kept.place(self.top)
        self.go_to(self.top)

    def _count(self) -> list[int] | None:
        """The numbers of all matching lines, or ``None`` if counting would take long."""
        if self.pattern is None or self._counted is self.pattern:
            return self._matches
        self._counted, self._matches = self.pattern, None
        until = time.monotonic() + _COUNT_SECONDS
        found: list[int] = []
        for start in range(0, self.document.line_count, 256):
            if time.monotonic() > until:
                return None
            for offset, made in enumerate(self.lines(start, start + 256)):
                if self.pattern.search(made.text):
                    found.append(start + offset)
        self._matches = found
        return found
