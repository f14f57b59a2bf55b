"""Which elements may show some digits, told from their values: for a search that writes few.

What is asked for is a *needle* (`tfdbg_cli.tensors.search.needle_in`): digits with at most one
point, or with at most one ``?``, which is a digit or the point; or the beginning of an exponent,
like ``e-0``. No element that shows the needle is left out; some may be in that don't.

A number that is shown is the element, rounded: it is wrong by less than one at its last digit, and
by hardly more than the dtype's precision (or one at the last digit that there is room for). So each
stretch of digits is compared with those of the element itself, and may differ by that much.
"""

from __future__ import annotations

import functools
import re
import sys

from tfdbg_cli.common.arrays import Array, np

__all__ = ["DIGITS", "in_floats", "in_integers"]

#: The most digits that are shown behind a point: NumPy's print option "precision".
DIGITS = 8

_TINY = 1e-300  # what lies below is not computed with
_EXPONENTS = range(-302, 310)


def in_integers(needle: str, sizes: Array) -> Array:
    """Which integers may show a needle.

    Args:
        needle: see above.
        sizes: the absolute values, of an unsigned dtype.
    """
    found = np.zeros(sizes.shape, bool)
    if not sizes.size or "." in needle or "e" in needle:
        return found
    largest = int(sizes.max())
    top = 10 ** (len(needle) - 1)  # where its first digit stands
    while top <= max(largest, 1):
        part = sizes >= top if top > 1 else np.ones(sizes.shape, bool)
        for run in re.finditer(r"\d+", needle):
            unit, size = 10 * top // 10 ** run.end(), 10 ** len(run[0])
            whole = sizes // unit if unit > 1 else sizes
            if unit * size <= largest:
                whole = whole - whole // size * size  # faster than %
            part &= whole == int(run[0])
        found |= part
        top *= 10
    return found


def in_floats(needle: str, sizes: Array, scientific: Array | bool, fraction: int = DIGITS) -> Array:
    """Which real numbers may show a needle.

    Args:
        needle: see above.
        sizes: the absolute values: float16, float32 or float64.
        scientific: those that are written with an exponent.
        fraction: digits that are enough behind the points of those.
    """
    precision = np.finfo(sizes.dtype)
    wide = np.where(np.isfinite(sizes), sizes, 0).astype(np.float64)
    found = np.zeros(sizes.shape, bool)
    if not np.all(scientific):
        plain = np.where(scientific, 0, wide)
        largest = float(plain.max())
        wrong = max(float(precision.eps) * largest, 10.0**-DIGITS)
        found = _in_digits(needle, plain, largest, wrong)
    if not np.any(scientific):
        return found
    mantissas, exponents, unsure = _split(wide)
    wrong = max(10 * float(precision.eps), 10.0**-fraction)
    # What may be rounded up to the next power of ten begins with other digits.
    subnormal = (wide < float(precision.tiny)) & (wide != 0) & scientific
    unsure |= mantissas >= np.where(subnormal, 9, 10 - wrong)
    wrong = 1 if subnormal.any() else wrong
    unsure |= _in_digits(needle, mantissas, 9.0, wrong)
    # In some columns all exponents have three digits, or four.
    digits = re.compile(re.escape(needle).replace(r"\?", "."))
    texts = (f"e{number:+03d} e{number:+04d} e{number:+05d}" for number in _EXPONENTS)
    shows = [digits.search(text) is not None for text in texts]
    if any(shows):
        unsure |= np.array(shows)[exponents - _EXPONENTS.start]
    return np.where(scientific, unsure, found)


@functools.cache
def _powers() -> Array:
    return np.array([float(f"1e{-exponent}") for exponent in _EXPONENTS])


def _split(sizes: Array) -> tuple[Array, Array, Array]:
    """The mantissas and exponents of numbers, and for which of them they may be others."""
    usable = sizes >= _TINY
    exponents = np.floor(np.log10(sizes, where=usable, out=np.zeros_like(sizes))).astype(np.int64)
    mantissas = np.where(usable, sizes, 0) * _powers()[exponents - _EXPONENTS.start]
    return mantissas, exponents, np.where(usable, mantissas < 1, sizes != 0)


def _in_digits(needle: str, sizes: Array, largest: float, wrong: float) -> Array:
    """Which numbers may show a needle in their digits.

    Args:
        needle: see above.
        sizes: the numbers.
        largest: the largest one, about.
        wrong: by how much what is shown may differ from a number.
    """
    found = np.zeros(sizes.shape, bool)
    if "e" in needle:
        return found
    before, mark, behind = needle.partition("?" if "?" in needle else ".")
    ends: list[tuple[str, int]] = []  # and behind the point, how many digits up to the end
    if mark:
        ends.append((before + behind, len(behind)))
    if mark != ".":
        size = len(needle)
        ends += [(needle, end) for end in range(size, DIGITS + 1)]
        # The first digit is none of the zeros that are not shown.
        first = size - 1
        while first == 0 or 10.0**first < largest + 1:
            ends.append((needle, size - 1 - first))
            first += 1
    for digits, end in ends:
        if end <= DIGITS:
            found |= _at(digits, end, sizes, largest, wrong)
    return found


def _at(digits: str, end: int, sizes: Array, largest: float, wrong: float) -> Array:
    """Which numbers may have some digits so that the last one is the ``end``-th after the point."""
    found = np.ones(sizes.shape, bool)
    for run in re.finditer(r"\d+", digits):
        last = end - len(digits) + run.end()
        scale = 10.0 ** (last - len(run[0]))
        room = min(1.0, wrong * 10.0**last) / 10.0 ** len(run[0])
        room += 8 * sys.float_info.epsilon * (1 + largest * scale)  # of computing with float64
        width = 10.0 ** -len(run[0]) + 2 * room
        if width < 1:
            low = int(run[0]) / 10.0 ** len(run[0]) - room
            rest = sizes * scale - low
            rest -= np.floor(rest)
            found &= rest <= width
    return found
