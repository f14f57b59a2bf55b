"""Values that --dump-limit leaves no room for: they never are in memory together."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from samples import night

from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.tensorflow.sessions.capture import room
from tfdbg_cli.engines.tensorflow.sessions.capture.spool import borrow_folder
from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE
from tfdbg_cli.filters.builtin import has_inf_or_nan

tf1 = tf.compat.v1


@pytest.fixture
def session(graph):
    x = tf1.placeholder(tf.float32, [None, 8], name="x")
    kept = tf1.get_variable("kept", initializer=np.ones(8, np.float32), use_resource=True)
    y = x
    for number in range(6):
        y = tf.sqrt(y * kept + 1.0, name=f"root_{number}")
    with tf.control_dependencies([y]):
        more = kept.assign_add(np.ones(8, np.float32), name="more")
    with tf.control_dependencies([more]):
        tf.reduce_sum(y, name="z")
    with tf1.Session() as made:
        made.run(kept.initializer)
        yield made


def values(dump):
    return {datum.tensor_name: np.array(datum.get_tensor()) for datum in dump.data()}


FEED = {"x:0": np.full((10_000, 8), 0.5, np.float32)}


def test_what_has_no_room_is_watched_and_shown_all_the_same(session):
    adapter = ENGINE.adapt(session)
    plain = adapter.debug_run("z:0", FEED, None, None, Watch())
    session.run(session.graph.get_operation_by_name("kept/Assign"))
    tight = adapter.debug_run("z:0", FEED, None, None, Watch(limit=1_000_000))
    assert plain.dump.warnings == [] and tight.error is None
    assert tight.value == pytest.approx(plain.value)
    expected, found = values(plain.dump), values(tight.dump)
    roots = [f"root_{number}:0" for number in range(6)]
    assert set(roots) <= set(found)
    for name in roots:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6)
    [warning] = tight.dump.warnings
    assert "tensor(s) that --dump-limit leaves no room for were written to the disk" in warning
    with borrow_folder(is_large=True) as folder:
        assert not os.path.isfile(folder) and not any(names for *_, names in os.walk(folder))


def test_no_more_is_in_memory_than_has_room(session):
    limit = 1_000_000
    capture = ENGINE.adapt(session).debug_run("z:0", FEED, None, None, Watch(limit=limit))
    found = values(capture.dump)
    loaded = [datum.get_tensor() for datum in capture.dump.data()]
    held = sum(each.nbytes for each in loaded if each.flags.writeable)
    assert sum(each.nbytes for each in found.values()) > 3 * limit > limit >= held


def test_a_watch_of_the_programs_own_leaves_them_out_and_it_is_said(session, tmp_path):
    options = tf1.RunOptions()
    options.debug_options.debug_tensor_watch_opts.add(
        node_name="root_0",
        output_slot=0,
        debug_ops=["DebugIdentity"],
        debug_urls=[f"file://{tmp_path}"],
    )
    capture = ENGINE.adapt(session).debug_run("z:0", FEED, options, None, Watch(limit=1_000_000))
    assert capture.error is None
    assert "root_5:0" not in values(capture.dump)
    assert any("leaves no room for were left out" in text for text in capture.dump.warnings)


def test_lengths_are_told_from_what_is_fed():
    assert room.longest([]) == 1
    assert room.longest([3.0, np.ones((5, 100)), [1] * 4]) == 128
    assert room.longest([np.ones(128)]) == 128


def test_room_is_made_once_for_feeds_of_a_kind(session):
    adapter = ENGINE.adapt(session)
    for length in (10_000, 10_001, 10_002):
        feed = {"x:0": np.ones((length, 8), np.float32)}
        adapter.debug_run("z:0", feed, None, None, Watch(limit=1_000_000))
    plans = [plan for plan in adapter._plans._plans.values() if plan.smaller]
    assert [len(plan.smaller) for plan in plans] == [1]


@night
@pytest.mark.skipif(
    tf.__version__.startswith("2.12."), reason="2.12 itself takes less: there is room enough"
)
def test_a_program_ends_as_it_would_where_memory_is_short(tmp_path):
    """More values than the process may have: TensorFlow would fail, or the kernel end it."""
    script = tmp_path / "script.py"
    script.write_text(
        """\
import numpy as np
import tensorflow
tf = tensorflow.compat.v1
tf.disable_eager_execution()
x = tf.placeholder(tf.float32, [None], name="x")
count = tf.Variable(0, name="count")
y = x
for number in range(100):
    y = tf.sqrt(y + 1.0, name=f"root_{number}")
with tf.control_dependencies([count.assign_add(1)]):
    z = tf.reduce_sum(y, name="z")
one = tf.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)
session = tf.Session(config=one)
session.run(count.initializer)
with open("/proc/self/status") as file:
    print(next(line for line in file if line.startswith("VmData")))
print(session.run(z, {x: np.ones(1_000_000, np.float32)}), session.run(count))
"""
    )
    environment = os.environ | {"TMPDIR": str(tmp_path), "TF_CPP_MIN_LOG_LEVEL": "3"}

    def run(data, *way):
        return subprocess.run(
            ["sh", "-c", f'ulimit -d {data}; exec "$@"', "sh", sys.executable, *way, str(script)],
            check=False,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )

    free = run("unlimited")
    # TensorFlow alone takes more where there are more cores. The values take 0.8 GB.
    room = int(re.search(r"VmData:\s+(\d+) kB", free.stdout)[1]) + 650_000
    commands = ["-c", "run", "-c", "run", "-c", "lt -n root"]
    ways = ([], ["-m", "tfdbg_cli", "--batch", *commands])
    plain, debugged = (run(room, *way) for way in ways)
    assert plain.returncode == debugged.returncode == 0, debugged.stderr
    assert plain.stdout.splitlines()[-1] in debugged.stdout
    assert "above --dump-limit" in debugged.stdout + debugged.stderr


def test_what_has_no_room_is_there_while_a_filter_is_awaited(session):
    """What isn't fetched can't be computed of what only a watch sees: the whole is fetched then."""
    adapter = ENGINE.adapt(session)
    watch = Watch(filter_name="has_inf_or_nan", predicate=has_inf_or_nan, limit=1_000_000)
    feed = {"x:0": np.full((10_000, 8), -5.0, np.float32)}
    found = values(adapter.debug_run("z:0", feed, None, None, watch).dump)
    assert all(np.isnan(found[f"root_{number}:0"]).all() for number in range(6))
    assert np.array_equal(found["x:0"], feed["x:0"])
