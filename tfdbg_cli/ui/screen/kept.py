"""What stays readable of a screen when the program runs on and its tensors are let go."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from tfdbg_cli.common.documents import Document, Line, TextDocument, line
from tfdbg_cli.common.errors import UserError

__all__ = ["KeptDocument", "keep"]

# At most so much of one screen.
_LINES, _CHARACTERS = 2000, 1_000_000

_BLOCK = 128


class KeptDocument(TextDocument):
    """Lines of another Document around those that were seen, as they looked then.

    Args:
        whole: the Document; nothing of it is held on to.
        lines: some of its lines.
        first: which line of it is the first of them.
    """

    def __init__(self, whole: Document, lines: Sequence[Line], first: int) -> None:
        count = whole.line_count
        self._above = [_note(first, "above")] if first else []
        below = count - first - len(lines)
        made = [*self._above, *lines, *([_note(below, "below")] if below > 0 else [])]
        super().__init__(made, whole.title, whole.menu, whole.title_role)
        self._first = first
        self._heads = [
            (table.first, table.behind, [found])
            for table in whole.tables
            if (found := whole.heads(table.first + 1)) is not None
        ]
        if not self._heads and (heads := whole.heads(first)):  # above all lines of it
            self._heads = [(-1, count, [heads])]

    def place(self, number: int) -> int:
        """Where a line of the whole Document is in this one; beyond the ends, at an end."""
        at = number - self._first + len(self._above)
        return min(max(at, 0), max(self.line_count - 1, 0))

    def heads(self, number: int) -> Line | None:
        """The heads above a line, as they were."""
        at = number - len(self._above) + self._first
        for first, behind, made in self._heads:
            if first < at < behind and number < self.line_count:
                return made[0]
        return None

    def locate(self, indices: Sequence[int]) -> int:
        wanted = tuple(indices)
        for number, made in enumerate(self._lines):
            if made.indices is not None and made.indices[0] <= wanted <= made.indices[1]:
                return number
        if not any(made.indices is not None for made in self._lines):
            return super().locate(indices)
        raise UserError(
            f"The line of element {list(indices)} was not kept.",
            "This screen is of an earlier run, whose tensors aren't kept any more.",
        )

    def status(self, start: int, stop: int) -> str:
        """The elements on the visible lines."""
        shown = [made.indices for made in self.lines(start, stop) if made.indices is not None]
        if not shown:
            return ""
        first, last = (re.sub(r",?\)|\(|\s", "", str(i)) for i in (shown[0][0], shown[-1][1]))
        return f"[{first}]-[{last}]"


def _note(count: int, where: str) -> Line:
    lines = "line" if count == 1 else "lines"
    return line((f"… {count} more {lines} {where}, not kept after their run", "dim"))


def keep(document: Document, top: int, height: int, until: float) -> Document:
    """A Document that can be shown without the dump that it was made of.

    Args:
        document: what is shown.
        top: the first visible line; the lines from there on are kept first.
        height: the rows of the page.
        until: the time (`time.monotonic`) after which no more lines are made.

    Returns:
        A `KeptDocument`; ``document`` itself where it is mere text already.
    """
    if isinstance(document, TextDocument):
        return document
    first = behind = max(top, 0)
    lines: list[Line] = []
    characters = 0
    count, step = document.line_count, max(height, 1)
    while len(lines) < _LINES and characters < _CHARACTERS:
        below = document.lines(behind, min(behind + step, count))
        start = max(first - step, 0) if lines else first
        above = document.lines(start, first)
        if not below and not above:
            break
        lines = [*above, *lines, *below]
        characters += sum(len(made.text) for made in (*above, *below))
        first, behind, step = start, behind + len(below), _BLOCK
        if time.monotonic() > until:
            break
    return KeptDocument(document, lines, first)
