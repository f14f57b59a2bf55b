"""Colours of data as attributes of urwid, as far as the terminal has them."""

from __future__ import annotations

import functools

import urwid

from tfdbg_cli.common.lines import Ink
from tfdbg_cli.ui.inks import HALF, inked, nearest
from tfdbg_cli.ui.screen.paint.cells import Segment

__all__ = ["inked_segment"]

_TRUE = 1 << 24
_NAMES = (
    *("black", "dark red", "dark green", "brown"),
    *("dark blue", "dark magenta", "dark cyan", "light gray"),
    *("dark gray", "light red", "light green", "yellow"),
    *("light blue", "light magenta", "light cyan", "white"),
)


class _Spec(urwid.AttrSpec):
    """Equal to itself alone, which takes no time to find out: urwid compares it with each piece."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


# The same few hundred are asked for at each key.
@functools.lru_cache(1 << 14)
def inked_segment(text: str, role: str, ink: Ink, colors: int, unicode: bool) -> Segment:
    """A piece of text in colours of its own.

    Args:
        text: the text, which halves are drawn in place of.
        role: its attribute where the ink has no colour.
        ink: the colours.
        colors: how many the terminal has.
        unicode: whether it has all characters.
    """
    shown, is_halves = inked(ink, colors, unicode)
    attribute = _spec(shown, colors)
    if is_halves:
        text = HALF * len(text)
    return Segment(text, attribute if attribute is not None else role)


@functools.lru_cache(1 << 14)
def _spec(ink: Ink, colors: int) -> _Spec | None:
    if ink.foreground is None and ink.background is None:
        return None
    front, back = _colour(ink.foreground, colors), _colour(ink.background, colors)
    if colors == _TRUE:
        return _Spec(front, back, colors=16777216)
    return _Spec(front, back, colors=256 if colors == 256 else 16)


def _colour(colour: int | None, colors: int) -> str:
    if colour is None:
        return "default"
    if colors == _TRUE:
        return f"#{colour:06x}"
    number = nearest(colour, colors)
    return f"h{number}" if colors == 256 else _NAMES[number]
