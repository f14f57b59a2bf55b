"""The original's verified defects, by number: the commands, and dumps on disk.

Those of the wrapper session, of the screens and of real TensorFlow runs are in the other files
called ``test_*_defects.py``.
"""

import re
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from command_kit import ENGINE, Shell, roles

from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.dumps.run_folder.dump import write_run_folder
from tfdbg_cli.dumps.tfdbg_dir.debug_dump_dir import DebugDumpDir
from tfdbg_cli.dumps.tfdbg_dir.names import device_name_to_device_path, device_path_to_device_name
from tfdbg_cli.dumps.tfdbg_dir.writer import write_dump_directory
from tfdbg_cli.engines import numpy as tf

KIT = Path(__file__).with_name("command_kit.py")
CPU0, CPU1 = (f"/job:localhost/replica:0/task:0/device:CPU:{n}" for n in (0, 1))


def tensors(shell, command):
    """The tensors that a list leads to."""
    return [c.split()[1] for c in shell.links(command) if c.startswith("pt ")]


@pytest.fixture
def two_devices(tmp_path):
    """A dump directory: ``v`` on both devices, ``only`` on the first."""
    dump = MemoryDump(Graph([Node("v", "Op", device=CPU0), Node("only", "Op", device=CPU0)]))
    dump.add("v", 0, np.array([1.0, np.nan]), timestamp=1, device_name=CPU0)
    dump.add("only", 0, np.array([np.inf]), timestamp=2, device_name=CPU0)
    dump.add("v", 0, np.array([np.nan]), timestamp=3, device_name=CPU1)
    write_dump_directory(dump, tmp_path / "dump")
    return DebugDumpDir(tmp_path / "dump")


def profiled_dump():
    """A run that was timed."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 3], name="input/x")
        product = tf.matmul(x, tf.ones([3, 2]), name="hidden/MatMul")
        relu = tf.nn.relu(product, name="hidden/Relu")
        log = tf.log(relu, name="bad/Log")
        with tf.Session() as session:
            feed = {x: np.ones([200, 3])}
            capture = ENGINE.adapt(session).profile_run(log, feed, None, None)
    capture.dump.set_run_info(RunInfo(2, ["bad/Log:0"], {"input/x:0": feed[x]}, "numpy"))
    return capture.dump


@pytest.fixture(scope="module")
def timed():
    return profiled_dump()


@pytest.fixture
def profile(timed):
    """A stop after ``run -p``."""
    return Shell(timed, "profile")


def test_defect_01_a_comparison_in_quotes_is_no_redirect(shell, tmp_path, monkeypatch):
    """The original evaluated what stands before the > and wrote a file called " 3"."""
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    lines = shell.lines('eval "`ints:0` > 3"')
    assert "  dtype: bool" in lines
    assert lines[-2:] == ["array([[False,  True],", "       [False,  True]])"]
    assert shell.lines("lt -n x>y")[0].startswith("0 dumped tensor(s)")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e4m3b11fnuz", "float16"]
)
def test_defect_05_bad_values_of_small_floats_are_found(dtype, tmp_path):
    """The original's has_inf_or_nan was false for every bfloat16 and float8 tensor."""
    dump = MemoryDump(Graph([Node("good", "A"), Node("bad", "B")]))
    kind = getattr(ml_dtypes, dtype, None) or np.float16
    dump.add("good", 0, np.array([1, 2], kind), timestamp=1)
    dump.add("bad", 0, np.array([1, np.nan], kind), timestamp=2)
    write_dump_directory(dump, tmp_path / "directory")
    write_run_folder(dump, tmp_path / "folder")
    for found in (dump, open_dump(tmp_path / "directory"), open_dump(tmp_path / "folder")):
        assert tensors(Shell(found), "lt -f has_inf_or_nan") == ["bad:0"]
        found.close()


def test_defect_07_the_summary_of_one_of_several_dumps(shell):
    """The original ignored -s together with -n."""
    lines = shell.lines("pt loop/body:0 -n 2 -s")
    assert any("min" in text and "max" in text and "mean" in text for text in lines)
    assert lines[-1] == "array(3, dtype=int32)"


