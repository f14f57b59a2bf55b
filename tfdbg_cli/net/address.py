"""Where a program listens: a port of this machine, of another one, or a Unix socket."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import socket
import stat
import sys
from dataclasses import dataclass, replace

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.streams import high_copy

__all__ = ["BACKLOG", "Address", "bind", "connect", "is_listening", "lifted", "parse_address"]

_UNIX = "unix:"
_PORT = re.compile(r"[0-9]{1,5}")
_LOOPBACK = "127.0.0.1"
_EVERYWHERE = {"*": "", "0.0.0.0": "0.0.0.0", "::": "::"}

#: How many ports after a taken one are tried: enough for the ranks of one machine.
_PORTS_TRIED = 64

#: How many connections may wait to be accepted.
BACKLOG = 128


@dataclass(frozen=True)
class Address:
    """A TCP port or a Unix socket.

    Attributes:
        host: name or number; empty: every interface.
        port: 0 to 65535; 0 lets the system choose.
        path: of a Unix socket; empty: it is a port.
    """

    host: str = _LOOPBACK
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"{_UNIX}{self.path}"
        if self.host == _LOOPBACK:
            return str(self.port)
        host = f"[{self.host}]" if ":" in self.host else self.host or "*"
        return f"{host}:{self.port}"

    @property
    def is_private(self) -> bool:
        """Whether only this machine can reach it."""
        if self.path:
            return True
        if not self.host:
            return False
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except OSError:
            return False
        return all(ipaddress.ip_address(str(entry[4][0])).is_loopback for entry in found)


def parse_address(text: str) -> Address:
    """Read ``PORT``, ``HOST:PORT``, ``[IPV6]:PORT`` or ``unix:PATH``.

    Raises:
        UserError: it is none of these.
    """
    text = text.strip()
    if text.startswith(_UNIX):
        path = text.removeprefix(_UNIX)
        if not path:
            raise UserError(f"{_UNIX} needs the path of a socket.", f"Write {_UNIX}/tmp/my.sock.")
        return Address("", 0, os.path.abspath(os.path.expanduser(path)))
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise UserError(f'"{text}" is not an address.', "An IPv6 address stands in [ ].")
    if not _PORT.fullmatch(port) or int(port) > 65535 or (colon and not host):
        raise UserError(f'"{text}" is not an address.', "Write PORT, HOST:PORT or unix:PATH.")
    return Address(_EVERYWHERE.get(host, host) if colon else _LOOPBACK, int(port))


def lifted(found: socket.socket) -> socket.socket:
    """The same socket on a descriptor above those that a program counts on."""
    number = high_copy(found.fileno())
    if number < 0:
        return found
    found.close()
    try:
        return socket.socket(fileno=number)
    except OSError:
        os.close(number)
        raise


def bind(address: Address) -> tuple[socket.socket, Address]:
    """Listen at an address.

    A port that is taken gives way to one of the next ones: several ranks of a job are started with
    the same command line.

    Returns:
        The listening socket, and where it listens.

    Raises:
        UserError: that isn't possible.
    """
    if address.path:
        return _bind_unix(address.path), address
    try:
        found = socket.getaddrinfo(
            address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise UserError(f"{address.host} is not a host to listen at: {error}.") from None
    family, kind, protocol, _, where = found[0]
    last = min(address.port + _PORTS_TRIED, 65536) if address.port else 1
    problem: OSError | None = None
    for port in range(address.port, last):
        made = socket.socket(family, kind, protocol)
        try:
            # The port of a program that has just ended is free; one in use isn't shared.
            if sys.platform == "win32":
                made.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
            else:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((where[0], port, *where[2:]))
            made.listen(BACKLOG)
        except OSError as error:
            made.close()
            problem = problem or error
            continue
        return made, replace(address, port=int(made.getsockname()[1]))
    raise UserError(
        f"The debugger can't listen at {address}: {problem}.", "Port 0 takes any that is free."
    )


def _bind_unix(path: str) -> socket.socket:
    family = _unix_family()
    with contextlib.suppress(OSError):
        if stat.S_ISSOCK(os.stat(path, follow_symlinks=False).st_mode):
            _remove_stale(path, family)
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.bind(path)
        # Nobody can connect before listen, so there is no moment when others could.
        os.chmod(path, 0o600)
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise UserError(f"The debugger can't listen at {_UNIX}{path}: {error}.") from None
    return made


def _remove_stale(path: str, family: int) -> None:
    """Remove the socket of a program that was killed; leave that of a living one alone."""
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)


def _unix_family() -> int:
    if sys.platform == "win32" or not hasattr(socket, "AF_UNIX"):
        raise UserError("There are no Unix sockets here.", "Use a port.")
    return int(socket.AF_UNIX)


def is_listening(address: Address) -> bool:
    """Whether anybody listens there, as far as can be told."""
    try:
        connect(address, 1.0).close()
    except UserError as error:
        return not isinstance(error.__context__, ConnectionRefusedError | FileNotFoundError)
    return True


def connect(address: Address, seconds: float) -> socket.socket:
    """Connect to an address.

    Raises:
        UserError: nobody listens there, or it can't be reached within so many seconds.
    """
    try:
        if address.path:
            made = socket.socket(_unix_family(), socket.SOCK_STREAM)
            try:
                made.settimeout(seconds)
                made.connect(address.path)
            except OSError:
                made.close()
                raise
            return made
        return socket.create_connection((address.host or _LOOPBACK, address.port), seconds)
    except OSError as error:
        why = "it can't be reached in time" if isinstance(error, TimeoutError) else error.strerror
        raise UserError(
            f"There is no program to attach to at {address}: {why or error}.",
            "Is it running, with --listen?",
        ) from None
