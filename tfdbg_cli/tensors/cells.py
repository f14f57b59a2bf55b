"""The text of single elements: one format for all elements of an array, chosen as NumPy does.

NumPy's rules (`numpy.set_printoptions` with its defaults: at most 8 digits after the point, never
more than it takes to tell a number from its neighbours) are applied to a sample of the elements. An
element that the sample did not foresee is written in full, even if it sticks out of its column.
"""

from __future__ import annotations

import codecs
import contextlib
import functools
from abc import ABC, abstractmethod
from typing import Any

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.printable import cut
from tfdbg_cli.tensors.digits import DIGITS, in_floats, in_integers
from tfdbg_cli.tensors.numeric import dtype_kind, widened
from tfdbg_cli.tensors.ranges import Ranges

__all__ = ["ElementFormat", "bytes_text", "cells_for", "extras_of", "roles_of", "sample_of"]

# The dtypes that NumPy leaves out of an array's text.
_IMPLIED = ("float64", "int64", "bool", "complex128")

_LONGEST = 200  # characters of a string among others

# A sample: all of a small array, else both ends and short runs in between. Each run of a mapped
# file costs a page fault, with megabytes of read-ahead: a large array gets fewer, longer ones.
_SAMPLE_ALL = 6000
_SAMPLE_EDGE = 512
_SAMPLE_BETWEEN = 1536
_SAMPLE_RUNS, _SAMPLE_RUNS_LARGE = 32, 8
_LARGE = 1 << 28  # bytes

# Bytes of an element -> below which size neighbours are that close, see `_FloatCells._is_easy`.
_CLOSE = {4: 2.0**-3, 8: 1e7, **dict.fromkeys((12, 16), 1e7)}

# What a longdouble of an exponent is multiplied by so that all digits that are shown of it, with an
# exponent, are before the point.
_EXPONENTS = range(-38, 40)


def bytes_text(data: bytes, is_cut: bool = False) -> str:
    r"""Bytes as Python writes them; what is UTF-8 as its characters: ``b'größer'``.

    Args:
        data: the bytes.
        is_cut: there are more of them: the last character may be cut short.
    """
    if not data.isascii():
        with contextlib.suppress(UnicodeDecodeError):
            text, _ = codecs.utf_8_decode(data, "strict", not is_cut)
            # An escape that stands for a character would look like one that stands for a byte.
            if all(each < "\x7f" or each.isprintable() for each in text):
                return f"b{text!r}"
    return repr(data)


class ElementFormat(ABC):
    """Writes elements in a common format.

    Attributes:
        width: columns of a cell; of the longest one of the sample where cells are not padded.
    """

    width: int

    @abstractmethod
    def texts(self, row: Array) -> list[str]:
        """The text of each element of a 1-d array."""

    def may_show(self, needle: str, row: Array) -> Array:
        """Which elements of a 1-d array may show a needle (see `tfdbg_cli.tensors.digits`)."""
        return np.ones(row.shape, bool)


def sample_of(values: Array) -> Array:
    """Up to some thousand elements, 1-d; of a large array from a few dozen places only."""
    if values.size <= _SAMPLE_ALL:
        return values.reshape(-1)
    flat: Any = values.reshape(-1) if values.flags.c_contiguous else values.flat
    last = values.size - _SAMPLE_EDGE
    runs = _SAMPLE_RUNS if values.nbytes < _LARGE else _SAMPLE_RUNS_LARGE
    length = _SAMPLE_BETWEEN // runs
    starts = np.linspace(_SAMPLE_EDGE, last - length, runs).astype(np.int64).tolist()
    return np.concatenate(
        [
            flat[:_SAMPLE_EDGE],
            *(flat[start : start + length] for start in starts),
            flat[last:],
        ]
    )


def cells_for(sample: Array, alone: bool = False) -> ElementFormat:
    """The format that suits a sample.

    Args:
        sample: 1-d, not empty, of the array's dtype.
        alone: the sample is the only element of a 0-d or one-element array: a string is not cut.
    """
    kind = dtype_kind(sample.dtype)
    if kind == "bool":
        return _BoolCells()
    if kind == "int":
        return _IntCells(widened(sample))
    if kind == "float":
        return _FloatCells(widened(sample))
    if kind == "complex":
        return _ComplexCells(widened(sample))
    if sample.dtype.kind in "mM":
        return _TimeCells(sample)
    return _ObjectCells(sample, alone)


