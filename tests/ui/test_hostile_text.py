"""Texts of programs and dumps that a terminal would obey: they are shown, and obeyed nowhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from terminal_kit import Make, Terminal, terminals

from tfdbg_cli.commands.builtin import make_registry
from tfdbg_cli.common.documents import Document, Span, line
from tfdbg_cli.common.printable import printable
from tfdbg_cli.dumps.dump import RunError, RunInfo
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_folder.dump import write_run_folder
from tfdbg_cli.dumps.series.history import MeasuredTensor
from tfdbg_cli.dumps.series.points import Series
from tfdbg_cli.dumps.series.tracks import Tracks
from tfdbg_cli.dumps.sources import Frame, Sources
from tfdbg_cli.dumps.tfdbg_dir.writer import write_dump_directory

ROOT = Path(__file__).parents[2]
# An escape sequence, BEL, C1, BS, the end of a line for a terminal, text that runs backwards.
ACTS = "A\x1b]0;hacked\x07\x1b[31mB\x9b31mC\x08\x85\u2028\u202eD\u2066E\u2069\u061c"
SHOWN = printable(ACTS)
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
START = 1795188947307651


def hostile_tracks() -> Tracks:
    tracks = Tracks([Series("series" + ACTS, "`x`" + ACTS)])
    tensor = MeasuredTensor("output of " + ACTS, ACTS, "output")
    for run in range(1, 5):
        tracks.history.add("run" + ACTS, run, (tensor,), (float(run),))
    return tracks


def hostile_dump() -> MemoryDump:
    """A run in which everything that has a name or a text has a bad one."""
    path = f"/home/user/{ACTS}.py"
    frames = [Frame(path, 2, f"f{ACTS}", f"t{ACTS}"), Frame(f"<{ACTS}>", 1, ACTS, ACTS)]
    device = "/job:localhost/replica:0/task:0/device:CPU:0"
    attributes = {f"attribute{ACTS}": ACTS, "_module": ACTS, "_phase": f"forward{ACTS}"}
    names = ["x" + ACTS, "y" + ACTS, "plain"]
    graph = Graph(
        [
            Node(names[0], "Op" + ACTS, device=device, attributes=attributes, frames=frames),
            Node(names[1], "Op" + ACTS, [names[0] + ":0"], device=device, frames=frames),
            Node("plain", "Neg", [names[1] + ":0"], [names[0]], device, frames=frames),
        ]
    )
    info = RunInfo(
        call_count=1,
        fetches=["y" + ACTS],
        feeds={f"feed{ACTS}:0": np.array([b"a" + ACTS.encode()], object)},
        engine="numpy" + ACTS,
        runner="runner" + ACTS,
        kind="step" + ACTS,
        filter_name="filter" + ACTS,
        error=RunError("Error" + ACTS, "message" + ACTS, names[1], path, 2),
        details=[("Label" + ACTS, "text" + ACTS)],
        outputs={"loss" + ACTS: names[1] + ":0"},
        tracks=hostile_tracks(),
    )
    info.tracks["series" + ACTS].add(1, 2.0)
    sources = Sources({path: f"import x\ny = f(x)  # {ACTS}\n"}, live=False)
    dump = MemoryDump(graph, sources, info)
    for turn, name in enumerate(names):
        value = np.array([1.0, -np.inf]) if turn else np.array([ACTS.encode(), b"\x9b"], object)
        dump.add(name, 0, value, timestamp=START + turn, device_name=device + ACTS)
    dump.warnings.append("warning" + ACTS)
    return dump


#: Each command of a stop offline, as it is likely to meet such texts.
COMMANDS = {
    "run_info": ["ri"],
    "error": ["err"],
    "exit": [],
    "runs": ["runs", "runs --json", "runs -f has_inf_or_nan"],
    "use": ["use 7"],
    "list_tensors": [
        "lt",
        "lt -o time,size,op_type,dtype,shape,health,min,device,phase,module",
        f"lt -f 'no{ACTS}'",
        f"lt -n '{ACTS}('",
        "lt --json",
        "lt -s nothing",
    ],
    "print_tensor": [
        f"pt 'y{SHOWN}:0'",
        f"pt 'x{SHOWN}:0' -s",
        f"pt 'y{SHOWN}:0' --bad",
        "pt y",
        "pt x:1",
        "pt missing -w /nowhere/" + "x",
    ],
    "print_feed": [f"pf 'feed{SHOWN}:0'", "pf", "pf fee"],
    "select": [f"select 'y{SHOWN}:0' plain", "select", "lt --selected", f"select -d 'x{ACTS}'"],
    "here": [f"here 'y{SHOWN}:0'"],
    "preview": [f"preview 'y{SHOWN}:0'", "preview plain -k graph", f"preview 'x{ACTS}' -k source"],
    "eval": [f"eval '`y{SHOWN}:0` + 1'", f"eval '`x{SHOWN}:0`'", "eval `y`"],
    "node_info": [f"ni -a -d -t 'y{SHOWN}'", f"ni -a -d -t 'x{SHOWN}'", "ni -t plain", "ni y"],
    "list_inputs": ["li -r -t -c plain", "li --to-first-bad plain", f"li --to 'x{SHOWN}' plain"],
    "fix": ["fix"],
    "precision": ["precision"],
    "graph": [f"graph 'y{SHOWN}'", "graph plain -c -d 9", "graph y", "graph plain > out.svg"],
    "report": ["report out.html", "report '/nowhere/" + ACTS + "'"],
    "why": ["why", "why -f has_inf_or_nan", f"why -f 'no{ACTS}'"],
    "list_outputs": [f"lo -r -t -c 'x{SHOWN}'"],
    "list_source": ["ls", "ls -p nothing", "ls -n y"],
    "print_source": [f"ps '/home/user/{SHOWN}.py'", f"ps '/home/user/{SHOWN}.py' -n", "ps nothing"],
    "track": ["track", f"track '{ACTS}'", f"track -d '{ACTS}'"],
    "plot": ["plot", f"plot '{ACTS}'", f"plot --save '/nowhere/{ACTS}.svg'"],
    "growth": ["growth", "growth --json", f"growth -n '{ACTS}('", f"plot 'output of {SHOWN}'"],
    "history": ["history"],
    "source": ["source 'nothing" + ACTS + "'"],
    "save": ["save '/nowhere/" + ACTS + "'"],
    "record": ["record '/nowhere/" + ACTS + "'", "record"],
    "alias": ["alias", "alias ''"],
    "unalias": [f"unalias 'no{ACTS}'"],
    "help": ["help", f"help '{ACTS}'"],
    "config": ["config", f"config '{ACTS}'"],
    "version": ["version"],
    "errors": ["errors"],
    "mouse": ["mouse"],
    "prev": ["lt", "prev"],
    "next": ["lt", "next"],
    "link": ["lt", "link", "link 1", "link 9999"],
}


def run(*arguments: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[bytes]:
    """The command line in batch, its output as bytes."""
    return subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", *arguments],
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        cwd=cwd,
        timeout=120,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"} | environ,
    )


def raw_lines(text: str) -> list[str]:
    return [each for each in text.split("\n") if RAW.search(each)]


@pytest.fixture(scope="module", params=["folder", "directory", "runs", "ranks"])
def dump_dir(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same dump in each shape that a dump on disk can have."""
    root = tmp_path_factory.mktemp("hostile") / ("dump" + ACTS)
    root.mkdir()
    dump = hostile_dump()
    if request.param == "folder":
        write_run_folder(dump, root / "run")
        return root / "run"
    if request.param == "directory":
        write_dump_directory(dump, root / "run")
        return root / "run"
    for name in ("rank_0", "rank_1") if request.param == "ranks" else ("",):
        write_run_folder(dump, root / name / "run_000001")
        write_run_folder(dump, root / name / ("run_000002" if name else "run" + ACTS))
    return root


