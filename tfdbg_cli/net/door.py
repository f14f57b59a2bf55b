"""A listening socket that lets in who has the token, beside any number of strangers."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable

from tfdbg_cli.common.interpreter.threads import OwnThread
from tfdbg_cli.net.address import lifted
from tfdbg_cli.net.wire import LostError, admit

__all__ = ["Door"]

# Who has a wrong token is let go only after this long.
_REFUSED_SECONDS = 1.0
# So many may be at the handshake. One more takes the place of the first of them: who has the token
# needs milliseconds, and gets in beside any number of connections that say nothing.
_MOST_STRANGERS = 64
# Between two connections: nobody tries more than 200 tokens a second.
_PAUSE_SECONDS = 0.005


class Door:
    """Accepts connections on a thread of its own, and meets each on another one.

    Args:
        listening: the socket; the door owns it.
        token: what a client must have, see `admit`.
        welcome: called with the socket of each client that has it; the connection ends when it
            returns.
    """

    def __init__(
        self,
        listening: socket.socket,
        token: str,
        welcome: Callable[[socket.socket], None],
    ) -> None:
        self._listening, self._token, self._welcome = listening, token, welcome
        # Those at the handshake, in the order in which they came.
        self._strangers: dict[socket.socket, None] = {}
        self._connections: set[socket.socket] = set()

    def open(self) -> None:
        """Accept connections from now on.

        Raises:
            OSError: there can be no more threads.
        """
        OwnThread(self._accept)

    def _accept(self) -> None:
        while True:
            try:
                # While it waits, accept holds the lowest descriptor, which is the program's.
                select.select([self._listening], [], [])
                accepted, _ = self._listening.accept()
                try:
                    connected = lifted(accepted)
                except OSError:
                    accepted.close()
                    raise
            except (OSError, ValueError):
                if self._listening.fileno() < 0:
                    return
                time.sleep(0.1)  # out of descriptors, or a connection that broke at once
                continue
            while len(self._strangers) >= _MOST_STRANGERS:
                self._turn_away()
            self._strangers[connected] = None
            self._connections.add(connected)
            try:
                OwnThread(self._meet, connected)
            except OSError:  # no more threads: there is no room for a client
                self._forget(connected)
            time.sleep(_PAUSE_SECONDS)

    def _turn_away(self) -> None:
        """End the handshake that has begun first; its thread notices."""
        with contextlib.suppress(StopIteration, RuntimeError, KeyError):  # one ends meanwhile
            first = next(iter(self._strangers))
            del self._strangers[first]
            with contextlib.suppress(OSError):
                first.shutdown(socket.SHUT_RDWR)

    def _meet(self, connected: socket.socket) -> None:
        try:
            try:
                is_friend = admit(connected, self._token)
                if not is_friend:
                    time.sleep(_REFUSED_SECONDS)
            finally:
                self._strangers.pop(connected, None)
            if is_friend:
                self._welcome(connected)
        except LostError:
            pass  # Port scanners, and clients that died, are nobody's business.
        finally:
            self._forget(connected)

    def _forget(self, connected: socket.socket) -> None:
        self._strangers.pop(connected, None)
        self._connections.discard(connected)
        with contextlib.suppress(OSError):
            connected.close()

    def close(self) -> None:
        """Let nobody in any more; who is in stays."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._listening.close()

    def abandon(self) -> None:
        """In a forked child: close its copies of the sockets, which are the parent's."""
        for held in (self._listening, *self._connections):
            with contextlib.suppress(OSError):
                held.close()
        self._connections.clear()
