"""What strangers, broken clients and slow ones get from a program: nothing, and no harm."""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import re
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from remote_kit import Job, connected, until

from tfdbg_cli.common.documents import Ink, Line, Link, Span
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.net.address import Address, parse_address
from tfdbg_cli.net.tokens import find_token, write_ticket
from tfdbg_cli.net.wire import VERSION, Channel, LostError, MalformedError, decode, introduce
from tfdbg_cli.ui.remote import codec
from tfdbg_cli.ui.remote.connection import Connection
from tfdbg_cli.ui.remote.requests import parse_request

Start = Callable[..., Job]


@pytest.fixture
def friend() -> Iterator[Callable[[Job], Channel]]:
    """A client that has the token and then says what the test wants."""
    opened: list[Channel] = []

    def enter(job: Job) -> Channel:
        job.waits()
        made = connected(job)
        introduce(made, find_token(parse_address(job.address)))
        channel = Channel(made, 1 << 24)
        channel.send({"hello": "a test", "take_over": False})
        assert "welcome" in channel.receive()
        opened.append(channel)
        return channel

    yield enter
    for channel in opened:
        channel.close()


def closed(made: socket.socket, seconds: float = 10.0) -> bytes:
    """What comes until the other side closes; then this side is closed, too."""
    made.settimeout(seconds)
    data = b""
    with made:
        try:
            while part := made.recv(4096):
                data += part
        except ConnectionResetError:
            pass
    return data


def still_debugged(job: Job) -> None:
    assert "z:0" in job.batch("run", "lt").stdout
    assert job.ends() == 0


def test_the_token_is_for_its_user_alone_and_goes_with_the_program(job: Start) -> None:
    running = job(args=(1, 0))
    assert running.address
    (path,) = running.tokens
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    token = path.read_text().split()[0]
    assert len(token) == 64
    assert token not in running.err + running.out
    running.batch("exit")
    assert running.ends() == 0
    assert not running.tokens


def test_each_program_has_a_token_of_its_own(job: Start) -> None:
    first, second = job(), job()
    assert first.address != second.address
    tokens = {path.read_text().split()[0] for path in first.tokens}
    assert len(tokens) == 2


def test_a_wrong_token_is_refused_without_a_word_and_slowly(job: Start) -> None:
    running = job()
    made = connected(running)
    greeting = made.recv(39)
    began = time.monotonic()
    made.sendall(greeting[:7] + bytes(32) + bytes(32))
    assert closed(made) == b""
    assert time.monotonic() - began > 0.9
    still_debugged(running)