def test_no_command_lets_a_control_character_through(dump_dir: Path, tmp_path: Path) -> None:
    known = {command.name for command in make_registry().commands if "offline" in command.modes}
    assert {*COMMANDS} >= known
    asked = [f"-c{each}" for some in COMMANDS.values() for each in some]
    done = run("--batch", *asked, "-clt > out.txt", f"--dump-dir={dump_dir}", cwd=tmp_path)
    printed = (done.stdout + done.stderr).decode()
    assert raw_lines(printed) == []
    assert "Traceback (most" not in printed
    assert "Error in the debugger" not in printed
    assert SHOWN in printed
    assert raw_lines((tmp_path / "out.txt").read_text()) == []


def test_what_is_printed_can_be_typed(tmp_path: Path) -> None:
    dump = hostile_dump()
    dump.add("tab\tand\nline", 0, np.full(2, 7.5), timestamp=START + 9)
    write_run_folder(dump, tmp_path / "run")
    asked = [
        "pt 'tab\\x09and\\x0aline'",
        f"pt 'y{SHOWN}:0'",
        f"eval '`y{SHOWN}:0` * 0 + 5'",
        f"ni 'y{SHOWN}'",
        f"pf 'feed{SHOWN}:0'",
        f"ps '/home/user/{SHOWN}.py'",
    ]
    done = run("--batch", *(f"-c{each}" for each in asked), "--dump-dir=run", cwd=tmp_path)
    printed = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"")
    parts = [
        "array([7.5, 7.5])",
        "-inf",
        "array([ 5., nan])",
        f"Node y{SHOWN}",
        f'"feed{SHOWN}:0',
        "y = f(x)",
    ]
    assert [part for part in parts if part not in printed] == []


