"""A pause of Python's cyclic garbage collector, while many objects are made that stay."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

__all__ = ["collector_paused"]

_lock = threading.Lock()
_pauses = 0
_was_on = False


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Let the collector wait; afterwards it is on again, if it was.

    A hundred thousand new objects make it go through all that the program has, perhaps several
    times, and none of them is garbage. Pauses of several threads may overlap.
    """
    global _pauses, _was_on
    with _lock:
        if not _pauses:
            _was_on = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if not _pauses and _was_on:
                gc.enable()
