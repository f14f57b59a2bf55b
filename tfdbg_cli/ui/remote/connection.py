"""The client's end of the connection: questions and answers, and what the program is at."""

from __future__ import annotations

import getpass
import itertools
import os
import platform
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.printable import printable
from tfdbg_cli.net.address import Address, connect
from tfdbg_cli.net.wire import (
    FROM_PROGRAM,
    HANDSHAKE_SECONDS,
    Channel,
    LostError,
    MalformedError,
    introduce,
)
from tfdbg_cli.ui.remote.codec import integer
from tfdbg_cli.ui.remote.requests import LONGEST

__all__ = [
    "Connection",
    "Disconnection",
    "OverError",
    "RunningProgram",
    "StopOverError",
    "StoppedProgram",
]

# How long a cancelled command may take to end before it is left behind.
_PATIENCE_SECONDS = 2.0

_MOST_RELEASED = 1_000


class StoppedProgram(NamedTuple):
    """The program is at a stop; the attributes are those of its service."""

    number: int
    title: str
    title_role: str
    prompt: str
    initial_command: str


class RunningProgram(NamedTuple):
    """The program runs; what it was told to run until, if that is worth a line."""

    announcement: str


class Disconnection(NamedTuple):
    """There is no connection any more.

    Attributes:
        why: ``end`` (of the program), ``detached``, ``replaced`` or ``lost``.
        text: the error that the program ended with, who came instead, or what broke.
    """

    why: str
    text: str


class OverError(Exception):
    """There is no connection any more."""


class StopOverError(Exception):
    """The program has left the stop that was asked about."""


