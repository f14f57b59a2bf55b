"""What is told of a run's first bad tensor: programs, and the reason that is to be given."""

from __future__ import annotations

import re

__all__ = ["reason_of"]


def reason_of(out: str) -> str:
    """The reason that `why` has given; empty: it has claimed none, though something began."""
    assert "It began in " in out, out
    found = re.search(r"^Why:   (.*)$", out, re.MULTILINE)
    return found[1] if found else ""
