"""``report``: one file that tells all, loads nothing and shows a hostile run as text."""

import re
import struct
import subprocess
import sys

import numpy as np
import pytest
from command_kit import Shell
from report_kit import read_report
from samples import sample

from tfdbg_cli.common.program_facts import program_facts
from tfdbg_cli.dumps.dump import RunError, RunInfo
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.dumps.run_folder.dump import write_run_folder
from tfdbg_cli.dumps.series.tracks import Tracks
from tfdbg_cli.dumps.sources import Frame, Sources

BITES = "</pre></title><script>alert('x')</script><img src=x onerror=\"alert(1)\">&amp;'\"-->"


def written(shell, path, *options):
    reply = shell.reply(" ".join([f'report "{path}"', *options]))
    assert not reply.failed, (reply.message, reply.details)
    return read_report(path.read_text(encoding="utf-8"))


def test_it_tells_the_story_in_one_page(shell, tmp_path):
    page = written(shell, tmp_path / "nan.html")
    assert page.headings[1:3] == ["What happened", "The first bad tensor"]
    assert page.headings[-3:] == ["What it was computed from", "The run", "See for yourself"]
    assert "The line that made it" in page.headings
    why = "\n".join(shell.lines("why", 400)).replace("help why", "").replace("  fix", "")
    assert " ".join(why.split()) in " ".join(page.text.split())
    assert "help why" not in page.text  # no command can be given on it
    assert "Histogram" in page.headings
    assert '✗         log = tf.log(relu, name="bad/Log")' in page.text
    assert {"Relu hidden/Relu", "Log bad/Log", "Mul bad/Mul"} <= set(page.titles)
    assert "tfdbg -c 'run -f has_inf_or_nan'" in page.text
    assert "pt bad/Log:0 --bad" in page.text
    assert f"Python{sys.implementation.name}" in page.text.replace("CPython", "cpython")


def test_the_heat_map_shows_the_first_slice_with_something_bad(tmp_path):
    value = np.ones((3, 2, 40, 500), np.float32)
    value[1, 1, 7, 123] = np.nan
    value[2, 0, 0, 0] = np.inf
    dump = MemoryDump(Graph([Node("x", "Log")]))
    dump.add("x", 0, value, timestamp=1)
    page = written(Shell(dump), tmp_path / "x.html")
    ((about, png),) = page.images
    assert about == "Heat map of slice [1, 1, :, :] with NaN in colours of their own"
    assert struct.unpack(">II", png[16:24]) == (167, 40)  # three columns to a cell
    assert "a cell is the mean of 1 x 3 elements, and bad if one of them is" in page.text
    assert "+inf" not in page.text.partition("Heat map")[2].partition("What it")[0]


def test_the_file_is_replaced_whole_or_not_at_all(shell, tmp_path):
    path = tmp_path / "a b.html"
    path.write_text("what was there")
    written(shell, path)
    assert [each.name for each in tmp_path.iterdir()] == ["a b.html"]
    error = shell.error(f"report {tmp_path}/no/such/folder.html")
    assert "can't be written" in error


def test_a_run_without_anything_bad(tmp_path):
    dump = MemoryDump(Graph([Node("x", "Const")]))
    dump.add("x", 0, np.ones(3, np.float32), timestamp=1)
    page = written(Shell(dump), tmp_path / "fine.html")
    assert "No op of this run made a bad value from clean inputs." in page.text
    assert page.headings[1:] == ["What happened", "The run", "See for yourself"]


def test_a_run_that_failed(failed, tmp_path):
    page = written(failed, tmp_path / "failed.html")
    assert "Op name:    check" in page.text
    assert "not finite" in page.text


def test_a_run_without_a_dump_and_one_that_was_timed(dump, tmp_path):
    info = RunInfo(3, ["loss"], error=RunError("ValueError", "no way"))
    page = written(Shell(None, "run-end", info=info), tmp_path / "plain.html")
    assert "no way" in page.text
    page = written(Shell(dump, "profile"), tmp_path / "timed.html")
    assert page.headings[1:] == ["What happened", "The run", "See for yourself"]


