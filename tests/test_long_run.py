"""Scripts that run for long say how far they are, and a Ctrl-C ends them with what there is."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc"),
]

TESTS = Path(__file__).parent
SCRIPTS = {
    "fate": ("fate/fate_run.py", "-k", "^plain/", "-w", "batch"),
    "made up": ("fate/fate_run.py", "--generate", "900", "--engine", "numpy", "--seed", "1"),
    "faults": ("fate/faults_run.py", "-e", "numpy", "-s", "stop"),
    "limits": ("fate/faults_run.py", "-e", "numpy", "-s", "stop", "--limits"),
    "fuzz": ("fuzz/fuzz_run.py", "--way", "structure", "--seconds", "900"),
    "mutate": ("mutation/mutate_run.py", "tfdbg_cli/tensors/slicing.py", "--tests", "tensors"),
    "soak": ("soak/soak_run.py", "numpy steps"),
}


def those_of(mark):
    """The processes that have inherited a mark."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (path / "environ").read_bytes():
                found.append((path / "cmdline").read_bytes())
        except OSError:  # it has ended
            pass
    return [command for command in found if command]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", SCRIPTS.values(), ids=SCRIPTS)
def test_a_person_ends_it(tmp_path, command, number):
    mark = f"LONG_RUN={uuid.uuid4()}"
    master, slave = os.openpty()
    with open(tmp_path / "out", "wb") as out:
        script = subprocess.Popen(
            [sys.executable, str(TESTS / command[0]), *command[1:]],
            cwd=TESTS.parent,
            env=os.environ | dict([mark.split("=")]),
            stdout=out,
            stderr=slave,
            start_new_session=True,
        )
    os.close(slave)
    shown = b""
    while b"\r\x1b[K" not in shown:
        shown += os.read(master, 1 << 16)
    # As a terminal does: all of the group get it.
    os.killpg(script.pid, number)
    assert script.wait(60) == 130
    shown += os.read(master, 1 << 16)
    os.close(master)
    said = (tmp_path / "out").read_text() + shown.decode()
    assert " s: " in said
    assert "nded early" in said
    end = time.monotonic() + 20  # whom a signal has met may take its time
    while (left := those_of(mark)) and time.monotonic() < end:
        time.sleep(0.05)
    assert left == []


def test_elsewhere_than_at_a_terminal_lines_follow_each_other():
    command = ["fuzz/fuzz_run.py", "--way", "structure", "--seconds", "6"]
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(TESTS / command[0]), *command[1:]],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    # It took as long as it took to start each of the targets.
    assert time.monotonic() - began < 45
    assert done.returncode == 0, done.stdout + done.stderr
    assert " targets, " in done.stderr and "\x1b" not in done.stderr
    assert ", 0 found, 0.1 minutes" in done.stdout
