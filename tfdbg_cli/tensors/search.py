"""Search in values and names instead of in the text that shows them, where that is the same."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tfdbg_cli.tensors.numeric import widened

__all__ = ["find_word", "words_in", "words_of"]

# Patterns that only the words of non-finite elements can match, and which of them they match.
_NAN, _INF, _NEGATIVE_INF = "nan", "inf", "-inf"
_WORDS = {
    "nan": _NAN,
    "inf": _INF,
    "-inf": _NEGATIVE_INF,
    **dict.fromkeys((r"\+?inf", "-?inf", "[+-]?inf", "[-+]?inf"), _INF),
}
_TOKEN = re.compile(
    r"(?P<other>\.[*+?]{0,2}|[\^$]|\s)|\\(?P<escaped>[^\w\s])|(?P<plain>[^\\.^$*+?{}\[\]|()\s])"
)
_FIRST_BLOCK, _LARGEST_BLOCK = 1 << 12, 1 << 20  # elements read at once


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
    if pattern.flags & (re.IGNORECASE | re.VERBOSE):
        return []
    words, at = [""], 0
    for token in _TOKEN.finditer(pattern.pattern):
        if token.start() != at:
            return []
        at = token.end()
        if token["other"]:
            words.append("")
        else:
            words[-1] += token["escaped"] or token["plain"]
    return [word for word in words if word] if at == len(pattern.pattern) else []


def find_word(
    values: np.ndarray[Any, Any], words: set[str], begin: int, end: int, direction: int
) -> int | None:
    """The nearest element that is written as one of some words.

    Args:
        values: real or complex numbers of any shape; read in blocks, never copied as a whole.
        words: see `words_of`.
        begin: the first element, counted in row-major order.
        end: the element behind the last one.
        direction: 1: the first such element; -1: the last one.

    Returns:
        Its number in row-major order, or ``None``.
    """
    flat: Any = values.reshape(-1) if values.flags.c_contiguous else values.flat
    size = _FIRST_BLOCK
    while begin < end:
        low = begin if direction > 0 else max(begin, end - size)
        high = min(end, begin + size) if direction > 0 else end
        hits = np.flatnonzero(_mask(flat[low:high], words))
        if hits.size:
            return low + int(hits[0] if direction > 0 else hits[-1])
        if direction > 0:
            begin = high
        else:
            end = low
        size = min(2 * size, _LARGEST_BLOCK)
    return None


def _mask(block: np.ndarray[Any, Any], words: set[str]) -> np.ndarray[Any, Any]:
    numbers = widened(block)
    mask = np.zeros(numbers.shape, dtype=bool)
    if _NAN in words:
        mask |= np.isnan(numbers.real) | np.isnan(numbers.imag)
    if _INF in words:
        mask |= np.isinf(numbers.real) | np.isinf(numbers.imag)
    elif _NEGATIVE_INF in words:
        mask |= np.isneginf(numbers.real) | np.isneginf(numbers.imag)
    return mask
