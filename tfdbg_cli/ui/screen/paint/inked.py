"""Colours of data as attributes of urwid, as far as the terminal has them."""

from __future__ import annotations

import functools

import urwid

from tfdbg_cli.common.lines import Ink
from tfdbg_cli.ui.inks import HALF, can_draw_halves, inked, nearest
from tfdbg_cli.ui.screen.paint.cells import Segment

__all__ = ["inked_segment"]

_TRUE = 1 << 24
_NAMES = (
    *("black", "dark red", "dark green", "brown"),
    *("dark blue", "dark magenta", "dark cyan", "light gray"),
    *("dark gray", "light red", "light green", "yellow"),
    *("light blue", "light magenta", "light cyan", "white"),
)


def inked_segment(text: str, role: str, ink: Ink, colors: int) -> Segment:
    """A piece of text in colours of its own.

    Args:
        text: the text, which halves are drawn in place of.
        role: its attribute where the ink has no colour.
        ink: the colours.
        colors: how many the terminal has.
    """
    draws_halves = can_draw_halves(urwid.util.get_encoding())
    attribute = _spec(ink, colors, draws_halves)
    if ink.halves and draws_halves:
        text = HALF * len(text)
    return Segment(text, attribute if attribute is not None else role)


# The same few hundred pairs are asked for at each key; and an attribute that is the same object is
# found faster by urwid, too.
@functools.lru_cache(1 << 14)
def _spec(ink: Ink, colors: int, draws_halves: bool) -> urwid.AttrSpec | None:
    ink = inked(ink, draws_halves)
    if ink.foreground is None and ink.background is None:
        return None
    front, back = _colour(ink.foreground, colors), _colour(ink.background, colors)
    if colors == _TRUE:
        return urwid.AttrSpec(front, back, colors=16777216)
    return urwid.AttrSpec(front, back, colors=256 if colors == 256 else 16)


def _colour(colour: int | None, colors: int) -> str:
    if colour is None:
        return "default"
    if colors == _TRUE:
        return f"#{colour:06x}"
    number = nearest(colour, colors)
    return f"h{number}" if colors == 256 else _NAMES[number]