def test_json_stays_json(tmp_path: Path) -> None:
    dump = hostile_dump()
    dump.add("del\x7f", 0, np.zeros(1), timestamp=START + 9)
    write_run_folder(dump, tmp_path / "run")
    done = run("--batch", "-clt --json", "--dump-dir=run", cwd=tmp_path)
    names = [json.loads(each)["node"] for each in done.stdout.splitlines()]
    assert names == ["x" + ACTS, "y" + ACTS, "plain", "del\x7f"]


@pytest.fixture
def terminal() -> Iterator[Make]:
    def start(*arguments: str, **options: object) -> Terminal:
        return make(command=(sys.executable, "-m", "tfdbg_cli", *arguments), **options)

    with terminals() as make:
        yield start


# Of the escape sequence that is in all texts, what no interface of ours ever sends.
SENT = ("\x1b]0;hacked", "\x9b", "\x85", "\u2028", "\u202e", "\u2066", "\x07")


@pytest.mark.parametrize("ui", ["screen", "line", "readline"])
def test_a_terminal_is_told_nothing(ui: str, terminal: Make, tmp_path: Path) -> None:
    write_run_folder(hostile_dump(), tmp_path / "run")
    arguments = (f"--ui={ui}", f"--dump-dir={tmp_path / 'run'}")
    shown = terminal(*arguments, size=(300, 50), INPUTRC="/dev/null")
    shown.until("tfdbg>")
    shown.until(f"x{SHOWN}:0")
    # The error, a node with its frames, a name that is not there, a list of completions.
    for command, seen in (
        ("err", "messageA\\x1b"),
        (f"ni -t -a 'y{SHOWN}'", f"f{SHOWN}"),
        ("pt y", f"y{SHOWN}"),
        ("pt feed", "feed"),
    ):
        shown.type(command + "\r")
        shown.until(seen)
    shown.type("pt \t\t")
    shown.until(f"x{SHOWN}")
    assert [each for each in SENT if each in shown.raw] == []
    assert "\x1b[31mB" not in shown.raw


