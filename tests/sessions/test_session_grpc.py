"""The receiver of debug streams, as any sender may use or misuse it; no TensorFlow needed."""

import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfdbg_cli.common.errors import DumpError, UserError
from tfdbg_cli.dumps.proto import wire
from tfdbg_cli.dumps.proto.graph_def import NodeDef, graph_chunks
from tfdbg_cli.dumps.proto.tensor_proto import tensor_chunks
from tfdbg_cli.dumps.tfdbg_dir.events import graph_event, message_event, tensor_event
from tfdbg_cli.engines.tensorflow.sessions.grpc.events import Assembler
from tfdbg_cli.net.address import Address

grpc = pytest.importorskip("grpc")

from tfdbg_cli.engines.tensorflow.sessions.grpc.stream import Receiver  # noqa: E402

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
OTHER = "/job:worker/replica:0/task:1/device:CPU:0"
SECONDS = 20


def record(index=1, step=0, outputs=("y:0",)):
    """The Event that begins a run."""
    found = {
        "global_step": -1,
        "session_run_index": index,
        "executor_step_index": step,
        "input_names": [],
        "output_names": list(outputs),
        "target_nodes": [],
        "grpc_path": "",
    }
    return b"".join(message_event(json.dumps(found), 1_700_000_000_000_000))


def tensor(name, value, *, device=CPU, at=1_700_000_000_000_001, part=None):
    """The Event of a tensor, or of one piece of it (``part`` is its number and how many)."""
    chunks = tensor_event(name, 0, "DebugIdentity", device, at, tensor_chunks(value, "float32"))
    data = b"".join(bytes(chunk) for chunk in chunks)
    if part is not None:
        before = b'"numChunks":1,"chunkIndex":0'
        after = b'"numChunks":%d,"chunkIndex":%d' % (part[1], part[0])
        assert data.count(before) == 1 and len(before) == len(after)
        data = data.replace(before, after)
    return data


def pieces(name, value, count, **options):
    """The Events of a tensor's pieces, as TensorFlow cuts it: the whole shape, part of the bytes.

    They are the Event of the whole with another length of its content, so all messages around it
    are made anew here.
    """
    made = []
    for number, part in enumerate(np.array_split(value, count)):
        proto = [
            wire.put_varint(1, 1),
            wire.put_bytes(2, wire.put_bytes(2, wire.put_varint(1, value.size))),
            wire.put_bytes(4, part.tobytes()),
        ]
        event = tensor_event(name, 0, "DebugIdentity", CPU, 1_700_000_000_000_002, proto)
        data = b"".join(bytes(chunk) for chunk in event)
        before = b'"numChunks":1,"chunkIndex":0'
        made.append(data.replace(before, b'"numChunks":%d,"chunkIndex":%d' % (count, number)))
    return made


def graph(*nodes, device=CPU, count=1):
    """The Events of a graph, in so many pieces."""
    content = b"".join(
        bytes(chunk)
        for chunk in graph_chunks([NodeDef(name, "Relu", device=device) for name in nodes])
    )
    size = -(-len(content) // count)
    for number in range(count):
        head = f"12345,{device},1700000000000000|{number}|{count}|".encode()
        part = content[number * size : (number + 1) * size]
        yield b"".join(graph_event([head + part], 1_700_000_000_000_000))


@pytest.fixture
def receiver(tmp_path):
    with Receiver(Address(), tmp_path) as made:
        yield made


class Sender:
    """One stream. Events are sent one by one; each that is answered is waited for."""

    def __init__(self, port):
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self._events = []
        self._changed = threading.Condition()
        self._is_open = True
        self.replies = self._channel.stream_stream("/tensorflow.EventListener/SendEvents")(
            self._feed()
        )

    def _feed(self):
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._events or not self._is_open, SECONDS)
                if not self._events:
                    return
                event = self._events.pop(0)
            yield event

    def send(self, *events, wait=False):
        with self._changed:
            self._events.extend(events)
            self._changed.notify()
        if wait:
            assert next(self.replies) == b""

    def end(self):
        with self._changed:
            self._is_open = False
            self._changed.notify()
        assert set(self.replies) <= {b""}

    def close(self):
        self._channel.close()


@contextmanager
def sending(receiver):
    sender = Sender(receiver.port)
    try:
        yield sender
    finally:
        sender.close()


def values(run):
    dump = run.open()
    return {datum.tensor_name: np.asarray(datum.get_tensor()).tolist() for datum in dump.data()}


