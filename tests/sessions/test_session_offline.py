"""Looking at dumps after the program has gone."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from session_kit import Script, make_debugger, wrap

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.open import find_runs, open_dump
from tfdbg_cli.dumps.tfdbg_dir.writer import write_dump_directory
from tfdbg_cli.engines import numpy as tf
from tfdbg_cli.filters.registry import load_filters
from tfdbg_cli.front import offline_analyzer
from tfdbg_cli.sessions.offline.look import look
from tfdbg_cli.sessions.offline.survey import Survey
from tfdbg_cli.sessions.wrappers.hosts import host_of

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


@pytest.fixture
def many(tmp_path):
    """Five runs in the original's format; those numbered 2 and 4 are bad, the second also early."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [2], name="x")
        y = tf.log(x, name="y")
        sess, ui = wrap(session)
        for value in (1.0, 2.0, 0.0, 3.0, np.nan):
            sess.run(y, {x: [value, 2.0]})
            number = len(ui.stops) - 2
            write_dump_directory(ui.stops[-1].dump, tmp_path / "many" / f"run_{1000 + number}_0")
    return tmp_path / "many"


def offline(path, *script, more_filters=(), **options):
    """The stops of a script. What a function of it asserts fails the test: the debugger itself
    lets no exception out of a stop."""
    failures = []

    def guarded(command):
        def run(stop):
            try:
                command(stop)
            except Exception as error:
                failures.append(error)
                raise

        return run if callable(command) else command

    ui = Script(*([guarded(command) for command in part] for part in script))
    debugger = make_debugger(ui, **options)
    for tensor_filter in more_filters:
        debugger.filters.add(tensor_filter.__name__, tensor_filter)
    look(str(path), debugger)
    if failures:
        raise failures[0]
    return ui.stops


def see(*commands):
    """Runs commands and keeps their text as it is at that moment."""

    def run(stop):
        stop.texts = getattr(stop, "texts", {})
        for command in commands:
            reply = stop.service.run(command)
            assert reply.document is not None, reply
            stop.texts[command] = reply.document.text

    return run


def said(stop, command):
    return stop.replies[command].message.text


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
    assert "> [0]" in stop.service.run("runs").document.text
    assert "no run after this one" in stop.service.run("use next").message.text


def test_the_source_text_comes_with_a_run_folder(kept):
    (stop,) = offline(
        kept / "root" / "run_000001", ["ni -t y", f"ps {Path(__file__).name}", "exit"]
    )
    assert 'tf.log(x, name="y")' in stop.replies["ni -t y"].document.text
    assert 'tf.log(x, name="y")' in stop.replies[f"ps {Path(__file__).name}"].document.text


def test_a_folder_of_runs(kept):
    stops = offline(kept / "root", [see("runs"), "runs 7", "runs 0"], ["pt y:0", "runs", "exit"])
    first, second = stops
    assert "run #2" in first.title
    assert "[1] of 2 runs" in first.title and "[0] of 2 runs" in second.title
    head, _, columns, row, opened = first.texts["runs"].splitlines()
    assert head == f"2 run(s) in {kept / 'root'}:"
    assert columns.split() == ["Time", "Run", "Tensors", "Health", "Fetches"]
    year = time.strftime("%Y-")
    assert row.split()[0] == "[0]" and row.split()[1].startswith(year)
    assert row.split()[3:] == ["#1", "2", "ok", "y:0"]
    assert opened.startswith("> [1]") and opened.split()[4:] == ["#2", "2", "1", "bad", "y:0"]
    assert "Use 0 to 1." in first.replies["runs 7"].message.text
    assert "run #1" in second.title
    assert "0.6931" in second.replies["pt y:0"].document.text
    assert "> [0]" in second.replies["runs"].document.text


def test_from_run_to_run(many):
    stops = offline(
        many,
        ["use next", "use", "use nxt", "use 5", "use 4", "use prev"],
        ["use first"],
        ["use prev", "use next"],
        ["use last"],
        ["exit"],
    )
    assert [stop.title.split()[1] for stop in stops] == ["[4]", "[3]", "[0]", "[1]", "[4]"]
    first = stops[0]
    assert "no run after" in said(first, "use next")
    assert "which run" in said(first, "use")
    assert "Did you mean next" in said(first, "use nxt")
    assert "Use 0 to 4." in said(first, "use 5")
    assert not first.replies["use 4"].failed and "is open" in said(first, "use 4")
    assert "no run before" in said(stops[2], "use prev")