def test_defect_08_a_feed_is_written_and_numbered(start, tmp_path):
    """The original accepted pf -w and pf -n and ignored both."""
    start.document(f"pf input/x:0 -w {tmp_path}/x.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), [[1, 2, 3], [-1, -2, -3]])
    assert start.lines("pf input/x:0 -n 0") == start.lines("pf input/x:0")
    assert "(5)" in start.error("pf input/x:0 -n 5")


def test_defect_09_a_feed_given_as_a_list_is_an_array(start):
    """The original printed lists raw, without dtype and shape, and failed to slice them."""
    lines = start.lines("pf input/x:0")
    assert lines[1:3] == ["  dtype: float64", "  shape: (2, 3)"]
    assert start.lines("pf input/x:0[1, :2]")[-1] == "array([-1., -2.])"
    assert "mean" in start.text("pf input/x:0 -s")


def test_defect_10_the_summary_of_complex_values(shell):
    """The original's pt -s raised a TypeError for complex tensors."""
    text = shell.text("pt -s cplx:0")
    assert "nan" in text and "total" in text
    assert "dtype: complex128" in text


def test_defect_11_ranges_of_an_empty_tensor(shell):
    """The original's pt -r divided by the size of an empty tensor."""
    assert "0 of 0 element(s)" in shell.lines("pt empty:0 -r 0,1")[0]


def test_defect_12_a_slice_down_to_a_scalar_has_dtype_and_shape(shell):
    """The original printed np.float32(...) with neither of them."""
    lines = shell.lines("pt hidden/MatMul:0[0, 1]")
    assert lines[1:3] == ["  dtype: float32", "  shape: ()"]
    assert lines[-1] == "array(6., dtype=float32)"
    assert not any("np." in text for text in lines)


def test_defect_13_single_digit_integers(shell):
    """The original neither highlighted them nor found them, and lost the rest of their row."""
    document = shell.document("pt ints:0 -r [3,100]")
    assert "3 of 4" in document.lines(0, 1)[0].text
    assert [text.strip() for text in roles(document, "highlight")[1:]] == ["22", "3", "5"]
    first = document.locate((0, 0))
    assert document.locate((0, 1)) == first
    assert document.locate((1, 0)) == document.locate((1, 1)) == first + 1
    assert document.lines(first, first + 1)[0].text.split() == ["array([[", "1,", "22],"]
    assert document.lines(first, first + 1)[0].indices == ((0, 0), (0, 1))


def test_defect_14_the_dumps_of_every_slot_can_be_opened(shell):
    """The original counted the dumps of a node through, and so the second slot's link failed."""
    commands = [c for c in shell.links("ni -d uniq") if c.startswith(("pt ", "print_tensor "))]
    shown = [shell.lines(command) for command in dict.fromkeys(commands)]
    names = [lines[0] for lines in shown if lines[0].startswith("Tensor")]
    assert any("uniq:0" in name for name in names) and any("uniq:1" in name for name in names)
    assert any(lines[-1] == "array([0, 0, 1], dtype=int32)" for lines in shown)


@pytest.mark.parametrize("command", ["li -r loop/Exit", "li -c -r loop/Exit", "lo -c -r start"])
def test_defect_15_a_loop_is_listed_once(shell, dump, command):
    """The original walked round a loop of six nodes until it had printed 947 lines."""
    lines = shell.lines(command)
    rows = [found for text in lines if (found := re.match(r".*\|- \(\d+\) (.*)", text))]
    shown = [row[1].removeprefix("(Ctrl) ").split()[0] for row in rows if "see line" not in row[1]]
    assert len(shown) == len(set(shown)) > 5
    assert set(shown) <= set(dump.graph().nodes)
    assert len(rows) < 60
    assert any("see line" in row[1] for row in rows)


def test_defect_16_deep_chains_need_no_recursion(tmp_path):
    """The original met Python's recursion limit at about a thousand nodes."""
    count = 5000
    nodes = [Node("n0", "Const", device=CPU0)]
    nodes += [Node(f"n{n}", "Tanh", [f"n{n - 1}:0"], device=CPU0) for n in range(1, count)]
    dump = MemoryDump(Graph(nodes))
    dump.add(f"n{count - 1}", 0, np.zeros(1), timestamp=1, device_name=CPU0)
    shell = Shell(dump)
    rows = [text for text in shell.lines(f"li -r -d {count} n{count - 1}") if "|- (" in text]
    assert len(rows) == count - 1
    assert f"({count - 1}) n0" in rows[-1]
    assert len([t for t in shell.lines(f"lo -r -d {count} n0") if "|- (" in t]) == count - 1
    write_dump_directory(dump, tmp_path / "dump")
    directory = DebugDumpDir(tmp_path / "dump")
    assert len(directory.transitive_inputs(f"n{count - 1}")) == count - 1
    assert len(directory.find_some_path("n0", f"n{count - 1}")) == count


def test_defect_17_recipients_on_another_device(tmp_path):
    """The original said [None] although the value was sent and used elsewhere."""
    nodes = [
        Node("a", "Const", device=CPU0),
        Node("b", "Exp", ["a:0"], device=CPU1),
        Node("c", "Neg", ["b:0"], device=CPU0),
    ]
    dump = MemoryDump(Graph(nodes))
    for number, (name, device) in enumerate((("a", CPU0), ("b", CPU1), ("c", CPU0))):
        dump.add(name, 0, np.ones(2), timestamp=number + 1, device_name=device)
    write_dump_directory(dump, tmp_path / "dump")
    for shell in (Shell(dump), Shell(open_dump(tmp_path / "dump"), "offline")):
        assert shell.lines("lo a")[1] == "|- (1) b"
        rows = [text for text in shell.lines("lo -r a") if "|- (" in text]
        assert [text.split()[-1] for text in rows] == ["b", "c"]
        assert shell.lines("li c")[1] == "|- (1) b"


def test_defect_18_node_exists_minds_the_device(two_devices):
    """The original ignored node_exists(device_name=…)."""
    assert two_devices.node_exists("only", device_name=CPU0)
    assert not two_devices.node_exists("only", device_name=CPU1)


def test_defect_19_watch_key_to_data_takes_a_device(two_devices):
    """The original raised an AttributeError for watch_key_to_data(device_name=…)."""
    (datum,) = two_devices.watch_key_to_data("v:0:DebugIdentity", device_name=CPU1)
    assert datum.device_name == CPU1
    np.testing.assert_array_equal(datum.get_tensor(), [np.nan])


def test_defect_20_find_takes_a_device(two_devices):
    """The original raised a TypeError for find(device_name=…)."""
    found = two_devices.find(lambda datum, value: np.isnan(value).any(), device_name=CPU1)
    assert [(datum.node_name, datum.device_name) for datum in found] == [("v", CPU1)]


def test_defect_21_a_dump_without_its_graph_file(dump, tmp_path):
    """The original counted the tensors of such a dump and then found none of them."""
    write_dump_directory(dump, tmp_path / "no_graph")
    graphs = list((tmp_path / "no_graph").rglob("_tfdbg_graph_*"))
    assert graphs
    for path in graphs:
        path.unlink()
    found = open_dump(tmp_path / "no_graph")
    shell = Shell(found, "offline")
    assert sorted(tensors(shell, "lt")) == sorted(d.tensor_name for d in found.data())
    assert len(found.data()) >= len(dump.data())
    assert shell.lines("pt hidden/MatMul:0")[-1].strip() == "[-6., -6.]], dtype=float32)"
    assert "bad/Log:0" in tensors(shell, "lt -f has_inf_or_nan")
    assert found.get_tensors("hidden/MatMul", 0, "DebugIdentity")[0].shape == (2, 2)


@pytest.mark.parametrize("kind", ["XLA_CPU", "XLA_GPU", "CPU", "GPU"])
def test_defect_22_device_names_with_underscores(kind):
    """The original read device:XLA_CPU:0 as device:XLA:CPU_0."""
    device = f"/job:localhost/replica:0/task:0/device:{kind}:0"
    assert device_path_to_device_name(device_name_to_device_path(device)) == device
    folder = f"_tfdbg_device_,job_localhost,replica_0,task_0,device_{kind}_0"
    assert device_path_to_device_name(folder) == device


def test_defect_31_the_traceback_has_the_text_of_its_lines(shell):
    """The original printed "Text: None" for every frame, and no links to ps."""
    lines = shell.lines("ni -t hidden/MatMul")
    source = KIT.read_text(encoding="utf-8").splitlines()
    number = next(n for n, text in enumerate(source, 1) if 'name="MatMul")' in text)
    assert any(source[number - 1].strip() in text for text in lines)
    assert not any("None" in text for text in lines if "Text" in text)
    assert f"ps {KIT} -b {number}" in shell.links("ni -t hidden/MatMul")


def test_defect_32_sources_offline(dump, tmp_path):
    """The original's ls and ps were traceback screens without a Python graph."""
    write_run_folder(dump, tmp_path / "folder")
    shell = Shell(open_dump(tmp_path / "folder"), "offline")
    assert any(str(KIT) in text or KIT.name in text for text in shell.lines("ls"))
    assert any('name="MatMul")' in text for text in shell.lines(f"ps {KIT.name}"))
    # The original's own directory holds no stacks: that is said, in one line.
    write_dump_directory(dump, tmp_path / "directory")
    shell = Shell(open_dump(tmp_path / "directory"), "offline")
    for command in ("ls", f"ps {KIT.name}", "ni -t hidden/MatMul"):
        reply = shell.reply(command)
        if reply.failed:
            shell.error(command)
        else:
            assert "Traceback (most recent" not in reply.document.text


def test_defect_33_patterns_match_anywhere(shell, profile):
    """The original's regexes began at the first character: -t MatMul missed _MklMatMul."""
    dump = MemoryDump(Graph([Node("a/fused", "_MklMatMul"), Node("b", "Add")]))
    for number, name in enumerate(("a/fused", "b")):
        dump.add(name, 0, np.ones(2), timestamp=number + 1)
    fused = Shell(dump)
    assert tensors(fused, "lt -t MatMul") == ["a/fused:0"]
    assert tensors(fused, "lt -n fused") == ["a/fused:0"]
    assert tensors(fused, "lt -t ^MatMul") == []
    assert any(str(KIT) in text for text in shell.lines("ls -p command_kit"))
    assert any("hidden/MatMul" in t for t in profile.lines(f"lp -f {Path(__file__).name}"))
    assert not any("hidden/MatMul" in t for t in profile.lines(f"lp -f ^{Path(__file__).name}"))


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("config set foo 3", "foo"),
        ("config set graph_recursion_depth many", "many"),
        ("lt -s size_of_it", "size_of_it"),
        ("lt -n [a", "[a"),
        ("lt -f has_inf_or_nan -fenn (", "("),
        ("ls -p [a", "[a"),
        ("pt ints:0[a]", "a"),
        ("pt ints:0[0, 0, 0]", "3"),
        ("pt ints:0 -r 2", "range"),
        ("eval `ints:0", "backtick"),
    ],
)
def test_defect_34_mistakes_are_one_line(shell, command, word):
    """The original answered each of these with a screen of Python traceback."""
    assert word in shell.error(command)


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("lt --no_such_option", ["--no_such_option"]),
        ("pt ints:0 -n x", ["-n", "'x'"]),
        ("pt", ["required"]),
        ("lt -n", ["-n", "expected one argument"]),
    ],
)
def test_defect_35_the_parsers_message_is_shown(shell, capfd, command, parts):
    """The original wrote it to stderr, under the screen, and said "Syntax error for command"."""
    text = shell.error(command)
    for part in parts:
        assert part in text
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("command", ["lt -h", "pt --help", "run -h", "ni -h", "exit -h"])
def test_defect_36_help_of_a_command_is_no_mistake(shell, capfd, command):
    """The original printed the help under the screen and then claimed a syntax error."""
    assert shell.lines(command) == shell.lines("help " + command.split()[0])
    assert capfd.readouterr() == ("", "")