def test_a_run(receiver):
    with sending(receiver) as sender:
        sender.send(*graph("y", count=3), wait=True)
        sender.send(record(), wait=True)
        sender.send(tensor("y", np.float32([1, 2])))
        sender.end()
    run = receiver.next(SECONDS)
    dump = run.open()
    assert dump.warnings == []
    assert values(run) == {"y:0": [1, 2]}
    assert dump.graph().nodes["y"].op_type == "Relu"
    info = dump.run_info()
    assert (info.call_count, list(info.fetches)) == (1, ["y:0"])
    folder = run.folder
    run.release()
    assert not folder.exists()


def test_pieces_in_any_order(receiver):
    whole = np.arange(1000, dtype=np.float32)
    first, second, third = pieces("y", whole, 3)
    with sending(receiver) as sender:
        sender.send(record(), wait=True)
        sender.send(third, first, first, second)
        sender.end()
    run = receiver.next(SECONDS)
    assert values(run) == {"y:0": whole.tolist()}
    assert run.open().warnings == []


def test_a_piece_that_never_comes(receiver):
    with sending(receiver) as sender:
        sender.send(record(), wait=True)
        sender.send(pieces("y", np.zeros(10, np.float32), 2)[0])
        sender.end()
    (warning,) = receiver.next(SECONDS).open().warnings
    assert "A piece of the" in warning and "y:0:DebugIdentity" in warning


def test_equal_times_are_kept_apart(receiver):
    with sending(receiver) as sender:
        sender.send(record(), wait=True)
        sender.send(*(tensor("y", np.float32([k])) for k in range(3)))
        sender.end()
    found = [datum.get_tensor().tolist() for datum in receiver.next(SECONDS).open().data()]
    assert found == [[0], [1], [2]]


def test_a_graph_is_sent_once_and_known_in_later_runs(receiver):
    for step in range(2):
        with sending(receiver) as sender:
            if step == 0:
                sender.send(*graph("y"), wait=True)
            sender.send(record(step + 1, step), wait=True)
            sender.send(tensor("y", np.float32([step])))
            sender.end()
        assert "y" in receiver.next(SECONDS).open().graph()


def test_another_server_has_one_stream_for_all_runs(receiver):
    with sending(receiver) as other:
        for step in range(2):
            with sending(receiver) as sender:
                sender.send(record(step, step), wait=True)
                if step == 0:
                    other.send(*graph("z", device=OTHER))
                # What is no Event is answered: so all before it was filed when the run ends.
                other.send(tensor("z", np.float32([step]), device=OTHER), b"\xff")
                sender.send(tensor("y", np.float32([10 + step])))
                answers = 2 if step == 0 else 1
                assert [next(other.replies) for _ in range(answers)] == [b""] * answers
                sender.end()
            dump = receiver.next(SECONDS).open()
            found = {datum.tensor_name: datum for datum in dump.data()}
            assert found["z:0"].get_tensor().tolist() == [step]
            assert found["z:0"].device_name == OTHER
            assert found["y:0"].get_tensor().tolist() == [10 + step]
            assert "z" in dump.graph()
        other.end()


def test_two_programs_at_once(receiver):
    with sending(receiver) as one, sending(receiver) as two:
        one.send(record(1), wait=True)
        two.send(record(2), wait=True)
        for number in range(20):
            one.send(tensor(f"a{number}", np.float32([1])))
            two.send(tensor(f"b{number}", np.float32([2])))
        one.end()
        two.end()
    runs = [receiver.next(SECONDS) for _ in range(2)]
    names = {run.open().run_info().call_count: set(values(run)) for run in runs}
    assert names == {k: {f"{c}{n}:0" for n in range(20)} for k, c in ((1, "a"), (2, "b"))}


def test_a_sender_that_dies(receiver):
    with sending(receiver) as sender:
        sender.send(record(), wait=True)
        sender.send(tensor("y", np.float32([1])), b"\xff", wait=True)
    run = receiver.next(SECONDS)
    assert values(run) == {"y:0": [1]}
    # What it could not send any more may be seen before its end is.
    said = " ".join(run.open().warnings)
    assert "The sender broke off" in said or "A part of the run can't be read" in said


@pytest.mark.parametrize(
    "name", ["../../../escaped", "/escaped", "a/../../escaped", "..", "a\0b", "x" * 5000, "a//b"]
)
def test_no_name_leaves_the_folder(tmp_path, name):
    root = tmp_path / "a" / "b" / "c"
    with Receiver(Address(), root) as receiver, sending(receiver) as sender:
        sender.send(record(), wait=True)
        sender.send(tensor(name, np.float32([7])))
        sender.end()
        run = receiver.next(SECONDS)
        assert list(values(run).values()) == [[7]]
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert files and all(run.folder in path.parents for path in files)