def test_the_first_bad_run_over_all_runs(many):
    stops = offline(
        many,
        ["use -f has_inf_or_nan"],
        ["use next -f has_inf_or_nan"],
        ["use next -f has_inf_or_nan", "use prev -f has_inf_or_nan -fenn ^y", "use 0"],
        ["use 1 -f has_inf_or_nan"],
        ["exit"],
    )
    assert [stop.title.split()[1] for stop in stops] == ["[4]", "[2]", "[4]", "[0]", "[1]"]
    assert (stops[1].initial, stops[1].role) == ("lt -f has_inf_or_nan", "error")
    assert "1 -inf" in stops[1].first_screen
    last = stops[2]
    assert said(last, "use next -f has_inf_or_nan").startswith("No run after this one has")
    assert said(last, "use prev -f has_inf_or_nan -fenn ^y").startswith("No run before this one")
    assert (stops[3].initial, stops[3].role) == ("lt", "offline")
    assert "0 dumped tensor(s) passing" in stops[4].first_screen


def test_the_list_of_runs_in_another_order(many):
    commands = (
        "runs -s health -r",
        "runs -s number -r --columns health,number!",
        "runs -f has_inf_or_nan -s number -r",
    )
    (stop,) = offline(many, [see(*commands), *commands, "runs -s nothing", "exit"])

    def order(command):
        rows = stop.texts[command].splitlines()[3:]
        return [row[row.index("[") + 1 : row.index("]")] for row in rows]

    assert order(commands[0])[:2] == ["4", "2"]
    assert stop.texts[commands[0]].splitlines()[2].split()[-2:] == ["Health↓", "Fetches"]
    assert order(commands[1]) == ["4", "3", "2", "1", "0"]
    assert stop.texts[commands[1]].splitlines()[2].split() == ["↓", "Health"]
    assert order(commands[2]) == ["4", "2"]
    document = stop.replies[commands[2]].document
    written = document.table_command(4, "health", "sort")
    assert written == "runs -f has_inf_or_nan -s health"
    assert document.table_command(4, "first", "hide").startswith("runs -f has_inf_or_nan --columns")
    assert stop.replies["runs -s nothing"].failed


def test_the_list_of_bad_runs(many):
    (stop,) = offline(
        many,
        [
            see("runs -f has_inf_or_nan", "runs -f has_inf_or_nan -fenn ^x"),
            "runs -f has_inf_or_nan",
            *("runs -f nothing", "runs -fenn x", "runs -f has_inf_or_nan -fenn (", "exit"),
        ],
    )
    head, _, columns, two, four = stop.texts["runs -f has_inf_or_nan"].splitlines()
    assert head.startswith("2 of 5 run(s) with a tensor that passes")
    assert "First tensor" in columns
    at = columns.index("First tensor")
    assert two.lstrip().startswith("[2]") and two[at:].split()[0] == "y:0"
    assert four.startswith("> [4]") and four[at:].split()[0] == "x:0"
    only_y = stop.texts["runs -f has_inf_or_nan -fenn ^x"].splitlines()
    assert only_y[-1][at:].split()[0] == "y:0"
    made = stop.replies["runs -f has_inf_or_nan"].document.lines(3, 4)[0]
    links = {span.link.command for span in made.spans if span.link}
    assert links == {"use 2 -f has_inf_or_nan"}
    assert stop.replies["runs -f nothing"].failed
    assert "only together with -f" in said(stop, "runs -fenn x")
    assert "not a regular expression" in said(stop, "runs -f has_inf_or_nan -fenn (")


def test_the_rows_are_links(many):
    def click(stop):
        row = stop.service.run("runs").document.lines(4, 5)[0]
        (link,) = {span.link.command for span in row.spans if span.link}
        opened = stop.service.run(link).leave.action
        assert opened.run.path == many / "run_1001_0"
        opened.dump.close()

    offline(many, [click, "exit"])


def test_a_list_is_there_before_the_runs_are_read(many, monkeypatch):
    may_read = threading.Event()

    def held_up(*args, **kwargs):
        assert may_read.wait(30)
        return open_dump(*args, **kwargs)

    def look_at(stop):
        monkeypatch.setattr("tfdbg_cli.sessions.offline.survey.open_dump", held_up)
        document = stop.service.run("runs").document
        shown = document.lines(0, document.line_count)
        assert all("…" in row.text for row in shown[3:])
        assert document.pending
        may_read.set()
        until = time.monotonic() + 30
        while document.pending and time.monotonic() < until:
            time.sleep(0.001)
        assert not document.pending
        shown = [row.text for row in document.lines(0, document.line_count)]
        assert not document.pending
        assert [text.split()[5:-1] for text in shown[3:5]] == [["ok"], ["ok"]]
        assert shown[5].split()[5:-1] == ["1", "bad"]

    offline(many, [look_at, "exit"])