class Connection:
    """A connection to a program.

    Args:
        address: where it listens.
        token: its token.
        take_over: take the place of a client that is there.

    Attributes:
        program: the program in words.
        history: command lines of the program's history that aren't known yet.
        is_leaving: the last answer gave control back, so the stop is over for us, too.

    Raises:
        UserError: it can't be attached to; the message says why.
    """

    def __init__(self, address: Address, token: str, *, take_over: bool = False) -> None:
        connected = connect(address, HANDSHAKE_SECONDS)
        try:
            introduce(connected, token)
        except BaseException:
            connected.close()
            raise
        self._channel = Channel(connected, FROM_PROGRAM)
        self._changed = threading.Condition()
        self._numbers = itertools.count(1)
        self._answers: dict[int, dict[str, Any]] = {}
        self._expected: set[int] = set()
        self._progress = ""
        self._asked = 0.0
        #: Documents that nobody has any more; the program is told at the next occasion.
        self.released: deque[int] = deque()
        #: Rises when a command may have changed how lines look that are here already.
        self.looks = 0
        self.history: list[str] = []
        self.is_leaving = False
        self.on_parted: Callable[[], None] = lambda: None
        #: What the program is at, and how often that has changed.
        self.state: StoppedProgram | RunningProgram | Disconnection = RunningProgram("")
        self.version = 0
        self.program = self._enter(take_over)
        try:
            threading.Thread(target=self._read, name="tfdbg reader", daemon=True).start()
        except RuntimeError as error:  # there are too many
            self._channel.close()
            raise UserError(f"Nobody can listen to the program: {error}.") from None

    def _enter(self, take_over: bool) -> str:
        try:
            self._channel.send({"hello": _who(), "take_over": take_over})
            message = self._channel.receive()
            busy = message.get("busy")
            if busy is not None:
                raise UserError(
                    f"Somebody is attached: {printable(str(busy))}.",
                    "attach --take-over takes their place.",
                )
            program = printable(str(message["welcome"]))
            self._event(message)
        except (LostError, KeyError) as error:
            self._channel.close()
            raise UserError(f"The program didn't let us in: {error}.") from None
        except BaseException:
            self._channel.close()
            raise
        return program

    # What comes.

    def _read(self) -> None:
        try:
            while not isinstance(self.state, Disconnection):
                message = self._channel.receive()
                number = message.get("id")
                if number is None:
                    self._event(message)
                else:
                    self._answered(number, message)
        except (LostError, OSError) as error:
            self._part(Disconnection("lost", str(error)))

    def _answered(self, number: Any, message: dict[str, Any]) -> None:
        with self._changed:
            if isinstance(number, int) and number in self._expected:
                result = message.get("result")
                if isinstance(result, dict) and result.get("leave"):
                    self.is_leaving = True
                self._answers[number] = message
                self._changed.notify_all()

    def _event(self, message: dict[str, Any]) -> None:
        try:
            if "progress" in message:
                self._progress = printable(str(message["progress"]))
            elif "stop" in message:
                texts = ("title", "title_role", "prompt", "initial_command")
                with self._changed:
                    self.history += [str(text) for text in message["history"]]
                    self._change(
                        StoppedProgram(
                            integer(message["stop"]), *(printable(str(message[t])) for t in texts)
                        )
                    )
            elif "running" in message:
                self._progress = ""
                self._change(RunningProgram(printable(str(message["running"]))))
            else:
                for why in ("end", "detached", "replaced"):
                    if why in message:
                        self._part(Disconnection(why, printable(str(message[why]))))
        except (TypeError, ValueError, KeyError) as error:
            raise MalformedError(f"an event: {error!r}") from None

    def _change(self, state: StoppedProgram | RunningProgram | Disconnection) -> None:
        with self._changed:
            self.state = state
            self.version += 1
            if isinstance(state, StoppedProgram):
                self.is_leaving = False
            self._changed.notify_all()

    def _part(self, last: Disconnection) -> None:
        with self._changed:
            if isinstance(self.state, Disconnection):
                return
            self._change(last)
        self._channel.close()
        if not self.is_leaving:
            self.on_parted()

    # What goes.

    def seen(self) -> tuple[int, StoppedProgram | RunningProgram | Disconnection]:
        """The version and the state that belong together."""
        with self._changed:
            return self.version, self.state

    def wait(self, version: int, seconds: float | None = None) -> None:
        """Wait until something has changed since a `version`, or for so many seconds."""
        until = None if seconds is None else time.monotonic() + seconds
        with self._changed:
            while self.version == version:
                left = 60.0 if until is None else until - time.monotonic()
                if left <= 0:
                    return
                self._wait(left)

    def cancel(self) -> None:
        """Cancel whatever is asked for, as a Ctrl-C does for the thread that waits for it."""
        with self._changed:
            numbers = [*self._expected]
        for number in numbers:
            self.notify("interrupt", request=number)

    def _wait(self, seconds: float = 60.0) -> None:
        # Where signals don't interrupt a lock, they are looked for now and then.
        self._changed.wait(seconds if os.name == "posix" else min(seconds, 0.2))

    def call(self, stop: int, name: str, /, **arguments: Any) -> Any:
        """Ask for something and wait for the answer.

        A Ctrl-C cancels what is asked for.

        Args:
            stop: the stop that is asked about.
            name: of the request.
            arguments: of the request.

        Raises:
            UserError: what the program says is wrong.
            StopOverError: the program has left that stop.
            OverError: the connection is over.
            KeyboardInterrupt: it was cancelled.
        """
        if any(isinstance(value, str) and len(value) > LONGEST for value in arguments.values()):
            raise UserError(f"That is more than {LONGEST} characters, too long to be sent.")
        number = next(self._numbers)
        with self._changed:
            if isinstance(self.state, Disconnection):
                raise OverError(self.state.text)
            self._expected.add(number)
        try:
            self._release(stop)
            self._send({"id": number, "at": stop, "do": name, **arguments})
            try:
                return self._result(number, None)
            except KeyboardInterrupt:
                self.notify("interrupt", request=number)
                # It may be too late to cancel it: then it counts.
                return self._result(number, time.monotonic() + _PATIENCE_SECONDS)
        finally:
            with self._changed:
                self._expected.discard(number)
                self._answers.pop(number, None)

    def _release(self, stop: int) -> None:
        numbers = [self.released.popleft() for _ in range(min(len(self.released), _MOST_RELEASED))]
        if numbers:
            self._send({"at": stop, "do": "release", "documents": numbers})

    def _result(self, number: int, until: float | None) -> Any:
        with self._changed:
            while number not in self._answers:
                if isinstance(self.state, Disconnection):
                    raise OverError(self.state.text)
                left = 60.0 if until is None else until - time.monotonic()
                if left <= 0:
                    raise KeyboardInterrupt
                self._wait(left)
            answer = self._answers[number]
        if "over" in answer:
            raise StopOverError
        if "cancelled" in answer:
            raise KeyboardInterrupt
        if "error" in answer:
            raise UserError(
                printable(str(answer["error"])), printable(str(answer.get("hint") or ""))
            )
        return answer.get("result")

    def notify(self, name: str, stop: int = 0, /, **arguments: Any) -> None:
        """Say something that has no answer; nothing happens where there is no connection."""
        try:
            self._send({"at": stop, "do": name, **arguments})
        except OverError:
            pass

    def request_stop(self) -> None:
        """Ask for the program's next stop; it runs, or is leaving the last one that we know."""
        state = self.state
        self.notify("stop", state.number if isinstance(state, StoppedProgram) else 0)

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._channel.send(message)
        except (LostError, ValueError) as error:
            raise OverError(str(error)) from None

    def progress(self) -> str:
        """How far the program is, as it has said last; it is asked again."""
        now = time.monotonic()
        if now - self._asked > 0.2:
            self._asked = now
            self.notify("progress")
        return self._progress

    def break_off(self, why: str) -> None:
        """End the connection, because what the program says makes no sense."""
        self._part(Disconnection("lost", why))

    def close(self) -> None:
        """End the connection."""
        self.is_leaving = True
        self._part(Disconnection("detached", ""))


def _who() -> str:
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):
        user = "somebody"
    return f"{user}@{platform.node()} (pid {os.getpid()})"
