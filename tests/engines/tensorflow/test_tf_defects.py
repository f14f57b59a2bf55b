"""The original's verified defects, by number: what takes real runs of TensorFlow to see."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from stop_kit import stop_over
from tensorflow.python.debug.wrappers.dumping_wrapper import DumpingDebugWrapperSession

from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE

tf1 = tf.compat.v1
ROOT = Path(__file__).parents[3]
STATM = Path("/proc/self/statm")
CPU0, CPU1 = (f"/job:localhost/replica:0/task:0/device:CPU:{n}" for n in (0, 1))
X = np.array([[1.0, 2.0, 3.0], [-4.0, -5.0, -6.0]], np.float32)


class Shell:
    """Command lines over a dump."""

    def __init__(self, dump, mode="run-end"):
        info = dump.run_info() or RunInfo()
        self.service = stop_over(dump, mode, info=info, title="", initial_command="lt")

    def document(self, command):
        reply = self.service.run(command, 200)
        assert not reply.failed, (command, reply.message, reply.details)
        return reply.document

    def lines(self, command):
        return [line.text for line in self.document(command)]

    def links(self, command):
        document = self.document(command)
        return [span.link.command for line in document for span in line.spans if span.link]

    def tensors(self, command):
        return [c.split()[1] for c in self.links(command) if c.startswith("pt ")]


def debug(session, fetches, feed_dict=None, options=None, **watch):
    capture = ENGINE.adapt(session).debug_run(fetches, feed_dict, options, None, Watch(**watch))
    assert capture.error is None
    return capture.dump


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A run on two devices, dumped by TensorFlow's own wrapper."""
    root = tmp_path_factory.mktemp("original") / "session"
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [2], name="x")
        with tf.device("/cpu:0"):
            here = tf.cumsum(x, name="here")
        with tf.device("/cpu:1"):
            there = tf.math.log(here, name="there")
        with tf.device("/cpu:0"):
            back = tf.identity(tf.add(there, 1.0, name="sum"), name="back")
        config = tf1.ConfigProto(device_count={"CPU": 2})
        with tf1.Session(config=config) as session:
            wrapped = DumpingDebugWrapperSession(session, str(root))
            wrapped.run(back, {x: [-1.0, 2.0]})
    (run,) = root.iterdir()
    return run


@pytest.fixture
def fused(graph):
    """A layer that the runtime makes one operation of: MatMul, add and Relu."""
    x = tf1.placeholder(tf.float32, [None, 3], name="x")
    with tf1.name_scope("hidden"):
        product = tf.matmul(x, tf.ones([3, 4]), name="MatMul")
        relu = tf.nn.relu(tf.nn.bias_add(product, tf.ones([4]), name="bias"), name="Relu")
    return x, tf.reduce_sum(relu, name="total")


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.dtypes.experimental.float8_e5m2, tf.float16])
def test_defect_05_bad_values_of_small_floats_are_found(graph, dtype):
    """The original's has_inf_or_nan was false for every bfloat16 and float8 tensor."""
    x = tf1.placeholder(tf.float32, [2], name="x")
    small = tf.cast(x, dtype, name="small")
    out = tf.nn.relu(tf.cast(small, tf.float32), name="out")
    with tf1.Session() as session:
        shell = Shell(debug(session, out, {x: [1.0, np.inf]}))
        healthy = Shell(debug(session, out, {x: [1.0, 2.0]}))
    assert "small:0" in shell.tensors("lt -f has_inf_or_nan")
    assert healthy.tensors("lt -f has_inf_or_nan") == []


def test_defect_15_a_loop_is_listed_once(old_control_flow, graph):
    """The original walked round a loop of six nodes until it had printed 947 lines."""
    loop = tf1.while_loop(lambda i: i < 5, lambda i: i + 1, [0], name="wl")
    with tf1.Session() as session:
        dump = debug(session, loop)
    rows = [text for text in Shell(dump).lines("li -c -r wl/Exit") if "|- (" in text]
    assert 5 < len(rows) <= 60


def test_defect_17_recipients_on_another_device(original):
    """The original said [None] although the value was sent and used elsewhere."""
    shell = Shell(open_dump(original), "offline")
    assert any(text.endswith("there") for text in shell.lines("lo here"))
    rows = [text.split()[-1] for text in shell.lines("lo -r here") if "|- (" in text]
    assert {"there", "sum", "back"} <= set(rows)
    assert any(text.endswith("here") for text in shell.lines("li there"))


