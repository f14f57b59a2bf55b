"""TensorFlow's runtime sends runs to another process, which looks at them."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from samples import night

import tfdbg_cli as tf_debug
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines import numpy as np_tf
from tfdbg_cli.net.address import Address

pytest.importorskip("grpc")

from tfdbg_cli.engines.tensorflow.sessions.grpc.stream import Receiver

tf1 = tf.compat.v1

SECONDS = 30
CHUNK = 4000 * 1024  # bytes of a tensor that TensorFlow sends at once


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    with Receiver(Address(), tmp_path / "received") as made:
        yield made


def address(receiver: Receiver) -> str:
    return f"localhost:{receiver.port}"


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def values(dump: Any) -> dict[str, Any]:
    return {datum.tensor_name: datum.get_tensor() for datum in dump.data()}


def bits(value: Any) -> Any:
    """The elements, so that a NaN equals itself."""
    return value.tolist() if value.dtype.kind == "O" else value.tobytes()


def test_values_are_those_of_the_plain_run(graph: Any, receiver: Receiver) -> None:
    x = tf1.placeholder(tf.float32, [None, 2], name="x")
    words = tf1.placeholder(tf.string, [3], name="words")
    v = tf1.get_variable("v", initializer=np.float32([[1, 2], [3, 4]]), use_resource=False)
    tensors = [
        tf.matmul(x, v, name="product"),
        tf.strings.join([words, ["1", "2", "3"]], name="text"),
        tf.cast(x, tf.bfloat16, name="half"),
        tf.identity(x[:0], name="empty"),
        tf.greater(x, 2, name="truth"),
        tf.complex(x, x, name="pair"),
    ]
    feeds = {x: [[1, 2], [3, np.nan]], words: [b"b", b"", b"c\0d"]}
    with tf1.Session() as session:
        session.run(v.initializer)
        expected = session.run([*tensors, v], feeds)
        wrapped = tf_debug.GrpcDebugWrapperSession(session, address(receiver))
        returned = wrapped.run([*tensors, v], feeds)
    run = receiver.next(SECONDS)
    assert run is not None
    dump = run.open()
    found = values(dump)
    for tensor, plain, again in zip([*tensors, v], expected, returned, strict=True):
        got = found[tensor.name]
        # By name: TensorFlow 2.12 has a bfloat16 of its own.
        assert (str(got.dtype), got.shape) == (str(plain.dtype), plain.shape)
        assert bits(plain) == bits(again) == bits(got)
    assert np.array_equal(found["x:0"], np.float32(feeds[x]), equal_nan=True)
    info = dump.run_info()
    assert info is not None
    assert set(info.fetches) == {tensor.name for tensor in [*tensors, v]}
    assert set(info.feeds) == {"x:0", "words:0"}
    nodes = dump.graph()
    assert nodes is not None and list(nodes.nodes["product"].inputs) == ["x:0", "v/read:0"]
    assert dump.warnings == []


def test_large_tensors_come_in_pieces(graph: Any, receiver: Receiver) -> None:
    numbers = tf.range(3 * CHUNK // 4 + 7, dtype=tf.float32, name="numbers")
    words = tf.strings.as_string(tf.range(600_000), width=12, name="words")
    with tf1.Session() as session:
        wrapped = tf_debug.GrpcDebugWrapperSession(session, address(receiver))
        expected = wrapped.run([numbers, words])
    run = receiver.next(SECONDS)
    assert run is not None
    found = values(run.open())
    assert expected[0].nbytes > 3 * CHUNK
    assert sum(map(len, expected[1])) > CHUNK
    assert np.array_equal(found["numbers:0"], expected[0])
    assert np.array_equal(found["words:0"], expected[1])


@pytest.mark.usefixtures("old_control_flow")
def test_a_loop_and_two_runs(graph: Any, receiver: Receiver) -> None:
    start = tf1.placeholder(tf.int32, [], name="start")
    end = tf1.while_loop(lambda i: i < 20, lambda i: i * 2, [start], name="double")
    with tf1.Session() as session:
        wrapped = tf_debug.GrpcDebugWrapperSession(session, address(receiver))
        assert [wrapped.run(end, {start: k}) for k in (1, 5)] == [32, 20]
    for passes in ([2, 4, 8, 16, 32], [10, 20]):
        run = receiver.next(SECONDS)
        assert run is not None
        dump = run.open()
        found = [datum.get_tensor().tolist() for datum in dump.by_tensor("double/mul:0")]
        assert found == passes
        nodes = dump.graph()  # TensorFlow sends it with the first of them only
        assert nodes is not None and nodes.nodes["double/mul"].op_type == "Mul"
        assert dump.warnings == []


def test_a_run_that_fails(graph: Any, receiver: Receiver) -> None:
    x = tf1.placeholder(tf.float32, [None], name="x")
    doubled = tf.multiply(x, 2, name="doubled")
    shaped = tf.reshape(doubled, [2, 2], name="shaped")
    with tf1.Session() as session:
        wrapped = tf_debug.GrpcDebugWrapperSession(session, address(receiver))
        with pytest.raises(tf.errors.InvalidArgumentError, match="shaped"):
            wrapped.run(shaped, {x: [1, 2, 3]})
    run = receiver.next(SECONDS)
    assert run is not None
    assert values(run.open())["doubled:0"].tolist() == [2, 4, 6]


def test_what_tensorflows_own_wrapper_sends(graph: Any, receiver: Receiver) -> None:
    wrappers = pytest.importorskip("tensorflow.python.debug.wrappers.grpc_wrapper")
    x = tf1.placeholder(tf.float32, [2], name="x")
    y = tf.multiply(x, 3.0, name="y")
    with tf1.Session() as session:
        wrapped = wrappers.GrpcDebugWrapperSession(session, address(receiver))
        wrapped.run(y, {x: [1, 2]})
    run = receiver.next(SECONDS)
    assert run is not None
    assert values(run.open())["y:0"].tolist() == [3, 6]


def test_nothing_of_the_callers_is_changed(graph: Any, receiver: Receiver) -> None:
    y = tf.constant(2.0, name="y") * 3
    options = tf1.RunOptions(trace_level=tf1.RunOptions.SOFTWARE_TRACE)
    before = options.SerializeToString()
    metadata = tf1.RunMetadata()
    with tf1.Session() as session:
        wrapped = tf_debug.GrpcDebugWrapperSession(session, address(receiver))
        assert wrapped.run(y, options=options, run_metadata=metadata) == 6
        assert wrapped.make_callable(y)() == 6
    assert options.SerializeToString() == before
    assert metadata.step_stats.dev_stats
    assert receiver.next(SECONDS) is not None
    assert receiver.next(SECONDS) is not None


def test_a_watch_fn_and_a_thread_filter(graph: Any, receiver: Receiver) -> None:
    x = tf1.placeholder(tf.float32, [], name="x")
    tf.add(x, 1.0, name="y")
    asked: list[Any] = []

    def watch(fetches: Any, feeds: Any) -> Any:
        asked.append((fetches, feeds))
        return tf_debug.WatchOptions(
            debug_ops=["DebugNumericSummary"], node_name_regex_allowlist="y$"
        )

    with tf1.Session() as session:
        wrapped = tf_debug.GrpcDebugWrapperSession(
            session, address(receiver), watch_fn=watch, thread_name_filter="Main"
        )
        other = threading.Thread(target=wrapped.run, args=("y:0", {x: 1}), name="Worker")
        other.start()
        other.join()
        wrapped.run("y:0", {x: 1})
    assert asked == [("y:0", {x: 1})]
    run = receiver.next(SECONDS)
    assert run is not None
    (datum,) = run.open().data()
    assert (datum.tensor_name, datum.debug_op) == ("y:0", "DebugNumericSummary")
    assert datum.get_tensor()[:8].tolist() == [1, 1, 0, 0, 0, 0, 1, 0]
    assert receiver.next(0) is None


def test_the_hook(graph: Any, receiver: Receiver) -> None:
    y = tf.add(tf1.placeholder(tf.float32, [], name="x"), 1.0, name="y")
    hook = tf_debug.GrpcDebugHook(address(receiver))
    with tf1.train.MonitoredSession(hooks=[hook]) as session:
        assert [session.run(y, {"x:0": k}) for k in (1, 2)] == [2, 3]
    for value in (2, 3):
        run = receiver.next(SECONDS)
        assert run is not None
        assert values(run.open())["y:0"] == value


def test_the_program_waits_at_the_end_of_its_run(graph: Any, tmp_path: Path) -> None:
    x = tf1.placeholder(tf.float32, [], name="x")
    y = tf.add(x, 1.0, name="y")
    with Receiver(Address(), tmp_path, holds=True) as receiver, tf1.Session() as session:
        wrapped = tf_debug.GrpcDebugWrapperSession(session, address(receiver))
        program = threading.Thread(target=wrapped.run, args=(y, {x: 1}))
        program.start()
        run = receiver.next(SECONDS)
        assert run is not None
        program.join(0.3)
        assert program.is_alive()
        assert values(run.open())["y:0"] == 2
        run.release()
        program.join(SECONDS)
        assert not program.is_alive()


def test_where_nobody_listens(graph: Any) -> None:
    port = free_port()
    with tf1.Session() as session:
        wrapped = tf_debug.GrpcDebugWrapperSession(session, f"grpc://localhost:{port}")
        with pytest.raises(UserError, match=f"localhost:{port}: Connection refused") as caught:
            wrapped.run(tf.constant(1.0))
    assert caught.value.hint == f'Start "python -m tfdbg_cli --grpc {port}" there first.'


def test_a_receiver_that_leaves(graph: Any, tmp_path: Path, capfd: Any) -> None:
    y = tf.constant(1.0) + 1.0
    with tf1.Session() as session:
        with Receiver(Address(), tmp_path) as receiver:
            wrapped = tf_debug.GrpcDebugWrapperSession(session, address(receiver))
            assert wrapped.run(y) == 2
        assert [wrapped.run(y) for _ in range(3)] == [2, 2, 2]
    assert capfd.readouterr().err.count("The program runs on undebugged.") == 1


@pytest.mark.parametrize("where", ["here", ":", "localhost:", "localhost:http", "localhost:70000"])
def test_what_is_no_address(graph: Any, where: str) -> None:
    with tf1.Session() as session:
        wrapped = tf_debug.GrpcDebugWrapperSession(session, where)
        with pytest.raises(UserError, match="is not an address of a debug server"):
            wrapped.run(tf.constant(1.0))


def test_arguments_as_in_the_original(graph: Any) -> None:
    with tf1.Session() as session:
        one = tf_debug.GrpcDebugWrapperSession(session, "localhost:7000")
        two = tf_debug.GrpcDebugWrapperSession(
            session, grpc_debug_server_addresses=["a:1", "grpc://b:2"], watch_fn=None
        )
        assert one.prepare_run_debug_urls(None, None) == ["grpc://localhost:7000"]
        assert two.prepare_run_debug_urls(None, None) == ["grpc://a:1", "grpc://b:2"]
        for wrong in (7000, None, ("localhost:7000",)):
            with pytest.raises(TypeError, match="Expected type str or list in grpc_debug_server_"):
                tf_debug.GrpcDebugWrapperSession(session, wrong)
            with pytest.raises(TypeError, match="Expected type str or list in grpc_debug_server_"):
                tf_debug.GrpcDebugHook(wrong)
        with pytest.raises(TypeError, match="Expected type str in list grpc_debug_server_addr"):
            tf_debug.GrpcDebugWrapperSession(session, ["localhost:7000", 7001])
        with pytest.raises(TypeError, match="watch_fn is not callable"):
            tf_debug.GrpcDebugWrapperSession(session, "localhost:7000", watch_fn="y")
    with np_tf.Session() as session, pytest.raises(TypeError, match="session of TensorFlow"):
        tf_debug.GrpcDebugWrapperSession(session, "localhost:7000")


class Desk:
    """``python -m tfdbg_cli --grpc`` with commands, in a process of its own."""

    def __init__(self, *commands: str, options: tuple[str, ...] = ()) -> None:
        arguments = [part for command in commands for part in ("-c", command)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tfdbg_cli", "--grpc", "0", "--batch", *options, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        words = self._process.stderr.readline()
        found = re.search(r"waiting for runs at (grpc://localhost:\d+)", words)
        assert found is not None, words
        self.url = found[1]

    def text(self) -> str:
        """All that it printed, once it has left."""
        out, err = self._process.communicate(timeout=SECONDS)
        assert (self._process.returncode, err) == (0, "")
        return out


def test_the_debugger_in_another_process(graph: Any) -> None:
    x = tf1.placeholder(tf.float32, [2], name="x")
    y = tf.math.log(x, name="y")
    z = tf.square(y, name="z")
    desk = Desk(
        *("lt", "pt x", "ni -a y", "li -r z", "lo x", "run -f has_inf_or_nan"),
        *("pt y:0", "eval `y:0`+1", "exit --detach"),
    )
    with tf1.Session() as session:
        wrapped = tf_debug.GrpcDebugWrapperSession(session, desk.url)
        for k in range(5):
            wrapped.run(z, {x: [1, 3 - k]})
    # TensorFlow numbers the runs of the process.
    _, first, rest = re.split(
        r"--- run-end: run #\d+: 1 fetch \(z:0\); 1 feed \(x:0\)", desk.text()
    )
    for words in ("Log", "array([1., 3.]", "Square", "|- (1) y", "recipient(s)"):
        assert words in first
    assert "1 -inf" in rest.split("--- pt y:0 ---")[0]
    assert "array([  0., -inf]" in rest and "array([  1., -inf]" in rest


def test_a_filter_stops_at_most_after_so_many_runs(graph: Any) -> None:
    x = tf1.placeholder(tf.float32, [], name="x")
    y = tf.add(x, 1.0, name="y")
    desk = Desk("run -f has_inf_or_nan --most 2", "pt y:0", "exit --detach")
    with tf1.Session() as session:
        wrapped = tf_debug.GrpcDebugWrapperSession(session, desk.url)
        for k in range(5):
            wrapped.run(y, {x: 10 * k})
    # The run that came before the command, and two more.
    assert "array(21." in desk.text().split("--- pt y:0 ---")[1]


def test_kept_runs_are_opened_later(graph: Any, tmp_path: Path) -> None:
    x = tf1.placeholder(tf.float32, [], name="x")
    y = tf.add(x, 1.0, name="y")
    desk = Desk("run -n", "exit --detach", options=("--dump-root", str(tmp_path), "--keep-dumps"))
    with tf1.Session() as session:
        wrapped = tf_debug.GrpcDebugWrapperSession(session, desk.url)
        for k in range(3):
            wrapped.run(y, {x: k})
    desk.text()
    kept = sorted(tmp_path.iterdir())
    found = [tf_debug.DebugDumpDir(path).get_tensors("y", 0, "DebugIdentity") for path in kept]
    assert found == [[1], [2], [3]]


_CLUSTER = """
import sys
import tensorflow as tf
import tfdbg_cli as tf_debug
tf1 = tf.compat.v1
tf1.disable_v2_behavior()
index, url, *ports = sys.argv[1:]
spec = tf.train.ClusterSpec({"worker": [f"localhost:{port}" for port in ports]})
server = tf.distribute.Server(spec, job_name="worker", task_index=int(index))
if index == "1":
    sys.stdin.read()
    sys.exit()