def test_another_filter_is_about_the_tensor_that_passes(dump, tmp_path):
    info = RunInfo(4, ["last"], engine="numpy", filter_name="large")
    graph = Graph([Node("x", "Const"), Node("y", "Mul", ["x:0"])])
    found = MemoryDump(graph, run_info=info)
    found.add("x", 0, np.ones(3, np.float32), timestamp=1)
    found.add("y", 0, np.full(3, 7, np.float32), timestamp=2)
    shell = Shell(found)
    shell.filters.add("large", lambda datum, tensor: bool((tensor > 5).any()))
    page = written(shell, tmp_path / "large.html")
    assert "The filter large stopped the program here." in page.text
    assert "The tensor" in page.headings
    assert "y:0" in page.text
    assert "run -f large" in page.text


def test_of_many_inputs_some_are_drawn_the_bad_one_among_them(tmp_path):
    nodes = [Node(f"x{at}", "Const") for at in range(500)]
    nodes.append(Node("sum", "AddN", [f"x{at}:0" for at in range(500)]))
    dump = MemoryDump(Graph(nodes), run_info=RunInfo(1, ["sum:0"], filter_name="sums"))
    for at, name in enumerate([*(f"x{at}" for at in range(500)), "sum"]):
        value = np.full(2, np.nan if at in (77, 500) else 1, np.float32)
        dump.add(name, 0, value, timestamp=at)
    shell = Shell(dump)
    shell.filters.add("sums", lambda datum, tensor: datum.node_name == "sum")
    page = written(shell, tmp_path / "sum.html", "-fenn ^x77")
    assert "Of its 500 inputs 6 are drawn." in page.text
    assert "Const x77" in page.titles
    assert len(page.titles) == 7


def test_nodes_that_are_left_out(shell, tmp_path):
    page = written(shell, tmp_path / "x.html", "-fenn ^bad/Log")
    assert "It began in [Log]" not in page.text
    assert "not a regular expression" in shell.error(f"report {tmp_path}/y.html -fenn (")


@pytest.mark.parametrize(
    "value",
    [
        *sample(
            [
                np.array(np.nan, np.float32),
                np.zeros((0, 3), np.float32),
                np.array([BITES.encode(), b"\xff"], object),
                np.array([[1 + 2j, complex(np.nan, 0)]]),
                np.array([True, False]),
                np.full((4, 5), np.nan, np.float16),
                np.array([np.inf, 1.0, 1.0]),
                np.arange(6, dtype=np.int8).reshape(1, 2, 3),
                np.array([1e308, -1e308, np.inf]),
            ],
            3,
        )
    ],
    ids=lambda value: f"{value.dtype}{list(value.shape)}",
)
def test_tensors_of_all_kinds(value, tmp_path):
    info = RunInfo(1, ["x:0"], filter_name="any")
    dump = MemoryDump(Graph([Node("x", "Op")]), run_info=info)
    dump.add("x", 0, value, timestamp=1)
    shell = Shell(dump)
    shell.filters.add("any", lambda datum, tensor: True)
    page = written(shell, tmp_path / "x.html")
    assert "x:0" in page.text


def hostile_dump():
    path = f"/home/user/{BITES}\x1b[31m.py".replace("/pre", "_pre")
    frames = [Frame(path, 2, f"f{BITES}", f"t{BITES}")]
    nodes = [
        Node(f"x{BITES}", f"Op{BITES}", frames=frames),
        Node(f"y{BITES}", f"Op{BITES}", [f"x{BITES}:0"], frames=frames),
    ]
    info = RunInfo(
        1,
        [f"y{BITES}:0"],
        {f"feed{BITES}": np.ones(2)},
        f"engine{BITES}",
        runner=f"runner{BITES}",
        kind=f"kind{BITES}",
        filter_name=f"filter{BITES}",
        details=[(f"Label{BITES}", f"text{BITES}")],
        outputs={f"loss{BITES}": f"y{BITES}:0"},
        program=[("Program", f"train.py {BITES}"), (f"Seed{BITES}", BITES)],
    )
    text = f"import x\ny = f('{BITES}')  # {BITES}\n'''{BITES}'''\n"
    dump = MemoryDump(Graph(nodes), Sources({path: text}, live=False), info)
    dump.add(nodes[0].name, 0, np.array([1.0, 2.0]), timestamp=1, device_name=BITES)
    dump.add(nodes[1].name, 0, np.array([np.nan, 2.0]), timestamp=2, device_name=BITES)
    return dump


