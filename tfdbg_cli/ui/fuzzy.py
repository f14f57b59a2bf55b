"""Fuzzy matching: the letters of a query in order, anywhere in a text, and how good that is."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["Query", "lower"]

# A letter is worth more at the start of a word, and where it follows the one before; a gap costs a
# little, however long. A text that begins with what was typed beats all others.
_LETTER, _WORD_START, _NEXT, _GAP, _BEGINNING = 1, 8, 6, -2, 12

# Of two texts that fit alike, the shorter one is meant: one point for so many characters.
_LENGTH = 16


def lower(text: str) -> str:
    """A text in lower case, character by character: the few that would become two stay."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(char.lower() if len(char.lower()) == 1 else char for char in text)


class Query:
    """Words, each of which must fit a text as a subsequence, upper and lower case alike.

    Args:
        text: the words, with blanks between; their order doesn't matter.
    """

    def __init__(self, text: str) -> None:
        self._words = [
            (word, re.compile(r"(?<![^\W_])" + re.escape(word))) for word in lower(text).split()
        ]

    def score(self, text: str) -> int | None:
        """How well the words fit a text in lower case, the more the better.

        Returns:
            ``None`` where one doesn't fit.
        """
        score = -(len(text) // _LENGTH)
        for word, at_word_start in self._words:
            at = text.find(word)
            if at > 0:
                found = at_word_start.search(text)
                at = at if found is None else found.start()
            if at < 0:
                places = _scattered(word, text)
                if places is None:
                    return None
                score += _score(places, text)
                continue
            score += len(word) * (_LETTER + _NEXT) - _NEXT
            if at == 0:
                score += _WORD_START + _BEGINNING
            elif not text[at - 1].isalnum():
                score += _WORD_START
        return score

    def places(self, text: str) -> Sequence[int]:
        """The positions of the letters in a text in lower case that the words fit; ascending."""
        places = set[int]()
        for word, at_word_start in self._words:
            found = at_word_start.search(text)
            at = text.find(word) if found is None else found.start()
            if at >= 0:
                places.update(range(at, at + len(word)))
            else:
                places.update(_scattered(word, text) or ())
        return sorted(places)


def _scattered(word: str, text: str) -> list[int] | None:
    """Where the letters of a word are, near each other: found forwards, then back from there."""
    behind = 0
    for letter in word:
        behind = text.find(letter, behind) + 1
        if not behind:
            return None
    places: list[int] = []
    for letter in reversed(word):
        behind = text.rfind(letter, 0, behind)
        places.append(behind)
    return places[::-1]


def _score(places: Sequence[int], text: str) -> int:
    score, last = 0, -2
    for at in places:
        score += _LETTER
        if at == 0 or not text[at - 1].isalnum():
            score += _WORD_START
        if at == last + 1:
            score += _NEXT
        elif last >= 0:
            score += _GAP
        last = at
    return score + (_BEGINNING if places[0] == 0 else 0)
