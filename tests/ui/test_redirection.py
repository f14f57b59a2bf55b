"""However the program redirects its output, a person sees what the debugger shows and asks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from samples import sample
from terminal_kit import ROOT, Make, Terminal, modes, terminals

PROGRAM = """\
import contextlib, io, os, sys
from tfdbg_cli.engines import numpy as tf

class Bare:
    "Takes what is printed, and has nothing else of a file."
    def __init__(self):
        self.texts = []
    def write(self, text):
        self.texts.append(text)
    def getvalue(self):
        return "".join(self.texts)

@contextlib.contextmanager
def redirected(kind):
    if kind in ("fd", "fds"):
        kept = [os.dup(number) for number in range(3)]
        file = os.open("caught", os.O_RDWR | os.O_CREAT)
        null = os.open(os.devnull, os.O_RDONLY)
        sys.stdout.flush()
        for number in (1, 2):
            os.dup2(file, number)
        if kind == "fds":
            os.dup2(null, 0)
        yield lambda: open("caught").read()
        sys.stdout.flush()
        for number in range(3):
            os.dup2(kept[number], number)
    elif kind == "closed":
        before = sys.stdin, sys.stdout, sys.stderr
        sys.stdin = sys.stdout = sys.stderr = None
        yield lambda: ""
        sys.stdin, sys.stdout, sys.stderr = before
    else:
        buffer = io.StringIO() if kind == "text" else Bare()
        before = sys.stdin, sys.stdout, sys.stderr
        sys.stdin, sys.stdout, sys.stderr = io.StringIO(), buffer, buffer
        yield buffer.getvalue
        sys.stdin, sys.stdout, sys.stderr = before

x = tf.placeholder(tf.float32, [None], name="x")
y = tf.log(x, name="y")
session = tf.Session()
with redirected(sys.argv[1]) as caught:
    print("metric", **({} if sys.argv[1] == "bare" else {"flush": True}))
    session.run(y, {x: [0.0]})
    if sys.argv[1] != "closed":
        print("another", file=sys.stderr)
    text = caught()
print("RESULT", repr(text))
"""

KINDS = ["text", "bare", "fd", "fds", "closed"]


def expected(kind: str) -> str:
    return "" if kind == "closed" else "metric\nanother\n"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def debugged(script: Path) -> Iterator[Make]:
    def debug(ui: str, kind: str) -> Terminal:
        return make(command=[sys.executable, "-m", "tfdbg_cli", "--ui", ui, str(script), kind])

    with terminals() as make:
        yield debug


@pytest.mark.parametrize("ui", [*sample(["screen", "line", "readline", "plain"], 2)])
@pytest.mark.parametrize("kind", [*sample(KINDS, 2)])
def test_a_person_is_asked_on_the_terminal(
    debugged: Callable[..., Terminal], ui: str, kind: str
) -> None:
    shown = debugged(ui, kind)
    before = modes(shown.child.fileno())
    shown.until("tfdbg>")
    shown.type("run\r")
    shown.until("dumped tensor(s)")
    shown.type("exit\r")
    shown.until("Leave the debugger?")
    shown.type("c\r")
    shown.until("RESULT " + repr(expected(kind)))
    assert modes(shown.child.fileno()) == before
    assert shown.ends() == 0
    assert "failed" not in shown.raw


def batch(*words: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """What the debugger does without a terminal."""
    return subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", "--batch", *words],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_in_batch_the_output_goes_where_it_began(script: Path, kind: str) -> None:
    done = batch("-c", "run", "-c", "lt", "-c", "bad", str(script), kind)
    assert re.search(r"^--- lt ---$.*^\S+ +4 +Log .* y:0$", done.stdout, re.M | re.S)
    assert f"RESULT {expected(kind)!r}\n" in done.stdout
    assert done.stderr.startswith("ERROR: ")
    assert done.returncode == 1


def test_descriptors_that_the_program_closes_and_takes(script: Path) -> None:
    script.write_text(
        "import os\n"
        "from tfdbg_cli.engines import numpy as tf\n"
        "session, one = tf.Session(), tf.constant(1.0, name='one')\n"
        "os.closerange(3, 256)\n"
        "taken = [os.open('mine', os.O_RDWR | os.O_CREAT) for _ in range(250)]\n"
        "session.run(one)\n"
        "print('RESULT', repr(open('mine').read()))\n"
    )
    done = batch("-c", "run", "-c", "lt", str(script))
    assert "RESULT ''\n" in done.stdout, done.stderr
    assert "one:0" in done.stdout


def test_nobody_waits_for_a_child_that_goes_on(script: Path) -> None:
    """A daemon closes its stdout, and whoever reads that has it all."""
    script.write_text(
        "import os, time\n"
        "from tfdbg_cli.engines import numpy as tf\n"
        "if not os.fork():\n"
        "    null = os.open(os.devnull, os.O_RDWR)\n"
        "    for number in range(3):\n"
        "        os.dup2(null, number)\n"
        "    time.sleep(60)\n"
        "    os._exit(0)\n"
        "print('parent')\n"
    )
    done = batch(str(script), timeout=30)
    assert done.stdout == "parent\n"
