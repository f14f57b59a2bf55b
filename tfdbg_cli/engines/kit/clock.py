"""Time stamps for tensors."""

from __future__ import annotations

import time

__all__ = ["Clock"]


class Clock:
    """Microseconds since the epoch that never go back, whatever is done to the system's clock."""

    def __init__(self) -> None:
        self._offset = time.time_ns() - time.perf_counter_ns()

    def now(self) -> int:
        """The time now."""
        return (self._offset + time.perf_counter_ns()) // 1000