@pytest.mark.parametrize("device", ["/job:../../up", "a\0b", "x" * 1000, "", "a b"])
def test_what_is_no_device(receiver, device):
    with sending(receiver) as sender:
        sender.send(record(), wait=True)
        sender.send(tensor("y", np.float32([7]), device=device), tensor("y", np.float32([8])))
        sender.end()
    run = receiver.next(SECONDS)
    if device.startswith("/"):  # a strange name, and harmless
        assert [path.name for path in run.folder.parent.iterdir()] == [run.folder.name]
        return
    assert values(run) == {"y:0": [8]}
    assert any("is not a device" in warning for warning in run.open().warnings)


def test_the_limit_of_a_run(tmp_path):
    with Receiver(Address(), tmp_path, limit=100) as receiver, sending(receiver) as sender:
        sender.send(record(), wait=True)
        sender.send(tensor("small", np.zeros(4, np.float32)))
        sender.send(tensor("large", np.zeros(400, np.float32)))
        sender.send(tensor("later", np.zeros(1, np.float32)))
        sender.send(*pieces("split", np.zeros(400, np.float32), 2))
        sender.end()
        run = receiver.next(SECONDS)
        assert set(values(run)) == {"small:0"}
        warnings = " ".join(run.open().warnings)
        assert "--dump-limit" in warnings and "no room for a piece" in warnings


def test_garbage_at_the_port(receiver):
    for data in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), b""):
        with socket.create_connection(("127.0.0.1", receiver.port), SECONDS) as made:
            made.sendall(data)
    channel = grpc.insecure_channel(f"127.0.0.1:{receiver.port}")
    with channel:
        for method in ("SendTracebacks", "SendSourceFiles"):
            call = channel.unary_unary(f"/tensorflow.EventListener/{method}")
            assert call(os.urandom(100), timeout=SECONDS) == b""
        with pytest.raises(grpc.RpcError):
            channel.unary_unary("/tensorflow.EventListener/Nothing")(b"", timeout=SECONDS)
        stream = channel.stream_stream("/tensorflow.EventListener/SendEvents")
        list(stream(iter([os.urandom(50) for _ in range(50)]), timeout=SECONDS))
    test_a_run(receiver)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_bytes_that_are_no_event(data):
    try:
        Assembler(1000).feed(data)
    except DumpError:
        pass


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_events_with_damage(data):
    whole = bytearray(
        data.draw(
            st.sampled_from(
                [
                    record(),
                    tensor("y", np.float32([1, 2])),
                    *graph("y", count=2),
                    *pieces("y", np.zeros(3, np.float32), 2),
                ]
            )
        )
    )
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        Assembler(1000).feed(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    except DumpError:
        pass


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 9), st.randoms(use_true_random=False))
def test_pieces_make_the_whole(count, random):
    value = np.arange(50, dtype=np.float32)
    events = pieces("a/y", value, count)
    random.shuffle(events)
    assembler = Assembler(10_000)
    *before, last = [assembler.feed(event) for event in events]
    assert before == [None] * (count - 1)
    assert (last.node, last.slot, last.device) == ("a/y", 0, CPU)
    expected = b"".join(
        [
            wire.put_varint(1, 1),
            wire.put_bytes(2, wire.put_bytes(2, wire.put_varint(1, 50))),
            wire.put_bytes(4, value.tobytes()),
        ]
    )
    assert b"".join(bytes(chunk) for chunk in last.chunks) == expected
    assert assembler.unfinished == []


def test_a_port_in_use(receiver, tmp_path):
    with pytest.raises(UserError, match=f"can't listen for runs at {receiver.port}"):
        Receiver(Address(port=receiver.port), tmp_path)


def test_only_this_machine_reaches_it(receiver):
    found = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False)
    outside = [address for address in found.stdout.split() if "." in address]
    if not outside:
        pytest.skip("this machine has no other address")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((outside[0], receiver.port), 2)


def test_closing_lets_a_sender_go(tmp_path):
    receiver = Receiver(Address(), tmp_path, holds=True)
    with sending(receiver) as sender:
        sender.send(record(), wait=True)
        ended = threading.Thread(target=sender.end)
        ended.start()
        assert receiver.next(SECONDS) is not None
        ended.join(0.3)
        assert ended.is_alive()
        receiver.close()
        ended.join(SECONDS)
        assert not ended.is_alive()


def tfdbg(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--grpc", "nowhere"), '"nowhere" is not an address'),
        (("--grpc", "unix:/tmp/x"), "no Unix sockets"),
        (("--grpc", "0", "script.py"), "leave out the script"),
        (("--grpc", "0", "--dump-dir", "x"), "leave out the script"),
    ],
)
def test_wrong_command_lines(arguments, words):
    found = tfdbg(*arguments)
    assert found.returncode == 2
    assert words in found.stderr and "Traceback" not in found.stderr
