"""JSON of a dump's files, which may hold anything: each field is what it should be, or left out."""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

__all__ = [
    "LARGEST",
    "Fields",
    "fail",
    "is_pair",
    "is_size",
    "is_span",
    "is_whole",
    "is_words",
    "parse_json",
    "parse_lines",
    "sealed",
]

#: Nothing that is counted or measured needs more; what is larger breaks arithmetic far away.
LARGEST = 1 << 62


# A checksum is the last field of an object, so that the text before it can be told.
_MARK = b',"crc32":"'


def sealed(text: str) -> bytes:
    """The text of a JSON object with a field behind the others: the CRC-32 of what is before it."""
    data = text.encode().rstrip()[:-1].rstrip()
    return b'%b%b%08x"}' % (data, _MARK, zlib.crc32(data))


def is_whole(data: str | bytes) -> bool:
    """Whether a text of `sealed` is as it was; one without a checksum is taken for whole."""
    if isinstance(data, str):
        data = data.encode()
    text, mark, behind = data.rpartition(_MARK)
    return not mark or behind.rstrip() == b'%08x"}' % zlib.crc32(text)


def parse_json(text: str | bytes) -> Any:
    """What a JSON text says.

    Raises:
        ValueError: it is none, or nested deeper than anybody nests.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


_decode = json.JSONDecoder().raw_decode


def parse_lines(data: bytes) -> Iterator[tuple[int, Any]]:
    """What the lines of a file say, each a JSON text of its own, with their numbers from 1.

    A line that is none, or not what `sealed` has made, is given as the `ValueError` that says so.
    """
    lines: list[str | bytes]
    try:
        lines = [*data.decode().split("\n")]
    except UnicodeDecodeError:
        lines = [*data.split(b"\n")]
    count = len(lines) if lines[-1] else len(lines) - 1
    for number, line in enumerate(itertools.islice(lines, count), 1):
        if not is_whole(line):
            yield number, ValueError("it isn't what was written")
            continue
        if isinstance(line, str):
            try:
                found, end = _decode(line)
            except (ValueError, RecursionError):
                end = -1
            if end == len(line):
                yield number, found
                continue
        yield number, _parsed(line)


def _parsed(line: str | bytes) -> Any:
    try:
        return parse_json(line)
    except ValueError as error:
        return error


def _is_number(value: Any) -> bool:
    return type(value) is int and abs(value) < LARGEST


def is_size(value: Any) -> bool:
    """Whether a value is an integer that isn't negative, and no larger than anything is."""
    return _is_number(value) and value >= 0


def is_span(value: Any) -> bool:
    """Whether a value is a list of two sizes."""
    return isinstance(value, list) and len(value) == 2 and all(map(is_size, value))


def is_words(value: Any) -> bool:
    """Whether a value is a list of strings."""
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def fail(name: str) -> NoReturn:
    """For `Fields` that are of no use once one of them is damaged."""
    raise ValueError(f"its {name} is not what it should be")


class Fields:
    """The fields of one JSON object; one that is missing or ``null`` has its default.

    Args:
        found: what was parsed; what is no object has no fields.
        damaged: told the name of a field that is of another type, which then has its default. It
            may raise instead.
    """

    def __init__(self, found: Any, damaged: Callable[[str], object]) -> None:
        self._found: Mapping[str, Any] = found if isinstance(found, dict) else {}
        self._damaged = damaged

    def __contains__(self, name: str) -> bool:
        return self._found.get(name) is not None

    def _get(self, name: str, default: Any, is_right: Callable[[Any], bool]) -> Any:
        value = self._found.get(name)
        if value is None or is_right(value):
            return default if value is None else value
        self._damaged(name)
        return default

    def text(self, name: str, default: str = "") -> str:
        """A string."""
        found: str = self._get(name, default, lambda value: isinstance(value, str))
        return found

    def flag(self, name: str, default: bool = False) -> bool:
        """``true`` or ``false``."""
        found: bool = self._get(name, default, lambda value: isinstance(value, bool))
        return found

    def number(self, name: str, default: int = 0) -> int:
        """An integer of 63 bits."""
        found: int = self._get(name, default, _is_number)
        return found

    def size(self, name: str) -> int:
        """An integer that isn't negative."""
        found: int = self._get(name, 0, is_size)
        return found

    def sizes(self, name: str) -> tuple[int, ...] | None:
        """A list of integers that aren't negative and whose product isn't too large."""
        found = self._get(name, None, _are_sizes)
        return None if found is None else tuple(found)

    def fields(self, name: str) -> Fields | None:
        """An object."""
        found = self._get(name, None, lambda value: isinstance(value, dict))
        return (
            None if found is None else Fields(found, lambda inner: self._damaged(f"{name}.{inner}"))
        )

    def items(self, name: str, is_right: Callable[[Any], bool]) -> list[Any]:
        """The elements of a list that are right."""
        found = self._get(name, [], lambda value: isinstance(value, list))
        right = [each for each in found if is_right(each)]
        if len(right) < len(found):
            self._damaged(name)
        return right

    def texts(self, name: str) -> list[str]:
        """A list of strings."""
        return self.items(name, lambda value: isinstance(value, str))

    def pairs(self, name: str) -> list[tuple[str, str]]:
        """A list of pairs of strings."""
        found = self.items(name, is_pair)
        return [(first, second) for first, second in found]

    def table(self, name: str, is_right: Callable[[Any], bool]) -> dict[str, Any]:
        """An object as the pairs of it whose values are right."""
        found = self._get(name, {}, lambda value: isinstance(value, dict))
        right = {key: value for key, value in found.items() if is_right(value)}
        if len(right) < len(found):
            self._damaged(name)
        return right


def is_pair(value: Any) -> bool:
    """Whether a value is a list of two strings."""
    return (
        isinstance(value, list) and len(value) == 2 and all(isinstance(each, str) for each in value)
    )


def _are_sizes(value: Any) -> bool:
    product = 1
    if not isinstance(value, list):
        return False
    for each in value:
        if not is_size(each):
            return False
        product *= max(each, 1)
        if product >= LARGEST:
            return False
    return True
