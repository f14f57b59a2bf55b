"""Threads that a recorded run starts, whose ops belong to it."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from tfdbg_cli.engines.kit.patching.patches import PatchSet

__all__ = ["ThreadFollower", "ThreadRecorder"]


class ThreadRecorder(Protocol):
    """Records a run on several threads."""

    @property
    def is_on(self) -> bool:
        """Whether it records at the moment."""

    def here(self) -> Any:
        """Where the calling thread is in the run."""

    def join(self, place: Any) -> Callable[[], None]:
        """The calling thread belongs to the run from now on, at this place of it.

        Returns:
            To be called at the end.
        """


class ThreadFollower:
    """While it is on, threads that a recorded thread starts are recorded as well.

    The same holds for what a recorded thread gives to a pool of threads. Threads may live for
    longer than anybody looks at the run: nothing here keeps it.
    """

    def __init__(self) -> None:
        self._local = threading.local()
        self._patches = PatchSet("Python")

    # What threads do.

    def own(self, recorder: ThreadRecorder | None) -> None:
        """The calling thread is recorded from now on; ``None``: it isn't."""
        self._local.recorder = weakref.ref(recorder) if recorder is not None else None
        self._local.is_helper = False

    def helped(self) -> ThreadRecorder | None:
        """Who records the calling thread, if a run has started it."""
        return self._recorder() if getattr(self._local, "is_helper", False) else None

    def _recorder(self) -> ThreadRecorder | None:
        """Who records the calling thread."""
        reference = getattr(self._local, "recorder", None)
        recorder: ThreadRecorder | None = reference() if reference is not None else None
        return recorder if recorder is not None and recorder.is_on else None

    # What threads are started.

    def enter(self) -> None:
        """Look at the threads that are started, unless that is so."""
        if self._patches:
            return
        with self._patches.together():
            self._patches.replace(threading.Thread, "start", self._starting)
            self._patches.replace(ThreadPoolExecutor, "submit", self._submitting)

    def leave(self) -> None:
        """Don't."""
        self._patches.undo()

    def _starting(self, original: Any) -> Any:
        def start(thread: threading.Thread) -> None:
            recorder = self._recorder()
            if recorder is None or getattr(self._local, "is_pool", False):
                original(thread)
                return
            run = self._recorded(recorder, thread.run)

            def once() -> None:
                with contextlib.suppress(AttributeError):
                    del thread.run
                run()

            thread.run = once  # type: ignore[method-assign]  # of this thread alone
            original(thread)

        return start

    def _submitting(self, original: Any) -> Any:
        def submit(pool: ThreadPoolExecutor, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
            recorder = self._recorder()
            if recorder is None:
                return original(pool, fn, *args, **kwargs)
            self._local.is_pool = True  # its threads are not this run's, only the task is
            try:
                return original(pool, self._recorded(recorder, fn), *args, **kwargs)
            finally:
                self._local.is_pool = False

        return submit

    def _recorded(
        self, recorder: ThreadRecorder, function: Callable[..., Any]
    ) -> Callable[..., Any]:
        """A function that another thread is to call, as a part of the run of this one."""
        place = recorder.here()
        reference = weakref.ref(recorder)
        del recorder

        def call(*args: Any, **kwargs: Any) -> Any:
            self._local.recorder, self._local.is_helper = reference, True
            recorder = self._recorder()
            leave = recorder.join(place) if recorder is not None else None
            del recorder
            try:
                return function(*args, **kwargs)
            finally:
                if leave is not None:
                    leave()
                self.own(None)

        return call
