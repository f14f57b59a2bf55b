"""The part of the scripts that runs with the other tests."""

from __future__ import annotations

import pytest
from fate_kit import WAYS, corpus, engine_of

__all__ = ["MADE", "part"]

#: How many programs are made up here for an engine, the same ones each time.
MADE = 2


def part(*engines: str, step: int) -> list[object]:
    """Parameters: of so many scripts one, and a way; the ways in turn."""
    ways = list(WAYS)
    made = []
    scripts = [script for script in corpus() if engine_of(script) in engines]
    for number, script in enumerate(scripts[::step]):
        way = ways[number % len(ways)]
        missing = ", ".join(script.missing)
        marks = [pytest.mark.skipif(bool(missing), reason=f"needs {missing}")]
        known = script.known(way)
        marks += [pytest.mark.xfail(reason=known)] if known else []  # and has to: they are strict
        marks += [pytest.mark.tty] if WAYS[way].typed else []
        made.append(pytest.param(script, way, marks=marks, id=f"{script.name}-{way}"))
    return made
