"""The UI of a program that is debugged from another terminal: it serves one client at a time."""

from __future__ import annotations

import ctypes
import os
import platform
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from tfdbg_cli.commands.reply import Leave, Service
from tfdbg_cli.commands.run.choices import ExitChoice
from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.common.streams import Streams, tell
from tfdbg_cli.net.wire import Channel, LostError, MalformedError
from tfdbg_cli.ui.base import CommandQueue, UserInterface
from tfdbg_cli.ui.plain import PlainUI
from tfdbg_cli.ui.remote.detach import DetachChoice
from tfdbg_cli.ui.remote.listener import Listener
from tfdbg_cli.ui.remote.request_handler import DocumentTable, RequestHandler
from tfdbg_cli.ui.remote.requests import AT_ONCE, SILENT, ClientRequest, check_hello, parse_request
from tfdbg_cli.ui.remote.states import Client, RunningState, Stop, program

__all__ = ["RemoteUI"]

# A client that asks faster than it is answered is none of ours.
_MOST_WAITING = 256

_LATER = "the stop waits for somebody to attach"


class _CancelledError(KeyboardInterrupt):
    """The client cancelled the command that this thread is at."""


class RemoteUI(UserInterface):
    """Hands the stops of this program to a client that attaches.

    A stop waits for the first client. When one detaches, or is lost, the program runs on without
    stops until the next one attaches. Everything at a stop is done in the thread that stopped; the
    client's own thread only reads.

    Args:
        address: where to listen, ``[HOST:]PORT`` or ``unix:PATH``.
        settings: those of the program; what a command changes is told to the client.
        waits: whether a stop waits for a client that was never there.
        on_wish: called when somebody attaches or wants the next stop. From any thread.
        on_stop: called when a client can see a stop: what was wished for before is there.
        on_lost: called when the client is lost while the program runs. From any thread.
        on_fork: called in a forked child, which has no client.
        how_ended: says in one line how the program ended; empty: well.
        streams: of the program; default: as they are now.

    Attributes:
        is_expecting: a stop at which nobody is attached waits for somebody. Flags of this kind may
            be set by signal handlers, which can't take a lock.

    Raises:
        UserError: it can't listen there.
    """

    second_interrupt = "leaves the program running"

    def __init__(
        self,
        address: str,
        settings: Settings,
        *,
        waits: bool,
        on_wish: Callable[[], None],
        on_stop: Callable[[], None],
        on_lost: Callable[[], None],
        on_fork: Callable[[], None],
        how_ended: Callable[[], str],
        streams: Streams | None = None,
    ) -> None:
        self._streams = streams
        self._listener = Listener(address, program())
        self.is_expecting = waits
        self._on_wish, self._on_stop = on_wish, on_stop
        self._on_lost, self._on_fork = on_lost, on_fork
        self._how_ended = how_ended
        self._changed = threading.Condition()
        # No Condition: its methods are Python's, and a cancellation could hit one half done.
        self._at_work = threading.Lock()
        self._client: Client | None = None
        self._stop: Stop | None = None
        self._running: RunningState | None = None
        self._waiting: deque[tuple[Client, ClientRequest]] = deque()
        self._working: tuple[Client, int, int] | None = None  # client, request, thread
        self._is_wished = False  # the next stop, by who is leaving this one
        self._shelf = DocumentTable()
        self._settings: dict[str, Any] = {}
        self._stops = 0
        self._plain: PlainUI | None = None
        settings.on_change(self._settings.__setitem__)
        _forks_with(self)
        try:
            self._listener.start(self._serve)
        except OSError as error:
            self._listener.close()
            raise UserError(f"Nobody can be let in: {one_line(error)}.") from None
        tell(f"attach from another terminal with: {self.invitation}")

    @property
    def is_attached(self) -> bool:
        """Whether there is a client."""
        return self._client is not None

    @property
    def invitation(self) -> str:
        """The command that attaches to this program."""
        return self._listener.invitation

    # The program's side.

    def interact(self, service: Service, queue: CommandQueue) -> Leave:
        """One stop: the commands of ``-c`` first, then those of whoever attaches."""
        if self._stop is not None:
            # A command of this very stop started a run: there is no second prompt for it.
            reply = service.run("exit --detach")
            return reply.leave if reply.leave is not None else Leave(ExitChoice())
        leave = self._run_queue(service, queue)
        if leave is not None:
            return leave
        with self._changed:
            self._stops += 1
            self._stop = Stop(self._stops, service)
            self._running = None
            self._on_stop()
            self._tell(self._stop)
        try:
            return self._serve_stop(service)
        finally:
            with self._changed:
                self._stop = None
                is_wished, self._is_wished = self._is_wished, False
                while self._waiting:
                    self._refuse(*self._waiting.popleft())
            if is_wished:
                self._on_wish()

    def _run_queue(self, service: Service, queue: CommandQueue) -> Leave | None:
        """Run what was given with ``-c`` on the program's own stdout."""
        command = queue.take()
        if command is None:
            return None
        if self._plain is None:
            self._plain = PlainUI(streams=self._streams)
        return self._plain.execute(service, queue, command)

    def _serve_stop(self, service: Service) -> Leave:
        desk = RequestHandler(service, self._shelf, self._settings)
        while True:
            client, request = self._next() or (None, None)
            if client is None or request is None:
                return Leave(ExitChoice())
            answer, leave = self._answer(desk, client, request)
            if request.name not in SILENT:
                self._send(client, {"id": request.number, **answer})
            if leave is not None:
                action = leave.action
                if isinstance(action, DetachChoice):
                    self.is_expecting = True
                    self._part(client, {"detached": _LATER})
                    return Leave(action.choice)
                if isinstance(action, ExitChoice) and not action.ends_program:
                    self._part(client, {"detached": ""})
                return leave

    def _next(self) -> tuple[Client, ClientRequest] | None:
        """The next request; ``None``: there is no client, and none is to be waited for."""
        is_said = False
        with self._changed:
            while True:
                while self._waiting:
                    client, request = self._waiting.popleft()
                    if client is self._client:
                        return client, request
                if self._client is None:
                    if not self.is_expecting:
                        return None
                    if not is_said:
                        assert self._stop is not None
                        tell(f"{self._stop.service.title} waits for: {self.invitation}")
                        is_said = True
                # Where signals don't interrupt a lock, they are looked for now and then.
                self._changed.wait(None if os.name == "posix" else 0.5)

    def _answer(
        self, desk: RequestHandler, client: Client, request: ClientRequest
    ) -> tuple[dict[str, Any], Leave | None]:
        """Answer a request, unless the client cancels it."""
        try:
            try:
                with self._at_work:
                    self._working = (client, request.number, threading.get_ident())
                return desk.answer(request)
            finally:
                with self._at_work:
                    self._working = None
        except _CancelledError:
            # It may have come in the middle of the lines above; there is only one for a request.
            with self._at_work:
                self._working = None
            return {"cancelled": True}, None

    def _interrupt(self, client: Client, number: int | None) -> None:
        """Cancel the command that is at work; only this client's, and only this request."""
        with self._at_work:
            if self._working is None:
                return
            owner, at, thread = self._working
            if owner is client and number in (at, None):
                self._working = None
                # What a Ctrl-C is for the main thread, for whichever is at the stop.
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread), ctypes.py_object(_CancelledError)
                )

    def running(self, describe: Callable[[], str], announcement: str = "") -> None:
        """Tell the client. A Ctrl-C at the program's own terminal stays the program's."""
        with self._changed:
            self._running = RunningState(describe, announcement)
            self._tell(self._running)

    def refresh_progress(self) -> None:
        """Tell the client how far the program is."""
        client, running = self._client, self._running
        if client is not None:
            text = running.describe() if running is not None else "before its next run"
            self._send(client, {"progress": text})

    def stopped(self) -> None:
        self._running = None

    def close(self) -> None:
        with self._changed:
            client = self._client
            if client is not None:
                self._part(client, {"end": self._how_ended()})
            self.is_expecting = False
        self._listener.close()

    # The client's side.

    def _serve(self, channel: Channel) -> None:
        """Read what a client asks for, until it leaves."""
        who, takes_over = check_hello(channel.receive())
        client = Client(channel, who)
        with self._changed:
            other = self._client
            if other is not None and not takes_over:
                busy = f"{other.who}, since {other.since}"
                channel.send({"busy": busy})
                return
            if other is not None:
                self._part(other, {"replaced": who})
            self._client = client
            state = self._stop or self._running
            welcome = {
                "welcome": f"{program()} (pid {os.getpid()} on {platform.node()})",
                **(state.event(client) if state is not None else {"running": ""}),
            }
            is_sent = self._send(client, welcome)
            self._changed.notify_all()
        if not is_sent:
            return
        self._wish()
        try:
            while not client.is_over:
                self._take(client, parse_request(channel.receive()))
        except MalformedError as error:
            if not client.is_over:
                tell(
                    f"the client sent something that is not a request ({error}); "
                    "its connection is closed."
                )
        except LostError:
            pass
        finally:
            self._lose(client)

    def _take(self, client: Client, request: ClientRequest) -> None:
        if request.name in AT_ONCE:
            self._do_at_once(client, request)
            return
        with self._changed:
            if self._stop is None or self._stop.number != request.stop:
                self._refuse(client, request)
            elif len(self._waiting) >= _MOST_WAITING:
                raise MalformedError("more requests than anybody waits for")
            else:
                self._is_wished = False  # what was asked for before left no stop
                self._waiting.append((client, request))
                self._changed.notify_all()

    def _do_at_once(self, client: Client, request: ClientRequest) -> None:
        if request.name == "interrupt":
            self._cancel(client, request.arguments["request"])
        elif request.name == "detach":
            self._lose(client, {"detached": ""})
        else:
            if request.name == "stop":
                self._wish(request.stop)
            self.refresh_progress()

    def _wish(self, left: int | None = None) -> None:
        """The client wants the next stop.

        Args:
            left: the number of the stop that it has left, or is about to leave; ``None``: it comes.
        """
        with self._changed:
            if self._stop is not None:
                self._is_wished = self._stop.number == left
                return
        self._on_wish()  # without the lock: it wakes engines, which have locks of their own
        with self._changed:
            if self._stop is not None:
                self._on_stop()  # this stop came meanwhile

    def _cancel(self, client: Client, number: int) -> None:
        with self._changed:
            for entry in list(self._waiting):
                if entry[0] is client and entry[1].number == number:
                    self._waiting.remove(entry)
                    self._send(client, {"id": number, "cancelled": True})
                    return
        self._interrupt(client, number)

    def _refuse(self, client: Client, request: ClientRequest) -> None:
        """The stop that a request is about is over."""
        if request.name not in SILENT:
            self._send(client, {"id": request.number, "over": True})

    def _tell(self, state: Stop | RunningState) -> None:
        if self._client is not None:
            self._send(self._client, state.event(self._client))

    def _send(self, client: Client, message: Mapping[str, Any]) -> bool:
        try:
            client.channel.send(message)
        except ValueError as error:
            return self._send(client, {"id": message.get("id", 0), "error": f"Not sent: {error}."})
        except LostError:
            self._lose(client)
            return False
        return True

    def _part(self, client: Client, last: Mapping[str, Any] | None) -> None:
        """Say a last word to a client and let go of it."""
        with self._changed:
            client.is_over = True
            if last is not None:
                self._send(client, last)
            if self._client is client:
                self._client, self._is_wished = None, False
                self._shelf.clear()
                self._changed.notify_all()
            client.channel.close()

    def _lose(self, client: Client, last: Mapping[str, Any] | None = None) -> None:
        """A client is gone, perhaps without a word: the program runs on."""
        with self._changed:
            if client.is_over or self._client is not client:
                client.channel.close()
                return
            self.is_expecting = False
            self._part(client, last)
            is_running = self._stop is None
        self._interrupt(client, None)
        if is_running:
            self._on_lost()

    def after_fork(self) -> None:
        """In a forked child: nothing here is its own, and no other thread lives to give it back."""
        self._changed, self._at_work = threading.Condition(), threading.Lock()
        self._client = self._running = self._stop = self._working = None
        self.is_expecting = False
        self._waiting.clear()
        self._listener.abandon()
        self._on_fork()


def _forks_with(ui: RemoteUI) -> None:
    if hasattr(os, "register_at_fork"):
        reference = weakref.ref(ui)

        def after_fork() -> None:
            found = reference()
            if found is not None:
                found.after_fork()

        os.register_at_fork(after_in_child=after_fork)
