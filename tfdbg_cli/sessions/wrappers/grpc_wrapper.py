"""A wrapper session that sends its runs to another process: `tensorflow.sessions.grpc`."""

from __future__ import annotations

import re
import socket
import threading
import time
from typing import Any

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.streams import tell
from tfdbg_cli.sessions.wrappers.abilities import StreamsTensors
from tfdbg_cli.sessions.wrappers.dumping import NonInteractiveDebugWrapperSession, WatchFn
from tfdbg_cli.sessions.wrappers.requests import (
    OnRunStartAction,
    OnRunStartRequest,
    OnRunStartResponse,
)

__all__ = ["GrpcDebugWrapperSession", "GrpcReceivers"]

_PREFIX = "grpc://"
_PROBE_SECONDS = 5.0
# A receiver that has left is looked for again after so many seconds.
_PAUSE = 10.0


class GrpcReceivers:
    """Where runs are sent, and whether anybody is there.

    The runtime waits for minutes, or for ever, where nobody listens; so each address is tried
    before a run.

    Args:
        addresses: ``host:port``, with or without ``grpc://`` in front; one or a list.

    Attributes:
        urls: all of them, with ``grpc://``.

    Raises:
        TypeError: the addresses are neither a ``str`` nor a ``list`` of ``str``.
    """

    def __init__(self, addresses: Any) -> None:
        name = "grpc_debug_server_addresses"
        if not isinstance(addresses, str | list):
            raise TypeError(f"Expected type str or list in {name}, received type {type(addresses)}")
        self.urls: list[str] = []
        for address in [addresses] if isinstance(addresses, str) else addresses:
            if not isinstance(address, str):
                raise TypeError(f"Expected type str in list {name}, received type {type(address)}")
            self.urls.append(address if address.startswith(_PREFIX) else _PREFIX + address)
        self._lock = threading.Lock()
        self._was_there = False
        self._retry_at = 0.0

    def are_there(self) -> bool:
        """Whether all can be reached.

        Once a run was sent, a receiver that has left doesn't keep the program from its work: that
        is said on stderr, and the runs go on undebugged until it is back.

        Raises:
            UserError: one can't be, and no run was sent before.
        """
        with self._lock:
            if time.monotonic() < self._retry_at:
                return False
            try:
                for url in self.urls:
                    _probe(url)
            except UserError as error:
                if not self._was_there:
                    raise
                if not self._retry_at:
                    tell(f"{error.message} The program runs on undebugged.")
                self._retry_at = time.monotonic() + _PAUSE
                return False
            self._was_there, self._retry_at = True, 0.0
            return True


def _probe(url: str) -> None:
    address = url.removeprefix(_PREFIX).partition("/")[0]
    host, _, port = address.rpartition(":")
    if not host or not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        raise UserError(f'"{url}" is not an address of a debug server.', "Write HOST:PORT.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PROBE_SECONDS).close()
    except OSError as error:
        why = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        raise UserError(
            f"Nobody receives runs at {address}: {why}.",
            f'Start "python -m tfdbg_cli --grpc {port}" there first.',
        ) from None


class GrpcDebugWrapperSession(NonInteractiveDebugWrapperSession):
    """Sends the tensors of each run to a debugger in another process, on this machine or another.

    ``python -m tfdbg_cli --grpc PORT`` is that debugger: it stops at the end of each run, and the
    program waits there. The servers that compute the run send their tensors themselves, so an
    address must mean the same machine to all of them.

    Args:
        sess: a session of TensorFlow.
        grpc_debug_server_addresses: ``host:port`` of a receiver, with or without ``grpc://`` in
            front, or a list of them.
        watch_fn: called before each run with its fetches and feeds, returns `WatchOptions`;
            default: everything is watched.
        thread_name_filter: only runs on threads whose name begins with a match of this regex are
            sent.
        log_usage: taken for the original's sake; nothing is logged.
        receivers: share those of another session; the addresses aren't looked at then.

    Raises:
        TypeError: the addresses are neither a ``str`` nor a ``list`` of ``str``, ``watch_fn``
            can't be called, or ``sess`` is not a session of TensorFlow.
    """

    def __init__(
        self,
        sess: Any,
        grpc_debug_server_addresses: str | list[str],
        watch_fn: WatchFn | None = None,
        thread_name_filter: str | None = None,
        log_usage: bool = True,
        *,
        receivers: GrpcReceivers | None = None,
    ) -> None:
        super().__init__(sess, watch_fn=watch_fn, thread_name_filter=thread_name_filter)
        adapter = self._adapter
        if not (isinstance(adapter, StreamsTensors) and adapter.streams_to("grpc://")):
            raise TypeError(
                "Expected a session of TensorFlow: its runtime sends the tensors; "
                f"got type {type(sess)}"
            )
        self.receivers = receivers or GrpcReceivers(grpc_debug_server_addresses)

    def prepare_run_debug_urls(self, fetches: Any, feed_dict: Any) -> list[str]:
        """The addresses, the same for each run."""
        return list(self.receivers.urls)

    def on_run_start(self, request: OnRunStartRequest) -> OnRunStartResponse:
        """Send the run's tensors.

        Raises:
            UserError: nobody listens at an address, and nobody has so far.
        """
        if not self.receivers.are_there():
            return OnRunStartResponse(OnRunStartAction.NON_DEBUG_RUN)
        return super().on_run_start(request)
