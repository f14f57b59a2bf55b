"""The door of a program that listens: accepts connections and lets in who has the token."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable

from tfdbg_cli.common.streams import tell
from tfdbg_cli.common.threads import OwnThread
from tfdbg_cli.net.address import Address, bind, lifted, parse_address
from tfdbg_cli.net.tokens import Ticket, write_ticket
from tfdbg_cli.net.wire import FROM_CLIENT, Channel, LostError, admit

__all__ = ["Listener"]

# Who has a wrong token is let go only after this long, and so many may try at a time.
_REFUSED_SECONDS = 1.0
_MOST_STRANGERS = 8

_SERIOUS = """\
others can reach {address}: whoever gets hold of the token can run code here, and what is sent can \
be read on the way. An ssh tunnel to a port of this machine is safer."""


class Listener:
    """A listening socket with its token file, and the thread that answers there.

    Args:
        address: where to listen, as `parse_address` takes it.
        program: what runs here, for the token file.

    Attributes:
        address: where it listens in the end: another port if that one was taken, or was 0.

    Raises:
        UserError: it can't listen there.
    """

    def __init__(self, address: str, program: str) -> None:
        wanted = parse_address(address)
        made, self.address = bind(wanted)
        self._socket = lifted(made)
        try:
            self._ticket: Ticket = write_ticket(self.address, f"{os.getpid()} {program}")
        except BaseException:
            self._socket.close()
            raise
        self._process = os.getpid()
        self._strangers = threading.BoundedSemaphore(_MOST_STRANGERS)
        self._connections: set[socket.socket] = set()
        if wanted.port not in (0, self.address.port):
            tell(f"port {wanted.port} is taken; listening at {self.address.port}.")
        if not wanted.is_private:
            tell(_SERIOUS.format(address=self.address))

    @property
    def invitation(self) -> str:
        """The command that attaches to this program."""
        shown = self.address
        if not shown.path and not shown.host:  # every interface
            shown = Address(socket.gethostname(), shown.port)
        return f"python -m tfdbg_cli attach {shown}"

    def start(self, welcome: Callable[[Channel], None]) -> None:
        """Accept connections from now on.

        Args:
            welcome: called with each client that has the token, in a thread of its own; the
                connection ends when it returns.
        """
        OwnThread(self._accept, welcome)

    def _accept(self, welcome: Callable[[Channel], None]) -> None:
        while True:
            try:
                connected, _ = self._socket.accept()
            except OSError:
                if self._socket.fileno() < 0:
                    return
                time.sleep(0.1)  # out of descriptors, or a connection that broke at once
                continue
            if not self._strangers.acquire(blocking=False):
                connected.close()
                continue
            connected = lifted(connected)
            self._connections.add(connected)
            try:
                OwnThread(self._meet, connected, welcome)
            except RuntimeError:  # no more threads: there is no room for a client
                self._strangers.release()
                self._forget(connected)

    def _meet(self, connected: socket.socket, welcome: Callable[[Channel], None]) -> None:
        try:
            try:
                is_friend = admit(connected, self._ticket.token)
                if not is_friend:
                    time.sleep(_REFUSED_SECONDS)
            finally:
                self._strangers.release()
            if is_friend:
                channel = Channel(connected, FROM_CLIENT)
                try:
                    welcome(channel)
                finally:
                    channel.close()
        except LostError:
            pass  # Port scanners, and clients that died, are nobody's business.
        finally:
            self._forget(connected)

    def _forget(self, connected: socket.socket) -> None:
        self._connections.discard(connected)
        with contextlib.suppress(OSError):
            connected.close()

    def close(self) -> None:
        """Listen no more, and remove the token file; not in a forked child."""
        if os.getpid() != self._process:
            return
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with contextlib.suppress(OSError):
            # Another program may have the port by now, and its own file of this name.
            if self._ticket.path.read_text(encoding="utf-8").startswith(self._ticket.token):
                self._ticket.path.unlink()
        if self.address.path:
            with contextlib.suppress(OSError):
                os.unlink(self.address.path)

    def abandon(self) -> None:
        """In a forked child: close its copies of the sockets, which are the parent's."""
        for held in (self._socket, *self._connections):
            with contextlib.suppress(OSError):
                held.close()
        self._connections.clear()
