"""Notices that this rank stays in one run for long, and says so on a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tfdbg_cli.common.interpreter.threads import OwnThread

__all__ = ["RankWatch"]

# A run is long that takes so many times as long as the longest before it.
_MUCH_LONGER = 3.0
_LONGEST_PERIOD = 1.0


class RankWatch:
    """Looks at the clock a few times a second, or once, while the ranks are joined.

    Args:
        seconds: after which a run is long.
        tell: called on its thread, once for each long run, with the run's name.
        tick: called on its thread each time.
    """

    def __init__(
        self, seconds: Callable[[], float], tell: Callable[[str], None], tick: Callable[[], None]
    ) -> None:
        self._seconds, self._tell, self._tick = seconds, tell, tick
        self._open: tuple[str, float] = ("", 0.0)
        self._told = ""
        self._longest = 0.0
        self._end = threading.Event()
        self._thread = OwnThread(self._watch)

    def begin(self, run: str) -> None:
        """This rank is in a run."""
        self._open = (run, time.monotonic())

    def end(self) -> None:
        """It isn't any more."""
        run, began = self._open
        if run:
            self._longest = max(self._longest, time.monotonic() - began)
        self._open = ("", 0.0)

    def close(self) -> None:
        """Watch no more; returns when the thread has ended, which holds nothing by then."""
        self._end.set()
        self._thread.join(2 * _LONGEST_PERIOD)

    def _watch(self) -> None:
        while not self._end.wait(min(_LONGEST_PERIOD, self._seconds() / 4)):
            run, began = self._open
            limit = max(self._seconds(), _MUCH_LONGER * self._longest)
            if run and run != self._told and time.monotonic() - began > limit:
                self._told = run
                self._tell(run)
            self._tick()
