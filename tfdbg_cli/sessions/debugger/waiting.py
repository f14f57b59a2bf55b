"""The time between two stops: how far the program is, and what Ctrl-C means meanwhile."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from tfdbg_cli.commands.run.choices import ALL_RUNS, RunChoice
from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.common.streams import tell
from tfdbg_cli.dumps.run_info import CALLS
from tfdbg_cli.ui.base import UserInterface
from tfdbg_cli.ui.foreign import ForeignKeys, is_foreign

__all__ = ["Waiting"]

_OUTSIDE = (
    "ops outside of the runs weren't looked at (with tfdbg_cli.run(): makes a run of a block)"
)


class Waiting:
    """Counts the runs that go by, tells the UI of them, and takes the first Ctrl-C.

    The first Ctrl-C asks for a stop at the end of the run; the second one does what Ctrl-C does in
    the program without a debugger. Where nobody watches, or the program has changed the handler of
    SIGINT in the meantime, Ctrl-C is the program's from the first.
    """

    def __init__(self) -> None:
        self.is_interrupted = False
        self._ui: UserInterface | None = None
        self._choice: RunChoice | None = None
        self._began = 0.0
        self._first = self._run = 0
        self._said = ""
        self._because = ""
        self._partly: dict[str, int] = {}
        self._passed_over = 0
        self._are_calls = False
        self._is_told = False  # that only parts are looked at
        self._before: Any = None
        self._has_handler = False
        self._keys: ForeignKeys | None = None

    @property
    def is_on(self) -> bool:
        """Whether a stop is waited for."""
        return self._ui is not None

    def begin(self, choice: RunChoice, run: int, ui: UserInterface) -> None:
        """A stop was left.

        Args:
            choice: what is waited for.
            run: the number of the run that the program does next.
            ui: what shows how far it is.
        """
        self._let_go()  # a stop may have been asked for since the last one was left
        self._choice, self._began = choice, time.monotonic()
        self._first = self._run = run
        self._said, self._because, self._partly = "", "", {}
        self._passed_over = 0
        self._ui = ui
        if ui.takes_interrupts and threading.current_thread() is threading.main_thread():
            self._take_interrupts()  # before anybody is told of it
        self._show(ui.running, self.describe, self._announcement(choice))

    def _take_interrupts(self) -> None:
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is not None:  # a handler that isn't Python's can't be put back
            signal.signal(signal.SIGINT, self._interrupt)
            self._has_handler = True
            if is_foreign():  # nobody would send us the signal
                with contextlib.suppress(OSError):
                    self._keys = ForeignKeys()

    def _announcement(self, choice: RunChoice) -> str:
        if choice.filter_name:
            what = f"until a tensor passes {choice.filter_name}"
        elif choice.times == ALL_RUNS:
            what = "to the program's end"
        elif choice.times > 1:
            what = f"until run #{self._first + choice.times - 1}"
        else:
            return ""
        return f"Running {what}; Ctrl-C stops at the end of a run."

    def run_started(self, run: int, kind: str = "") -> None:
        """The program is at its run of this number.

        Args:
            run: the number.
            kind: of the run, where an engine tells kinds.
        """
        self._run = run
        self._are_calls = kind in CALLS

    def say(self, text: str, only: str = "", because: str = "") -> None:
        """What was seen in the last run.

        Args:
            text: in a few words.
            only: what alone was looked at; empty: all.
            because: why, where another level would change nothing.
        """
        self._said = text
        if only and not self._is_told:
            self._is_told = True
            if because:
                why = f" ({because}): a bad value that doesn't reach them isn't seen."
            else:
                why = (
                    ", because that costs little: a bad value that doesn't reach them isn't seen "
                    "(config set level ops checks all ops)."
                )
            tell(f"only {only} are checked{why}")
        if only:
            self._because = because
            self._partly[only] = self._partly.get(only, 0) + 1

    def pass_over(self) -> None:
        """The last run was no reason to stop: a gradient scaler has left out its step."""
        self._passed_over += 1
        self._said = "a gradient overflowed, and the gradient scaler left the step out"

    def passed_over(self) -> str:
        """How many runs since the last stop were no reason for one; empty: none."""
        if not self._passed_over:
            return ""
        why = "gradients overflowed, and a gradient scaler left the step out"
        return f"passed over {self._passed_over} run(s): {why}"

    def unseen(self) -> str:
        """What was passed over since the last stop, to follow a statement; empty: nothing."""
        count, what = sum(self._partly.values()), " and ".join(self._partly)
        passed_over = self.passed_over()
        text = f"; {passed_over}" if passed_over else ""
        if count:
            text += f"; in {count} run(s) only {what} were looked at"
            text += f" ({self._because or 'config set level ops looks at all'})"
        if self._are_calls:  # a training run has all that leads to the update
            text += f"; {_OUTSIDE}"
        return text

    def end(self) -> None:
        """A stop begins, or the program is at its end."""
        self.is_interrupted = False
        self._let_go()

    def _let_go(self) -> None:
        """Give back the handler of Ctrl-C; the UI shows no progress any more."""
        if self._keys is not None:
            keys, self._keys = self._keys, None
            keys.end()
        if self._has_handler:
            self._has_handler = False
            # The program may have installed its own in the meantime, and other threads can't.
            with contextlib.suppress(ValueError):
                if signal.getsignal(signal.SIGINT) == self._interrupt:
                    signal.signal(signal.SIGINT, self._before)
        if self._ui is not None:
            ui, self._ui = self._ui, None
            self._show(ui.stopped)

    def _show(self, show: Callable[..., None], *what: Any) -> None:
        try:
            show(*what)
        except Exception as error:  # a full disk, a terminal that is gone
            pass_on(error)
            self._ui = None
            tell(f"the progress of the program can't be shown: {one_line(error)}.")

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if not self.is_interrupted:
            self.is_interrupted = True
            if self._ui is not None:
                self._show(self._ui.refresh_progress)
            return
        before = self._before
        self.end()
        if callable(before):
            before(number, frame)
        elif before == signal.SIG_DFL:
            signal.raise_signal(number)

    def describe(self) -> str:
        """How far the program is, on one line. Called from other threads, too."""
        choice = self._choice
        assert choice is not None
        seconds = time.monotonic() - self._began
        if self.is_interrupted:
            again = self._ui.second_interrupt if self._ui is not None else ""
            return f"run #{self._run}: stopping at its end. Ctrl-C again {again}."
        parts = [f"run #{self._run}"]
        done = self._run - self._first
        if done and seconds > 0:
            parts.append(f"{done / seconds:.3g} runs/s")
        parts.append(_time(seconds))
        if choice.filter_name:
            parts.append(f"until {choice.filter_name}")
        elif 1 < choice.times < ALL_RUNS:
            parts.append(f"until run #{self._first + choice.times - 1}")
        parts.append("Ctrl-C: stop")
        if self._said:
            parts.append(self._said)
        return " | ".join(parts)


def _time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