def roles_of(row: Array, ranges: Ranges | None) -> list[str] | None:
    """The role of each element of a 1-d array: ``nan``, ``inf``, ``highlight`` or none.

    Returns:
        ``None`` where all elements are plain.
    """
    roles: list[str] | None = None
    if ranges is not None:
        inside = ranges.mask(row)
        if inside.any():
            roles = ["highlight" if found else "" for found in inside.tolist()]
    if dtype_kind(row.dtype) in ("float", "complex"):
        numbers = widened(row)
        if not np.isfinite(numbers).all():
            roles = roles or [""] * row.size
            for at in np.flatnonzero(np.isinf(numbers)).tolist():
                roles[at] = "inf"
            for at in np.flatnonzero(np.isnan(numbers)).tolist():
                roles[at] = "nan"
    return roles


class _BoolCells(ElementFormat):
    width = 5

    def texts(self, row: Array) -> list[str]:
        return [" True" if value else "False" for value in row.tolist()]


class _IntCells(ElementFormat):
    def __init__(self, sample: Array) -> None:
        self.width = max(len(str(sample.max())), len(str(sample.min())))

    def texts(self, row: Array) -> list[str]:
        width = self.width
        return [f"{value:{width}d}" for value in widened(row).tolist()]

    def may_show(self, needle: str, row: Array) -> Array:
        numbers = widened(row)
        if numbers.dtype.kind == "u":
            return in_integers(needle, numbers)
        sizes = np.absolute(numbers.astype(np.int64)).astype(np.uint64)
        return in_integers(needle, sizes)


