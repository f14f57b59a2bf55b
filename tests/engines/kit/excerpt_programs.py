"""Functions whose statements are run once more; in tests pytest would rewrite them."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, NamedTuple

from tfdbg_cli.engines.kit.excerpts import excerpt


class Place(NamedTuple):
    """Where a frame is, and what its variables hold then."""

    frame: FrameType
    instruction: int
    held: dict[str, Any]


def here():
    frame = sys._getframe(1)
    return Place(frame, frame.f_lasti, dict(frame.f_locals))


def again(first, last):
    """Run the statements from one place to another once more; what they have bound."""
    cut = excerpt(first.frame.f_code, first.instruction, last.instruction)
    kept = {name: first.held[name] for name in cut.variables.carried if name in first.held}
    made = {}
    cut.run(first.frame, kept, made)
    return cut, made


class Counter:
    def __init__(self):
        self.__count = 0

    def count(self):
        return self.__count

    def turn(self):
        __step = 2
        first = here()
        add = lambda: self.__count + __step  # noqa: E731
        self.__count = add()
        last = here()
        return first, last


class Loud(Counter):
    def count(self):
        first = here()
        found = [super().count()] + [__class__.__name__ for _ in "a"]
        last = here()
        if not found[0]:
            cut, made = again(first, last)
            return cut.lines, made["found"]
        return found


def add():
    total = 3
    first = here()
    total += 1
    last = here()
    return again(first, last), total


def take():
    numbers = iter("abc")
    first = here()
    letter = next(numbers)
    last = here()
    again(first, last)
    return letter
