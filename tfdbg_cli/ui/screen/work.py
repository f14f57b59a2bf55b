"""Long work on the screen: a slice at a time between the keys, with progress, until it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import urwid

from tfdbg_cli.commands.reply import Toast
from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.ui.screen.state import ScreenState

__all__ = ["Work"]

# What takes no longer is done before the next key is looked at.
_AT_ONCE_SECONDS = 0.05

# So long slices are done one after the other, and then keys and redraws get their turn.
_STRETCH_SECONDS = 0.04
_BREATH_SECONDS = 0.001


class Work:
    """At most one piece of work, whose steps the loop does when nothing else is to do.

    Args:
        state: gets the messages on how far it is.
        at_work: inside of it Ctrl-C interrupts.
    """

    def __init__(
        self, state: ScreenState, at_work: Callable[[], AbstractContextManager[None]]
    ) -> None:
        #: urwid's loop while it runs; without it all is done at once.
        self.loop: urwid.MainLoop | None = None
        self._state = state
        self._at_work = at_work
        self._steps: Iterator[Any] | None = None
        self._what = ""
        self._done: Callable[[Any], None] = lambda result: None

    def start(self, steps: Iterator[Any], what: str, done: Callable[[Any], None]) -> None:
        """Do steps until one gives something else than how much is done.

        What is done soon is done at once; the rest goes on between the keys.

        Args:
            steps: each gives the share that is done (a float), the last one the result.
            what: what is done, for the messages.
            done: gets the result; may raise a `UserError`.

        Raises:
            UserError: what ``done`` raises, if all is done at once.
        """
        self.drop()
        until = time.perf_counter() + _AT_ONCE_SECONDS
        try:
            for step in steps:
                if not isinstance(step, float):
                    done(step)
                    return
                if self.loop is not None and time.perf_counter() > until:
                    self._steps, self._what, self._done = steps, what, done
                    self._say(step)
                    self.loop.event_loop.alarm(_BREATH_SECONDS, lambda: self._go_on(steps))
                    return
        except UserError:
            raise
        except Exception as error:  # lines that can't be made can't be searched
            raise UserError(f"{what} ended: {one_line(error)}") from error

    def _go_on(self, steps: Iterator[Any]) -> None:
        """Some slices, if they are still wanted; urwid draws after every alarm."""
        loop = self.loop
        if loop is None or self._steps is not steps:
            return
        until = time.perf_counter() + _STRETCH_SECONDS
        try:
            with self._at_work():
                step = next(steps)
                while isinstance(step, float) and time.perf_counter() < until:
                    step = next(steps)
            if isinstance(step, float):
                self._say(step)
                loop.event_loop.alarm(_BREATH_SECONDS, lambda: self._go_on(steps))
            else:
                self._steps = self._state.message = None
                self._done(step)
        except KeyboardInterrupt:
            self.cancel()
        except Exception as error:
            self._steps = None
            text = one_line(error)
            self._state.message = Toast(text, "error")

    def _say(self, share: float) -> None:
        self._state.message = Toast(f"{self._what}: {100 * share:.0f} % (Esc gives up)")

    def drop(self) -> None:
        """Give it up without a word."""
        self._steps = None

    def cancel(self) -> bool:
        """Give it up; False: there is none."""
        if self._steps is None:
            return False
        self._steps = None
        self._state.message = Toast("Cancelled.", "warning")
        return True