@pytest.mark.parametrize("is_failed", [False, True])
def test_what_bites_stays_text(is_failed, tmp_path):
    dump = hostile_dump()
    if is_failed:
        dump.run_info().error = RunError(f"Error{BITES}", f"message{BITES}", f"y{BITES}", BITES, 2)
    path = tmp_path / "page.html"
    page = written(Shell(dump), path)
    raw = path.read_text(encoding="utf-8")
    assert "<script" not in raw
    assert "<img src=x" not in raw
    assert "\x1b" not in raw
    assert page.text.count("<script>alert('x')</script>") > 10
    assert any("<script>" in title for title in page.titles)
    assert f"train.py {BITES}" in page.text


def test_a_dump_from_elsewhere_tells_what_its_program_was(tmp_path):
    dump = hostile_dump()
    write_run_folder(dump, tmp_path / "run")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tfdbg_cli", "--batch"),
            *("--dump-dir", tmp_path / "run", "-c", "report page.html"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert re.search(r"[\d.]+kB written to page.html", done.stdout), done
    page = read_report((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert f"train.py {BITES}" in page.text
    assert "went bad" not in page.text
    dump.run_info().program = ()
    write_run_folder(dump, tmp_path / "bare")
    page = written(Shell(dump, "offline"), tmp_path / "bare.html")
    assert "doesn't have the program's command line" in page.text


def test_of_a_damaged_dump_the_rest_is_told(dump, tmp_path):
    write_run_folder(dump, tmp_path / "run")
    for path in (tmp_path / "run").iterdir():
        if path.suffix == ".safetensors":
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    shell = Shell(open_dump(tmp_path / "run"), "offline")
    page = written(shell, tmp_path / "damaged.html")
    assert page.headings[-2:] == ["The run", "See for yourself"]
    graph = Graph([Node("x", "Op", frames=lambda: 1 / 0)])
    broken = MemoryDump(graph, run_info=RunInfo(1, ["x:0"]))
    broken.add("x", 0, np.array([np.nan]), timestamp=1)
    page = written(Shell(broken), tmp_path / "broken.html")
    assert "This part can't be shown: " in page.text
    assert "division by zero" in page.text
    assert "Histogram" in page.headings


def test_secrets_of_the_command_line_are_left_out(monkeypatch):
    words = ["train.py", "--token", "abc", "--api-key=xyz", "--lr", "0.1", "--password"]
    words += ["--passwd=pw", "it's"]
    monkeypatch.setattr(sys, "argv", words)
    told = dict(program_facts())["Program"]
    assert told == "train.py --token … --api-key=… --lr 0.1 --password --passwd=… 'it'\"'\"'s'"


def test_curves_are_drawn_with_what_is_not_finite(tmp_path):
    tracks = Tracks()
    for run in range(5000):
        odd = {40: float("nan"), 1234: 7.5, 4999: float("inf")}
        tracks.note("loss <b>", run, odd.get(run, 1 / (1 + run)))
    tracks.note("x", 3, float("nan"))
    dump = MemoryDump(Graph([Node("x", "Op")]), run_info=RunInfo(1, ["x:0"], tracks=tracks))
    page = written(Shell(dump), tmp_path / "curves.html")
    assert page.headings[-5:-2] == ["Followed over the runs", "loss <b>", "x"]
    assert page.tags.count("polyline") == 2
    assert page.titles.count("bad") == 3
    assert "7.5" in page.text  # the only run that was so high is in sight
