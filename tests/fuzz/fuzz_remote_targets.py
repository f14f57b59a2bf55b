"""Targets: what comes over sockets, before and after the handshake, on either side."""

from __future__ import annotations

import contextlib
import functools
import json
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

from dump_reading import service_over
from fuzz_kit import BrokenPromiseError, Target, shown, shown_document
from fuzz_samples import small_dump

from tfdbg_cli.commands.reply import Reply, Service
from tfdbg_cli.commands.shell.parsing import split_command, split_output, split_words
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.net.address import Address
from tfdbg_cli.net.wire import (
    FROM_CLIENT,
    Channel,
    LostError,
    MalformedError,
    admit,
    decode,
    introduce,
)
from tfdbg_cli.sessions.ranks.follower import Follower
from tfdbg_cli.sessions.ranks.interface import Verdict
from tfdbg_cli.sessions.ranks.messages import verdict_of
from tfdbg_cli.tensors.slicing import is_expression
from tfdbg_cli.ui.remote import codec
from tfdbg_cli.ui.remote.connection import (
    Connection,
    Disconnection,
    OverError,
    StopOverError,
    StoppedProgram,
)
from tfdbg_cli.ui.remote.proxies import RemoteDocument, RemoteHistory, RemoteService
from tfdbg_cli.ui.remote.request_handler import DocumentTable, RequestHandler
from tfdbg_cli.ui.remote.requests import check_hello, parse_request

__all__ = ["TARGETS"]

_TOKEN = "0123456789abcdef" * 4


def _pair(data: bytes) -> tuple[socket.socket, socket.socket]:
    """A socket from which some bytes come and then no more, and its other end."""
    ours, theirs = socket.socketpair()
    theirs.sendall(data)
    theirs.shutdown(socket.SHUT_WR)
    return ours, theirs


def _read_handshake(data: bytes) -> None:
    """Both sides, with somebody who has no token."""
    for side in (admit, introduce):
        ours, theirs = _pair(data[:2000])
        with ours, theirs:
            try:
                is_in = side(ours, _TOKEN)
            except (LostError, UserError) as error:
                shown(" ".join(str(error).split()))
                continue
            if is_in or side is introduce:
                raise BrokenPromiseError("somebody without the token was let in")


def _framed(message: Any) -> bytes:
    data = json.dumps(message).encode()
    return len(data).to_bytes(4, "big") + data


def _read_channel(data: bytes) -> None:
    """What a client says once it is in, as bytes."""
    ours, theirs = _pair(data)
    channel = Channel(ours, FROM_CLIENT)
    with ours, theirs:
        try:
            check_hello(channel.receive())
            while True:
                parse_request(channel.receive())
        except LostError:
            pass


# Commands of a stop that change nothing, as far as they get no expression and no file.
_HARMLESS = frozenset(
    ["lt", "ni", "li", "lo", "ls", "ps", "ri", "err", "help", "h", "pt", "pf", "list_tensors"]
)


def _is_harmless(text: str) -> bool:
    """Whether a command line runs no Python, no shell, and writes no file."""
    try:
        command, _ = split_command(text.strip())
        words = split_words(command)
        _, output = split_output(command)
    except UserError:
        return True  # it says so
    if not words or output is not None or words[0] not in _HARMLESS:
        return not words
    slices = [word for word in words[1:] if "[" in word]
    is_written = any(word.startswith(("-w", "--w")) for word in words)
    return not is_written and not any(is_expression(word[word.find("[") :]) for word in slices)


