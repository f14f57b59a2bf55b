"""What a signal handler of the program's raises at a prompt reaches the program where it waits."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from samples import sample
from terminal_kit import Make, Terminal, modes, terminals

PROGRAM = """\
import asyncio, os, signal, sys, traceback
from tfdbg_cli.engines import numpy as tf

class Late(Exception):
    pass

def late(number, frame):
    raise KINDS[sys.argv[1]]("too long")

KINDS = {"own": Late, "exit": SystemExit, "interrupt": KeyboardInterrupt}
x = tf.placeholder(tf.float32, [None], name="x")
y = tf.log(x, name="y")
session = tf.Session()
signal.signal(signal.SIGUSR1, late)
signal.signal(signal.SIGTERM, late)
print("it is", os.getpid(), flush=True)

def wait():
    try:
        session.run(y, {x: [0.0]})
        print("RESULT none came")
    except BaseException as error:
        line = traceback.extract_tb(error.__traceback__)[0].line
        kept = signal.getsignal(signal.SIGUSR1) is late and signal.getsignal(signal.SIGTERM) is late
        print("RESULT", type(error).__name__, error, error.__context__, kept, line)

if "loop" in sys.argv:
    async def waits():
        wait()
    asyncio.run(waits())
else:
    wait()
"""

TORCH = """\
import os, signal, torch

class Late(Exception):
    pass

def late(number, frame):
    raise Late("too long")

net = torch.nn.Linear(2, 1)
signal.signal(signal.SIGUSR1, late)
print("it is", os.getpid(), flush=True)
try:
    with torch.no_grad():
        net(torch.ones(3, 2))
    print("RESULT none came")
except Late as error:
    print("RESULT", error)
"""


@pytest.fixture
def debugged(tmp_path: Path) -> Iterator[Make]:
    def debug(ui: str, *arguments: str, program: str = PROGRAM) -> Terminal:
        script = tmp_path / "program.py"
        script.write_text(program)
        command = [sys.executable, "-m", "tfdbg_cli", "--ui", ui, str(script), *arguments]
        return make(command=command)

    with terminals() as make:
        yield debug


def send(shown: Terminal, number: int) -> None:
    """Send the program a signal, whatever it is at."""
    found = re.search(r"it is (\d+)", shown.raw)
    assert found, shown.raw
    os.kill(int(found[1]), number)


def send_at_rest(shown: Terminal, number: int) -> None:
    """Send the program a signal as soon as it waits for something for good.

    Python notices no signal that comes after it has printed a prompt and before it waits for the
    first key, at its own `input()` as here: not before the next Enter.
    """
    found = re.search(r"it is (\d+)", shown.raw)
    assert found, shown.raw
    status = Path(f"/proc/{found[1]}/status")
    seen = ""
    while status.exists():  # only Linux tells
        now = status.read_text()
        if "(sleeping)" in now and now == seen:
            break
        seen = now
        time.sleep(0.05)  # whoever waits for the interpreter's lock wakes up ten times meanwhile
    send(shown, number)


@pytest.mark.parametrize("ui", ["screen", "line", "readline", "plain"])
@pytest.mark.parametrize("mode", ["", "loop"])
def test_an_error_of_its_own_reaches_the_program(debugged: Make, ui: str, mode: str) -> None:
    shown = debugged(ui, "own", mode)
    before = modes(shown.child.fileno())
    shown.until("tfdbg>")
    send_at_rest(shown, signal.SIGUSR1)
    shown.until("RESULT Late too long None True session.run(y, {x: [0.0]})")
    assert modes(shown.child.fileno()) == before
    assert shown.ends() == 0
    assert "Traceback" not in shown.raw
    assert "failed" not in shown.raw


@pytest.mark.parametrize("ui", [*sample(["screen", "line", "readline", "plain"], 2)])
@pytest.mark.parametrize(
    ("kind", "name", "number"),
    [
        ("exit", "SystemExit", signal.SIGTERM),
        ("interrupt", "KeyboardInterrupt", signal.SIGTERM),
        ("interrupt", "KeyboardInterrupt", signal.SIGUSR1),
    ],
)
def test_so_does_an_exit_or_an_interrupt(
    debugged: Make, ui: str, kind: str, name: str, number: int
) -> None:
    shown = debugged(ui, kind)
    shown.until("tfdbg>")
    send_at_rest(shown, number)
    shown.until(f"RESULT {name} too long None True")
    assert shown.ends() == 0


@pytest.mark.parametrize("command", ["", "invoke_stepper\r"])
@pytest.mark.parametrize("ui", [*sample(["screen", "line"], 2)])
def test_in_a_program_of_pytorch(debugged: Make, ui: str, command: str) -> None:
    pytest.importorskip("torch")
    shown = debugged(ui, program=TORCH)
    shown.until("tfdbg>")
    if command:
        shown.type(command)
        shown.until("stepper:")
    send_at_rest(shown, signal.SIGUSR1)
    if command:  # there is a run, and its end is a stop
        shown.until("run-end:")
        shown.type("run\r")
    shown.until("RESULT too long")
    assert "failed" not in shown.raw


def test_a_command_at_work_gives_way(debugged: Make) -> None:
    program = PROGRAM.replace("[0.0]", "__import__('numpy').zeros(100_000_000, 'f4')")
    shown = debugged("line", "own", program=program)
    shown.until("tfdbg>")
    shown.type("eval '[i for i in range(10**9)]'\r")
    shown.until("range(10**9)")
    send(shown, signal.SIGUSR1)
    shown.until("RESULT Late too long")
    assert shown.ends() == 0
