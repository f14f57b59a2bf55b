"""The grammar of a command line: words, quotes, brackets, backticks; ``;``, ``#``, ``>``, ``|``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from tfdbg_cli.common.errors import UserError

__all__ = [
    "OutputTarget",
    "Word",
    "last_command",
    "open_quote",
    "quoted",
    "split_command",
    "split_output",
    "split_words",
    "tokenize",
]

_INTERVAL = re.compile(r">=?\s*(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*(us|ms|s|[kMGT]?B?)\Z")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?(e[+-]?\d+)?\Z")
_BRACKETS = {"[": "]", "(": ")"}
_QUOTES = "'\"`"


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


# What is a word as it stands, whatever is around it: nearly all names are.
_SIMPLE = re.compile(r"\w[\w/:.-]*")


@lru_cache(maxsize=32)
def _groups(line: str) -> dict[int, int]:
    """Where the quoted and bracketed groups of a line begin, and the places behind them.

    Brackets nest and may hold quotes; a group that is never closed is none. To be asked once for a
    line: finding an equal line that was kept takes a comparison of both.
    """
    found: dict[int, int] = {}
    opened: list[int] = []
    at = 0
    while at < len(line):
        char = line[at]
        if char in _QUOTES:
            end = line.find(char, at + 1)
            if end > 0:
                found[at] = end + 1
                at = end
        elif char in _BRACKETS:
            opened.append(at)
        elif opened and char == _BRACKETS[line[opened[-1]]]:
            found[opened.pop()] = at + 1
        elif char == "]":
            # An open parenthesis, as in a regular expression, doesn't hold a bracket open.
            while opened and line[opened[-1]] != "[":
                opened.pop()
            if opened:
                found[opened.pop()] = at + 1
        at += 1
    return found


def tokenize(line: str) -> list[Word]:
    """Split a line at blanks outside quotes, backticks and brackets.

    A pair of quotes around a whole word is removed; quotes inside a word stay.
    """
    words: list[Word] = []
    groups = _groups(line)
    at = 0
    while at < len(line):
        if line[at].isspace():
            at += 1
            continue
        start = at
        while at < len(line) and not line[at].isspace():
            at = groups.get(at, at + 1)
        raw = line[start:at]
        is_quoted = len(raw) >= 2 and raw[0] in "'\"" and raw.find(raw[0], 1) == len(raw) - 1
        words.append(Word(raw[1:-1] if is_quoted else raw, start, at, is_quoted))
    return words


def split_words(line: str) -> list[str]:
    """The texts of the words of a line."""
    return [word.text for word in tokenize(line)]


def split_command(line: str) -> tuple[str, str]:
    """The first command of a line, and what stands behind its ``;``.

    A ``#`` at the beginning of a word, outside quotes, backticks and brackets, makes the rest of
    the line a comment.
    """
    groups = _groups(line)
    at = 0
    while at < len(line):
        if line[at] == ";":
            return line[:at].strip(), line[at + 1 :].strip()
        if line[at] == "#" and (at == 0 or line[at - 1].isspace()):
            return line[:at].strip(), ""
        at = groups.get(at, at + 1)
    return line.strip(), ""


def open_quote(line: str) -> int:
    """Where the quote or backtick is whose end isn't typed yet; -1: there is none.

    A quote that has something in front of it in its word is an apostrophe.
    """
    groups = _groups(line)
    at = 0
    while at < len(line):
        is_open = line[at] in _QUOTES and at not in groups
        if is_open and (line[at] == "`" or not line[:at] or line[at - 1].isspace()):
            return at
        at = groups.get(at, at + 1)
    return -1


def last_command(line: str) -> str:
    """What is typed of the last command of a line, or of the comment behind it."""
    groups = _groups(line)
    opened = open_quote(line)
    start = at = 0
    while at < len(line) and at != opened:
        if line[at] == "#" and (at == 0 or line[at - 1].isspace()):
            return line[at:]
        at, before = groups.get(at, at + 1), at
        if line[before] == ";":
            start = at
    return line[start:].lstrip()


class OutputTarget(NamedTuple):
    """Where the output of a command goes.

    Attributes:
        kind: ``>`` (a new file), ``>>`` (the end of a file) or ``|`` (a shell command).
        target: the path, or the shell command.
    """

    kind: str
    target: str


def split_output(line: str) -> tuple[str, OutputTarget | None]:
    """Split ``lt -n a > out.txt`` or ``lt | grep Relu`` into the command and its `OutputTarget`.

    ``>``, ``>>`` and ``|`` count outside quotes, backticks and brackets, with a blank on one side
    at least. Exactly one word that is not a number must follow a ``>``; the value of an option
    (``-e >100us``) is not a redirection. Everything behind a ``|`` belongs to the shell.

    Raises:
        UserError: nothing follows.
    """
    groups = _groups(line)
    place, at = -1, 0
    while at < len(line):
        if line[at] == "|" and _is_apart(line, at, at + 1):
            if not line[at + 1 :].strip():
                raise UserError("There is no command after the |.", "Write: lt | grep Relu")
            before, output = split_output(line[:at].rstrip())
            if output is not None:
                raise UserError("A command's output goes to a file or to a command, not both.")
            return before, OutputTarget("|", line[at + 1 :].strip())
        if line[at] == ">":
            place = at
        at = groups.get(at, at + 1)
    if place < 0:
        return line, None
    start = place - 1 if place and line[place - 1] == ">" else place
    before, after = line[:start], line[place + 1 :]
    if not _is_apart(line, start, place + 1):
        return line, None
    if before.split() and before.split()[-1].startswith("-") and _INTERVAL.match(line[start:]):
        return line, None
    words = split_words(after)
    if not any(words):
        raise UserError("The redirect file path is empty.", "Write for example: lt > tensors.txt")
    if len(words) > 1 or _NUMBER.match(words[0]):
        return line, None
    return before.rstrip(), OutputTarget(line[start : place + 1], words[0])


def _is_apart(line: str, start: int, stop: int) -> bool:
    """Whether a piece of a line has a blank, or the line's end, on one side at least."""
    return not line[:start] or line[start - 1].isspace() or not line[stop:] or line[stop].isspace()


def quoted(text: str) -> str:
    """A word as it must be written so that it is read back as this text.

    Only a text with both kinds of quotes can't be written.
    """
    if _SIMPLE.fullmatch(text):
        return text
    # What stands behind the word must not be drawn into it by a quote or bracket left open.
    is_whole = split_words(f"{text} )]'\"`")[:1] == [text]
    is_plain = text and text[0] not in "-#!|" and not text.endswith("|")
    if is_plain and is_whole and ">" not in text and ";" not in text:
        return text
    return f'"{text}"' if '"' not in text else f"'{text}'"
