"""The threads on which the runs of a program begin."""

import re
import sys
import threading
import time
from collections.abc import Iterator
from types import CodeType, FrameType

__all__ = ["RunThreads", "is_over", "refused"]

#: The threads of the program on which no run may begin, by their names, as far as they tried.
refused: dict[str, None] = {}
_MOST_REFUSED = 100

#: How often, and how many seconds apart, is asked whether the main thread has come from the start
#: of a thread to the call that waits for it.
_TRIES, _SHORT = 25, 0.001
#: After so many threads that nobody waited for, others are asked about once: a server may have one
#: for each request.
_PATIENCE = 4


class RunThreads:
    """Says whether a run may begin on the calling thread.

    A rule, the user's regex, names the threads. Without one it is the main thread and, as long as
    that has begun no run, a thread for whose end it waits, or the only one that can do what it
    waits for (of a pool, of an event loop): a program may train in a thread alone.
    """

    def __init__(self) -> None:
        self._rule: re.Pattern[str] | None = None
        self._local = threading.local()
        self._is_main_alone = False
        self._refused = 0

    def counts(self, rule: str) -> bool:
        """Whether a run may begin here."""
        if not rule and threading.get_ident() == threading.main_thread().ident:
            return True
        if not rule and self._is_main_alone:
            return False
        if self._rule is None or rule != self._rule.pattern:
            self._rule = re.compile(rule)
            self._local = threading.local()
        known = getattr(self._local, "counts", None)
        if known is None:
            thread = threading.current_thread()
            if rule:
                known = self._rule.fullmatch(thread.name) is not None
            else:
                known = _is_awaited(thread, _TRIES if self._refused < _PATIENCE else 1)
                self._refused += not known
            self._local.counts = known
            if not known and len(refused) < _MOST_REFUSED:
                refused[thread.name] = None
        return bool(known)

    def begins(self) -> None:
        """A run begins here; from the main thread's first one on, others don't count."""
        self._is_main_alone |= threading.current_thread() is threading.main_thread()


def is_over(thread: int) -> bool:
    """Whether a thread has ended."""
    return thread not in sys._current_frames()


def _is_awaited(thread: threading.Thread, tries: int) -> bool:
    """Whether the main thread waits for this one, which runs right now."""
    for _ in range(tries):
        time.sleep(_SHORT)
        frame: FrameType | None = sys._current_frames().get(threading.main_thread().ident or 0)
        for_work = {*_waits_for_work()}
        while frame is not None:
            if frame.f_code is threading._shutdown.__code__:  # type: ignore[attr-defined]
                return True
            if frame.f_code is threading.Thread.join.__code__:
                return frame.f_locals.get("self") is thread
            if frame.f_code in for_work:
                return _is_only_one(thread)
            frame = frame.f_back
    return False


def _waits_for_work() -> Iterator[CodeType]:
    """What waits for the result of some thread, if the program has imported it."""
    futures = sys.modules.get("concurrent.futures._base")
    if futures is not None:
        for function in (futures.Future.result, futures.wait, futures.as_completed):
            yield function.__code__
    runners = sys.modules.get("asyncio.runners")
    if runners is not None:
        yield runners.Runner.run.__code__


def _is_only_one(thread: threading.Thread) -> bool:
    own = (thread, threading.main_thread())
    return all(each in own or each.daemon for each in threading.enumerate())