def test_runs_for_other_programs(many):
    (stop,) = offline(many, ["runs --json", "runs -f has_inf_or_nan --json", "exit"])
    records = [json.loads(made) for made in stop.replies["runs --json"].document.text.splitlines()]
    assert [record["bad_tensors"] for record in records] == [0, 0, 1, 0, 2]
    assert [record["run"] for record in records if record["open"]] == [4]
    assert records[0]["path"] == str(many / "run_1000_0")
    assert records[0]["fetches"] == ["y:0"] and records[0]["tensors"] == 2
    assert abs(records[0]["time"] - time.time()) < 3600
    found = stop.replies["runs -f has_inf_or_nan --json"].document.text.splitlines()
    assert [json.loads(made)["tensor"] for made in found] == ["y:0", "x:0"]


def test_a_search_that_was_interrupted_goes_on_where_it_was(many):
    seen = []

    def slow(datum, tensor):
        """Counts what it reads, and is interrupted once."""
        seen.append(float(np.asarray(tensor)[0]))
        if len(seen) == 5:
            raise KeyboardInterrupt
        return False

    def search(stop):
        with pytest.raises(KeyboardInterrupt):
            stop.service.run("use -f slow")
        assert len(seen) == 5
        reply = stop.service.run("use -f slow")
        assert reply.message.text.startswith("No run has")
        assert len(seen) == 5 + 6  # the third of five runs, of two tensors each, began anew
        stop.service.run("runs -f slow")
        assert len(seen) == 11

    offline(many, [search, "exit"], more_filters=[slow])


def test_the_values_of_a_directory_are_not_read_to_list_it(many):
    survey = Survey(find_runs(many))
    quick, thorough = survey.runs[-1].jobs
    facts = survey.measure(quick, lambda: None)
    assert (facts.tensors, facts.fetches, facts.bad) == (2, ("y:0",), None)
    assert survey.measure(thorough, lambda: None).bad == 2
    assert survey.peek(survey.runs[-1]).bad == 2
    assert survey.peek(survey.runs[0]) is None


def test_what_a_run_folder_has_counted_is_not_counted_again(kept):
    """Neither for the list nor for the filter that is about it: values of today don't matter."""
    root = kept / "root"
    for path in root.glob("*/tensors-*.safetensors"):
        data = bytearray(path.read_bytes())
        values = 8 + int.from_bytes(data[:8], "little")  # behind the header of the safetensors file
        data[values:] = np.full((len(data) - values) // 4, np.inf, np.float32).tobytes()
        path.write_bytes(data)
    (stop,) = offline(root, [see("runs", "runs -f has_inf_or_nan"), "pt y:0", "exit"])
    assert "aren't those that were written" in said(stop, "pt y:0")
    assert "2  ok" in stop.texts["runs"]
    assert "1 of 2 run(s)" in stop.texts["runs -f has_inf_or_nan"]


def test_filters_from_a_file(many, tmp_path):
    (tmp_path / "mine.py").write_text(
        "def large(datum, tensor):\n    return (tensor > 2.5).any()\n\n"
        "def broken(datum, tensor):\n    return tensor.nothing\n"
    )
    first, second = offline(
        many,
        [see("runs -f broken"), "runs -f broken", "use -f large"],
        ["exit"],
        filters=[str(tmp_path / "mine.py")],
    )
    assert second.title.split()[1] == "[3]"
    assert "1 dumped tensor(s) passing" in second.first_screen
    warning = first.texts["runs -f broken"].splitlines()[1]
    assert "5 run(s) couldn't be searched in full: [0] x:0: AttributeError" in warning


def test_the_filter_that_a_run_was_kept_for_is_named(tmp_path):
    (tmp_path / "mine.py").write_text("def large(datum, tensor):\n    return (tensor > 1).any()\n")
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [], name="x")
        ui = Script(["run -f large"])
        debugger = make_debugger(ui, keep_dumps=True, dump_root=str(tmp_path / "root"))
        load_filters(str(tmp_path / "mine.py"), debugger.filters)
        sess = host_of(debugger, session)
        sess.run(tf.identity(x), {x: 1.0})
        sess.run(tf.identity(x), {x: 2.0})
    assert open_dump(tmp_path / "root").run_info().filter_name == "large"
    (stop,) = offline(tmp_path / "root", ["exit"])
    shown = " ".join(stop.first_screen.split())
    assert 'for the filter "large". It isn\'t loaded: --filters' in shown
    (stop,) = offline(tmp_path / "root", ["exit"], filters=[str(tmp_path / "mine.py")])
    assert "lt -f large lists what passes." in " ".join(stop.first_screen.split())


