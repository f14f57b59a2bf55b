"""How many of their cases the longest tests try: a sample, or all for ``scripts/nightly``."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterable, Iterator
from typing import TypeVar

import pytest

__all__ = ["IS_LONG", "night", "sample"]

#: Whether the tests take as long as they like.
IS_LONG = os.environ.get("TFDBG_TESTS_LONG") == "1"

#: Marks a test, or a case as ``marks=`` of a `pytest.param`, that only long runs try.
night = pytest.mark.skipif(not IS_LONG, reason="tried by scripts/nightly")

_Case = TypeVar("_Case")


def sample(cases: Iterable[_Case], kept: int | Collection[_Case]) -> Iterator[_Case]:
    """Some of the cases, or all of them in a long run.

    Args:
        cases: all of them.
        kept: a number N, for each N-th case from the first; or the cases themselves.
    """
    if IS_LONG:
        yield from cases
    elif isinstance(kept, int):
        yield from itertools.islice(cases, 0, None, kept)
    else:
        cases = [*cases]
        missing = [case for case in kept if case not in cases]
        assert not missing, missing
        yield from (case for case in cases if case in kept)
