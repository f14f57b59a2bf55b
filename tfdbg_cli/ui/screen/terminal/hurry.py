"""Work that nobody has asked for gives way as soon as a key is pressed."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["Hurry", "giving_way"]

# What is done sooner is not interrupted.
_GRACE_SECONDS = 0.1


class Hurry:
    """Whether work was interrupted by input.

    Attributes:
        came: it was.
    """

    came = False


@contextlib.contextmanager
def giving_way(files: Sequence[Any]) -> Iterator[Hurry]:
    """Inside of it, input that waits interrupts the work as Ctrl-C does: with a KeyboardInterrupt.

    Only the main thread can be interrupted so, and only where files can be waited for.

    Args:
        files: where input comes from.
    """
    hurry, done = Hurry(), threading.Lock()
    main = threading.main_thread()
    if os.name != "posix" or threading.current_thread() is not main or main.ident is None:
        yield hurry
        return
    thread_id = main.ident
    ended, end = os.pipe()

    def watch() -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal is gone
            if select.select([ended], [], [], _GRACE_SECONDS)[0]:
                return
            if ended in select.select([ended, *files], [], [])[0]:
                return
            # While this is held the work can't end: the signal comes in the midst of it.
            with done:
                if not hurry.came and not is_over:
                    hurry.came = True
                    signal.pthread_kill(thread_id, signal.SIGINT)

    is_over = False
    watcher = threading.Thread(target=watch, name="tfdbg hurry", daemon=True)
    watcher.start()
    try:
        yield hurry
        with done:
            is_over = True
        if hurry.came:
            time.sleep(0)  # the signal that was sent ends the work here at the latest
    finally:
        is_over = True
        os.write(end, b"x")
        watcher.join()
        os.close(ended)
        os.close(end)
