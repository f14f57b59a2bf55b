"""`DumpingDebugWrapperSession`: what it leaves on disk, read back by us and by TensorFlow."""

import importlib.util
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from floats_kit import assert_close
from samples import night

from tfdbg_cli import DebugDumpDir, DumpingDebugWrapperSession, WatchOptions
from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.open import list_runs
from tfdbg_cli.engines import numpy as np_engine
from tfdbg_cli.sessions.wrappers.debug_ops import apply_debug_ops, parse_debug_op
from tfdbg_cli.sessions.wrappers.run_folders import DISK_LIMIT

ROOT = Path(__file__).parents[2]
HAS_TENSORFLOW = importlib.util.find_spec("tensorflow") is not None
needs_tensorflow = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(not HAS_TENSORFLOW, reason="needs TensorFlow"),
]


def runs_of(root):
    return sorted(Path(root).iterdir(), key=lambda path: int(path.name.rpartition("_")[2]))


def names_in(run):
    return {datum.node_name for datum in DebugDumpDir(str(run)).data()}


def test_each_run_has_a_folder_with_all_that_it_was(program, tmp_path):
    root = tmp_path / "deep" / "root"
    sess = DumpingDebugWrapperSession(program.session, str(root))
    assert root.is_dir()
    first = sess.run(program.ratio, program.feed)
    sess.run([program.add, {"w": program.whole}], feed_dict=program.feed)
    sess.run(program.add)
    assert first.tolist() == [3.0, 1.5]
    runs = runs_of(root)
    assert [re.fullmatch(r"run_\d{16}_(\d)", run.name)[1] for run in runs] == ["0", "1", "2"]
    dumps = [DebugDumpDir(str(run)) for run in runs]
    assert dumps[0].run_fetches_info == repr(program.ratio)
    assert dumps[0].run_feed_keys_info == repr(program.feed.keys())
    assert dumps[1].run_fetches_info == repr([program.add, {"w": program.whole}])
    assert dumps[2].run_feed_keys_info == "None"
    assert [dump.core_metadata.session_run_index for dump in dumps] == [1, 2, 3]
    assert dumps[0].core_metadata.input_names == ["x:0"]
    assert dumps[0].core_metadata.output_names == ["ratio/div:0"]
    (value,) = dumps[0].get_tensors("ratio/div", 0, "DebugIdentity")
    np.testing.assert_array_equal(value, first)
    assert dumps[0].node_inputs("ratio/div") == ["x", "ratio/left"]
    assert len(list_runs(root)) == 3


