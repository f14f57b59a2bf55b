"""The grammar of a command line: words, quotes, brackets, backticks, and ``> file``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tfdbg_cli.errors import UserError

__all__ = ["Word", "quoted", "split_redirect", "split_words", "tokenize"]

_INTERVAL = re.compile(r">=?\s*\d+(\.\d*)?\s*(us|ms|s|[kMG]?B?)\Z")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?(e[+-]?\d+)?\Z")
_CLOSING = {"[": "]", "'": "'", '"': '"', "`": "`"}


@dataclass(frozen=True)
class Word:
    """One word of a command line.

    Attributes:
        text: without the quotes around it.
        start, stop: its place in the line, quotes included.
        is_quoted: whether quotes surrounded it.
    """

    text: str
    start: int
    stop: int
    is_quoted: bool


def _skip(line: str, at: int) -> int:
    """The place behind a quoted or bracketed group, or behind one character.

    Brackets nest and may hold quotes; a group that is never closed is taken as plain characters.
    """
    opening = line[at]
    closing = _CLOSING.get(opening)
    if closing is None:
        return at + 1
    if opening != "[":
        end = line.find(closing, at + 1)
        return at + 1 if end < 0 else end + 1
    depth, place = 0, at
    while place < len(line):
        char = line[place]
        if char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if depth == 0:
                return place + 1
        elif char in "'\"`":
            end = line.find(char, place + 1)
            if end > 0:
                place = end
        place += 1
    return at + 1


def tokenize(line: str) -> list[Word]:
    """Split a line at blanks outside quotes, backticks and brackets.

    A pair of quotes around a whole word is removed; quotes inside a word stay.
    """
    words: list[Word] = []
    at = 0
    while at < len(line):
        if line[at].isspace():
            at += 1
            continue
        start = at
        while at < len(line) and not line[at].isspace():
            at = _skip(line, at)
        raw = line[start:at]
        is_quoted = len(raw) >= 2 and raw[0] in "'\"" and _skip(raw, 0) == len(raw)
        words.append(Word(raw[1:-1] if is_quoted else raw, start, at, is_quoted))
    return words


def split_words(line: str) -> list[str]:
    """The texts of the words of a line."""
    return [word.text for word in tokenize(line)]


def split_redirect(line: str) -> tuple[str, str | None]:
    """Split ``lt -n a > out.txt`` into the command and the path; ``None`` without a redirect.

    ``>`` counts outside quotes, backticks and brackets, with a blank on one side at least, and
    followed by exactly one word that is no number. The value of an option (``-e >100us``) is no
    redirect.

    Raises:
        UserError: nothing follows the ``>``.
    """
    place, at = -1, 0
    while at < len(line):
        if line[at] == ">":
            place = at
        at = _skip(line, at)
    if place < 0:
        return line, None
    before, after = line[:place], line[place + 1 :]
    if before.endswith(">"):
        raise UserError("Appending with >> is not supported.", "Use > to write a new file.")
    spaced = not before or before[-1].isspace() or not after or after[0].isspace()
    if not spaced:
        return line, None
    if before.split() and before.split()[-1].startswith("-") and _INTERVAL.match(line[place:]):
        return line, None
    words = split_words(after)
    if not words:
        raise UserError("The redirect file path is empty.", "Write for example: lt > tensors.txt")
    if len(words) > 1 or _NUMBER.match(words[0]):
        return line, None
    return before.rstrip(), words[0]


def quoted(text: str) -> str:
    """A word as it must be written so that it is read back as this text.

    Only a text with both kinds of quotes can't be written.
    """
    # What stands behind the word must not be drawn into it by a quote or bracket left open.
    is_whole = split_words(f"{text} ]'\"`")[:1] == [text]
    if text and is_whole and not text.startswith("-") and ">" not in text:
        return text
    return f'"{text}"' if '"' not in text else f"'{text}'"
