"""The door of a program that listens: accepts connections and lets in who has the token."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable

from tfdbg_cli.common.streams import tell
from tfdbg_cli.net.address import Address, bind, lifted, parse_address
from tfdbg_cli.net.door import Door
from tfdbg_cli.net.tokens import Ticket, write_ticket
from tfdbg_cli.net.wire import FROM_CLIENT, Channel

__all__ = ["Listener"]

_SERIOUS = """\
others can reach {address}: whoever gets the token can run code here, and messages can be read on \
the way. An ssh tunnel to a port of this machine is safer."""


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
        self._door: Door | None = None
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

        def enter(connected: socket.socket) -> None:
            channel = Channel(connected, FROM_CLIENT)
            try:
                welcome(channel)
            finally:
                channel.close()

        self._door = Door(self._socket, self._ticket.token, enter)
        self._door.open()

    def close(self) -> None:
        """Listen no more, and remove the token file; not in a forked child."""
        if os.getpid() != self._process:
            return
        if self._door is not None:
            self._door.close()
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
        if self._door is not None:
            self._door.abandon()
        with contextlib.suppress(OSError):
            self._socket.close()