def table(shell):
    """The heads of ``lp`` and the lines below them."""
    lines = shell.lines("lp --time_unit us", 200)
    at = next(n for n, text in enumerate(lines) if "Op Type" in text and "Exec Time" in text)
    return lines[at], lines[at + 1 :]


def under(head, name, text):
    """The number of a line under a head, whichever way the column is aligned."""
    begin = head.index(name)
    stop = begin + len(name)
    (found,) = [m for m in re.finditer(r"[\d.]+", text) if m.start() < stop and m.end() > begin]
    return float(found[0])


def test_defect_43_the_totals_stand_under_their_heads(profile, timed):
    """The original wrote them one column too far to the left."""
    head, rows = table(profile)
    total = next(text for text in rows if text.startswith("Device Total"))
    entries = list(timed.profile())
    for name, of in (("Op Time (us)", "op_time"), ("Exec Time (us)", "exec_time")):
        expected = sum(getattr(entry, of) for entry in entries)
        assert under(head, name, total) == pytest.approx(expected, rel=0.01, abs=0.1)


def test_defect_43_times_count_from_the_begin_of_the_run(profile, timed):
    """The original printed microseconds since 1970."""
    head, rows = table(profile)
    entries = list(timed.profile())
    assert len(entries) >= 3
    for entry in entries:
        row = next(text for text in rows if text.split()[:1] == [entry.node])
        assert under(head, "Start Time (us)", row) == pytest.approx(entry.start, rel=0.01, abs=0.1)
        assert under(head, "Start Time (us)", row) < 60e6
    assert under(head, "Start Time (us)", rows[0]) == 0