def test_a_relative_root(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sess = DumpingDebugWrapperSession(program.session, "root")
    sess.run(program.add)
    assert "add" in names_in(runs_of(tmp_path / "root")[0])


def test_roots_that_are_no_use(program, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="session_root path points to a file"):
        DumpingDebugWrapperSession(program.session, str(tmp_path / "file"))
    with pytest.raises(ValueError, match="session_root path points to a non-empty directory"):
        DumpingDebugWrapperSession(program.session, str(tmp_path))
    with pytest.raises(TypeError, match="watch_fn is not callable"):
        DumpingDebugWrapperSession(program.session, str(tmp_path / "root"), watch_fn=3)
    with pytest.raises(TypeError, match="Expected a session"):
        DumpingDebugWrapperSession(object(), str(tmp_path / "root"))


@pytest.mark.parametrize(
    ("watched", "expected"),
    [
        (
            WatchOptions(node_name_regex_allowlist="ratio/.*"),
            {"ratio/three", "ratio/left", "ratio/div"},
        ),
        (WatchOptions(node_name_regex_allowlist="left"), set()),
        (WatchOptions(node_name_regex_allowlist="(x$|whole)"), {"x", "whole"}),
        (WatchOptions("DebugIdentity", ".*", "Cast", "int"), {"whole"}),
        (WatchOptions(tensor_dtype_regex_allowlist="int"), {"whole"}),
        ((["DebugIdentity"], r".*left", r"Sub"), {"ratio/left"}),
        (("DebugIdentity", r"whole", None), {"whole"}),
    ],
    ids=["node", "whole-name", "either", "all-three", "dtype", "legacy-list", "legacy"],
)
def test_a_watch_fn_chooses(program, tmp_path, watched, expected):
    seen = []

    def watch_fn(fetches, feeds):
        seen.append((fetches, feeds))
        return watched

    sess = DumpingDebugWrapperSession(program.session, str(tmp_path / "root"), watch_fn)
    sess.run(program.whole, program.feed)
    assert seen == [(program.whole, program.feed)]
    (run,) = runs_of(tmp_path / "root")
    assert names_in(run) == expected


def test_a_watch_fn_may_change_its_mind(program, tmp_path):
    nodes = iter(["zero", "add$"])
    sess = DumpingDebugWrapperSession(
        program.session,
        str(tmp_path / "root"),
        lambda fetches, feeds: WatchOptions(node_name_regex_allowlist=next(nodes)),
    )
    for _ in range(2):
        sess.run(program.add)
    assert [names_in(run) for run in runs_of(tmp_path / "root")] == [set(), {"add"}]


def test_only_the_threads_that_are_meant(program, tmp_path):
    import threading

    sess = DumpingDebugWrapperSession(
        program.session, str(tmp_path / "root"), thread_name_filter="work"
    )
    sess.run(program.add)
    thread = threading.Thread(target=sess.run, args=(program.add,), name="worker")
    thread.start()
    thread.join()
    assert len(runs_of(tmp_path / "root")) == 1
    assert sess.run(program.add) == 3.0


def test_a_run_that_fails_is_written_and_raised(program, tmp_path):
    sess = DumpingDebugWrapperSession(program.session, str(tmp_path / "root"))
    for _ in range(2):
        sess.run(program.checked, program.feed)
    with pytest.raises(program.tf.errors.InvalidArgumentError, match="bad ratio"):
        sess.run(program.checked, program.feed)
    runs = runs_of(tmp_path / "root")
    assert len(runs) == 3
    assert "x" in names_in(runs[2])


def test_a_run_that_fails_is_not_written_when_errors_pass_through(program, tmp_path):
    sess = DumpingDebugWrapperSession(
        program.session, str(tmp_path / "root"), pass_through_operrors=True
    )
    for _ in range(2):
        sess.run(program.checked, program.feed)
    with pytest.raises(program.tf.errors.OpError):
        sess.run(program.checked, program.feed)
    assert names_in(runs_of(tmp_path / "root")[2]) == set()


def test_defect_23_run_options_that_are_used_again(program, tmp_path):
    """The original let every later run write into the folders of the earlier ones too."""
    options = object() if program.engine == "numpy" else program.tf.RunOptions()
    sess = DumpingDebugWrapperSession(program.session, str(tmp_path / "root"))
    counts = []
    for _ in range(3):
        sess.run(program.add, options=options)
        counts.append([len(list(run.rglob("*"))) for run in runs_of(tmp_path / "root")])
    assert counts[2] == [counts[0][0]] * 3
    if program.engine == "tensorflow":
        assert options == program.tf.RunOptions()


# Limits.


def test_defect_30_the_disk_limit(program, tmp_path, monkeypatch, capsys):
    """The original raised a ValueError about "a Tensor, not a Operation" into the program."""
    sess = DumpingDebugWrapperSession(program.session, str(tmp_path / "all"))
    sess.run(program.add)
    (whole,) = runs_of(tmp_path / "all")
    size = sum(path.stat().st_size for path in whole.rglob("*_DebugIdentity_*"))
    monkeypatch.setenv(DISK_LIMIT, str(size * 3 // 2))
    sess = DumpingDebugWrapperSession(program.session, str(tmp_path / "some"))
    assert [sess.run(program.add) for _ in range(4)] == [2.0, 3.0, 4.0, 5.0]
    runs = runs_of(tmp_path / "some")
    assert len(runs) == 2
    assert names_in(runs[0]) == names_in(whole)
    assert 0 < len(names_in(runs[1])) < len(names_in(whole))
    (said,) = capsys.readouterr().err.splitlines()
    assert f"reached the limit of {size * 3 // 2} bytes in run #2" in said
    assert DISK_LIMIT in said


def test_a_limit_that_is_no_number_is_the_default(program, tmp_path, monkeypatch):
    monkeypatch.setenv(DISK_LIMIT, "much")
    sess = DumpingDebugWrapperSession(program.session, str(tmp_path / "root"))
    assert sess.folders.limit == 100 << 30


FULL_DISK = """
    import resource, signal
    import numpy as np
    import tfdbg_cli as tf_debug
    import tfdbg_cli.engines.numpy as tf
    from tfdbg_cli.sessions.wrappers import dumping

    with tf.Session() as session:
        big = tf.square(tf.constant(np.ones(1 << 16), name="x"), name="big")
        sess = tf_debug.DumpingDebugWrapperSession(session, "root")
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
        print([float(sess.run(big).sum()) for _ in range(3)])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits")
def test_a_full_disk_is_said_once_and_the_program_runs_on(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FULL_DISK)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[65536.0, 65536.0, 65536.0]\n"
    (said,) = done.stderr.splitlines()
    assert "File too large" in said


MANY_RUNS = """
    import os, shutil, sys
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import numpy as np
    import tensorflow.compat.v1 as tf
    import tfdbg_cli as tf_debug

    tf.disable_v2_behavior()

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    last = x = tf.placeholder(tf.float32, [100], name="x")
    for number in range(60):
        last = tf.tanh(last, name=f"n{number}")
    with tf.Session() as session:
        sess = tf_debug.DumpingDebugWrapperSession(session, "root")
        for number in range(230):
            sess.run(last, {x: np.ones(100)})
            (run,) = os.listdir("root")
            if number == 0:
                print(sum(len(files) for _, _, files in os.walk("root")))
            shutil.rmtree(os.path.join("root", run))
            if number == 29:
                before = resident()
        print(resident() - before)
"""


@night
@pytest.mark.tensorflow
@pytest.mark.skipif(not HAS_TENSORFLOW, reason="needs TensorFlow")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_defect_29_memory_of_two_hundred_dumped_runs(tmp_path):
    """The original's dumping wrapper kept some 0.4 MB for each run of sixty nodes."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(MANY_RUNS)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    files, grown = map(int, done.stdout.split())
    assert files > 60
    assert grown < 15e6


# Debug ops.

TEXTS = [
    "DebugIdentity",
    "DebugNanCount",
    "DebugNumericSummary",
    "DebugNumericSummary(mute_if_healthy=true)",
    "DebugNumericSummary(lower_bound=1.5;upper_bound=2.5;mute_if_healthy=True)",
    "DebugNumericSummary(lower_bound=-1e2; gated_grpc=false)",
]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("DebugNothing", "There are DebugIdentity, DebugNanCount, DebugNumericSummary"),
        ("", "is not a debug op"),
        ("DebugNanCount(", "is not a debug op"),
        ("DebugNanCount(lower_bound=1)", 'has no attribute "lower_bound". It has none'),
        ("DebugNumericSummary(foo=1)", 'has no attribute "foo". It has lower_bound'),
        ("DebugNumericSummary(lower_bound)", 'no attribute "lower_bound"'),
        ("DebugNumericSummary(lower_bound=low)", '"low" is not a value for lower_bound'),
        ("DebugNumericSummary(mute_if_healthy=maybe)", '"maybe" is not a value'),
        ("DebugNumericSummary(lower_bound=1;lower_bound=2)", "given twice"),
    ],
)
def test_debug_ops_that_there_are_not(program, tmp_path, text, error):
    with pytest.raises(ValueError, match=re.escape(error)):
        parse_debug_op(text)
    sess = DumpingDebugWrapperSession(
        program.session,
        str(tmp_path / "root"),
        lambda *_: WatchOptions(debug_ops=["DebugIdentity", text]),
    )
    with pytest.raises(ValueError, match=re.escape(error)):
        sess.run(program.add)
    assert program.session.run(program.count) == 0.0


def test_several_debug_ops_at_once(program, tmp_path):
    ops = ["DebugIdentity", "DebugNumericSummary(mute_if_healthy=true)"]
    sess = DumpingDebugWrapperSession(
        program.session, str(tmp_path / "root"), lambda *_: WatchOptions(debug_ops=ops)
    )
    for _ in range(3):
        sess.run(program.ratio, program.feed)
    found = []
    for run in runs_of(tmp_path / "root"):
        dump = DebugDumpDir(str(run))
        found.append({d.watch_key for d in dump.data() if d.debug_op == "DebugNumericSummary"})
    assert found == [set(), set(), {"ratio/div:0:DebugNumericSummary"}]
    (summary,) = dump.get_tensors("ratio/div", 0, "DebugNumericSummary")
    expected = [1, 2, 0, 0, 0, 0, 0, 2, np.inf, -np.inf, np.nan, np.nan, 1, 1, 2]
    np.testing.assert_array_equal(summary, expected)


def test_an_uninitialized_tensor_has_a_summary():
    dump = MemoryDump()
    dump.add("v", 0, InconvertibleTensorProto(initialized=False))
    dump.add("handle", 0, InconvertibleTensorProto("a handle"))
    dump.add("text", 0, np.array([b"a"], object))
    ops = [parse_debug_op(text) for text in ("DebugNumericSummary", "DebugNanCount")]
    (datum,) = apply_debug_ops(dump, ops).data()
    assert datum.node_name == "v"
    assert datum.get_tensor()[:8].tolist() == [0.0] * 8


@pytest.fixture(scope="module")
def every_dtype():
    """A session, fetches of many dtypes with bad values among them, and the feeds."""
    tf = pytest.importorskip("tensorflow").compat.v1
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [2, 3], name="x")
        y = tf.math.log(x, name="float32")
        kinds = ("float64", "bfloat16", "float16", "int32", "int8", "uint8", "bool", "complex64")
        whole = tf.clip_by_value(tf.where(tf.math.is_finite(y), y, x), -5.0, 5.0)
        cast = [
            tf.cast(y if kind[:1] in "fb" and kind != "bool" else whole, kind, name=kind)
            for kind in kinds
        ]
        kept = []  # the original's wrapper closes its session when it is collected
        fetches = [y, *cast, tf.as_string(y, name="string")]
        yield session, fetches, {x: [[1, 2, 0], [-1, 5, 9]]}, kept


