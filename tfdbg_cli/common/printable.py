"""Text that a terminal shows as it is: what could act on one is written out."""

from __future__ import annotations

import re
from typing import Any, TypeVar

__all__ = ["cut", "printable", "printed", "typeable"]

_Tuple = TypeVar("_Tuple", bound=tuple[Any, ...])

# C0, DEL and C1; the separators that terminals treat as a line feed; what turns the direction of
# the text around it; halves of characters, which no encoding has.
_ACTING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""A text whose control characters are written out: ``\x1b``, ``\u202e``; tabs are expanded.

    All that is shown passes here once, where it becomes a span, a title or a message: names, types
    and messages come from programs and from dumps of other people.
    """
    if text.isprintable() or _ACTING.search(text) is None:
        return text
    return _ACTING.sub(_written_out, text.expandtabs(8))


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def typeable(text: str) -> str:
    r"""A `printable` text of which nothing is lost: tabs are written out, too, as ``\x09``."""
    return text if text.isprintable() else printable(text.replace("\t", r"\x09"))


def cut(text: str, limit: int) -> str:
    """A text, or so many characters of it with an ellipsis as the last one."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def printed(cls: type[_Tuple]) -> type[_Tuple]:
    """A named tuple whose texts are made `printable` when one is made; ``command`` `typeable`."""
    make = cls.__new__
    fields: tuple[str, ...] = cls._fields  # type: ignore[attr-defined]

    def new(cls: type[_Tuple], *args: Any, **kwargs: Any) -> _Tuple:
        given = {**dict(zip(fields, args, strict=False)), **kwargs}
        for name, value in given.items():
            if isinstance(value, str):
                given[name] = typeable(value) if name == "command" else printable(value)
        return make(cls, **given)

    cls.__new__ = new  # type: ignore[method-assign, assignment]
    return cls