def test_defect_43_heads_keep_every_filter(profile):
    """The original's heads dropped -f, the line numbers and the times."""
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    line = next(n for n, text in enumerate(source, 1) if 'name="hidden/Relu")' in text)
    command = (
        f"lp -n hidden -t Relu -d CPU -f {Path(__file__).name} --min_lineno {line} "
        f"--max_lineno {line + 1} -e >=0us -o [0us,100s] --time_unit ms"
    )
    document = profile.document(command, 200)
    heads = [
        span.link.command
        for row in document
        for span in row.spans
        if span.link and span.text.strip().startswith(("Node", "Op T", "Start T", "Exec T"))
    ]
    assert len(heads) >= 4
    for head in heads:
        rows = [text for text in profile.lines(head, 200) if "hidden/" in text]
        assert len(rows) == 1 and "hidden/Relu" in rows[0], head
        assert "(ms)" in profile.text(head, 200)


def test_defect_44_every_item_of_the_menu_works_after_a_profiled_run(profile):
    """The original offered a list_tensors there that did not exist."""
    links = profile.links("run_info")
    assert links
    assert not any(command.startswith(("lt", "list_tensors")) for command in links)
    for command in links:
        assert not profile.reply(command).failed, command
    assert any(command.startswith(("lp", "list_profile")) for command in links)


def test_defect_25_importing_changes_no_options_of_numpy_and_no_handlers(tmp_path):
    """The original's import and UI changed NumPy's print options and SIGINT for good."""
    code = (
        "import signal, sys, numpy as np\n"
        "before = repr(np.get_printoptions()), signal.getsignal(signal.SIGINT)\n"
        "import tfdbg_cli\n"
        "from tfdbg_cli.engines import numpy as tf\n"
        "sess = tfdbg_cli.LocalCLIDebugWrapperSession(tf.Session(), ui_type='readline')\n"
        "x = tf.constant(np.arange(5000.0), name='x')\n"
        "sess.run(tf.square(x, name='y'))\n"
        "after = repr(np.get_printoptions()), signal.getsignal(signal.SIGINT)\n"
        "assert before == after, (before, after)\n"
        "print('same as before')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input="run\npt -a y:0\npt x:0\nexit --detach\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "dtype: float64" in done.stdout
    assert done.stdout.endswith("same as before\n")
