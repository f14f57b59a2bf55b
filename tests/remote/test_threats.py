"""What SECURITY.md promises, tried: by floods, by guessing, as another user, by looking around."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from remote_kit import Job, Screen, connected, until

from tfdbg_cli.net.address import parse_address
from tfdbg_cli.net.tokens import find_token

Start = Callable[..., Job]

CHILD = """\
import subprocess, sys
from tfdbg_cli.engines import numpy as tf
x = tf.placeholder(tf.float32, [None], name="x")
z = tf.multiply(x, 2.0, name="z")
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
with tf.Session() as session:
    for _ in range(2):
        session.run(z, {x: [1.0]})
child.kill()
"""


def still_debugged(job: Job) -> None:
    assert "z:0" in job.batch("run", "lt").stdout
    assert job.ends() == 0


def test_two_hundred_that_say_nothing_keep_nobody_out(job: Start) -> None:
    running = job()
    running.waits()
    silent = [connected(running) for _ in range(200)]
    still_debugged(running)
    for made in silent:
        made.close()


def test_two_hundred_more_each_second_keep_nobody_out(job: Start) -> None:
    running = job()
    running.waits()
    is_over = threading.Event()

    def flood() -> None:
        silent: list[socket.socket] = []
        while not is_over.is_set():
            with contextlib.suppress(OSError, AssertionError):
                silent.append(connected(running))
            time.sleep(0.005)
            while len(silent) > 300:
                silent.pop(0).close()
        for made in silent:
            made.close()

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        still_debugged(running)
    finally:
        is_over.set()
        thread.join()


def test_guessing_is_slow(job: Start) -> None:
    """However many guess at once: what is counted are answers, each of which is a refusal."""
    running = job(args=(100_000, 0.01))
    running.waits()
    began, tried = time.monotonic(), [0] * 8

    def guess(index: int) -> None:
        while time.monotonic() < began + 2:
            with contextlib.suppress(OSError), connected(running) as made:
                greeting = made.recv(39)
                if len(greeting) == 39:
                    made.sendall(greeting[:7] + os.urandom(64))
                    assert made.recv(1) == b""
                    tried[index] += 1

    threads = [threading.Thread(target=guess, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(tried) <= 200 * (time.monotonic() - began) + 64
    assert "z:0" in running.batch("run", "lt", "exit --end").stdout


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
def test_the_token_is_in_no_command_line_and_no_environment(job: Start) -> None:
    running = job(program=CHILD)
    running.waits()
    token = find_token(parse_address(running.address)).encode()
    for pid in (running.process.pid, int(running.out.split()[0])):
        for name in ("cmdline", "environ"):
            assert token not in Path(f"/proc/{pid}/{name}").read_bytes()
    still_debugged(running)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
@pytest.mark.parametrize("options", [[], ["--listen", "0"]])
def test_nothing_listens_unasked_and_then_on_this_machine_alone(
    job: Start, options: list[str]
) -> None:
    options = [*options, "--no-wait"] if options else ["--batch", "-c", "run"]
    running = job(*options, args=(100_000, 0.01), listens=False)
    until(lambda: running.steps > 1, running)
    assert _listening(running.process.pid) == (["0100007F"] if "--listen" in options else [])


def _listening(pid: int) -> list[str]:
    """The local addresses, as /proc has them, at which a process listens."""
    own = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            own.add(os.readlink(fd))
    found = []
    for table in ("tcp", "tcp6"):
        for row in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = row.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in own:
                found.append(words[1].partition(":")[0])
    return found


LARGE = """\
import numpy as np
from tfdbg_cli.engines import numpy as tf
x = tf.placeholder(tf.float32, [None], name="x")
z = tf.multiply(x, 2.0, name="z")
tf.Session().run(z, {x: np.ones(100_000)})
"""

STRANGER = """\
import os, socket, sys
os.setgid(65534); os.setgroups([]); os.setuid(65534)
token, address, spill, pid = sys.argv[1:]
def tried(what, do):
    try:
        print(what, "DONE", do())
    except OSError as error:
        print(what, "refused", error.strerror)
tried("token", lambda: open(token).read())
tried("folder", lambda: os.listdir(os.path.dirname(token)))
tried("spill", lambda: os.listdir(spill))
tried("memory", lambda: open(f"/proc/{pid}/mem", "rb").read(1))
tried("environment", lambda: open(f"/proc/{pid}/environ", "rb").read())
tried("signal", lambda: os.kill(int(pid), 0))
def unix():
    made = socket.socket(socket.AF_UNIX)
    made.connect(address)
tried("socket", unix)
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.geteuid() != 0,
    reason="only root can be another user",
)
def test_another_user_of_the_machine_gets_nothing(
    job: Start, screen: Callable[..., Screen], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not the folders around them keep the other user out.
    for folder in (tmp_path, *tmp_path.parents):
        if folder.name.startswith(("pytest-", "popen-", "test_")):
            os.chmod(folder, 0o755)
    place, path = tmp_path / "tmp", tmp_path / "debug.socket"
    place.mkdir(mode=0o755)
    monkeypatch.setenv("TMPDIR", str(place))
    running = job("--listen", f"unix:{path}", "--dump-limit", "1K", program=LARGE)
    running.waits()
    (token,) = running.tokens
    shown = screen(running, "--ui", "line")
    shown.until("tfdbg>")
    shown.type("run\r")
    shown.until("run-end")
    (spill,) = place.glob("tfdbg-*")
    done = subprocess.run(
        [sys.executable, "-c", STRANGER, token, path, spill, str(running.process.pid)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("refused") == 7, done.stdout
    shown.type("exit --detach\r")
    assert running.ends() == 0
