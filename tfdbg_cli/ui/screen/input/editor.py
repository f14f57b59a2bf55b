"""The line at the prompt: editing, history and completion, without a terminal."""

from __future__ import annotations

import re
from typing import NamedTuple

from tfdbg_cli.commands.reply import Completion
from tfdbg_cli.commands.shell.history import History

__all__ = ["HistoryMatch", "LineEditor", "Prompt"]

#: More than this is not a command line but a mistaken paste.
LIMIT = 4096

_WORD = re.compile(r"\w+|[^\w\s]+")


class LineEditor:
    """A line of text with a cursor, and what was cut last."""

    def __init__(self) -> None:
        self.text = ""
        self.cursor = 0
        self._cut = ""

    def set(self, text: str, cursor: int | None = None) -> None:
        """Replace the line; the cursor goes to its end unless told otherwise."""
        self.text = text[:LIMIT]
        self.cursor = len(self.text) if cursor is None else min(cursor, len(self.text))

    def insert(self, text: str) -> None:
        """Insert at the cursor."""
        text = text[: max(LIMIT - len(self.text), 0)]
        self._replace(self.cursor, self.cursor, text)

    def _replace(self, start: int, stop: int, text: str = "") -> None:
        self.text = self.text[:start] + text + self.text[stop:]
        self.cursor = start + len(text)

    def _kill(self, start: int, stop: int) -> None:
        if start < stop:
            self._cut = self.text[start:stop]
            self._replace(start, stop)

    def _word_start(self) -> int:
        starts = [m.start() for m in _WORD.finditer(self.text, 0, self.cursor)]
        return starts[-1] if starts else 0

    def _word_end(self) -> int:
        found = _WORD.search(self.text, self.cursor)
        return found.end() if found else len(self.text)

    def cursor_left(self) -> None:
        """One character left."""
        self.cursor = max(self.cursor - 1, 0)

    def cursor_right(self) -> None:
        """One character right."""
        self.cursor = min(self.cursor + 1, len(self.text))

    def word_left(self) -> None:
        """To the start of the word."""
        self.cursor = self._word_start()

    def word_right(self) -> None:
        """To the end of the word."""
        self.cursor = self._word_end()

    def line_start(self) -> None:
        """To the start of the line."""
        self.cursor = 0

    def line_end(self) -> None:
        """To the end of the line."""
        self.cursor = len(self.text)

    def delete_left(self) -> None:
        """Delete the character before the cursor."""
        if self.cursor:
            self._replace(self.cursor - 1, self.cursor)

    def delete_right(self) -> None:
        """Delete the character under the cursor."""
        self._replace(self.cursor, min(self.cursor + 1, len(self.text)))

    def kill_word_left(self) -> None:
        """Cut back to a blank, as shells do."""
        start = len(self.text[: self.cursor].rstrip())
        start = self.text.rfind(" ", 0, start) + 1
        self._kill(start, self.cursor)

    def kill_word_right(self) -> None:
        """Cut to the end of the word."""
        self._kill(self.cursor, self._word_end())

    def kill_to_start(self) -> None:
        """Cut what is before the cursor."""
        self._kill(0, self.cursor)

    def kill_to_end(self) -> None:
        """Cut what is behind the cursor."""
        self._kill(self.cursor, len(self.text))

    def yank(self) -> None:
        """Insert what was cut last."""
        self.insert(self._cut)


class HistoryMatch(NamedTuple):
    """Which of how many former commands that contain what was typed is in the line."""

    typed: str
    number: int
    total: int