class _FloatCells(ElementFormat):
    """Real numbers, positional or scientific.

    Args:
        sample: float16, float32, float64 or longdouble.
        plus: positive numbers have a sign (the imaginary part of complex ones).
    """

    def __init__(self, sample: Array, plus: bool = False) -> None:
        self._plus = plus
        finite = sample[np.isfinite(sample)]
        self._known: dict[int, str] = {}
        self._limit = 10.0 ** min(8, int(np.finfo(sample.dtype).precision))
        self._scientific = self._wants_scientific(finite)
        self._left = self._right = self._exponent = 0
        if self._scientific:
            parts = [self._in_scientific(value).partition("e") for value in finite]
            self._exponent = max(len(exponent) for _, _, exponent in parts) - 1
            texts = [digits for digits, _, _ in parts]
        else:
            texts = [self._in_positional(value) for value in finite]
        if texts:
            points = [text.index(".") for text in texts]
            self._left = max(points)
            self._right = max(len(text) - at - 1 for text, at in zip(texts, points, strict=True))
        self._fraction = self._right
        if self._scientific:
            self._right += self._exponent + 2
        if finite.size != sample.size:
            # Room for "nan", and for the sign of "-inf" where there is one.
            signed = plus or bool(np.isneginf(sample).any())
            self._left = max(self._left, 3 + signed - 1 - self._right)
        self.width = self._left + 1 + self._right
        sign = "+" if plus else ""
        self._nan, self._inf, self._negative_inf = (
            word.rjust(self.width) for word in (f"{sign}nan", f"{sign}inf", "-inf")
        )

    def _wants_scientific(self, finite: Array) -> bool:
        sizes = np.absolute(finite[finite != 0])
        if not sizes.size:
            return False
        largest, smallest = sizes.max(), sizes.min()
        with np.errstate(all="ignore"):
            return bool(largest >= self._limit or smallest < 0.0001 or largest / smallest > 1000.0)

    def _in_scientific(self, value: Any, left: int = 0, exponent: int = 0) -> str:
        return np.format_float_scientific(
            value,
            precision=DIGITS,
            trim=".",
            sign=self._plus,
            pad_left=left or None,
            exp_digits=exponent or None,
        )

    def _in_positional(self, value: Any, left: int = 0, right: int = 0) -> str:
        return np.format_float_positional(
            value,
            precision=DIGITS,
            trim=".",
            sign=self._plus,
            pad_left=left or None,
            pad_right=right or None,
        )

    def texts(self, row: Array) -> list[str]:
        if row.dtype.itemsize > 2:
            return self._written(row)
        # They have so few values that each is written once.
        codes = row.view(f"u{row.dtype.itemsize}").tolist()
        known = self._known
        new = np.array([code for code in set(codes) if code not in known])
        if new.size:
            values = new.astype(f"u{row.dtype.itemsize}").view(row.dtype)
            known.update(zip(new.tolist(), self._written(values), strict=True))
        return [known[code] for code in codes]

    def _written(self, row: Array) -> list[str]:
        numbers = widened(row)
        is_easy = self._is_easy(np.absolute(numbers))
        if 2 * np.count_nonzero(is_easy) < is_easy.size:
            return self._written_by_numpy(numbers)
        sign, right = "+" if self._plus else "", self._right + 1
        if self._scientific:
            pattern = f"%{sign}{self.width}.{DIGITS}e"
            written = [pattern % value for value in _as_python(numbers)]
        else:
            pattern = f"%{sign}{self._left + 1 + DIGITS}.{DIGITS}f"
            digits = [pattern % value for value in _as_python(numbers)]
            written = [text if text[-1] != "0" else _without_zeros(text, right) for text in digits]
        hard = np.flatnonzero(~is_easy)
        for at, text in zip(hard.tolist(), self._written_by_numpy(numbers[hard]), strict=True):
            written[at] = text
        return written

    def _is_easy(self, sizes: Array) -> Array:
        """Which elements Python writes as NumPy does, in half of the time.

        With an exponent: where NumPy fills up with exact digits. Without: where the shortest text
        that tells a number from its neighbours is the number rounded to eight digits, since they
        are less than half of the last of these apart.
        """
        found: Array = np.zeros(sizes.shape, bool)
        if not self._scientific:
            found = (sizes < _CLOSE.get(sizes.itemsize, 0.0)) & ~self._is_odd(sizes)
        elif self._fraction == DIGITS and self._exponent == 2 and sizes.itemsize in _CLOSE:
            found = (sizes <= 1e38) & ((sizes >= 1e-37) | (sizes == 0))
        if sizes.itemsize > 8 and found.any():  # written as a float64
            found &= _rounds_alike(np.where(found, sizes, 0), self._scientific)
        return found

    def _written_by_numpy(self, numbers: Array) -> list[str]:
        finite = np.isfinite(numbers)
        odd = self._is_odd(np.absolute(numbers)) | ~finite
        if self._scientific:
            written = [
                self._padded_scientific(value) if fits else self._word(value)
                for value, fits in zip(numbers, finite.tolist(), strict=True)
            ]
        elif odd.any():
            written = [
                self._in_positional(value, self._left, self._right)
                if not is_odd
                else self._in_scientific(value).rjust(self.width)
                if fits
                else self._word(value)
                for value, is_odd, fits in zip(numbers, odd.tolist(), finite.tolist(), strict=True)
            ]
        else:
            left, right = self._left, self._right
            written = [self._in_positional(value, left, right) for value in numbers]
        return written

    def _is_odd(self, sizes: Array) -> Array:
        """Beyond what fits a positional column; only elements outside the sample can be."""
        odd: Array = (sizes >= self._limit) | ((sizes < 0.0001) & (sizes != 0))
        return odd

    def may_show(self, needle: str, row: Array) -> Array:
        sizes = np.absolute(widened(row))
        odd: Array | bool = self._scientific or self._is_odd(sizes)
        fraction = self._fraction if self._scientific else DIGITS
        if sizes.itemsize <= 8:
            return in_floats(needle, sizes, odd, fraction)
        # A float64 differs from it far behind the digits that are shown, if there is one so large.
        with np.errstate(all="ignore"):
            narrow = sizes.astype(np.float64)
        beyond = ((narrow < 1e-300) | (narrow > 1e300)) & (sizes != 0) & np.isfinite(sizes)
        found: Array = in_floats(needle, np.where(beyond, 0, narrow), odd, fraction)
        found |= beyond
        return found

    def _padded_scientific(self, value: Any) -> str:
        if self._fraction < DIGITS:
            full = self._in_scientific(value, self._left, self._exponent)
            if full.index("e") - full.index(".") - 1 > self._fraction:
                return full  # unforeseen digits
        # As NumPy does, a shorter number is filled up with its exact digits, not with zeros.
        return np.format_float_scientific(
            value,
            precision=self._fraction,
            min_digits=self._fraction,
            trim="k",
            sign=self._plus,
            pad_left=self._left,
            exp_digits=self._exponent,
        )

    def _word(self, value: Any) -> str:
        if np.isnan(value):
            return self._nan
        return self._inf if value > 0 else self._negative_inf


def _without_zeros(text: str, right: int) -> str:
    """A number without the zeros at its end; it takes so many columns from its point on."""
    text = text.rstrip("0")
    return text.ljust(text.find(".") + right)


def _as_python(numbers: Array) -> list[float]:
    with np.errstate(all="ignore"):
        found: list[float] = numbers.astype(np.float64, copy=False).tolist()
    return found


@functools.cache
def _units() -> Array:
    return np.array([np.longdouble(f"1e{DIGITS - at}") for at in _EXPONENTS])


