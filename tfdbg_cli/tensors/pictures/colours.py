"""Colours for numbers: maps whose steps look alike, and colours of its own for what is bad."""

from __future__ import annotations

from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.tensors.pictures.reduction import MINUS_INF, NAN, PLUS_INF

__all__ = ["BAD", "LEVELS", "SHADES", "bad_kind", "colour_table"]

#: How many colours a map has. More can't be told apart, and make a screen slower to draw.
LEVELS = 32

# matplotlib's viridis, and Fabio Crameri's vik (https://www.fabiocrameri.ch/colourmaps), at equal
# distances: both have steps that look alike, also in grey and to eyes that tell few hues apart.
_SEQUENTIAL = (
    *(0x440154, 0x472C7A, 0x3B518B, 0x2C718E, 0x21908D),
    *(0x27AD81, 0x5CC863, 0xAADC32, 0xFDE725),
)
_DIVERGING = (
    *(0x001260, 0x023E7D, 0x1D6E9C, 0x71A7C4, 0xEAE4DF),
    *(0xD39774, 0xBE6533, 0x8B2706, 0x590007),
)

#: What is bad in a cell: a name, a colour that no map has, and a letter where there are no colours.
BAD = {
    NAN: ("NaN", 0xFF0000, "N"),
    PLUS_INF: ("+inf", 0xFF00FF, "+"),
    MINUS_INF: ("-inf", 0x00FFFF, "-"),
    0: ("several kinds", 0x00FF00, "!"),
}

#: From small to large, where there are no colours. No letter that stands for something bad.
SHADES = ".,:;=ox%#@"


def bad_kind(bits: int) -> int:
    """The key in `BAD` of what a cell holds; not of 0."""
    return bits if bits in BAD else 0


def colour_table(*, diverging: bool) -> np.ndarray[Any, Any]:
    """The colours of the levels, ``(LEVELS, 3)`` bytes of red, green and blue."""
    anchors = np.array(_DIVERGING if diverging else _SEQUENTIAL)
    at = np.linspace(0, len(anchors) - 1, LEVELS)
    parts = [np.interp(at, range(len(anchors)), anchors >> shift & 0xFF) for shift in (16, 8, 0)]
    colours: np.ndarray[Any, Any] = np.rint(np.stack(parts, axis=1)).astype(np.uint8)
    return colours