class Prompt:
    """A `LineEditor` with history and completion.

    Attributes:
        line: the text and the cursor.
        completion: the candidates that are offered, if any.
        chosen: which of them is in the line; -1: none yet.
    """

    def __init__(self) -> None:
        self.line = LineEditor()
        self.completion: Completion | None = None
        self.chosen = -1
        self._typed = self._before = ""
        self._entries: list[str] | None = None
        self._entry = -1
        self._searching = False

    def clear(self) -> None:
        """Empty the line."""
        self.line.set("")
        self.touch()

    def touch(self) -> None:
        """The line was edited: candidates and the place in the history no longer hold."""
        self.completion, self.chosen = None, -1
        self._entries, self._entry = None, -1
        self._searching = False

    def move_in_history(self, history: History, step: int) -> bool:
        """Show an older (1) or newer (-1) command that begins with what was typed.

        Returns:
            False at either end; the line stays.
        """
        self.completion = None
        if self._entries is None:
            if step < 0:
                return False
            self._typed = self.line.text
            self._entries = [t for t in history.matching(self._typed) if t != self._typed]
        at = self._entry + step
        if not -1 <= at < len(self._entries):
            return False
        self._entry = at
        self.line.set(self._typed if at < 0 else self._entries[at])
        return True

    @property
    def is_searching(self) -> bool:
        """Whether what is typed now is searched in the history."""
        return self._searching

    def search_history(self, history: History) -> HistoryMatch | None:
        """Show the last command that contains what was typed; again: the one before it.

        Returns:
            ``None`` if there is no other; the line stays.
        """
        self.completion = None
        if not self._searching:
            self._searching, self._typed, self._before = True, self.line.text, self.line.text
            self._entry = -1
            self._entries = [
                text for text in history.matching("") if self._typed in text and text != self._typed
            ]
        return self._recall(self._entry + 1)

    def search_for(self, history: History, letter: str) -> HistoryMatch | None:
        """In the search: type a letter more, or (empty) take one back.

        Returns:
            ``None`` if no command contains that; the line stays.
        """
        self._typed = self._typed + letter if letter else self._typed[:-1]
        self._entries = [text for text in history.matching("") if self._typed in text]
        # What is shown is left for an older one only where it doesn't fit any more.
        shown = self.line.text
        return self._recall(self._entries.index(shown) if shown in self._entries else 0)

    def leave_search(self) -> None:
        """Back to the line as it was before the search."""
        self.line.set(self._before)
        self.touch()

    def _recall(self, at: int) -> HistoryMatch | None:
        assert self._entries is not None
        if at >= len(self._entries):
            return None
        self._entry = at
        self.line.set(self._entries[at])
        return HistoryMatch(self._typed, at + 1, len(self._entries))

    def offer(self, completion: Completion) -> bool:
        """Use a fresh completion: insert what all candidates share, and offer them if several.

        Returns:
            False if there is no candidate.
        """
        count = len(completion.candidates)
        if not count:
            self.completion = None
            return False
        start, cursor = completion.start, self.line.cursor
        typed = self.line.text[start:cursor]
        shared = completion.common_prefix
        if count == 1:
            self.line.set(
                self.line.text[:start] + shared + self.line.text[cursor:], start + len(shared)
            )
            if start == 0 and self.line.cursor == len(self.line.text):
                self.line.insert(" ")  # a command is complete; its arguments come next
            self.touch()
            return True
        if len(shared) > len(typed):
            self.line.set(
                self.line.text[:start] + shared + self.line.text[cursor:], start + len(shared)
            )
        self.touch()
        self.completion, self.chosen = completion, -1
        return True

    def narrow(self, completion: Completion) -> None:
        """Typing goes on while candidates are offered: offer those that still fit."""
        assert self.completion is not None
        start = self.completion.start
        self.touch()
        typed = self.line.text[start : self.line.cursor]
        texts = [candidate.text for candidate in completion.candidates]
        if completion.start == start and texts and texts != [typed]:
            self.completion = completion

    def cycle(self, step: int) -> None:
        """Put the next (1) or previous (-1) of the offered candidates into the line."""
        assert self.completion is not None
        count = len(self.completion.candidates)
        first = 0 if step > 0 else count - 1
        self.choose(first if self.chosen < 0 else (self.chosen + step) % count)
        if count == 1:
            self.touch()

    def skip(self, step: int) -> None:
        """Put a candidate further down, or up, into the line; not beyond the ends."""
        assert self.completion is not None
        last = len(self.completion.candidates) - 1
        self.choose(min(max(self.chosen + step, 0), last))

    def choose(self, at: int) -> None:
        """Put a candidate into the line in place of the word."""
        assert self.completion is not None
        start = self.completion.start
        text = self.completion.candidates[at].text
        rest = self.line.text[self.line.cursor :]
        self.line.set(self.line.text[:start] + text + rest, start + len(text))
        self.chosen = at