def _rounds_alike(sizes: Array, scientific: bool) -> Array:
    """Which longdoubles have the digits that are shown of them as float64, too.

    They are not between two such numbers, as far as the two types differ.
    """
    found: Array = np.ones(sizes.shape, bool)
    units = sizes * np.longdouble(10) ** DIGITS
    if scientific:
        narrow = sizes.astype(np.float64)
        exponents = np.floor(np.log10(narrow, where=narrow > 0, out=np.zeros_like(narrow)))
        units = sizes * _units()[exponents.astype(np.int64) - _EXPONENTS.start]
        # Next to a power of ten the exponent may be the other one.
        one = 10.0**DIGITS
        found = (units > one * (1 + 1e-9)) & (units < 10 * one * (1 - 1e-9)) | (sizes == 0)
    off = np.absolute(units - np.floor(units) - 0.5)
    found &= off > 1e-6 + 4 * float(np.finfo(np.float64).eps) * units
    return found


class _ComplexCells(ElementFormat):
    def __init__(self, sample: Array) -> None:
        self._real = _FloatCells(sample.real)
        self._imag = _FloatCells(sample.imag, plus=True)
        self.width = self._real.width + self._imag.width + 1

    def texts(self, row: Array) -> list[str]:
        numbers = widened(row)
        pairs = zip(self._real.texts(numbers.real), self._imag.texts(numbers.imag), strict=True)
        return [
            f"{real}{imag}j"
            if imag[-1] != " "
            else f"{real}{(part := imag.rstrip())}j{imag[len(part) :]}"
            for real, imag in pairs
        ]

    def may_show(self, needle: str, row: Array) -> Array:
        numbers = widened(row)
        # What may be a digit or a point may be the sign between the two parts as well.
        needle = max(needle.split("?"), key=len)
        real = self._real.may_show(needle, numbers.real)
        return real | self._imag.may_show(needle, numbers.imag)


class _TimeCells(ElementFormat):
    """Dates in ISO 8601 and durations as counts of the dtype's unit; ``'NaT'`` for neither."""

    def __init__(self, sample: Array) -> None:
        self.width = 0
        self.width = max(len(text) for text in self.texts(sample))

    def texts(self, row: Array) -> list[str]:
        if row.dtype.kind == "M":
            made = [f"'{text}'" for text in np.datetime_as_string(row).tolist()]
        else:
            counts = row.astype(np.int64).tolist()
            missing = np.isnat(row).tolist()
            made = [
                "'NaT'" if absent else str(count)
                for count, absent in zip(counts, missing, strict=True)
            ]
        return [text.rjust(self.width) for text in made]


class _ObjectCells(ElementFormat):
    """Strings by `repr`, anything else by `str`, each on one line and not padded."""

    def __init__(self, sample: Array, alone: bool) -> None:
        self._alone = alone
        self.width = max(len(text) for text in self.texts(sample))

    def texts(self, row: Array) -> list[str]:
        # str() of a structured element is that of its tuple with the dtype's own formats.
        items = row.tolist() if row.dtype.kind != "V" else list(row)
        return [self._text(item) for item in items]

    def _text(self, item: object) -> str:
        if isinstance(item, bytes | str):
            # Nobody looks at the rest of a long one, so it is not escaped either.
            # A slice of NumPy's own str and bytes is Python's: no "np.bytes_(...)".
            part = item[:] if self._alone else item[: _LONGEST + 1]
            text = repr(part) if isinstance(part, str) else bytes_text(part, len(part) < len(item))
        else:
            try:
                text = str(item)
            except Exception as error:  # the object's own fault: the others can still be shown
                text = f"<{type(item).__name__}: {type(error).__name__} in str()>"
            text = " ".join(text.split())
            if not text.isprintable():
                text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
        return text if self._alone else cut(text, _LONGEST)


def extras_of(values: Array) -> str:
    """What stands behind the elements: the shape of an empty array, and the dtype."""
    parts = []
    if not values.size and values.shape != (0,):
        parts.append(f"shape={values.shape}")
    name = _dtype_text(values.dtype)
    if name not in _IMPLIED or not values.size:
        parts.append(f"dtype={name}")
    return ", ".join(parts)


def _dtype_text(dtype: np.dtype[Any]) -> str:
    """A dtype as NumPy writes it in an array's ``repr``."""
    if dtype.names is not None:
        return str(dtype)
    if dtype.kind == "T":
        return repr(dtype)
    if dtype.kind in "SU" or (dtype.kind == "V" and dtype.type is np.void):
        return f"'{dtype}'"
    if not dtype.isnative:
        return f"'{dtype}'"
    return dtype.name if dtype.name.replace("_", "").isalnum() else f"'{dtype.name}'"
