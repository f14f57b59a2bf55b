"""What the debuggers of several ranks tell each other, as JSON, and the sockets for it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import selectors
import socket
import time
from typing import Any

from tfdbg_cli.commands.run.choices import ExitChoice, RunChoice
from tfdbg_cli.dumps.dump import RunError
from tfdbg_cli.net.wire import FROM_CLIENT, Channel, LostError
from tfdbg_cli.sessions.ranks.interface import Verdict

__all__ = [
    "RankLink",
    "action_of",
    "addresses",
    "close_local_connections",
    "message_of",
    "verdict_message",
    "verdict_of",
]

# Errors are shown on the leader's screen and needn't be there in full.
_LONGEST_ERROR = 4000


class RankLink:
    """A connection to the debugger of another rank.

    Args:
        connected: the socket, after the handshake.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._channel = Channel(connected, FROM_CLIENT)
        # Not select(), which takes no descriptors above 1023, and not epoll, which forks share.
        self._selector = getattr(selectors, "PollSelector", selectors.SelectSelector)()
        self._selector.register(connected, selectors.EVENT_READ)

    def send(self, **message: Any) -> bool:
        """Send a message; whether the other one is there."""
        try:
            self._channel.send(message)
        except (LostError, ValueError):
            return False
        return True

    def receive(self, seconds: float | None = None) -> dict[str, Any] | None:
        """The next message.

        Args:
            seconds: how long to wait; ``None``: as long as it takes, asleep.

        Returns:
            ``None``: there was none in time.

        Raises:
            LostError: the other one is gone.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            left = None if until is None else max(until - time.monotonic(), 0)
            try:
                ready = self._selector.select(left)
            except (OSError, ValueError) as error:
                raise LostError(str(error)) from None
            if ready:
                return self._channel.receive()
            if left is not None:
                return None

    def fileno(self) -> int:
        """The descriptor of the socket."""
        return self._socket.fileno()

    def finish(self) -> None:
        """End the connection when the other one has read what was sent, or after a second."""
        with contextlib.suppress(OSError, LostError):
            # What came and nobody has read would make the system drop what was sent.
            self._socket.shutdown(socket.SHUT_WR)
            while self.receive(1.0) is not None:
                pass
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._channel.close()

    def abandon(self) -> None:
        """Close this process's end alone, after a fork."""
        self._channel.abandon()


def close_local_connections(kept: int) -> None:
    """Shut down this process's TCP connections to processes of the same machine.

    For a process whose program has ended: gloo has no other way to tell the other ranks.

    Args:
        kept: the descriptor of the one connection to leave.
    """
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            if int(name) != kept:
                _shut_down_if_local(int(name))


def _shut_down_if_local(descriptor: int) -> None:
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as found:
        if found.family not in (socket.AF_INET, socket.AF_INET6):
            return
        if found.type == socket.SOCK_STREAM and found.getpeername()[0] == found.getsockname()[0]:
            found.shutdown(socket.SHUT_RDWR)


def message_of(action: Any) -> dict[str, Any]:
    """What a stop was left with (`RunChoice` or `ExitChoice`), for a message."""
    if isinstance(action, RunChoice):
        return {"run": dataclasses.asdict(action)}
    return {"exit": bool(isinstance(action, ExitChoice) and action.ends_program)}


def action_of(message: dict[str, Any]) -> RunChoice | ExitChoice:
    """The inverse of `message_of`."""
    fields = message.get("run")
    if isinstance(fields, dict):
        known = {field.name: field.default for field in dataclasses.fields(RunChoice)}
        return RunChoice(**{k: v for k, v in fields.items() if k in known and _fits(v, known[k])})
    return ExitChoice(bool(message.get("exit")))


def _fits(value: Any, default: Any) -> bool:
    """Whether a value is of the kind of a field with this default."""
    return isinstance(value, str | None) if default is None else type(value) is type(default)


def verdict_message(verdict: Verdict) -> dict[str, Any]:
    """A verdict for a message."""
    error = verdict.error
    return {
        "stops": verdict.stops,
        "passes": verdict.passes,
        "error": None
        if error is None
        else [error.type_name, error.message[:_LONGEST_ERROR], error.op_name],
    }


def verdict_of(message: dict[str, Any]) -> Verdict:
    """The inverse of `verdict_message`."""
    error = message.get("error")
    return Verdict(
        bool(message.get("stops")),
        bool(message.get("passes")),
        RunError(str(error[0]), str(error[1]), str(error[2]))
        if isinstance(error, list) and len(error) == 3
        else None,
    )


def addresses(is_local: bool) -> list[str]:
    """Where other processes may reach this machine, the likeliest first.

    Args:
        is_local: all of them are on this machine.
    """
    if is_local:
        return ["127.0.0.1"]
    found = [socket.gethostname()]
    with contextlib.suppress(OSError):
        found += sorted({str(info[4][0]) for info in socket.getaddrinfo(found[0], None)})
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # nothing is sent: only a route is looked up
        found.insert(0, str(probe.getsockname()[0]))
    return list(dict.fromkeys(found))
