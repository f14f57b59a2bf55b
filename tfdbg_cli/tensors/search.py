"""What a search is for: values and names are searched instead of the text that shows them."""

from __future__ import annotations

import re
from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.tensors.numeric import widened

__all__ = ["alternatives", "needle_in", "shows_word", "words_in", "words_of"]

# Patterns that only the words of non-finite elements can match, and which of them they match.
_NAN, _INF, _NEGATIVE_INF = "nan", "inf", "-inf"
_WORDS = {
    "nan": _NAN,
    "inf": _INF,
    "-inf": _NEGATIVE_INF,
    **dict.fromkeys((r"\+?inf", "-?inf", "[+-]?inf", "[-+]?inf"), _INF),
}
# One character, a group without others in it, or a place between characters; and how often.
_TOKEN = re.compile(
    r"(?:(?P<place>\\[bBAZ]|[\^$]|\s|\((?!\?[^:])(?:[^\\()\[\]]|\\[^\d\sNUuxk])*\))"
    r"|(?P<any>\.|\\[dDsSwW]|\[\^?\]?(?:[^\\\[\]]|\\.)*\])"
    r"|\\(?P<escaped>[^\w\s])|(?P<plain>[^\\.^$*+?{}\[\]|()\s]))"
    r"(?P<times>(?:[*+?]|\{\d*,?\d*\})[?+]?)?"
)
_ALTERNATIVE = re.compile(r"(?:[^\\|()\[\]]|\\.)*")
# What stands for any character, and for any number of them or none.
_ANY, _GAP = "\t", "\n"
_NEEDLE = re.compile(
    r"e[-+][0-9]{1,18}|[0-9]{1,9}[.\t][0-9]{1,9}|\.[0-9]{1,9}|[0-9]{1,9}\.|[0-9]{1,18}"
)


def words_of(pattern: re.Pattern[str]) -> set[str] | None:
    """The words ``nan``, ``inf`` and ``-inf`` that a pattern is for, and nothing else.

    Returns:
        ``None`` where the pattern may match other text of a number.
    """
    if pattern.flags & ~(re.UNICODE | re.IGNORECASE):
        return None
    text = pattern.pattern.lower() if pattern.flags & re.IGNORECASE else pattern.pattern
    group = re.fullmatch(r"\((?:\?:)?([^()]*)\)", text)
    words = set()
    for part in (group[1] if group else text).split("|"):
        word = _WORDS.get(part)
        if word is None:
            return None
        words.add(word)
    return words


def words_in(pattern: re.Pattern[str]) -> list[str]:
    """Words, without blanks, that are in every text that a pattern is found in.

    Returns:
        Nothing where that takes more than a look: then the pattern has to be tried.
    """
    return [word for word in re.split(f"[{_ANY}{_GAP}]", _literal(pattern)) if word]


def needle_in(pattern: re.Pattern[str]) -> str:
    """Digits of a number that is in every text that a pattern is found in.

    Returns:
        What `tfdbg_cli.tensors.digits` calls a needle; empty: none is known.
    """
    needles = _NEEDLE.findall(_literal(pattern))
    best: str = max(needles, key=lambda needle: sum(map(str.isdigit, needle)), default="")
    return best.replace(_ANY, "?")


def _literal(pattern: re.Pattern[str]) -> str:
    """The text that a pattern is for, with `_ANY` and `_GAP`; empty where it is for several."""
    if pattern.flags & (re.IGNORECASE | re.VERBOSE):
        return ""
    text, at = "", 0
    for token in _TOKEN.finditer(pattern.pattern):
        if token.start() != at:
            return ""
        at = token.end()
        times = token["times"]
        if token["place"]:
            text += _GAP
        elif times is None or times[0] == "+":
            text += token["escaped"] or token["plain"] or _ANY
            text += _GAP if times else ""
        else:
            text += _GAP
    return text if at == len(pattern.pattern) else ""


def alternatives(pattern: re.Pattern[str]) -> list[re.Pattern[str]]:
    """Patterns of which one is found wherever a pattern is; where there is one only, itself."""
    parts = pattern.pattern.split("|")
    if len(parts) == 1 or not all(map(_ALTERNATIVE.fullmatch, parts)):
        return [pattern]
    return [re.compile(part, pattern.flags) for part in parts]


def shows_word(values: np.ndarray[Any, Any], words: set[str]) -> np.ndarray[Any, Any]:
    """Which real or complex numbers are written as one of some words, see `words_of`."""
    numbers = widened(values)
    mask = np.zeros(numbers.shape, dtype=bool)
    if _NAN in words:
        mask |= np.isnan(numbers.real) | np.isnan(numbers.imag)
    if _INF in words:
        mask |= np.isinf(numbers.real) | np.isinf(numbers.imag)
    elif _NEGATIVE_INF in words:
        mask |= np.isneginf(numbers.real) | np.isneginf(numbers.imag)
    return mask
