"""Dump roots that are addresses: through TensorFlow's gfile, or fsspec without it."""

import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from samples import sample
from session_kit import Script, make_debugger

import tfdbg_cli as tf_debug
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.remote.shadow import fetched
from tfdbg_cli.engines import numpy as np_engine
from tfdbg_cli.sessions.offline.look import look

ROOT = Path(__file__).parents[2]
needs_fsspec = pytest.mark.skipif(importlib.util.find_spec("fsspec") is None, reason="needs fsspec")


@pytest.fixture
def ram(request):
    """An address of TensorFlow's file system in memory."""
    pytest.importorskip("tensorflow")
    return f"ram://{request.node.originalname}/runs"


@pytest.mark.tensorflow
def test_runs_at_an_address_that_tensorflow_knows(program, ram):
    if program.engine != "tensorflow":
        pytest.skip("TensorFlow's own reader knows its own graphs")
    from tensorflow.python.debug.lib import debug_data
    from tensorflow.python.lib.io import file_io

    sess = tf_debug.DumpingDebugWrapperSession(program.session, ram)
    values = [sess.run(program.ratio, program.feed) for _ in range(2)]
    names = sorted(file_io.list_directory_v2(ram))
    assert len(names) == 2
    assert not os.path.exists("ram:")
    for name, value in zip(names, values, strict=True):
        address = f"{ram}/{name}"
        ours = tf_debug.DebugDumpDir(address)
        (found,) = ours.get_tensors("ratio/div", 0, "DebugIdentity")
        assert found.tolist() == value.tolist()
        theirs = debug_data.DebugDumpDir(fetched(address), validate=False)
        assert theirs.size == ours.size > 4
        assert theirs.run_fetches_info == ours.run_fetches_info == repr(program.ratio)
    with pytest.raises(ValueError, match="non-empty directory"):
        tf_debug.DumpingDebugWrapperSession(program.session, ram)
    file = ram.replace("runs", "file")
    file_io.write_string_to_file(file, "text")
    with pytest.raises(ValueError, match="points to a file"):
        tf_debug.DumpingDebugWrapperSession(program.session, file)
    ui = Script(["lt", "exit"])
    look(ram, make_debugger(ui))
    assert "ratio/div:0" in ui.stops[0].names


@needs_fsspec
def test_the_address_of_a_folder(program, tmp_path):
    sess = tf_debug.DumpingDebugWrapperSession(program.session, f"file://{tmp_path}/runs")
    sess.run(program.ratio, program.feed)
    (run,) = (tmp_path / "runs").iterdir()
    for root in (str(run), f"file://{run}"):
        assert tf_debug.DebugDumpDir(root).get_tensors("ratio/div", 0, "DebugIdentity")


def test_an_address_that_nobody_knows(program, tmp_path):
    with pytest.raises(UserError, match="nosuch://a/b can't be reached"):
        tf_debug.DumpingDebugWrapperSession(program.session, "nosuch://a/b")
    with pytest.raises(UserError, match="nosuch://a/b can't be reached"):
        tf_debug.DebugDumpDir("nosuch://a/b")
    with pytest.raises(UserError, match="nosuch://a/b is an address"):
        make_debugger(Script(), dump_root="nosuch://a/b")
    assert tf_debug.LocalCLIDebugWrapperSession(
        program.session, dump_root="nosuch://a/b", ui_type="plain"
    )


@needs_fsspec
def test_the_command_line_looks_at_an_address(tmp_path):
    root = tmp_path / "runs"
    with np_engine.Graph().as_default():
        x = np_engine.placeholder(np_engine.float32, [2], name="x")
        y = np_engine.square(x, name="y")
        sess = tf_debug.DumpingDebugWrapperSession(np_engine.Session(), str(root))
        sess.run(y, {x: [1.0, 2.0]})
    command = [sys.executable, "-m", "tfdbg_cli", "--batch", "-c", "lt", "--dump-dir"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def tfdbg(address):
        return subprocess.run(
            [*command, address],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            timeout=120,
        )

    done = tfdbg(f"local://{root}")
    assert done.returncode == 0, done.stderr
    assert "y:0" in done.stdout
    done = tfdbg(f"local://{root}/none")
    assert done.returncode != 0
    assert f"There is no dump at local://{root}/none" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.tensorflow
@pytest.mark.parametrize("opened", [*sample(["tfdbg_cli.DebugDumpDir({!r})", "fetched({!r})"], 2)])
def test_tensorflow_does_it_where_nobody_has_imported_it(ram, opened):
    program = f"""
        import sys
        import tfdbg_cli
        import tfdbg_cli.sessions.offline.look
        from tfdbg_cli.dumps.remote.shadow import fetched
        assert "tensorflow" not in sys.modules
        {opened.format(ram)}
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
    )
    assert f"There is no dump at {ram}" in done.stderr


@needs_fsspec
def test_fsspec_does_it_without_tensorflow():
    program = """
        import sys
        sys.modules["tensorflow"] = None
        import fsspec
        import tfdbg_cli
        from tfdbg_cli.engines import numpy as tf
        x = tf.placeholder(tf.float32, [2], name="x")
        y = tf.square(x, name="y")
        sess = tfdbg_cli.DumpingDebugWrapperSession(tf.Session(), "memory://deep/runs")
        for number in range(2):
            sess.run(y, {x: [number, 2.0]})
        runs = sorted(fsspec.filesystem("memory").ls("/deep/runs", detail=False))
        for run in runs:
            dump = tfdbg_cli.DebugDumpDir("memory:/" + run)
            (value,) = dump.get_tensors("y", 0, "DebugIdentity")
            print(value.tolist(), type(dump.partition_graphs()[0]).__module__)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
    )
    assert done.stderr == ""
    module = "tfdbg_cli.dumps.proto.graph_def"
    assert done.stdout.splitlines() == [f"[0.0, 4.0] {module}", f"[1.0, 4.0] {module}"]