class _Harmless:
    """A stop whose service runs harmless commands only."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def run(self, text: str, width: int = 80) -> Reply:
        if not _is_harmless(text):
            return Reply(text)
        return self._service.run(text, width)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)


@functools.cache
def _stop() -> Any:
    return _Harmless(service_over(small_dump()))


def _messages(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.split(b"\n"):
        with contextlib.suppress(MalformedError):
            yield decode(line)


def _read_requests(data: bytes) -> None:
    """What a client asks of a stop."""
    service = _stop()
    handler = RequestHandler(service, DocumentTable(), {})
    for message in _messages(data):
        try:
            request = parse_request(message)
        except MalformedError:
            continue
        answer, _ = handler.answer(request)
        if "Error in the debugger" in json.dumps(answer):
            raise BrokenPromiseError(f"{request}: {answer}")


_REQUESTS = [
    {"do": "run", "text": "lt", "width": 80},
    {"do": "run", "text": "pt h/Log[0,:]", "width": 30},
    {"do": "complete", "text": "pt h/", "cursor": 5},
    {"do": "commands"},
    {"do": "lines", "document": 1, "start": 0, "stop": 10},
    {"do": "settle", "document": 1, "start": 0, "stop": 10},
    {"do": "status", "document": 1, "start": 0, "stop": 3},
    {"do": "find", "document": 1, "pattern": "h/L.g", "flags": 0, "start": 0, "direction": 1},
    {"do": "matches", "document": 1, "pattern": "x", "flags": 0, "start": 0, "stop": 10},
    {"do": "locate", "document": 1, "indices": [0, 1]},
    {"do": "cells", "document": 1, "line": 3},
    {"do": "fields", "document": 1, "line": 3},
    {"do": "table_command", "document": 1, "line": 3, "column": "name", "verb": "sort"},
    {"do": "element", "document": 1, "indices": [1, 0]},
    {"do": "step", "document": 1, "indices": None, "direction": 1},
    {"do": "resized", "document": 1, "width": 40},
    {"do": "release", "documents": [1]},
    {"do": "typed", "text": "lt"},
]


def _request_seeds() -> list[bytes]:
    shows = [{"do": "run", "text": text, "width": 80} for text in ("pt h/Log", "lt", "ni -t h/Log")]
    return [
        b"\n".join(json.dumps({"id": 1, "at": 1, **each}).encode() for each in (first, *rest))
        for first in shows
        for rest in ([request] for request in _REQUESTS)
    ]


# In the client.


class _Scripted:
    """A program that answers what it is told to."""

    def __init__(self, answers: list[Any]) -> None:
        self._answers = answers
        self.state = StoppedProgram(1, "", "", "", "")
        self.released: list[int] = []
        self.history: list[str] = []
        self.is_leaving = False
        self.looks = 0
        self._left = 200

    def call(self, stop: int, name: str, /, **arguments: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise OverError("enough")
        if not self._answers:
            raise UserError("no more")
        return self._answers[self._left % len(self._answers)]

    def notify(self, name: str, stop: int = 0, /, **arguments: Any) -> None:
        pass


_PIECES: tuple[Callable[[Any], Any], ...] = (
    codec.LINES.decode,
    codec.STEP.decode,
    codec.CELLS.decode,
    codec.FIELDS.decode,
)
_REFUSED = (MalformedError, StopOverError, OverError)


def _read_answers(data: bytes) -> None:
    """What a program answers, piece by piece and as a whole."""
    answers: list[Any] = list(_messages(data))
    for answer in answers:
        for read in _PIECES:
            with contextlib.suppress(MalformedError):
                read(answer.get("a"))
        for read in (codec.HIT.decode, codec.HITS.decode, codec.COMMANDS.decode):
            with contextlib.suppress(MalformedError):
                read(answer)
    connection: Any = _Scripted(answers)
    service = RemoteService(connection, connection.state, Settings(None), RemoteHistory(connection))
    reply = service.run("lt")
    if reply.message is not None:
        shown(reply.message.text)
    for completed in service.complete("l", 1).candidates:
        shown(completed.text, completed.summary)
    for command in service.commands():
        shown(command.name, command.summary, *command.aliases)
    if isinstance(reply.document, RemoteDocument):
        document = reply.document
        questions: list[Callable[[], Any]] = [
            lambda: shown_document(document, 20),
            lambda: shown(document.status(0, 3)),
            lambda: document.element((0, 1)),
            lambda: document.step(None, 1),
            lambda: document.cells(0),
            lambda: document.fields(0),
            lambda: shown(document.table_command(0, "name", "sort")),
            lambda: document.resized(50),
            lambda: document.locate((0,)),
        ]
        for ask in questions:
            with contextlib.suppress(UserError, *_REFUSED):
                ask()


def _answer_seeds() -> list[bytes]:
    service = service_over(small_dump())
    table = DocumentTable()
    handler = RequestHandler(service, table, {})
    found = []
    for text in ("lt", "pt h/Log", "nonsense", "help", "exit"):
        result = codec.encode_reply(service.run(text), table.add, {"theme": "dark"}, service.prompt)
        lines = handler._lines(1, 0, 8)
        parts = [result, {**lines, "hit": 3, "upto": 5, "hits": [1]}, {"start": 1}]
        parts += [{"candidates": [["lt", "x"]], "start": 0, "a": lines["lines"]}]
        found.append(b"\n".join(json.dumps(part).encode() for part in parts))
    return found


class _Server:
    """A program that somebody attaches to, or the leader of ranks: it says what it is told to."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(8)
        self.port = int(self._socket.getsockname()[1])
        self.waiting: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connected, _ = self._socket.accept()
            with connected, contextlib.suppress(OSError, LostError):
                admit(connected, _TOKEN)
                connected.settimeout(2)
                connected.recv(1 << 16)  # hello
                connected.sendall(self.waiting.get())
                connected.shutdown(socket.SHUT_WR)
                while connected.recv(1 << 16):
                    pass


