"""However the program dies, the terminal comes back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from terminal_kit import Terminal, modes, restored

HERE = Path(__file__).parent

# The shell is what owns the terminal, as it does for a user.
SHELL = '"$0" "$1" screen; echo "status=$?"; read answer; echo "read=$answer"'


@pytest.fixture
def shown() -> Iterator[Terminal]:
    made = Terminal(command=["bash", "-c", SHELL, sys.executable, str(HERE / "ui_program.py")])
    yield made
    made.child.close(force=True)


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="needs bash")
@pytest.mark.parametrize(
    ("way", "status"),
    [
        ("exit", 3),
        ("SIGABRT", 128 + signal.SIGABRT),
        ("SIGSEGV", 128 + signal.SIGSEGV),
        ("SIGKILL", 128 + signal.SIGKILL),
        ("SIGTERM", 128 + signal.SIGTERM),
        ("SIGHUP", 128 + signal.SIGHUP),
        ("SIGQUIT", 128 + signal.SIGQUIT),
    ],
)
def test_the_terminal_comes_back(shown: Terminal, way: str, status: int) -> None:
    ends = os.openpty()
    before = modes(ends[0])  # of a new one: by now the debugger may have changed the other
    shown.until("tfdbg>")
    assert modes(shown.child.fileno()) != before
    shown.type(f"die {way}\r")
    shown.until(f"status={status}")
    shown.until(lambda: restored(shown))
    shown.until(lambda: modes(shown.child.fileno()) == before)
    shown.until("last words")
    shown.type("typed\n")
    shown.until("read=typed")
    assert shown.ends() == 0
    for end in ends:
        os.close(end)


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="needs bash")
def test_nobody_is_left_behind(shown: Terminal) -> None:
    shown.until("tfdbg>")
    shown.type("exit --end\r")
    shown.until("status=0")
    shown.until(lambda: restored(shown))
    once = shown.raw.count("\x1b[?1049l")
    shown.type("typed\n")
    assert shown.ends() == 0  # the end of the file: the watchdog doesn't hold the terminal open
    assert shown.raw.count("\x1b[?1049l") == once
    assert once <= 2


@pytest.mark.skipif(os.name == "nt", reason="POSIX processes")
def test_a_program_can_wait_for_all_its_children() -> None:
    # In a process of its own: other tests may have left children in this one.
    program = """
import os
from tfdbg_cli.ui.screen.terminal.watchdog import Watchdog

ours, theirs = os.openpty()
watchdog = Watchdog(theirs)
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no children")
watchdog.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "no children\n"


def test_a_terminal_that_goes_while_the_line_ui_asks(tmp_path: Path) -> None:
    script, said = tmp_path / "script.py", tmp_path / "stderr"
    script.write_text(
        "import sys\nfrom tfdbg_cli.engines import numpy as tf\n"
        "tf.Session().run(tf.constant(1.0))\nprint('done', file=sys.stderr)\n"
    )
    master, slave = os.openpty()
    with said.open("wb") as stderr:
        process = subprocess.Popen(
            [
                "sh",
                "-c",
                'trap "" HUP; exec "$0" -m tfdbg_cli --ui line "$1"',
                sys.executable,
                script,
            ],
            stdin=slave,
            stdout=slave,
            stderr=stderr,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
        )
    os.close(slave)
    shown = b""
    while b"tfdbg> " not in shown:
        shown += os.read(master, 1 << 16)
    os.close(master)
    assert process.wait(60) == 0
    lines = said.read_text().splitlines()
    assert "done" in lines
    assert not [line for line in lines if line != "done" and not line.startswith("tfdbg: ")]


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="needs bash")
def test_ctrl_backslash_leaves_the_terminal_whole(shown: Terminal) -> None:
    before = modes(shown.child.fileno())
    shown.until("tfdbg>")
    shown.type("\x1c")
    shown.until(f"status={128 + signal.SIGQUIT}")
    # It was the program that gave it back, before its death was known.
    assert restored(shown)
    assert modes(shown.child.fileno()) == before
    shown.type("typed\n")
    shown.until("read=typed")
