"""Messages over a socket: JSON objects behind their length, after both sides proved the token.

The handshake keeps its layout in every version of the protocol::

    program -> client   b"TFDBG", version (2 bytes), nonce (32 bytes)
    client -> program   b"TFDBG", version (2 bytes), nonce (32 bytes), HMAC-SHA256 (32 bytes)
    program -> client   HMAC-SHA256 (32 bytes)

Both codes are made with the token as the key over the two greetings, so the token itself never
crosses the wire, and neither side talks to somebody who doesn't have it. After that each message is
a length (4 bytes) and so many bytes of JSON. All numbers are big-endian.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import socket
import struct
import threading
import time
from collections.abc import Mapping
from typing import Any

from tfdbg_cli.common.errors import UserError

__all__ = [
    "FROM_CLIENT",
    "FROM_PROGRAM",
    "HANDSHAKE_SECONDS",
    "VERSION",
    "Channel",
    "LostError",
    "MalformedError",
    "admit",
    "decode",
    "introduce",
]

#: The version of the protocol. Both sides must have the same one.
VERSION = 2

#: The longest messages, in bytes.
FROM_CLIENT, FROM_PROGRAM = 1 << 20, 16 << 20

#: How long the handshake may take.
HANDSHAKE_SECONDS = 5.0

# The other side must take or give the next bytes of a message within so many seconds.
_STALLED_SECONDS = 20.0

_MAGIC = b"TFDBG"
_NONCE = _CODE = 32
_GREETING = struct.Struct(f">{len(_MAGIC)}sH{_NONCE}s")
_LENGTH = struct.Struct(">I")


class LostError(Exception):
    """The other side is gone, or no longer one to talk with."""


class MalformedError(LostError):
    """The other side sent what is no message of the protocol."""


def decode(data: bytes) -> dict[str, Any]:
    """One message from its bytes.

    Raises:
        MalformedError: they are no JSON object.
    """
    try:
        found = json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"no JSON: {error}") from None
    if not isinstance(found, dict):
        raise MalformedError("no JSON object")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


class Channel:
    """A connected socket that carries messages. Any thread may send, one receives.

    Args:
        connected: the socket; the channel owns it.
        longest: the most bytes of a message that is received.
    """

    def __init__(self, connected: socket.socket, longest: int) -> None:
        self._socket = connected
        self._longest = longest
        self._sending = threading.Lock()
        self._is_closed = False
        connected.settimeout(_STALLED_SECONDS)
        _detect_death(connected)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message.

        Raises:
            LostError: the other side is gone, or doesn't take it.
            ValueError: the message is too long; nothing was sent.
        """
        data = json.dumps(message, separators=(",", ":")).encode("ascii")
        if len(data) > FROM_PROGRAM:
            raise ValueError(f"a message of {len(data)} bytes")
        view = memoryview(_LENGTH.pack(len(data)) + data)
        with self._sending:
            try:
                while view:
                    view = view[self._socket.send(view) :]
            except OSError as error:
                self.close()  # half a message has no other half
                raise LostError(str(error)) from None
            except BaseException:
                self.close()
                raise

    def receive(self) -> dict[str, Any]:
        """The next message, whenever it comes.

        Raises:
            LostError: the other side is gone.
            MalformedError: what it sent is no message, or too long a one.
        """
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size, may_wait=True))
        if length > self._longest:
            raise MalformedError(f"a message of {length} bytes")
        return decode(self._read(length))

    def _read(self, count: int, may_wait: bool = False) -> bytes:
        data = bytearray()
        while len(data) < count:
            try:
                part = self._socket.recv(min(count - len(data), 1 << 16))
            except TimeoutError:
                if may_wait and not data and not self._is_closed:
                    continue
                raise LostError("the other side stalled") from None
            except OSError as error:
                raise LostError(str(error)) from None
            if not part:
                raise LostError("the other side closed the connection")
            data += part
        return bytes(data)

    def close(self) -> None:
        """End the connection; whoever waits for a message is told."""
        self._is_closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self.abandon()

    def abandon(self) -> None:
        """Close this process's end alone: what a forked child does with its parent's."""
        with contextlib.suppress(OSError):
            self._socket.close()


def _detect_death(connected: socket.socket) -> None:
    """Let the system notice within a minute that the other machine has vanished."""
    with contextlib.suppress(OSError):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if connected.family in (socket.AF_INET, socket.AF_INET6):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for name, value in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 4)):
                option = getattr(socket, name, None)
                if option is not None:
                    connected.setsockopt(socket.IPPROTO_TCP, option, value)


# The handshake.


def _take(connected: socket.socket, count: int, until: float) -> bytes:
    """So many bytes, all of them before a moment of the monotonic clock."""
    data = b""
    while len(data) < count:
        left = until - time.monotonic()
        if left <= 0:
            raise LostError("the handshake took too long")
        connected.settimeout(left)
        try:
            part = connected.recv(count - len(data))
        except OSError as error:
            raise LostError(str(error)) from None
        if not part:
            raise LostError("the other side closed the connection")
        data += part
    return data


def _put(connected: socket.socket, data: bytes) -> None:
    connected.settimeout(HANDSHAKE_SECONDS)
    try:
        connected.sendall(data)
    except OSError as error:
        raise LostError(str(error)) from None


def _code(token: str, side: bytes, greetings: bytes) -> bytes:
    return hmac.digest(token.encode("ascii"), side + greetings, "sha256")


def admit(connected: socket.socket, token: str) -> bool:
    """The program's side of the handshake.

    Args:
        connected: a new connection.
        token: what the client must have.

    Returns:
        Whether the client has it, and speaks this version. If not, it has been told nothing.

    Raises:
        LostError: it went away, said something else, or took too long.
    """
    until = time.monotonic() + HANDSHAKE_SECONDS
    ours = _GREETING.pack(_MAGIC, VERSION, secrets.token_bytes(_NONCE))
    _put(connected, ours)
    answer = _take(connected, _GREETING.size + _CODE, until)
    theirs, code = answer[: _GREETING.size], answer[_GREETING.size :]
    if not hmac.compare_digest(code, _code(token, b"client", ours + theirs)):
        return False
    magic, version, _ = _GREETING.unpack(theirs)
    if magic != _MAGIC or version != VERSION:
        return False
    _put(connected, _code(token, b"program", ours + theirs))
    return True


def introduce(connected: socket.socket, token: str) -> None:
    """The client's side of the handshake.

    Raises:
        UserError: that is no program that listens for us, or the token is not the program's.
    """
    until = time.monotonic() + HANDSHAKE_SECONDS
    try:
        theirs = _take(connected, _GREETING.size, until)
    except LostError as error:
        raise UserError(
            f"The program didn't answer: {error}.", "Is it another service that listens there?"
        ) from None
    magic, version, _ = _GREETING.unpack(theirs)
    if magic != _MAGIC:
        raise UserError("The program that listens there isn't under tfdbg.")
    if version != VERSION:
        raise UserError(
            f"The program speaks version {version} of the protocol, and this tfdbg {VERSION}.",
            "Use the same version of tfdbg_cli as the program.",
        )
    ours = _GREETING.pack(_MAGIC, VERSION, secrets.token_bytes(_NONCE))
    try:
        _put(connected, ours + _code(token, b"client", theirs + ours))
        code = _take(connected, _CODE, until)
    except LostError:
        raise UserError("The program refused the token.", "Is this its token file?") from None
    if not hmac.compare_digest(code, _code(token, b"program", theirs + ours)):
        raise UserError("The program that listens there has another token.")
