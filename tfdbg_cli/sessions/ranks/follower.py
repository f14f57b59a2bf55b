"""A follower's side: one connection to the leader, read on the thread that has a reason to."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from typing import Any

from tfdbg_cli.commands.run.choices import ExitChoice
from tfdbg_cli.common.streams import tell
from tfdbg_cli.net.wire import HANDSHAKE_SECONDS, LostError, introduce
from tfdbg_cli.sessions.ranks.interface import Verdict
from tfdbg_cli.sessions.ranks.messages import (
    RankLink,
    action_of,
    close_local_connections,
    verdict_message,
)

__all__ = ["Follower"]

# How long the leader is waited for that isn't known to be in the same run, or to stop.
_PATIENCE = 5.0
# The same at the first run: until then one rank may have much more to do than another.
_FIRST_PATIENCE = 30.0
# The same in any case, and for the stop that it has said it comes to, with the dumps of all ranks.
_LONGEST_WAIT = 60.0
_LONGEST_FOLLOW = 600.0


class Follower:
    """Does as the leader does, and tells it what it sees.

    Args:
        rank: this one.
        address: what the leader has left at the meeting.

    Raises:
        OSError, UserError, LostError, ValueError, KeyError: the leader can't be reached.
    """

    def __init__(self, rank: int, address: str) -> None:
        self.rank = rank
        self._link: RankLink | None = _connect(json.loads(address))
        self._link.send(**{"is": "hello", "rank": rank, "host": socket.gethostname()})
        self._state: dict[str, Any] = {"number": 0, "stopped": False, "action": None}
        self._taken = 0
        self._gave_up = -1  # the leader's state in which it was waited for in vain
        self._run = ""
        self._verdicts: dict[str, dict[str, Any]] = {}
        self._apart: set[str] = set()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._abandon)

    @property
    def is_led(self) -> bool:
        """Whether the leader is there."""
        return self._link is not None

    def _read(self, seconds: float | None) -> bool:
        """Take in one message; whether there was one, or the leader is gone, which is news too."""
        if self._link is None:
            return False
        try:
            message = self._link.receive(seconds)
        except LostError:
            self._lose()
            return True
        if message is None:
            return False
        kind = message.get("is")
        if kind == "state":
            if type(message.get("number")) is int:
                self._state = {"stopped": False, "action": None, **message}
        elif kind == "open":
            self._run = str(message.get("run", ""))
        elif kind == "verdict":
            self._verdicts = {str(message.get("run", "")): message}
        elif kind == "bye":  # it is at its end, or has said why it goes on without us
            self._be_alone()
        return True

    def _lose(self) -> None:
        """The leader has gone without a word."""
        if self._link is not None:
            tell(
                "the leading rank is gone, or the connection to it: "
                f"rank {self.rank} goes on without stops."
            )
        self._be_alone()

    def _be_alone(self) -> None:
        """Without a leader the program goes on as if the person had left the debugger."""
        if self._link is not None:
            self._link.close()
        self._link = None
        number = int(self._state["number"]) + 1
        self._state = {"number": number, "stopped": False, "action": {"exit": False}}

    def _drain(self) -> None:
        while self._read(0):
            pass

    @property
    def _has_news(self) -> bool:
        return int(self._state["number"]) > self._taken

    def news(self) -> bool:
        """Whether the leader has stopped or chosen since this one last did as it said."""
        self._drain()
        return self._has_news

    def may_stop(self) -> bool:
        """Whether the leader stops, or has chosen what isn't done yet; waits a little for that."""
        self._drain()
        number = int(self._state["number"])
        if self._has_news or self._gave_up == number or not self.is_led:
            return self._has_news
        until = time.monotonic() + (_PATIENCE if number else _FIRST_PATIENCE)
        while not self._has_news and (left := until - time.monotonic()) > 0:
            self._read(left)
        if not self._has_news:
            self._gave_up = number
        return self._has_news

    def follow(self) -> Any:
        """Wait for the choice of the stop that the leader is at, or comes to."""
        until = time.monotonic() + _LONGEST_FOLLOW
        while self.is_led and (self._state["stopped"] or not self._has_news):
            if self._state["stopped"]:  # a person looks
                self._read(None)
            elif (left := until - time.monotonic()) > 0:
                self._read(left)
            else:
                return ExitChoice()
        self._taken = int(self._state["number"])
        message = self._state["action"]
        return action_of(message) if isinstance(message, dict) else ExitChoice()

    @property
    def settings(self) -> dict[str, Any]:
        """The leader's settings at its last choice."""
        found = self._state.get("settings")
        return found if isinstance(found, dict) else {}

    def opened(self, run: str) -> None:
        """This rank is in a debugged run."""
        self._send({"is": "open", "run": run})

    def agree(self, run: str, verdict: Verdict) -> dict[str, Any] | None:
        """Say what came of a run and wait for what the leader makes of it.

        Returns:
            Its message; ``None``: it doesn't have this run, is gone, or can't answer.
        """
        self._send({"is": "end", "run": run, **verdict_message(verdict)})
        if verdict.error is not None:
            return None  # the leader may hang in a collective until this process has ended
        kind = run.rpartition(" ")[0]
        self._drain()
        began = time.monotonic()
        until = began + (0 if kind in self._apart else _PATIENCE)
        while self.is_led and run not in self._verdicts:
            now = time.monotonic()
            if self._state["stopped"]:  # a person looks
                self._read(None)
                began, until = now, now + _PATIENCE
            elif self._run == run:
                if now - began > _LONGEST_WAIT:  # it may wait for this rank, in a collective
                    self.tell_dump(run, "", "was not waited for: the rank went on")
                    return None
                self._read(_LONGEST_WAIT + began - now)
                until = max(until, time.monotonic() + _PATIENCE)
            elif until > now:
                self._read(until - now)
            else:
                self._apart.add(kind)
                return None
        return self._verdicts.get(run)

    def tell_dump(self, run: str, path: str, text: str = "") -> None:
        """Where this rank's part of the run is, or why it is nowhere."""
        self._send({"is": "dump", "run": run, "path": path or None, "text": text})

    def tell_place(self, run: str, text: str) -> None:
        """Where this rank is, in a run that takes long. May be called on any thread."""
        link = self._link
        if link is not None:
            link.send(**{"is": "place", "run": run, "text": text})

    def tell_alive(self) -> None:
        """This rank is at work on what it was asked for. May be called on any thread."""
        link = self._link
        if link is not None:
            link.send(**{"is": "alive"})

    def linger(self) -> None:
        """After an error: stay until the leader has looked at it, unless it doesn't come to that.

        A launcher ends all ranks as soon as one of them has ended with an error. Until then the
        leader may wait for this rank in a collective: what the end of this process is going to
        close is closed now.
        """
        if self._link is not None:
            close_local_connections(self._link.fileno())
        until = time.monotonic() + _PATIENCE
        self._drain()
        while self.is_led and (left := until - time.monotonic()) > 0:
            if self._state["stopped"]:
                self._read(None)
                until = time.monotonic()
            else:
                self._read(left)

    def leave(self, farewell: str) -> None:
        """This rank is at its end, and how."""
        if self._link is not None:
            self._link.send(**{"is": "bye", "text": farewell})
            self._link.finish()
            self._link = None

    def _send(self, message: dict[str, Any]) -> None:
        if self._link is not None and not self._link.send(**message):
            self._lose()

    def _abandon(self) -> None:
        if self._link is not None:
            self._link.abandon()
        self._link = None


def _connect(place: dict[str, Any]) -> RankLink:
    """A connection to the leader.

    Raises:
        OSError, UserError, LostError, KeyError: it can't be had.
    """
    last: OSError | None = None
    for host in place["hosts"]:
        try:
            connected = socket.create_connection((host, int(place["port"])), HANDSHAKE_SECONDS)
        except OSError as error:
            last = error
            continue
        try:
            introduce(connected, str(place["token"]))
        except BaseException:
            with contextlib.suppress(OSError):
                connected.close()
            raise
        return RankLink(connected)
    raise last or OSError("the leader has no address")
