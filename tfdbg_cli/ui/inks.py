"""Colours of data (`Ink`) in the terms of what draws them, and on terminals that have few."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping

from tfdbg_cli.common.lines import Ink

__all__ = [
    "HALF",
    "can_draw_halves",
    "css_of",
    "has_true_colour",
    "inked",
    "nearest",
    "prompt_toolkit_style",
]

#: What two pixels, one above the other, are drawn with.
HALF = "▀"

# The sixteen as most terminals have them, and the levels of the cube of 256.
_BASIC = (
    *(0x000000, 0xCD0000, 0x00CD00, 0xCDCD00, 0x0000EE, 0xCD00CD, 0x00CDCD, 0xE5E5E5),
    *(0x7F7F7F, 0xFF0000, 0x00FF00, 0xFFFF00, 0x5C5CFF, 0xFF00FF, 0x00FFFF, 0xFFFFFF),
)
_LEVELS = (0x00, 0x5F, 0x87, 0xAF, 0xD7, 0xFF)
_CUBE = tuple(r << 16 | g << 8 | b for r in _LEVELS for g in _LEVELS for b in _LEVELS)
_GREYS = tuple((8 + 10 * i) * 0x010101 for i in range(24))
_RICH = dict(enumerate(_CUBE + _GREYS, 16))


def _parts(colour: int) -> tuple[int, int, int]:
    return colour >> 16 & 0xFF, colour >> 8 & 0xFF, colour & 0xFF


def _distance(one: int, other: int) -> int:
    """How unlike two colours look, about (https://www.compuphase.com/cmetric.htm)."""
    (r1, g1, b1), (r2, g2, b2) = _parts(one), _parts(other)
    mean, red, green, blue = (r1 + r2) // 2, r1 - r2, g1 - g2, b1 - b2
    return (512 + mean) * red * red + 1024 * green * green + (767 - mean) * blue * blue


@functools.lru_cache(4096)
def nearest(colour: int, colours: int) -> int:
    """The number of the colour that is nearest, of a terminal of 256 or of 16 colours."""
    there = _RICH if colours >= 256 else dict(enumerate(_BASIC))
    return min(there, key=lambda number: _distance(colour, there[number]))


@functools.lru_cache(8)
def can_draw_halves(encoding: str) -> bool:
    """Whether the half block is among the characters of an encoding."""
    try:
        return bool(HALF.encode(encoding))
    except (UnicodeError, LookupError):
        return False


@functools.lru_cache(4096)
def inked(ink: Ink, colours: int, draws_halves: bool = True) -> tuple[Ink, bool]:
    """The colours of a span as they are drawn, and whether halves take the place of its text.

    Sixteen colours make no picture: there the text is read, in the colours of its role.

    Args:
        ink: as it is meant.
        colours: how many there are.
        draws_halves: whether there is a half block.
    """
    if not ink.halves:
        return ink, False
    if colours < 256:
        return Ink(), False
    if draws_halves or ink.foreground is None or ink.background is None:
        return ink, draws_halves
    red, green, blue = _parts(ink.background)
    is_light = 299 * red + 587 * green + 114 * blue > 128_000
    return Ink(0x000000 if is_light else 0xFFFFFF, ink.background), False


@functools.lru_cache(4096)
def css_of(ink: Ink) -> str:
    """CSS declarations. Halves are drawn as a background of two colours, behind blanks."""
    if ink.halves and ink.foreground is not None and ink.background is not None:
        upper, lower = f"#{ink.foreground:06x} 50%", f"#{ink.background:06x} 50%"
        return f"background:linear-gradient({upper},{lower})"
    parts = [] if ink.foreground is None else [f"color:#{ink.foreground:06x}"]
    if ink.background is not None:
        parts.append(f"background:#{ink.background:06x}")
    return ";".join(parts)


@functools.lru_cache(4096)
def prompt_toolkit_style(ink: Ink) -> str:
    """A style string for prompt_toolkit, which finds what is nearest itself."""
    parts = [] if ink.foreground is None else [f"fg:#{ink.foreground:06x}"]
    if ink.background is not None:
        parts.append(f"bg:#{ink.background:06x}")
    return " ".join(parts)


def has_true_colour(environ: Mapping[str, str] | None = None) -> bool:
    """Whether the terminal says that it has all colours."""
    environ = os.environ if environ is None else environ
    return environ.get("COLORTERM", "").lower() in {"truecolor", "24bit"}