def test_defect_18_node_exists_minds_the_device(original):
    """The original ignored node_exists(device_name=…)."""
    dump = open_dump(original)
    assert dump.node_exists("there", device_name=CPU1)
    assert not dump.node_exists("there", device_name=CPU0)


def test_defect_19_watch_key_to_data_takes_a_device(original):
    """The original raised an AttributeError for watch_key_to_data(device_name=…)."""
    (datum,) = open_dump(original).watch_key_to_data("there:0:DebugIdentity", device_name=CPU1)
    np.testing.assert_array_equal(datum.get_tensor(), [np.nan, 0.0])


def test_defect_20_find_takes_a_device(original):
    """The original raised a TypeError for find(device_name=…)."""
    found = open_dump(original).find(lambda d, value: np.isnan(value).any(), device_name=CPU1)
    assert [datum.node_name for datum in found] == ["there"]


def test_defect_21_a_dump_without_its_graph_file(original, tmp_path):
    """The original counted the tensors of such a dump and then found none of them."""
    for path in original.rglob("*"):
        if path.is_file() and not path.name.startswith("_tfdbg_graph"):
            copy = tmp_path / "run" / path.relative_to(original)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    dump = open_dump(tmp_path / "run")
    shell = Shell(dump, "offline")
    assert not dump.loaded_partition_graphs()
    listed = shell.tensors("lt")
    assert len(listed) == dump.size == len(dump.data()) >= 4
    assert any("nan" in text for text in shell.lines("pt there:0"))
    assert "there:0" in shell.tensors("lt -f has_inf_or_nan")
    assert dump.get_tensors("here", 0, "DebugIdentity")[0].tolist() == [-1.0, 1.0]


def test_defect_23_run_options_that_are_used_again(old_control_flow, graph):
    """The original added its watches to the caller's options: 5, 10, 15 in three runs."""
    x = tf1.placeholder(tf.int32, [], name="x")
    loop = tf1.while_loop(lambda i: i < x, lambda i: i + 1, [0]) * 2
    options = tf1.RunOptions(trace_level=tf1.RunOptions.NO_TRACE, timeout_in_ms=60_000)
    before = options.SerializeToString()
    with tf1.Session() as session:
        counts = [len(debug(session, loop, {x: 3}, options).data()) for _ in range(3)]
    assert len(set(counts)) == 1 and counts[0] > 10
    assert options.SerializeToString() == before


def test_defect_25_a_debugged_run_changes_no_options_and_no_handlers(fused):
    """The original's UI changed NumPy's print options and SIGINT for good."""
    x, total = fused
    before = repr(np.get_printoptions()), signal.getsignal(signal.SIGINT)
    with tf1.Session() as session:
        shell = Shell(debug(session, total, {x: X}))
    shell.lines("pt -a -s hidden/MatMul:0")
    assert (repr(np.get_printoptions()), signal.getsignal(signal.SIGINT)) == before


@pytest.mark.parametrize(
    "watch",
    [{"node_name": "hidden/Relu$"}, {"op_type": "^Relu$"}, {"node_name": "hidden/MatMul"}],
    ids=str,
)
def test_defect_26_a_narrowed_watch_of_fused_nodes(fused, watch):
    """The original dumped nothing: the nodes had been fused under another name."""
    x, total = fused
    with tf1.Session() as session:
        dump = debug(session, total, {x: X}, **watch)
    (datum,) = dump.data()
    expected = {
        "hidden/MatMul:0": [[6.0] * 4, [-15.0] * 4],
        "hidden/Relu:0": [[7.0] * 4, [0.0] * 4],
    }
    assert datum.get_tensor().tolist() == expected[datum.tensor_name]


def test_defect_27_every_node_of_a_chain_is_listed(graph):
    """The original dumped 3 tensors of a chain of 1000 tanh, and gave no hint why."""
    last = x = tf1.placeholder(tf.float32, [2], name="x")
    for number in range(1000):
        last = tf.tanh(last, name=f"l{number}")
    with tf1.Session() as session:
        shell = Shell(debug(session, last, {x: [0.5, 1.0]}))
    names = shell.tensors("lt -n ^l[0-9]+$")
    assert sorted(names) == sorted(f"l{number}:0" for number in range(1000))


