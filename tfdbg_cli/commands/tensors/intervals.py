"""Intervals of times as a user writes them (``>100us``, ``[1us,2ms)``), and times as text."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tfdbg_cli.common.errors import UserError

__all__ = [
    "TIME_UNITS",
    "Interval",
    "parse_time",
    "parse_time_interval",
    "time_text",
]

#: Unit -> microseconds.
TIME_UNITS: Mapping[str, float] = {"us": 1.0, "ms": 1e3, "s": 1e6}

# Enough to tell a tenth of a microsecond, the least that clocks of runtimes are good for.
_DECIMALS = {"us": 1, "ms": 4, "s": 7}

_QUANTITY = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*([a-zA-Z]*)\Z")
_RELATION = re.compile(r"(<=|<|>=|>)(.*)\Z", re.DOTALL)
_RANGE = re.compile(r"([\[(])([^,]*),([^,]*)([\])])\Z")


@dataclass(frozen=True)
class Interval:
    """The numbers between two ends.

    Attributes:
        start, end: the ends; ``end`` may be infinite.
        start_included, end_included: whether the ends themselves belong to it.
        text: how the user wrote it.
    """

    start: float
    start_included: bool
    end: float
    end_included: bool
    text: str = field(default="", compare=False)

    def contains(self, value: float) -> bool:
        """Whether a number lies in it."""
        above = value > self.start or (self.start_included and value == self.start)
        return above and (value < self.end or (self.end_included and value == self.end))


def parse_time(text: str) -> float:
    """A time in microseconds: ``100``, ``100us``, ``1.5 ms``, ``2s``.

    Raises:
        UserError: it is none.
    """
    match, hint = _QUANTITY.match(text.strip()), "Write 100us, 1.5ms or 2s; us is the default."
    factor = {"": 1.0, **TIME_UNITS}.get(match[2].lower()) if match is not None else None
    if match is None or factor is None:
        raise UserError(f'"{text.strip()}" is not a valid time.', hint)
    value = float(match[1]) * factor
    if value < 0 or not math.isfinite(value):
        raise UserError(
            f'"{text.strip()}" is not a valid time: it must be 0 or more, and finite.', hint
        )
    return value


def parse_time_interval(text: str) -> Interval:
    """An interval in microseconds: ``>100us``, ``<=1ms``, ``[10us,1ms]``, ``(1us,inf)``.

    Raises:
        UserError: it is none.
    """
    hint = "Write >10us, <=1ms or [10us,1ms), with quotes around it if it has blanks."
    found = text.strip()
    relation = _RELATION.match(found)
    if relation is not None and relation[2].strip():
        limit, included = parse_time(relation[2]), relation[1].endswith("=")
        if relation[1].startswith("<"):
            return Interval(0, True, limit, included, found)
        return Interval(limit, included, math.inf, True, found)
    ends = _RANGE.match(found)
    if ends is None:
        raise UserError(f'"{found}" is not a valid interval.', hint)
    start = parse_time(ends[2])
    is_open = ends[3].strip().lower() in ("inf", "+inf")
    end = math.inf if is_open else parse_time(ends[3])
    if start > end:
        raise UserError(f'"{found}" is not a valid interval: its start is above its end.', hint)
    return Interval(start, ends[1] == "[", end, ends[4] == "]", found)


def time_text(microseconds: float, unit: str = "") -> str:
    """A time for people.

    Args:
        microseconds: the time.
        unit: one of `TIME_UNITS`, with as many decimals as make columns align; empty: the one
            that suits the time, with three digits.
    """
    if unit:
        return f"{microseconds / TIME_UNITS[unit]:.{_DECIMALS[unit]}f}{unit}"
    for name, factor in TIME_UNITS.items():
        digits = f"{microseconds / factor:.3g}"
        if abs(float(digits)) < 1000:  # as printed: 999.9 would become 1e+03
            return f"{digits}{name}"
    return f"{microseconds / TIME_UNITS['s']:.0f}s"
