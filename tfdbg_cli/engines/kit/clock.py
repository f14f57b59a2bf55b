"""Time stamps for tensors."""

from __future__ import annotations

import time

__all__ = ["Clock", "epoch"]

_SECOND = 10**9
_epoch = 0


def epoch() -> int:
    """When ``time.perf_counter_ns()`` was 0, in nanoseconds since 1970.

    It stays the same, as what is stamped at one place is compared with what is stamped at others:
    it is only measured anew where the system's clock was set or the machine slept. Between the two
    looks at clocks that this takes, a busy machine may do something else for milliseconds.
    """
    global _epoch
    measured = time.time_ns() - time.perf_counter_ns()
    if abs(measured - _epoch) > _SECOND:
        _epoch = measured
    return _epoch


class Clock:
    """Microseconds since 1970 that never go back, whatever is done to the system's clock."""

    def __init__(self) -> None:
        self._epoch = epoch()

    def now(self) -> int:
        """The time now."""
        return (self._epoch + time.perf_counter_ns()) // 1000
