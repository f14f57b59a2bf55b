"""Looking at dumps after the program has gone."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from session_kit import Script, make_debugger, wrap

from tfdbg_cli.dumps.writer import write_dump_directory
from tfdbg_cli.engines import numpy as tf
from tfdbg_cli.errors import UserError
from tfdbg_cli.sessions.offline import look

COMMANDS = ["lt", "pt -s y:0", "ni -a -d -t y", "li -r y", "lo x", "ri", "eval `y:0`+1", "ls"]


@pytest.fixture
def kept(tmp_path):
    """The folder of two kept runs."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [2], name="x")
        y = tf.log(x, name="y")
        sess, ui = wrap(session, keep_dumps=True, dump_root=str(tmp_path / "root"))
        sess.run(y, {x: [1.0, 2.0]})
        sess.run(y, {x: [0.0, 2.0]})
        write_dump_directory(ui.stops[-1].dump, tmp_path / "directory")
        return tmp_path


def offline(path, *script):
    ui = Script(*script)
    look(str(path), make_debugger(ui))
    return ui.stops


def check(stop, commands=COMMANDS):
    assert stop.mode == "offline"
    assert (stop.role, stop.initial) == ("offline", "lt")
    for command in commands:
        assert not stop.replies[command].failed, stop.replies[command]


@pytest.mark.parametrize("name", ["root/run_000002", "directory"])
def test_one_run(kept, name):
    (stop,) = offline(kept / name, [*COMMANDS, "lt -f has_inf_or_nan", "run", "exit"])
    check(stop)
    assert str(kept / name) in stop.title
    assert "run #2: 1 fetch (y:0); 1 feed (x:0)" in stop.title
    assert set(stop.names) == {"x:0", "y:0"}
    assert "-inf" in stop.replies["pt -s y:0"].document.text
    assert "y:0" in stop.replies["lt -f has_inf_or_nan"].document.text.splitlines()[-1]
    assert stop.replies["run"].failed
    assert stop.service.run("runs").failed


def test_the_source_text_comes_with_a_run_folder(kept):
    (stop,) = offline(
        kept / "root" / "run_000001", ["ni -t y", f"ps {Path(__file__).name}", "exit"]
    )
    assert 'tf.log(x, name="y")' in stop.replies["ni -t y"].document.text
    assert 'tf.log(x, name="y")' in stop.replies[f"ps {Path(__file__).name}"].document.text


def test_a_folder_of_runs(kept):
    stops = offline(kept / "root", ["runs", "runs 7", "runs 0"], ["pt y:0", "runs", "exit"])
    first, second = stops
    assert "run #2" in first.title
    assert "2 run(s):" in first.replies["runs"].document.text
    assert "Use 0 to 1." in first.replies["runs 7"].message.text
    assert "run #1" in second.title
    assert "0.6931" in second.replies["pt y:0"].document.text
    listed = second.replies["runs"].document.text.splitlines()
    assert listed[1].endswith("<- this one")


@pytest.mark.parametrize("name", ["nothing", "file", "empty"])
def test_where_there_is_no_dump(tmp_path, name):
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError) as caught:
        offline(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.tensorflow
def test_what_tensorflows_own_wrapper_wrote(tmp_path):
    pytest.importorskip("tensorflow")
    program = (
        "import sys, tensorflow.compat.v1 as tf\n"
        "from tensorflow.python.debug.wrappers.dumping_wrapper import DumpingDebugWrapperSession\n"
        "tf.disable_v2_behavior()\n"
        "x = tf.placeholder(tf.float32, [2], name='x')\n"
        "y = tf.log(x, name='y')\n"
        "with tf.Session() as session:\n"
        "    session = DumpingDebugWrapperSession(session, sys.argv[1])\n"
        "    for value in (1.0, 0.0):\n"
        "        session.run(y, {x: [value, 2.0]})\n"
    )
    subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "tf")],
        check=True,
        capture_output=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    commands = [command for command in COMMANDS if command != "ls"]
    first, second = offline(tmp_path / "tf", [*commands, "runs 0"], [*commands, "exit"])
    check(first, commands)
    check(second, commands)
    assert "-inf" in first.replies["pt -s y:0"].document.text
    assert "-inf" not in second.replies["pt -s y:0"].document.text
    np.testing.assert_allclose(second.dump.run_info().call_count, 1)