def test_defect_28_the_same_fetches_again_have_a_graph(fused):
    """The original warned that partition graphs couldn't be loaded, from the second run on."""
    x, total = fused
    with tf1.Session() as session:
        for _ in range(3):
            dump = debug(session, total, {x: X})
            assert dump.warnings == []
            shell = Shell(dump)
            assert shell.lines("li hidden/Relu")[1].endswith("hidden/bias")
            assert not any(text.startswith("Warning") for text in shell.lines("lt"))


@pytest.mark.skipif(not STATM.exists(), reason="needs Linux's /proc")
def test_defect_29_memory_of_forty_debugged_runs(graph):
    """The original's dumping wrapper kept some 7 MB for each run of a thousand nodes."""

    def resident():
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    last = x = tf1.placeholder(tf.float32, [200], name="x")
    for number in range(1000):
        last = tf.tanh(last, name=f"l{number}")
    feed = {x: np.ones(200, np.float32)}
    with tf1.Session() as session:
        for _ in range(5):
            debug(session, last, feed)
        before = resident()
        for _ in range(40):
            debug(session, last, feed)
        assert resident() - before < 40e6  # the original: 280 MB


def test_defect_30_the_runtimes_disk_limit_is_no_error(tmp_path):
    """The original raised a ValueError about "a Tensor, not a Operation"."""
    program = tmp_path / "program.py"
    program.write_text(
        "import tensorflow.compat.v1 as tf\n"
        "tf.disable_v2_behavior()\n"
        "loop = tf.while_loop(lambda i: i < 5, lambda i: i + 1, [tf.constant(0)], name='wl')\n"
        "twice = tf.multiply(loop, 2, name='twice')\n"
        "with tf.Session() as session:\n"
        "    print('result', session.run(twice))\n"
    )
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tfdbg_cli", "--batch"),
            *("-c", "run", "-c", "lt -n twice", "-c", "pt twice:0", str(program)),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | {"TFDBG_DISK_BYTES_LIMIT": "10", "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert "result 10" in done.stdout
    assert "array(10, dtype=int32)" in done.stdout
    assert "limit" in done.stdout
    assert "appears to refer to a Tensor" not in done.stdout + done.stderr


def test_defect_31_the_traceback_has_the_text_of_its_lines(fused):
    """The original printed "Text: None" for every frame, and no links to ps."""
    x, total = fused
    with tf1.Session() as session:
        shell = Shell(debug(session, total, {x: X}))
    lines = shell.lines("ni -t hidden/MatMul")
    assert any('tf.matmul(x, tf.ones([3, 4]), name="MatMul")' in text for text in lines)
    assert not any("None" in text for text in lines if "Text" in text)
    (link, *_) = [c for c in shell.links("ni -t hidden/MatMul") if c.startswith(f"ps {__file__}")]
    assert any("hidden/MatMul" in text for text in shell.lines(link))


def test_defect_33_op_types_are_those_of_the_program_and_match_anywhere(fused):
    """The original's lt -t MatMul missed _MklMatMul and _MklNativeFusedMatMul."""
    x, total = fused
    with tf1.Session() as session:
        shell = Shell(debug(session, total, {x: X}))
    assert shell.tensors("lt -t MatMul") == ["hidden/MatMul:0"]
    assert shell.tensors("lt -t atMu") == ["hidden/MatMul:0"]
    assert any(__file__ in text for text in shell.lines("ls -p tf_defects"))


def test_defect_43_times_of_a_profiled_run_begin_at_zero(fused):
    """The original printed microseconds since 1970, and fused nodes had no line."""
    x, total = fused
    with tf1.Session() as session:
        capture = ENGINE.adapt(session).profile_run(total, {x: X}, None, None)
    lines = Shell(capture.dump, "profile").lines("lp --time_unit us")
    row = next(text for text in lines if text.startswith("hidden/") and "MatMul" in text)
    start = next(float(word.removesuffix("us")) for word in row.split() if word[:1].isdigit())
    assert 0 <= start < 60e6
    assert Path(__file__).name in row
    assert any("Start Time (us)" in text for text in lines)