NAMES = """
    import time
    from tfdbg_cli.engines import numpy as tf

    ACTS = {acts!r}
    x = tf.placeholder(tf.float32, [None], name="x" + ACTS)
    y = tf.log(x, name="y" + ACTS)
    with tf.Session() as session:
        for step in range(200):
            session.run(y, {{x: [float(step != 150)]}})
            time.sleep(0.01)
"""


@pytest.mark.parametrize("ui", ["screen", "line", "readline"])
def test_a_live_stop_tells_a_terminal_nothing(ui: str, terminal: Make, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(NAMES).format(acts=ACTS))
    shown = terminal(f"--ui={ui}", str(path), size=(240, 40), INPUTRC="/dev/null")
    shown.until("tfdbg>")
    shown.type("ri\r")
    shown.until(f"x{SHOWN}:0")
    shown.type("run -f has_inf_or_nan\r")  # for more than a second: it says how far it is
    shown.until("run-end: run #151")
    shown.until("1 dumped tensor")
    shown.type("pt y\r")
    shown.until("Did you mean")
    shown.type("exit --detach\r")
    shown.ends()
    assert [each for each in SENT if each in shown.raw] == []


LIVE = """
    import torch

    ACTS = {acts!r}

    class Bad(torch.nn.Module):
        def forward(self, x):
            if x.isnan().any():
                raise ValueError("message" + ACTS)
            return x.log()  # {acts}

    model = torch.nn.Sequential()
    model.add_module("layer" + ACTS, Bad())
    model(torch.tensor([-1.0]))
    model(torch.tensor([float("nan")]))
"""


def test_a_running_program_is_no_better(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = tmp_path / ("folder" + ACTS)
    folder.mkdir()
    path = folder / "script.py"
    path.write_text(textwrap.dedent(LIVE).format(acts=ACTS))
    asked = ["run", "lt", "ri", "ni -t -a log", "ls", "ps script.py", "pt log", "run", "err", "ri"]
    done = run("--batch", *(f"-c{each}" for each in asked), str(path), cwd=folder)
    assert done.returncode == 1
    printed = done.stdout.decode()  # on stderr is Python's own traceback, as it always is
    assert f"folder{SHOWN}" in printed
    assert "messageA\\x1b" in printed
    assert f"# {SHOWN}" in printed
    assert raw_lines(printed) == []


FILTERED = """
    from tfdbg_cli.engines import numpy as tf

    x = tf.placeholder(tf.float32, [None], name="x")
    y = tf.log(x, name="y")
    with tf.Session() as session:
        for value in (1.0, 2.0):
            session.run(y, {x: [value]})
"""
FILTER = """
    def broken(datum, value):
        raise ValueError({acts!r})
"""


def test_notes_beside_the_screens_are_written_out(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(textwrap.dedent(FILTERED))
    filters = tmp_path / f"filters{ACTS}.py"
    filters.write_text(textwrap.dedent(FILTER).format(acts=ACTS))
    done = run("--batch", f"--filters={filters}", "-crun -f broken", "script.py", cwd=tmp_path)
    assert raw_lines((done.stdout + done.stderr).decode()) == []
    assert done.stderr.decode().count('The filter "broken" raised in run #1 at ') == 1
    assert "A\\x1b]0;hacked" in done.stderr.decode()
    for wrong in (f"--dump-dir=no{ACTS}", f"--filters=no{ACTS}.py", f"no{ACTS}.py", f"--no{ACTS}"):
        done = run("--batch", wrong, "script.py", cwd=tmp_path)
        assert done.returncode != 0
        assert raw_lines(done.stderr.decode()) == []


def test_spans_and_titles_are_written_out() -> None:
    assert line("a\x1bb", ("\udc80", "dim")).text == "a\\x1bb\\udc80"
    assert Span("a\tb\u202e").text == "a       b\\u202e"
    assert printable("é 日本 \U0001f600 \u0301") == "é 日本 \U0001f600 \u0301"
    assert isinstance(Document.title, property)