def test_the_client_says_that_the_token_is_wrong(
    job: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = job()
    monkeypatch.setitem(running.environment, "TFDBG_TOKEN", "0" * 64)
    done = running.batch("lt")
    assert done.returncode == 1
    assert "refused the token" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_token_may_come_from_a_file_or_the_environment(
    job: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = job(args=(100_000, 0.01))
    assert running.address
    (path,) = running.tokens
    copy = running.folder / "copy"
    copy.write_text(path.read_text())
    monkeypatch.setitem(running.environment, "XDG_STATE_HOME", str(running.folder / "elsewhere"))
    assert "no token for" in running.batch("ri").stderr
    assert "run #" in running.attach("--token-file", str(copy), "--batch", "-c", "ri").stdout
    monkeypatch.setitem(running.environment, "TFDBG_TOKEN", path.read_text().split()[0])
    assert "run #" in running.batch("ri").stdout


def test_a_client_tells_a_stranger_from_the_program(job: Start) -> None:
    """Who has taken the port of a program that is gone learns nothing from its clients."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = Address("127.0.0.1", server.getsockname()[1])
        token = write_ticket(address, "1 test").token
        server.settimeout(10)
        heard: list[bytes] = []

        def pretend() -> None:
            other, _ = server.accept()
            with other:
                other.sendall(b"TFDBG" + struct.pack(">H", VERSION) + bytes(32))
                heard.append(other.recv(4096))
                other.sendall(bytes(32))
                heard.append(other.recv(4096))

        thread = threading.Thread(target=pretend)
        thread.start()
        with pytest.raises(UserError, match="has another token"):
            Connection(address, token)
        thread.join(10)
    assert len(heard[0]) == 71
    assert token.encode() not in heard[0]
    assert bytes.fromhex(token) not in heard[0]
    assert heard[1] == b""


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n" + bytes(40), b""])
def test_other_services_are_recognized(greeting: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            other, _ = server.accept()
            with other:
                other.sendall(greeting)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(UserError, match=r"isn't under tfdbg|didn't answer"):
            Connection(Address("127.0.0.1", server.getsockname()[1]), "0" * 64)
        thread.join(10)


def test_another_version_is_named(job: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            other, _ = server.accept()
            with other:
                other.sendall(b"TFDBG" + struct.pack(">H", 99) + bytes(32))
                other.recv(1)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(
            UserError, match=f"version 99 of the protocol, and this tfdbg {VERSION}"
        ):
            Connection(Address("127.0.0.1", server.getsockname()[1]), "0" * 64)
        thread.join(10)


def test_a_client_of_another_version_is_let_go(job: Start) -> None:
    running = job()
    token = find_token(parse_address(running.address))
    made = connected(running)
    theirs = made.recv(39)
    ours = b"TFDBG" + struct.pack(">H", 99) + bytes(32)
    made.sendall(ours + hmac.digest(token.encode(), b"client" + theirs + ours, "sha256"))
    assert closed(made) == b""
    still_debugged(running)


@pytest.mark.parametrize(
    "garbage", [b"", b"GET / HTTP/1.1\r\n\r\n", bytes(71), os.urandom(100_000), b"\xff" * 71]
)
def test_garbage_before_the_token(job: Start, garbage: bytes) -> None:
    running = job()
    made = connected(running)
    with contextlib.suppress(OSError):  # the other side may have closed it by then
        made.sendall(garbage)
        made.shutdown(socket.SHUT_WR)
    assert len(closed(made)) <= 39
    still_debugged(running)


def test_who_says_nothing_is_not_waited_for(job: Start) -> None:
    running = job()
    idle = [connected(running) for _ in range(4)]
    slow = connected(running)
    slow.recv(39)
    began = time.monotonic()
    for _ in range(3):
        slow.sendall(b"T")
        time.sleep(0.2)
    assert "z:0" in running.batch("run", "lt").stdout  # there is room besides them
    assert closed(slow) == b""
    for made in idle:
        closed(made)
    assert time.monotonic() - began < 9
    assert running.ends() == 0


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">I", 0xFFFFFFFF),
        struct.pack(">I", (1 << 20) + 1) + bytes(10_000),
        struct.pack(">I", 5) + b"hello",
        struct.pack(">I", 2) + b"[]",
        struct.pack(">I", 200_000) + b"[" * 200_000,
        struct.pack(">I", 12) + b'{"do":"nix"}',
        struct.pack(">I", 7) + b'{"a":1}',
        struct.pack(">I", 100) + b'{"do": "run"',
    ],
)
def test_a_malformed_message_ends_the_connection_and_nothing_else(job: Start, data: bytes) -> None:
    running = job(args=(100_000, 0.01))
    token = find_token(parse_address(running.address))
    made = connected(running)
    introduce(made, token)
    channel = Channel(made, 1 << 24)
    channel.send({"hello": "a test", "take_over": False})
    assert "welcome" in channel.receive()
    with contextlib.suppress(OSError):  # the other side may have closed it by then
        made.sendall(data)
        made.shutdown(socket.SHUT_WR)
    closed(made)
    until(lambda: running.steps > 3, running)  # it runs on
    assert "Traceback" not in running.err
    assert "z:0" in running.batch("run", "lt", "exit --end").stdout


def test_requests_that_mean_nothing_are_answered(
    job: Start, friend: Callable[[Job], Channel]
) -> None:
    running = job()
    channel = friend(running)
    ask = {"id": 1, "at": 1, "document": 999, "start": 0, "stop": 10}
    for request in (
        {"do": "lines"},
        {"do": "find", "pattern": "(", "flags": 0, "direction": 1},
        {"do": "cells", "line": 1 << 60},
        {"do": "locate", "indices": [-1, 5]},
        {"do": "lines", "at": 77},
        {"do": "commands", "at": 2},
    ):
        channel.send(ask | request)
        answer = channel.receive()
        assert answer["id"] == 1
        assert "error" in answer or "over" in answer
    channel.send({"id": 2, "at": 1, "do": "run", "text": "lt;\x00\x1b[2J '", "width": 10**9})
    assert channel.receive()["id"] == 2
    channel.close()
    assert running.ends() == 0


def test_a_stop_that_is_asked_for_while_another_is_left_comes(
    job: Start, friend: Callable[[Job], Channel]
) -> None:
    running = job(args=(10**6, 0))
    channel = friend(running)
    at = 1
    for turn in range(60):
        channel.send(
            {"id": turn, "at": at, "do": "run", "text": "run -f has_inf_or_nan", "width": 80}
        )
        wish = {"do": "stop", "at": at}
        if turn % 3 == 0:  # with the command
            channel.send(wish)
        while "result" not in channel.receive():
            pass
        if turn % 3 == 1:  # with its answer
            channel.send(wish)
        elif turn % 3 == 2:
            time.sleep(turn / 20_000)
            channel.send(wish)
        while "stop" not in (event := channel.receive()):
            pass
        at = event["stop"]
    assert at == 61
    channel.send({"do": "stop", "at": at})  # none is left: it's for nothing
    channel.send({"id": 100, "at": at, "do": "run", "text": "run -t 5", "width": 80})
    found: list[dict[str, object]] = []
    while not found or "stop" not in found[-1]:
        found.append(channel.receive())
    first, last = (re.search(r"run #([0-9]+)", str(made["title"])) for made in (event, found[-1]))
    assert first, last
    assert int(last[1]) - int(first[1]) == 5


def test_huge_values_come_in_pieces(job: Start, friend: Callable[[Job], Channel]) -> None:
    running = job()
    channel = friend(running)
    channel.send(
        {"id": 1, "at": 1, "do": "run", "text": "eval \"['x' * 10**6] * 20\"", "width": 80}
    )
    answer = channel.receive()
    assert "result" in answer, answer
    document = answer["result"]["document"]
    ask = {"id": 2, "at": 1, "do": "lines", "document": document["number"]}
    channel.send(ask | {"start": 0, "stop": document["count"]})
    lines = codec.LINES.decode(channel.receive()["result"]["lines"])
    assert lines
    assert all(len(made.text) <= codec.LONGEST_LINE + 1 for made in lines)


def test_only_loopback_unless_told_otherwise(job: Start) -> None:
    assert "safer" not in job().err
    running = job("--listen", "0.0.0.0:0")
    assert running.address
    assert "others can reach 0.0.0.0" in running.err


@pytest.mark.parametrize(
    "text", ["", "x", "70000", "-1", "host:", ":5", "a:b:5", "[::1", "unix:", "host:5x", "5678 "]
)
def test_addresses(text: str) -> None:
    if text.strip() == "5678":
        assert parse_address(text) == Address("127.0.0.1", 5678)
    else:
        with pytest.raises(UserError):
            parse_address(text)


def test_addresses_that_are_some() -> None:
    assert parse_address("node:80") == Address("node", 80)
    assert parse_address("[::1]:80") == Address("::1", 80)
    assert parse_address("*:80") == Address("", 80)
    assert str(parse_address("[::1]:80")) == "[::1]:80"
    assert not parse_address("*:80").is_private
    assert parse_address("unix:/a/b").path == "/a/b"


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(UserError, match="no program to attach to"):
        Connection(Address("127.0.0.1", port), "0" * 64)


# The parsers.


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_malformed(data: bytes) -> None:
    try:
        message = decode(data)
    except MalformedError:
        return
    assert isinstance(message, dict)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
_NAMES = ("run", "complete", "lines", "find", "locate", "cells", "element", "release", "interrupt")
_FIELDS = (
    *("id", "at", "text", "width", "cursor", "document", "documents", "request"),
    *("pattern", "flags", "start", "stop", "direction", "indices", "line"),
)


@settings(max_examples=300)
@given(st.sampled_from(_NAMES), st.dictionaries(st.sampled_from(_FIELDS), _JSON))
def test_any_object_is_a_request_or_malformed(name: str, fields: dict[str, object]) -> None:
    try:
        request = parse_request({**fields, "do": name})
    except MalformedError:
        return
    assert request.name == name
    assert request.number >= 0


@given(_JSON)
def test_any_answer_is_read_or_malformed(data: object) -> None:
    for read in (
        codec.LINES.decode,
        codec.REPLY.decode,
        codec.COMPLETION.decode,
        codec.CELLS.decode,
        codec.COMMANDS.decode,
        codec.HEAD.decode,
        codec.PART.decode,
        codec.HIT.decode,
    ):
        try:
            read(data)
        except LostError:
            continue


_SPANS = st.builds(
    Span,
    st.text(max_size=20),
    st.sampled_from(["", "error", "number"]),
    st.none() | st.builds(Link, st.text(min_size=1, max_size=5)),
    st.none() | st.builds(Ink, *[st.none() | st.integers(0, 0xFFFFFF)] * 2, st.booleans()),
)


@given(st.lists(_SPANS, max_size=5))
def test_lines_cross_the_wire(spans: list[Span]) -> None:
    made = Line(spans, ((0, 1), (2, 3)))
    data = json.loads(json.dumps(codec.LINES.encode([made])))
    (read,) = codec.LINES.decode(data)
    assert read.indices == made.indices
    assert len(read.spans) == len(made.spans)
    for ours, theirs in zip(made.spans, read.spans, strict=True):
        assert theirs.text == codec.printable(ours.text)
        assert theirs.role == ours.role
        assert theirs.ink == ours.ink


def test_colours_that_are_none_are_refused() -> None:
    for colours in ([0], [0, 1 << 24, True], [-1, 0, True], ["red", None, False], 7):
        with pytest.raises(MalformedError):
            codec.LINES.decode([[[["x", "", "", colours]], None]])


def test_what_a_terminal_would_obey_is_not_drawn() -> None:
    (read,) = codec.LINES.decode([[[["\x1b]52;c;ZXZpbA==\x07", "no such role"]], None]])
    assert "\x1b" not in read.text
    assert read.spans[0].role == ""


def test_a_line_without_end_is_cut() -> None:
    encoded = codec.LINES.encode([Line([Span("x" * 10**6), Span("y")]), Line([Span("z")])])
    (first, second) = codec.LINES.decode(encoded)
    assert len(first.text) == codec.LONGEST_LINE + 1
    assert first.text.endswith("…")
    assert second.text == "z"
