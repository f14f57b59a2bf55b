"""Work of ours that warns nobody."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

__all__ = ["unwarned"]

_IGNORE = ("ignore", None, Warning, None, 0)


@contextlib.contextmanager
def unwarned() -> Iterator[None]:
    """Nobody is warned of what is done within.

    The public `warnings.catch_warnings` lets Python forget what it has warned of already: the
    program would be warned once more.
    """
    filters: list[Any] = warnings.filters  # type: ignore[assignment]  # a list, in all versions
    filters.insert(0, _IGNORE)
    try:
        yield
    finally:
        filters.remove(_IGNORE)