x = tf1.placeholder(tf.float32, [2], name="x")
with tf.device("/job:worker/task:1"):
    a = tf.multiply(x, 3.0, name="a")
with tf.device("/job:worker/task:0"):
    b = tf.add(a, 1.0, name="b")
with tf_debug.GrpcDebugWrapperSession(tf1.Session(server.target), url) as session:
    for k in range(2):
        print(session.run(b, {x: [1, k]}).tolist())
"""


@night
def test_two_servers(tmp_path: Path) -> None:
    script = tmp_path / "cluster.py"
    script.write_text(_CLUSTER)
    ports = [str(free_port()) for _ in range(2)]
    environment = {**os.environ, "PYTHONPATH": str(Path(tf_debug.__file__).parents[1])}
    with Receiver(Address(), tmp_path / "received") as receiver:
        servers = [
            subprocess.Popen(
                [sys.executable, str(script), str(index), address(receiver), *ports],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=environment,
            )
            for index in range(2)
        ]
        out, _ = servers[0].communicate(timeout=60)
        servers[1].communicate(timeout=60)
        assert out.splitlines() == ["[4.0, 1.0]", "[4.0, 4.0]"]
        for k in range(2):
            run = receiver.next(SECONDS)
            assert run is not None
            dump = run.open()
            found = {datum.tensor_name: datum for datum in dump.data()}
            for name, task in (("a:0", 1), ("b:0", 0)):
                assert found[name].device_name == f"/job:worker/replica:0/task:{task}/device:CPU:0"
            assert found["a:0"].get_tensor().tolist() == [3, 3 * k]
            assert found["b:0"].get_tensor().tolist() == [4, 3 * k + 1]
            nodes = dump.graph()
            assert nodes is not None and nodes.path("a", "b", True) == ["a", "b"]
