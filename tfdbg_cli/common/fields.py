"""One setting: its name, its default, and what text means a value of it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = [
    "Field",
    "to_bool",
    "to_count",
    "to_function",
    "to_positive",
    "to_ratio",
    "to_regex",
    "to_share",
]

_TRUE = {"1", "true", "t", "yes", "y", "on"}
_FALSE = {"0", "false", "f", "no", "n", "off"}


def to_bool(text: str) -> bool:
    """``on`` or ``off``, or another word for it."""
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ValueError("expected on or off")


def to_ratio(text: str) -> float:
    """A number from 1 on."""
    value = float(text)
    if not value >= 1:
        raise ValueError("expected a ratio from 1 on")
    return value


def to_positive(text: str) -> float:
    """A finite number above 0."""
    value = float(text)
    if not 0 < value < math.inf:
        raise ValueError("expected a number above 0")
    return value


def to_share(text: str) -> float:
    """A number between 0 and 1."""
    value = float(text)
    if not 0 < value < 1:
        raise ValueError("expected a share between 0 and 1")
    return value


def to_regex(text: str) -> str:
    """A regular expression."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"it is not a regex ({error})") from None
    return text


def to_function(text: str) -> str:
    """``module.function``, or nothing."""
    if text and not all(part.isidentifier() for part in text.split(".")):
        raise ValueError("expected module.function")
    return text


def to_count(text: str) -> int:
    """A whole number from 1 on."""
    value = int(text)
    if value < 1:
        raise ValueError("expected a number from 1 on")
    return value


@dataclass(frozen=True)
class Field:
    """One setting.

    Attributes:
        name: as `config set` takes it.
        default: its value when nobody set it.
        parse: text to value; raises ValueError.
        summary: one line for `config` and the docs.
        choices: the only values allowed, if any.
        is_look: whether it is about the screen alone: what a person sets at a prompt is then kept.
    """

    name: str
    default: Any
    parse: Callable[[str], Any]
    summary: str
    choices: tuple[str, ...] = ()
    is_look: bool = False
