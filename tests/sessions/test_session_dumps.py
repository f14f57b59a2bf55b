"""Where the dumps of a program's runs go, and what the wrapper refuses."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from session_kit import Script, make_debugger, wrap

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.engines import numpy as tf
from tfdbg_cli.sessions.debugger.debugger import Debugger
from tfdbg_cli.sessions.wrappers.framework import (
    BaseDebugWrapperSession,
    OnRunEndResponse,
    OnRunStartAction,
    OnRunStartResponse,
    OnSessionInitAction,
    OnSessionInitResponse,
    WatchOptions,
)
from tfdbg_cli.sessions.wrappers.hosts import host_of
from tfdbg_cli.sessions.wrappers.local_cli import LocalCLIDebugWrapperSession

ROOT = Path(__file__).parents[2]


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as made:
        yield made


@pytest.fixture
def make_square(session):
    return lambda: tf.square(tf.constant(np.arange(1000.0), name="x"), name="square")


def run_folders(root):
    return sorted(path for path in Path(root).rglob("run_*") if path.is_dir())


def test_a_large_dump_lies_in_a_folder_and_goes_with_the_next_run(session, make_square, tmp_path):
    square = make_square()
    seen = []

    def look(stop):
        seen.append(run_folders(tmp_path / "root"))
        assert "9.98001e+05" in stop.service.run("pt square:0").document.text
        assert "is above --dump-limit and lies in" in stop.first_screen

    sess, ui = wrap(
        session,
        "run",
        [look, "run"],
        [look, "run"],
        dump_limit=100,
        dump_root=str(tmp_path / "root"),
    )
    sess.run(square)
    sess.run(square)
    assert ui.modes == "see"
    assert [len(found) for found in seen] == [1, 1]
    assert seen[0] != seen[1]
    sess.debugger.close()
    assert run_folders(tmp_path / "root") == []
    assert ui.closed


def test_a_small_dump_stays_in_memory(session, make_square, tmp_path):
    sess, _ = wrap(session, dump_root=str(tmp_path / "root"))
    sess.run(make_square())
    assert not (tmp_path / "root").exists()


def test_under_a_filter_spilled_dumps_do_not_pile_up(session, make_square, tmp_path):
    root = tmp_path / "root"
    sess, ui = wrap(session, "run -f has_inf_or_nan", dump_limit=100, dump_root=str(root))
    square = make_square()
    for _ in range(3):
        sess.run(square)
    assert ui.modes == "s"
    assert run_folders(root) == []


def test_kept_dumps_can_be_opened_later(session, make_square, tmp_path):
    root = tmp_path / "root"
    sess, ui = wrap(session, keep_dumps=True, dump_root=str(root))
    square = make_square()
    sess.run(square)
    sess.run(square)
    sess.debugger.close()
    folders = run_folders(root)
    assert len(folders) == 2
    assert "The dump is kept in" in ui.stops[1].first_screen
    dump = open_dump(folders[1])
    assert dump.run_info().call_count == 2
    assert dump.run_info().fetches == ["square:0"]
    assert dump.value(dump.tensor("square:0")[0])[3] == 9
    dump.close()


def test_a_folder_that_cannot_be_made_is_said_and_the_run_goes_on(
    session, make_square, tmp_path, capsys
):
    (tmp_path / "file").write_text("")
    root = str(tmp_path / "file" / "below")
    sess, ui = wrap(session, dump_limit=100, dump_root=root)
    assert sess.run(make_square())[3] == 9
    assert "stays in memory" in ui.stops[1].first_screen
    sess, ui = wrap(session, keep_dumps=True, dump_root=root)
    for _ in range(3):
        assert sess.run("square:0")[3] == 9
    assert "could not be kept" in ui.stops[1].first_screen
    sess.debugger.close()
    told = capsys.readouterr().err.splitlines()
    assert [line for line in told if "The dump could not be kept" in line] == told[:1]
    assert told[1:] == ["tfdbg: 2 more dump(s) could not be kept."]


def test_a_dump_root_that_is_no_use(session, tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(ValueError, match="dump_root path points to a file"):
        LocalCLIDebugWrapperSession(session, dump_root=str(path))
    with pytest.raises(ValueError, match="non-empty directory"):
        LocalCLIDebugWrapperSession(session, dump_root=str(tmp_path))
    with pytest.raises(UserError, match="is a file"):
        Debugger(dump_root=str(path))
    assert path.read_text() == ""


def test_the_originals_keywords(session, tmp_path):
    for kind in ("curses", "readline", "prompt_toolkit"):
        LocalCLIDebugWrapperSession(
            session,
            dump_root=str(tmp_path / "new"),
            log_usage=False,
            ui_type=kind,
            config_file_path=str(tmp_path / "c.json"),
        )
    with pytest.raises(ValueError, match="ui_type"):
        LocalCLIDebugWrapperSession(session, ui_type="window")
    with pytest.raises(TypeError, match="Expected a session"):
        LocalCLIDebugWrapperSession(object())


def test_filters_of_the_session(session, tmp_path):
    sess, ui = wrap(session, ["lt", "run -f seen"])
    for name, function, error in ((1, len, TypeError), ("", len, ValueError), ("a", 1, TypeError)):
        with pytest.raises(error):
            sess.add_tensor_filter(name, function)
    sess.add_tensor_filter("seen", lambda datum, tensor: datum.node_name == "y")
    y = tf.negative(tf.constant(1.0), name="y")
    sess.run(y)
    assert ui.stops[1].initial == "lt -f seen"

    path = tmp_path / "filters.py"
    path.write_text("def from_file(datum, tensor):\n    return True\n")
    sess, ui = wrap(session, "run -f from_file", filters=[str(path)])
    sess.run(y)
    assert ui.stops[1].initial == "lt -f from_file"


def test_one_debugger_for_several_sessions(session):
    ui = Script("run -t 2")
    debugger = make_debugger(ui)
    other = tf.Session()
    first, second = host_of(debugger, session), host_of(debugger, other)
    assert host_of(debugger, session) is first is not second
    y = tf.negative(tf.constant(1.0), name="y")
    first.run(y)
    second.run(y)
    assert ui.modes == "se"
    assert ui.stops[1].title.startswith("run-end: session 2: run #1: 1 fetch (y:0)")
    other.close()


def test_history_and_settings_survive_the_process(session, tmp_path):
    sess, _ = wrap(session, ["config set --keep graph_recursion_depth 3", "run"])
    sess.run(tf.constant(1.0))
    sess.debugger.history.add("lt")
    again = Debugger()
    assert again.settings.get("graph_recursion_depth") == 3
    assert again.history.items == ["lt"]
    assert os.path.isdir(tmp_path / "config")


class Recorder(BaseDebugWrapperSession):
    """Answers with what it was given."""

    init = OnSessionInitResponse(OnSessionInitAction.PROCEED)
    start = OnRunStartResponse(OnRunStartAction.DEBUG_RUN)

    def on_session_init(self, request):
        self.log = [request]
        return self.init

    def on_run_start(self, request):
        self.log.append(request)
        return self.start

    def on_run_end(self, request):
        self.log.append(request)
        return OnRunEndResponse()


def test_a_host_of_ones_own_sees_every_run(session):
    x = tf.placeholder(tf.float32, [], name="x")
    y = tf.log(x, name="y")
    sess = Recorder(session)
    assert sess.run(y, {x: 1.0}) == 0
    init, start, end = sess.log
    assert init.session is session
    assert start.fetches is y
    assert start.feed_dict == {x: 1.0}
    assert (start.run_call_count, start.is_callable_runner) == (1, False)
    assert start.run_info.fetches == ["y:0"]
    assert end.performed_action == OnRunStartAction.DEBUG_RUN
    assert end.dump.tensor_names() == ["x:0", "y:0"]
    assert end.tf_error is None

    failing = tf.check_numerics(y, "bad", name="failing")
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        sess.run(failing, {x: 0.0})
    end = sess.log[-1]
    assert end.tf_error is caught.value
    assert end.error.op_name == "failing"
    assert "y:0" in end.dump.tensor_names()


def test_an_undebugged_run_has_no_dump(session):
    class Plain(Recorder):
        start = OnRunStartResponse(OnRunStartAction.NON_DEBUG_RUN)

    sess = Plain(session)
    assert sess.run(tf.constant(2.0)) == 2
    assert sess.log[-1].dump is None
    assert sess.log[-1].performed_action == OnRunStartAction.NON_DEBUG_RUN


@pytest.mark.parametrize(
    ("init", "start", "error"),
    [
        ("proceed", None, TypeError),
        (OnSessionInitResponse("nonsense"), None, ValueError),
        (OnSessionInitResponse(OnSessionInitAction.REMOTE_INSTR_LOOP), None, NotImplementedError),
        (None, "debug_run", TypeError),
        (None, OnRunStartResponse("nonsense"), ValueError),
    ],
)
def test_answers_that_make_no_sense(session, init, start, error):
    class Bad(Recorder):
        pass

    if init is not None:
        Bad.init = init
        with pytest.raises(error):
            Bad(session)
        return
    Bad.start = start
    sess = Bad(session)
    with pytest.raises(error):
        sess.run(tf.constant(1.0))


def test_arguments_of_the_wrong_type():
    with pytest.raises(TypeError, match="Expected type"):
        OnRunStartResponse(OnRunStartAction.DEBUG_RUN, debug_urls="file:///tmp")
    with pytest.raises(TypeError, match="Expected type"):
        OnRunStartResponse(OnRunStartAction.DEBUG_RUN, debug_urls=[1])
    with pytest.raises(TypeError, match="Expected type"):
        OnRunStartResponse(3)
    with pytest.raises(TypeError, match="Expected type"):
        OnSessionInitResponse(None)
    with pytest.raises(TypeError, match="Expected a session"):
        Recorder("session")
    assert "node_name_regex_allowlist='a'" in repr(WatchOptions(node_name_regex_allowlist="a"))


@pytest.mark.parametrize("form", ["folder", "tfdbg"])
def test_names_that_no_encoding_has_do_not_end_the_program(form, tmp_path):
    half = "x\ud800"
    program = tmp_path / "program.py"
    program.write_text(
        "from tfdbg_cli.engines import numpy as tf\n"
        f"x = tf.placeholder(tf.float32, [None], name={half!r})\n"
        f"y = tf.identity(x, name='y' + {half!r})\n"
        "print('RESULT', tf.Session().run(y, {x: [5.0]}))\n"
    )
    root = tmp_path / "root"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tfdbg_cli", "--batch", "-c", "run", "-c", "lt"),
            *("--keep-dumps", "--dump-root", str(root), "--dump-format", form, str(program)),
        ],
        capture_output=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert b"RESULT [5.]" in done.stdout
    assert b"yx\\ud800:0" in done.stdout
    found = open_dump(root)
    assert len(found.data()) == 2
    assert [datum.get_tensor().tolist() for datum in found.data()] == [[5.0]] * 2