@pytest.mark.parametrize("damage", ["empty", "foreign", "cut"])
def test_a_damaged_run_is_listed_and_hides_nothing(many, damage):
    broken = many / "run_1004_0"
    if damage == "cut":
        for path in broken.glob("_tfdbg_device*/*_0_DebugIdentity_*"):
            path.write_bytes(path.read_bytes()[:20])
    else:
        shutil.rmtree(broken)
        broken.mkdir()
        if damage == "foreign":
            (broken / "notes.txt").write_text("")
    (stop,) = offline(many, [see("runs", "runs -f has_inf_or_nan"), "use 4", "exit"])
    listed = stop.texts["runs"].splitlines()
    assert listed[0].startswith("5 run(s)") and listed[5].split()[5:-1] == ["1", "bad"]
    found = stop.texts["runs -f has_inf_or_nan"].splitlines()
    assert found[0].startswith("1 of 5 run(s)") and "[4]" in found[1]
    if damage == "cut":
        assert "damaged" in listed[7] and "2 ?" in listed[7]
        return
    assert "[3] of 5 runs" in stop.title
    assert "Run [4] can't be opened" in stop.first_screen
    assert str(broken) in listed[7]
    assert stop.replies["use 4"].failed and "\n" not in said(stop, "use 4")


def test_a_folder_with_only_damaged_runs(tmp_path):
    (tmp_path / "root" / "run_000001").mkdir(parents=True)
    with pytest.raises(UserError, match="holds no dump"):
        offline(tmp_path / "root")


def test_completion(many):
    def complete(stop):
        def texts(text):
            return [each.text for each in stop.service.complete(text, len(text)).candidates]

        assert texts("use ") == ["first", "prev", "next", "last", *"01234"]
        assert texts("use n") == ["next"]
        assert texts("runs 3") == ["3"]
        assert texts("use -f has") == texts("runs -f has") == ["has_inf_or_nan"]

    offline(many, [complete, "help runs", "help use", "exit"])


@pytest.mark.slow
def test_ten_thousand_runs_open_at_once(kept, tmp_path):
    root = tmp_path / "large"
    root.mkdir()
    source = kept / "root" / "run_000001"
    for number in range(9_999):
        (root / f"run_{number:06d}").mkdir()
    shutil.copytree(source, root / "run_009999")

    def first_page(stop):
        document = stop.service.run("runs").document
        assert document.line_count == 10_003
        assert "…" in document.lines(0, 50)[40].text

    (stop,) = offline(root, [first_page, "exit"])
    assert "[9999] of 10000 runs" in stop.title


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


def analyze(*arguments, typed="exit\n"):
    """The original's command: status, stdout and stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "tfdbg_cli.front.offline_analyzer", *map(str, arguments)],
        input=typed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "flags",
    [
        ["--dump_dir={}", "--log_usage", "--ui_type=curses"],
        ["--dump-dir", "{}", "--validate-graph=False", "--log-usage=false", "word"],
    ],
)
def test_the_originals_command(kept, flags):
    root = kept / "root"
    flags = [flag.format(root) for flag in flags]
    status, out, _ = analyze(*flags, typed="use prev\npt y:0\nexit\n")
    assert status == 0
    assert out.splitlines()[0] == f"tfdbg offline: FLAGS.dump_dir = {root}"
    assert "[0] of 2 runs" in out and "0.6931" in out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "ERROR: dump_dir flag is empty."),
        (["--dump_dir=", "--validate_graph"], "ERROR: dump_dir flag is empty."),
        (["--dump_dir=x", "--dump_root=y"], "Unknown command line flag 'dump_root'"),
        (["--dump_dir=x", "--ui_type=web"], "Invalid ui_type: 'web'"),
        (["--dump_dir=/nowhere/at/all"], "There is no dump at /nowhere/at/all"),
    ],
)
def test_wrong_flags_of_the_originals_command(flags, message, capsys):
    assert offline_analyzer.main(flags) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("validate", ["true", "false"])
def test_the_graph_is_compared_unless_it_is_not_to_be(many, validate):
    for path in (many / "run_1004_0").glob("_tfdbg_device*/y_0_DebugIdentity_*"):
        path.rename(path.with_name(path.name.replace("y_", "elsewhere_")))
    _, out, _ = analyze(
        f"--dump_dir={many}", f"--validate_graph={validate}", typed="ni y\nlt\nexit\n"
    )
    assert ("Warning" in out.rpartition("--- lt ---")[2]) == (validate == "true")
