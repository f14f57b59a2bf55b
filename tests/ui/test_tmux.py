"""In tmux, as people use it: suspend, resize, mouse, clipboard, and a kill."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Tmux:
    """A tmux server of our own with one window that runs a shell."""

    def __init__(self, folder: Path, columns: int = 80, rows: int = 24) -> None:
        self._name = f"tfdbg-{uuid.uuid4().hex[:8]}"
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder),
            "XDG_STATE_HOME": str(folder),
            "LANG": "C.UTF-8",
            "PS1": "shell> ",
        }
        subprocess.run(
            [
                *("tmux", "-L", self._name, "-f", "/dev/null", "new-session", "-d"),
                *("-x", str(columns), "-y", str(rows), "-c", str(ROOT)),
                *("sh", "-i"),
            ],
            env=environment,
            check=True,
        )
        self.tmux("set-option", "-g", "escape-time", "0")

    def tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._name, *arguments], capture_output=True, text=True, check=False
        )
        return done.stdout

    @property
    def text(self) -> str:
        return self.tmux("capture-pane", "-p")

    def type(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def send(self, data: bytes) -> None:
        self.tmux("send-keys", "-H", *(f"{byte:02x}" for byte in data))

    def until(self, condition: str | Callable[[str], bool]) -> str:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            text = self.text
            if condition in text if isinstance(condition, str) else condition(text):
                return text
            time.sleep(0.02)
        raise AssertionError(f"no {condition!r} in\n{self.text}")

    def close(self) -> None:
        self.tmux("kill-server")


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    made = Tmux(tmp_path)
    made.until("shell>")
    made.type(
        f"{shlex.quote(sys.executable)} -m tfdbg_cli examples/debug_mnist.py --max-steps 6; "
        "echo status=$?",
        "Enter",
    )
    made.until("tfdbg>")
    yield made
    made.close()


def test_suspend_and_come_back(tmux: Tmux) -> None:
    before = tmux.text
    tmux.type("C-z")
    tmux.until("shell>")
    tmux.type("echo a$((1+1))b", "Enter")
    tmux.until("a2b")
    tmux.type("fg", "Enter")
    tmux.until(lambda text: text == before)
    tmux.type("version", "Enter")
    tmux.until("NumPy")


def test_resize_at_any_moment(tmux: Tmux) -> None:
    tmux.type("run -f has_inf_or_nan", "Enter")
    tmux.until("cross_entropy/Log:0")
    for columns, rows in ((160, 50), (50, 12), (80, 24), (20, 5), (120, 40)):
        tmux.tmux("resize-window", "-x", str(columns), "-y", str(rows))
        tmux.until(
            lambda text, rows=rows: (
                text.rstrip("\n").count("\n") == rows - 1
                and text.rstrip("\n").splitlines()[-1].rstrip().endswith((">", "›"))
            )
        )
    assert "cross_entropy/Log:0" in tmux.text


def test_a_click_on_a_link(tmux: Tmux) -> None:
    tmux.type("run -f has_inf_or_nan", "Enter")
    rows = tmux.until("cross_entropy/Log:0").splitlines()
    row = next(number for number, text in enumerate(rows) if "cross_entropy/Log:0" in text)
    column = rows[row].index("cross_entropy/Log:0") + 2
    tmux.send(f"\x1b[<0;{column + 1};{row + 1}M\x1b[<0;{column + 1};{row + 1}m".encode())
    tmux.until('Tensor "cross_entropy/Log:0')
    tmux.send(b"\x1b[<65;5;10M" * 3)  # the wheel
    tmux.until(lambda text: 'Tensor "cross_entropy/Log:0' not in text)


def test_copying_reaches_tmux(tmux: Tmux) -> None:
    tmux.type("run -f has_inf_or_nan", "Enter")
    tmux.until("cross_entropy/Log:0")
    tmux.type("Escape")
    tmux.until("PAGE")
    tmux.type("Y")
    tmux.until("Copied")
    assert "cross_entropy/Log:0" in tmux.tmux("show-buffer")


def test_a_kill_leaves_a_working_shell(tmux: Tmux) -> None:
    tmux.type("run", "Enter")
    tmux.until("dumped tensor(s)")
    shell = tmux.tmux("list-panes", "-F", "#{pane_pid}").strip()
    found = subprocess.run(["pgrep", "-P", shell], capture_output=True, text=True, check=False)
    (pid,) = found.stdout.split()
    os.kill(int(pid), 9)
    # The shell may have its next prompt on the screen that the watchdog is about to take down.
    tmux.until(lambda text: tmux.tmux("display-message", "-p", "#{alternate_on}").strip() == "0")
    tmux.type("echo a$((1+1))b", "Enter")
    tmux.until("a2b")
    assert "1" in tmux.tmux("display-message", "-p", "#{cursor_flag}")
    assert tmux.tmux("display-message", "-p", "#{mouse_any_flag}#{alternate_on}").strip() == "00"


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Callable[[str], Tmux]]:
    """The program that goes on for long, in the middle of ``run -f``."""
    opened: list[Tmux] = []

    def make(what: str) -> Tmux:
        made = Tmux(tmp_path)
        opened.append(made)
        made.until("shell>")
        command = shlex.join([sys.executable, "-m", "tfdbg_cli", "tests/ui/waiting_program.py"])
        made.type(f"{command} 0.02 {what}", "Enter")
        made.until("tfdbg>")
        made.type("run -f has_inf_or_nan", "Enter")
        made.until("runs/s")
        return made

    yield make
    for made in opened:
        made.close()


def has_row(text: str) -> bool:
    rows = text.rstrip("\n").splitlines()
    return len(rows) == 24 and rows[-1].startswith("run #")


def test_the_progress_row_leaves_while_the_program_is_suspended(
    waiting: Callable[[str], Tmux],
) -> None:
    shown = waiting("")
    shown.until(has_row)
    shown.type("C-z")
    shown.until(lambda text: "shell>" in text and "runs/s" not in text)
    shown.type("seq 40", "Enter")  # the shell has all rows again
    shown.until(lambda text: text.splitlines()[22:] == ["40", "shell>"])
    shown.type("fg", "Enter")
    shown.until(has_row)
    # In the background it is the shell's as well.
    shown.type("C-z")
    shown.until(lambda text: "shell>" in text and "runs/s" not in text)
    shown.type("bg", "Enter")
    steps = re.compile(r"step (\d+) of")
    last = max(map(int, steps.findall(shown.until("of the program"))), default=0)
    text = shown.until(lambda text: max(map(int, steps.findall(text)), default=0) > last + 50)
    assert "runs/s" not in text
    shown.type("fg", "Enter")
    shown.until(has_row)


def test_the_progress_row_leaves_when_the_program_is_in_pdb(
    waiting: Callable[[str], Tmux],
) -> None:
    shown = waiting("pdb")
    shown.until(lambda text: "(Pdb)" in text and "runs/s" not in text)
    shown.type("p 'a' * 70", "Enter")
    shown.until("a" * 70)
    assert "runs/s" not in shown.text
    shown.type("c", "Enter")
    shown.until(has_row)


def test_the_programs_own_screen_is_left_alone(waiting: Callable[[str], Tmux]) -> None:
    shown = waiting("curses")
    own = [f"row {number} of the program's own screen" for number in range(24)]
    shown.until(lambda text: text.splitlines() == own)
    time.sleep(1)  # longer than the row takes to be drawn again
    assert shown.text.splitlines() == own
    shown.type("q")
    # What was below that screen has no row of ours that the program would write into.
    rows = shown.until("back on the terminal").splitlines()
    assert [row for row in rows if row][-3:] == ["one line", "another line", "back on the terminal"]
    shown.type("Enter")
    shown.until(has_row)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_shell_has_its_prompt_after_a_kill(tmp_path: Path) -> None:
    made = Tmux(tmp_path)
    made.type("PS1='prompt> ' bash --norc --noprofile", "Enter")
    made.until("prompt>")
    try:
        for _ in range(4):
            made.type(f"clear; {shlex.quote(sys.executable)} -m tfdbg_cli {_KILLED}", "Enter")
            made.until("tfdbg>")
            made.type("eval __import__('os').kill(__import__('os').getpid(),9)", "Enter")
            made.until(lambda text: text.rstrip().endswith("prompt>"))
    finally:
        made.close()


_KILLED = "examples/debug_mnist.py --max-steps 6"

MORTAL = """\
import ctypes, faulthandler, os, signal, sys, time
from tfdbg_cli.engines import numpy as tf

