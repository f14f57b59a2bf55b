"""Cutting a line's pieces at the places that a search found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

__all__ = ["cut_at", "match_places"]


def match_places(
    pattern: re.Pattern[str], text: str, end: int | None = None
) -> list[tuple[int, int]]:
    """Where a pattern matches in a text, as far as ``end``; empty matches can't be seen."""
    found = pattern.finditer(text) if end is None else pattern.finditer(text, 0, end)
    return [m.span() for m in found if m.end() > m.start()]


def cut_at(
    texts: Sequence[str], places: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, str, bool]]:
    """Cut the pieces of a line at the borders of some places.

    Args:
        texts: the pieces, left to right.
        places: ``(first, behind)`` character positions in the line; in order, not overlapping.

    Yields:
        Which piece it was, a part of it, and whether the part is in a place.
    """
    at, begin = 0, 0
    for index, text in enumerate(texts):
        end = begin + len(text)
        cut = begin
        while at < len(places) and places[at][0] < end:
            first, behind = max(places[at][0], cut), min(places[at][1], end)
            if first > cut:
                yield index, text[cut - begin : first - begin], False
            if behind > first:
                yield index, text[first - begin : behind - begin], True
                cut = behind
            if places[at][1] > end:
                break  # it goes on in the next piece
            at += 1
        if cut < end:
            yield index, text[cut - begin :], False
        begin = end
