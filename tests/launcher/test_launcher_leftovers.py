"""Spills, shared memory and tokens of programs that were killed are removed; nobody else's."""

import importlib.util
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")

SPILLS = """\
import sys
import numpy as np
from tfdbg_cli.engines import numpy as tf
x = tf.placeholder(tf.float32, [None], name="x")
y = tf.square(x, name="y")
tf.Session().run(y, {x: np.ones(100_000)})
"""


def until(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.02)


@pytest.fixture
def spilled(runner, tmp_path):
    """A program at the stop where its dump lies in a temporary folder, and that folder's place."""
    place = tmp_path / "tmp"
    place.mkdir()
    runner.environment["TMPDIR"] = str(place)
    script = runner.write("s.py", SPILLS)
    started = []

    def start(*options):
        made = subprocess.Popen(
            [
                *(sys.executable, "-m", "tfdbg_cli", "--dump-limit", "1K", "--ui", "plain"),
                *("-c", "run", "-c", "-", *options, str(script)),
            ],
            cwd=runner.folder,
            env=runner.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        started.append(made)
        # It is written first as that of an unfinished run.
        name = "*/files/run_000001/run.json"
        until(lambda: any('"unfinished"' not in run.read_text() for run in place.glob(name)))
        return made

    yield start, place
    for made in started:
        made.kill()
        made.wait()
        made.stdin.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_spill_goes_with_its_process(spilled, number):
    start, place = spilled
    program = start()
    program.send_signal(number)
    assert program.wait(20) == -number  # by the signal, as without the debugger
    until(lambda: not list(place.iterdir()))


def test_at_the_next_start_what_nobody_owns_is_removed(spilled, runner):
    start, place = spilled
    program = start()
    (alive,) = place.iterdir()
    dead, gone = place / "tfdbg-dead", subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    dead.mkdir()
    (dead / ".owner").write_text(str(gone.pid))
    foreign = place / "tfdbg-foreign"
    foreign.mkdir()
    (place / "tfdbg-link").symlink_to(alive)
    runner.tfdbg("--batch", runner.write("empty.py", ""))
    assert sorted(place.iterdir()) == sorted([alive, foreign, place / "tfdbg-link"])
    assert list(alive.glob("files/run_000001/run.json"))
    assert program.poll() is None


def test_a_program_that_closes_all_descriptors_keeps_its_spill(spilled, runner):
    closes = (
        "import os, threading, time\n"
        "def close():\n"
        "    while not os.path.exists('close'):\n"
        "        time.sleep(0.01)\n"
        "    os.closerange(3, 1000)\n"
        "    open('closed', 'w').close()\n"
        "threading.Thread(target=close, daemon=True).start()\n"
    )
    runner.write("s.py", closes + SPILLS)
    start, place = spilled
    program = start()
    (alive,) = place.iterdir()
    runner.write("close", "")
    until((runner.folder / "closed").exists)
    runner.tfdbg("--batch", runner.write("empty.py", ""))
    assert list(alive.glob("files/run_000001/run.json"))
    program.kill()
    program.wait(20)
    until(lambda: not alive.exists())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_so_does_a_token(runner, number):
    script = runner.write("s.py", "import time\nprint('on', flush=True)\ntime.sleep(60)\n")
    program = subprocess.Popen(
        [sys.executable, "-m", "tfdbg_cli", "--listen", "0", str(script)],
        env=runner.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert program.stdout.readline() == b"on\n"
    tokens = Path(runner.environment["XDG_STATE_HOME"]) / "tfdbg_cli" / "attach"
    (token,) = tokens.glob("*.token")
    runner.tfdbg("--batch", runner.write("empty.py", ""))
    assert token.exists()
    program.send_signal(number)
    program.wait(20)
    program.stdout.close()
    until(lambda: not token.exists())
    # One that was left before.
    token.write_text(f"{'0' * 64}\n127.0.0.1:1\n{program.pid} s.py\n")
    runner.tfdbg("--batch", runner.write("empty.py", ""))
    assert not token.exists()
    assert os.listdir(tokens) == []


def test_a_program_runs_where_no_folder_can_be_written_to(runner):
    runner.write("s.py", SPILLS + "print('done')\n")
    words = [sys.executable, "-m", "tfdbg_cli", "--batch", "--dump-limit", "1K", "-c", "run"]
    done = subprocess.run(
        ["bash", "-c", f"ulimit -f 0; {shlex.join([*words, 's.py'])}"],
        cwd=runner.folder,
        env=runner.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.endswith("done\n"), done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 0


COPIES = """\
import os, sys
import fsspec
import numpy as np
from tfdbg_cli.common.temporary import passing_folder
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.remote.shadow import shadowed
from tfdbg_cli.dumps.run_folder.writer import write_run_folder
dump = MemoryDump()
dump.add("x", 0, np.ones(1000))
write_run_folder(dump, "dump")
fsspec.filesystem("memory").put("dump", "/dump", recursive=True)
folder = shadowed("memory://dump")
with passing_folder() as other:
    if not os.fork():
        sys.exit()  # what Python does at an end is done in a child, too
    os.wait()
    print(os.listdir(folder) != [] and os.path.isdir(other), flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(importlib.util.find_spec("fsspec") is None, reason="needs fsspec")
def test_copies_of_what_is_elsewhere_go_with_their_process_and_no_child_of_it(runner, tmp_path):
    place = tmp_path / "tmp"
    place.mkdir()
    running = subprocess.Popen(
        [sys.executable, runner.write("copies.py", COPIES)],
        cwd=runner.folder,
        env={**runner.environment, "TMPDIR": str(place)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with running:
        assert running.stdout.readline() == b"True\n"
        assert len(list(place.iterdir())) == 2
        running.kill()
    until(lambda: not list(place.iterdir()))