@functools.cache
def _server() -> _Server:
    return _Server()


@contextlib.contextmanager
def _threads_end_well() -> Iterator[None]:
    """A thread of ours that ends with an exception breaks a promise."""
    failed: list[BaseException] = []
    before = threading.excepthook
    threading.excepthook = lambda told: failed.append(told.exc_value or Exception())
    try:
        yield
    finally:
        threading.excepthook = before
    if failed:
        raise failed[0]


def _read_connection(data: bytes) -> None:
    """What a program says to a client that has attached, from its welcome to the end."""
    server = _server()
    server.waiting.put(data)
    with _threads_end_well():
        connection = Connection(Address(port=server.port), _TOKEN)
        shown(connection.program)
        version, state = connection.seen()
        while not isinstance(state, Disconnection):
            connection.wait(version)
            version, state = connection.seen()
            for text in state[1:] if isinstance(state, StoppedProgram) else state:
                shown(str(text))
        for thread in threading.enumerate():
            if thread.name == "tfdbg reader":
                thread.join(5)
        connection.close()


def _connection_seeds() -> list[bytes]:
    stop = {"stop": 1, "title": "t", "title_role": "end", "prompt": "> ", "initial_command": "lt"}
    welcome = {"welcome": "train.py (pid 7)", **stop, "history": ["lt"]}
    more = [{"running": ""}, {"progress": "run 3"}, {"id": 1, "result": {"leave": True}}]
    more += [{"end": ""}, {"detached": ""}, {"replaced": "x"}, {"id": 2, "error": "no"}]
    return [
        _framed(welcome),
        _framed({"busy": "somebody"}),
        *(_framed(welcome) + _framed(each) for each in more),
        _framed({"welcome": "x", "running": ""}) + _framed({**stop, "history": []}),
    ]


def _read_ranks(data: bytes) -> None:
    """What the leader of several ranks says to one that follows, and what such a one says."""
    for message in _messages(data[4:]):
        verdict_of(message)
    server = _server()
    server.waiting.put(data)
    place = {"hosts": ["127.0.0.1"], "port": server.port, "token": _TOKEN}
    follower = Follower(1, json.dumps(place))
    follower.news()
    follower.agree("train 1", Verdict(False, False, None))
    follower.follow()
    assert isinstance(follower.settings, dict)
    follower.leave("")


def _rank_seeds() -> list[bytes]:
    run = {"times": 1, "is_debug": True, "filter_name": ""}
    states = [
        {"is": "state", "number": 1, "stopped": False, "action": {"run": run}, "settings": {}},
        {"is": "state", "number": 2, "stopped": True, "action": {"exit": True}},
        {"is": "open", "run": "train 1"},
        {"is": "verdict", "run": "train 1", "stops": True, "root": "/x", "number": 3},
        {"is": "end", "stops": False, "passes": True, "error": ["a", "b", "c"]},
    ]
    return [*map(_framed, states), b"".join(map(_framed, states[::2]))]


_JSON = (b'"id":', b'"at":1', b'"do":', b'"document":1', b"null", b"[]", b"{}", b"true", b"-0.5")
_FRAMES = (b"\0\0\0\x02{}", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\x10\0\0")

TARGETS = [
    Target(
        "handshake",
        _read_handshake,
        lambda: [
            b"TFDBG\0\x02" + bytes(32),
            b"TFDBG\0\x02" + bytes(64),
            b"TFDBG\0\x01" + bytes(96),
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
        ],
        (b"TFDBG\0\x02", bytes(32)),
        longest=300,
    ),
    Target(
        "channel",
        _read_channel,
        lambda: [
            _framed({"hello": "me", "take_over": False})
            + b"".join(_framed({"id": 1, "at": 1, **each}) for each in _REQUESTS[at : at + 3])
            for at in range(0, len(_REQUESTS), 2)
        ],
        (*_JSON, *_FRAMES),
    ),
    Target(
        "requests",
        _read_requests,
        _request_seeds,
        (
            *_JSON,
            *(b'"%s"' % n.encode() for n in {key for request in _REQUESTS for key in request}),
        ),
    ),
    Target("answers", _read_answers, _answer_seeds, _JSON, longest=8000, few=800),
    Target("connection", _read_connection, _connection_seeds, (*_JSON, *_FRAMES), few=600),
    Target("ranks", _read_ranks, _rank_seeds, (*_JSON, *_FRAMES), few=600),
]
