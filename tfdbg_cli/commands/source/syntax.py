"""Syntax colours of source files: which parts of a line are keywords, strings, comments.

Pygments tells, where it is installed; without it, source is plain.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any
from weakref import WeakKeyDictionary

from tfdbg_cli.common.documents import Span
from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.dumps.sources import Sources
from tfdbg_cli.tensors.measurements import Background, Itself

__all__ = ["Syntax", "syntax_of"]

# Larger files, and ones with longer lines, were written by no person.
_MOST_CHARACTERS, _LONGEST_LINE = 2_000_000, 2_000

# How many tokens are read between two looks at the clock: some tenths of a millisecond.
_TOKENS = 200

# The kinds of tokens, the first that fits, and their roles.
_ROLES = (
    ("Comment", "comment"),
    ("Keyword", "keyword"),
    ("Operator.Word", "keyword"),
    ("Literal.String", "string"),
    ("Literal.Number", "number"),
    ("Name.Function", "definition"),
    ("Name.Class", "definition"),
    ("Name.Decorator", "builtin"),
    ("Name.Builtin", "builtin"),
    ("Name.Exception", "builtin"),
)

_known: WeakKeyDictionary[Sources, dict[str, Syntax]] = WeakKeyDictionary()


def syntax_of(sources: Sources, path: str) -> Syntax:
    """The syntax colours of a file; the file is read on once however often it is shown.

    Args:
        sources: where its text is known, or isn't.
        path: of the file.
    """
    files = _known.setdefault(sources, {})
    if path not in files:
        files[path] = Syntax(sources.lines(path) or ())
    return files[path]


class Syntax:
    """The syntax colours of the lines of one file.

    What a line is depends on what stands above it. So a file is read from its beginning, but only
    as far as somebody looks: in the background where that takes long.

    Args:
        lines: of Python source.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._places: list[list[tuple[int, int, str]]] = []
        self._tokens = self._read() if lines else iter(())
        self._is_over = not lines
        self._wanted = 0
        self._lock = threading.Lock()
        self._background = Background[Syntax](Itself())

    def spans(self, number: int, role: str = "") -> list[Span]:
        """A line in pieces, plain as long as it isn't known what they are.

        Args:
            number: of the line, from 1.
            role: of what has no colour of its own.
        """
        # A form feed moves a printer's paper; on a screen it would be a control character.
        text = self._lines[number - 1].replace("\f", " ")
        places = self._places[number - 1] if self.knows(number) else []
        if "\t" in text:  # how wide it is depends on what stands before it
            wide = [len(text[:at].expandtabs(8)) for at in range(len(text) + 1)]
            places = [(wide[first], wide[last], kind) for first, last, kind in places]
            text = text.expandtabs(8)
        spans: list[Span] = []
        at = 0
        for first, last, kind in places:
            if first > at:
                spans.append(Span(text[at:first], role))
            spans.append(Span(text[first:last], kind))
            at = last
        return [*spans, Span(text[at:], role)] if at < len(text) else spans

    def knows(self, number: int) -> bool:
        """Whether it is known what the parts of a line are."""
        return self._is_over or number < len(self._places)

    def want(self, number: int, is_in_time: Callable[[], bool] = lambda: True) -> None:
        """Read on until a line is known, or the time is up and a thread goes on.

        Args:
            number: of the line.
            is_in_time: asked now and then.
        """
        if self.knows(number):
            return
        if self._lock.acquire(blocking=False):
            try:
                while not self.knows(number) and is_in_time():
                    self._advance()
            finally:
                self._lock.release()
        if not self.knows(number):
            self._wanted = max(self._wanted, number)
            self._background.want([self])

    def settle(self, number: int) -> None:
        """Read on until a line is known, however long that takes."""
        while not self.knows(number):
            with self._lock:
                self._advance()

    @property
    def pending(self) -> bool:
        """Whether a thread reads on for a line that was asked for; asking keeps it at it."""
        return self._background.is_pending

    def work(self, check: Callable[[], object]) -> None:
        """What the thread does."""
        while not self.knows(self._wanted):
            check()
            with self._lock:
                self._advance()

    def _advance(self) -> None:
        """Read some tokens."""
        for _ in range(_TOKENS):
            try:
                next(self._tokens)
            except Exception:  # the end, or a Pygments that isn't as it should be
                self._is_over = True
                self._places += [[] for _ in range(len(self._places), len(self._lines))]
                return

    def _read(self) -> Iterator[None]:
        """Note the tokens, one at each step."""
        if sum(map(len, self._lines)) > _MOST_CHARACTERS:
            return
        if max(map(len, self._lines)) > _LONGEST_LINE:
            return
        lexer = _lexer()
        if lexer is None:
            return
        starts = [0, *accumulate(len(text) + 1 for text in self._lines)]
        kinds: dict[Any, str] = {}
        for at, kind, text in lexer.get_tokens_unprocessed("\n".join(self._lines)):
            role = kinds.get(kind)
            if role is None:
                name = str(kind).removeprefix("Token.")
                role = next((role for head, role in _ROLES if name.startswith(head)), "")
                kinds[kind] = role
            number = bisect_right(starts, at)  # from 1
            while len(self._places) < number:
                self._places.append([])
            if role:
                self._note(number, at - starts[number - 1], text, role)
            yield

    def _note(self, number: int, first: int, text: str, role: str) -> None:
        """A token, which may go over several lines."""
        for piece in text.split("\n"):
            while len(self._places) < number:
                self._places.append([])
            if piece:
                places = self._places[number - 1]
                if places and places[-1][1:] == (first, role):  # a string comes in pieces
                    first_of = places.pop()[0]
                    places.append((first_of, first + len(piece), role))
                else:
                    places.append((first, first + len(piece), role))
            number, first = number + 1, 0


def _lexer() -> Any:
    """What takes Python to pieces; ``None`` where there is no Pygments."""
    with contained:  # the program may have a module of that name, which is something else
        from pygments.lexers.python import PythonLexer

        return PythonLexer()
    return None
