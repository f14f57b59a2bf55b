"""How many of their cases the longest tests try: a sample, or all for ``scripts/nightly``."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from typing import TypeVar

__all__ = ["IS_LONG", "sample"]

#: Whether the tests take as long as they like.
IS_LONG = os.environ.get("TFDBG_TESTS_LONG") == "1"

_Case = TypeVar("_Case")


def sample(cases: Iterable[_Case], step: int) -> Iterator[_Case]:
    """Each ``step``-th case, or all of them in a long run."""
    return itertools.islice(cases, 0, None, 1 if IS_LONG else step)