@pytest.mark.tensorflow
@pytest.mark.skipif(not HAS_TENSORFLOW, reason="needs TensorFlow")
@pytest.mark.parametrize("text", TEXTS)
def test_debug_ops_give_what_the_runtimes_kernels_give(every_dtype, tmp_path, text):
    from tensorflow.python.debug.lib import debug_data
    from tensorflow.python.debug.wrappers import dumping_wrapper

    session, fetches, feeds, kept = every_dtype

    def watch_fn(fetches, feeds):
        return WatchOptions(
            [text],
            node_name_regex_allowlist="(x|bool|string|[a-z]+[0-9]+)$",
            tolerate_debug_op_creation_failures=True,
        )

    found = []
    for kind in (DumpingDebugWrapperSession, dumping_wrapper.DumpingDebugWrapperSession):
        root = tmp_path / str(len(found))
        kept.append(kind(session, str(root), watch_fn))
        kept[-1].run(fetches, feeds)
        (run,) = root.iterdir()
        dump = debug_data.DebugDumpDir(str(run))
        found.append({d.watch_key: d.get_tensor() for d in dump.dumped_tensor_data})
    ours, theirs = found
    assert set(theirs) <= set(ours)
    assert len(theirs) >= 2
    for key, value in theirs.items():
        assert ours[key].dtype == value.dtype, key
        assert ours[key].shape == value.shape, key
        if value.dtype.kind == "O":
            assert ours[key].tolist() == value.tolist()
        else:
            found, expected = (each.astype(np.complex64) for each in (ours[key], value))
            assert_close(found, expected, terms=16)


