"""What scripts that run for long have in common: they say how far they are, and end at a Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Self

__all__ = ["INTERRUPTED", "Progress", "StoppedError", "in_threads", "interruptible", "stopping"]

#: The exit status of what a person ends, as shells give it.
INTERRUPTED = 130

#: Set once a person has ended the script: threads come to their end.
stopping = threading.Event()

# How often a line is written again at a terminal, and how often another one elsewhere.
_SECONDS, _SECONDS_OF_FILES = 0.5, 3.0


class StoppedError(Exception):
    """A thread ends before it has done its work."""


def interruptible() -> None:
    """Ctrl-C and SIGTERM raise a KeyboardInterrupt; a second one can't cut into the end."""

    def stop(number: int, frame: FrameType | None) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        stopping.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as a shell's background job
        signal.signal(signal.SIGINT, stop)


class Progress:
    """A line on stderr while something runs; to be used in a ``with``.

    At a terminal it is written again and again, elsewhere a line follows the other every few
    seconds.

    Args:
        told: how far it is, in words.
    """

    def __init__(self, told: Callable[[], str]) -> None:
        self._told = told
        self._is_terminal = sys.stderr.isatty()
        self._begun = time.monotonic()
        self._is_shown = False
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        with self._lock:
            self._hide()

    def print(self, text: str) -> None:
        """Write a line of the results to stdout, above the line."""
        with self._lock:
            self._hide()
            print(text, flush=True)

    def _go_on(self) -> None:
        while not self._over.wait(_SECONDS if self._is_terminal else _SECONDS_OF_FILES):
            with self._lock:
                if not self._over.is_set():
                    self._show(f"{time.monotonic() - self._begun:.0f} s: {self._told()}")

    def _show(self, text: str) -> None:
        if not self._is_terminal:
            print(text, file=sys.stderr, flush=True)
            return
        columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
        print(f"\r\x1b[K{text[: columns - 1]}", end="", file=sys.stderr, flush=True)
        self._is_shown = True

    def _hide(self) -> None:
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._is_shown = False


def in_threads(count: int, work: Callable[[Path], None]) -> None:
    """Do the same in several threads, each with a folder of its own.

    Args:
        count: of threads.
        work: what each does; at a Ctrl-C it is to raise a `StoppedError`, or to end.

    Raises:
        KeyboardInterrupt: a person has ended it, and so have all threads.
        Exception: what one of them has raised.
    """

    def until_stopped(folder: Path) -> None:
        try:
            work(folder)
        except Exception:
            if not stopping.is_set():
                stopping.set()  # the others needn't go on
                raise

    with tempfile.TemporaryDirectory(prefix="tests-") as folder, ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(until_stopped, Path(folder, str(n))) for n in range(count)]:
            done.result()
