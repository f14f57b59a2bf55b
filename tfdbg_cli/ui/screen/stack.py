"""The screens of a program: back and forward, and what becomes of them when a stop ends."""

from __future__ import annotations

import time

from tfdbg_cli.ui.screen.view import View

__all__ = ["ViewStack"]


class ViewStack:
    """The screens of a program, the newest last, and which of them is shown.

    They outlive the stop that they were made at: `begin_stop` and `end_stop` say where one begins
    and ends. In between the dumps of the runs are let go, so at the end of a stop each screen keeps
    the text around what was seen, and no more.

    Args:
        limit: how many screens there may be; the oldest are dropped.
    """

    def __init__(self, limit: int = 100) -> None:
        self._views: list[View] = []
        self._limit = limit
        self._at = -1
        # What each stop that still has screens is called.
        self._stops: dict[int, str] = {}
        self._stop = 0

    def __len__(self) -> int:
        return len(self._views)

    @property
    def position(self) -> int:
        """The number of the screen that is shown, from 1 on."""
        return self._at + 1

    @property
    def current(self) -> View | None:
        """The screen that is shown."""
        return self._views[self._at] if self._views else None

    def begin_stop(self, run: str) -> None:
        """A stop begins.

        Args:
            run: which run it is about, ``run #3``; may be empty.
        """
        self._stop += 1
        self._stops[self._stop] = run

    def end_stop(self, seconds: float = 0.2) -> None:
        """A stop ends: let the dump of the run go.

        Args:
            seconds: how long lines may be made to be kept, in all.
        """
        until = time.monotonic() + seconds
        for view in reversed(self._views):
            view.let_go(until)
        kept = {view.stop for view in self._views}
        self._stops = {stop: run for stop, run in self._stops.items() if stop in kept}

    def mark(self, view: View) -> str:
        """What tells a screen of an earlier stop apart: ``run #3, earlier``; empty: it is none.

        What it links to is looked up in the tensors of the current stop.
        """
        if view.stop == self._stop:
            return ""
        run = self._stops.get(view.stop, "")
        return f"{run}, earlier" if run else "earlier"

    def push(self, view: View) -> None:
        """Show a new screen behind the current one; what was behind that is dropped."""
        del self._views[self._at + 1 :]
        view.stop = self._stop
        self._views.append(view)
        del self._views[: -self._limit]
        self._at = len(self._views) - 1

    def show(self, view: View) -> None:
        """Show a screen that there is only one of, as the help of the keys.

        It comes right behind the current one, and an older one of the same command goes. The
        screens that could be gone forward to stay.
        """
        view.stop = self._stop
        current = self.current
        if current is not None and current.command == view.command:
            self._views[self._at] = view
            return
        at = self._at
        for index in range(len(self._views) - 1, -1, -1):
            if self._views[index].command == view.command:
                del self._views[index]
                at -= index <= at
        self._views.insert(at + 1, view)
        self._at = at + 1
        while len(self._views) > self._limit:
            del self._views[0]
            self._at -= 1

    def can_move(self, step: int) -> bool:
        """Whether there is a screen that many steps away."""
        return 0 <= self._at + step < len(self._views)

    def move(self, step: int) -> bool:
        """Show another screen, as it was left; False: there is none."""
        if not self.can_move(step):
            return False
        self._at += step
        return True