@pytest.mark.tensorflow
@pytest.mark.skipif(not HAS_TENSORFLOW, reason="needs TensorFlow")
def test_loops_and_variables_are_read_by_tensorflow(tmp_path):
    import tensorflow.compat.v1 as tf
    from tensorflow.python.debug.lib import debug_data

    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.placeholder(tf.float32, [], name="step")
        v = tf.get_variable("v", initializer=1.0)
        loop = tf.while_loop(lambda a: a < 5.0, lambda a: tf.add(a, step, name="next"), [v])
        session.run(v.initializer)
        sess = DumpingDebugWrapperSession(session, str(tmp_path / "root"))
        assert sess.run(loop, {step: 1.0}) == 5.0
    (run,) = runs_of(tmp_path / "root")
    dump = debug_data.DebugDumpDir(str(run), validate=True)
    key = next(d.watch_key for d in dump.dumped_tensor_data if "next" in d.node_name)
    values = [float(d.get_tensor()) for d in dump.watch_key_to_data(key)]
    assert values == [2.0, 3.0, 4.0, 5.0]


def test_a_chain_of_nodes_of_the_numpy_engine(tmp_path):
    with np_engine.Graph().as_default(), np_engine.Session() as session:
        last = np_engine.constant(1.0, name="x")
        for number in range(200):
            last = np_engine.negative(last, name=f"n{number}")
        sess = DumpingDebugWrapperSession(session, str(tmp_path / "root"))
        sess.run(last)
    (run,) = runs_of(tmp_path / "root")
    dump = DebugDumpDir(str(run))
    assert dump.size == 201
    assert [d.node_name for d in dump.data()][-2:] == ["n198", "n199"]