DEATHS = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segv": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "exit": lambda: os._exit(3),
}

def die(number, frame):
    try:
        print("last words", flush=True)
    except RuntimeError:  # the signal came in the middle of a print: a little later, then
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        return
    DEATHS[sys.argv[1]]()

faulthandler.enable()
signal.signal(signal.SIGUSR1, die)
signal.signal(signal.SIGALRM, die)
x = tf.placeholder(tf.float32, [None], name="x")
y = tf.log(x, name="y")
session = tf.Session()
for step in range(100_000):
    session.run(y, {x: [1.0]})
    print(f"step {step}\\n", end="", flush=True)  # in one piece: a signal may come in between
    time.sleep(0.02)
"""


@pytest.mark.parametrize(
    ("way", "status"), [("kill", 137), ("segv", 139), ("abort", 134), ("exit", 3)]
)
def test_a_death_while_runs_go_by_leaves_the_last_lines(
    tmp_path: Path, way: str, status: int
) -> None:
    script = tmp_path / "mortal.py"
    script.write_text(MORTAL)
    made = Tmux(tmp_path)
    try:
        made.until("shell>")
        python = shlex.quote(sys.executable)
        made.type(f"{python} -m tfdbg_cli {script} {way}; echo status=$?", "Enter")
        made.until("tfdbg>")  # the alternate screen was up, and the cursor near the top before
        made.type("run -f has_inf_or_nan", "Enter")
        made.until(lambda text: "Ctrl-C: stop" in text and "step 30" in text)
        shell = made.tmux("list-panes", "-F", "#{pane_pid}").strip()
        found = subprocess.run(["pgrep", "-P", shell], capture_output=True, text=True, check=False)
        (pid,) = found.stdout.split()
        os.kill(int(pid), signal.SIGUSR1)
        made.until(lambda text: f"status={status}\nshell>" in text)
        text = made.until(lambda text: "Ctrl-C: stop" not in text)
        made.type("echo a$((1+1))b", "Enter")
        made.until("a2b\nshell>")
        lines = text.rstrip().splitlines()
        assert lines[-2:] == [f"status={status}", "shell>"]
        if way in ("segv", "abort"):  # the end of faulthandler's report
            assert any("Extension modules" in line for line in lines)
        else:
            assert "last words" in lines[-4:]
            assert re.match(r"step \d+$", lines[lines.index("last words") - 1])
        # Neither was anything written over what stood above.
        last = made.tmux("capture-pane", "-p", "-S", "-200").splitlines()
        steps = [line for line in last if line.startswith("step ")]
        assert [int(line.split()[1]) for line in steps] == list(range(len(steps)))
    finally:
        made.close()
