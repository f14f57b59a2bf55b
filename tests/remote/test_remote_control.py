"""The debugger switched on and off from inside a program, and by a signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from remote_kit import PROGRAM, ROOT, Job, Screen, until

Start = Callable[..., Job]

HEAD = """\
import os, signal, sys, time
import tfdbg_cli
from tfdbg_cli.engines import numpy as tf
x = tf.placeholder(tf.float32, [None], name="x")
z = tf.multiply(x, 2.0, name="z")
session = tf.Session()
def run(number):
    session.run(z, {x: [1.0]})
    print("did", number, flush=True)
"""


def ran(tmp_path: Path, program: str, *, stdin: str = "", options: tuple[str, ...] = ()) -> str:
    """What a program prints that python runs with commands on its stdin."""
    script = tmp_path / "s.py"
    script.write_text(HEAD + program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, *options, str(script)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


def places(output: str) -> list[str]:
    """The stops and the steps of a program, in their order."""
    return [
        line.split(":")[0].strip("- ")
        for line in output.splitlines()
        if line.startswith(("did ", "--- run-"))
    ]


UNDER_IT = ("-m", "tfdbg_cli")


def test_set_trace_stops_at_the_next_run_of_any_script(tmp_path: Path) -> None:
    program = "run(1)\nrun(2)\ntfdbg_cli.set_trace()\nrun(3)\nrun(4)\n"
    output = ran(tmp_path, program, stdin="ri\nrun\nlt\nexit --detach\n")
    assert places(output) == ["did 1", "did 2", "run-start", "run-end", "did 3", "did 4"]
    assert "z:0" in output


def test_set_trace_brings_the_debugger_back_after_a_detach(tmp_path: Path) -> None:
    program = "run(1)\nrun(2)\ntfdbg_cli.set_trace()\nrun(3)\nrun(4)\n"
    output = ran(tmp_path, program, stdin="ri\nexit --detach\nri\nlt\n", options=UNDER_IT)
    assert places(output) == ["run-start", "did 1", "did 2", "run-start", "did 3", "did 4"]


def test_set_trace_stops_sessions_that_are_wrapped_by_hand(tmp_path: Path) -> None:
    program = """\
session = tfdbg_cli.LocalCLIDebugWrapperSession(session)
run(1)
run(2)
tfdbg_cli.set_trace()
run(3)
"""
    output = ran(tmp_path, program, stdin="ri\nexit --detach\nri\nexit\n")
    assert places(output) == ["run-start", "did 1", "did 2", "run-start", "did 3"]


def test_disable_and_enable(tmp_path: Path) -> None:
    program = """\
tfdbg_cli.disable()
run(1)
tfdbg_cli.enable()
run(2)
tfdbg_cli.disable()
run(3)
tfdbg_cli.disable()
tfdbg_cli.enable()
run(4)
"""
    stdin = "ri\nrun -n\nri\nrun -n\n"
    expected = ["did 1", "run-start", "did 2", "did 3", "run-start", "did 4"]
    assert places(ran(tmp_path, program, stdin=stdin, options=UNDER_IT)) == expected
    assert places(ran(tmp_path, program, stdin=stdin)) == expected
    wrapped = "session = tfdbg_cli.LocalCLIDebugWrapperSession(session)\n" + program
    assert places(ran(tmp_path, wrapped, stdin=stdin)) == expected


def test_a_disabled_debugger_costs_nothing(tmp_path: Path) -> None:
    program = """\
from tfdbg_cli.engines.numpy.session import Session
before = Session.run.__code__, len(tf.session.interceptors)
tfdbg_cli.enable()
assert len(tf.session.interceptors) == before[1] + 1
tfdbg_cli.disable()
assert (Session.run.__code__, len(tf.session.interceptors)) == before
run(1)
"""
    assert places(ran(tmp_path, program)) == ["did 1"]


def test_frameworks_imported_after_set_trace_are_debugged(tmp_path: Path) -> None:
    script = "import tfdbg_cli\ntfdbg_cli.set_trace()\n" + HEAD + "run(1)\n"
    (tmp_path / "late.py").write_text(script, encoding="utf-8")
    output = ran(tmp_path, "import late\n", stdin="ri\nrun\nlt\n")
    assert places(output)[:2] == ["run-start", "run-end"]


def test_a_signal_stops_a_program_that_runs(job: Start) -> None:
    running = job("--no-wait", "--signal", "USR1", args=(100_000, 0.01))
    until(lambda: running.steps > 3, running)
    running.process.send_signal(signal.SIGUSR1)
    running.waits()
    assert "z:0" in running.batch("run", "lt", "exit --end").stdout
    assert running.ends() == 1


def test_a_signal_reaches_a_program_that_was_detached_from(tmp_path: Path) -> None:
    program = """\
run(1)
run(2)
os.kill(os.getpid(), signal.SIGUSR1)
run(3)
"""
    options = (*UNDER_IT, "--signal", "usr1")
    output = ran(tmp_path, program, stdin="ri\nexit --detach\nri\nlt\n", options=options)
    assert places(output) == ["run-start", "did 1", "did 2", "run-start", "did 3"]


def test_listening_for_a_signal_debugs_nothing_until_it_comes(tmp_path: Path) -> None:
    program = """\
tfdbg_cli.listen_for_signal()
run(1)
os.kill(os.getpid(), signal.SIGUSR1)
run(2)
"""
    assert places(ran(tmp_path, program, stdin="ri\nexit\n")) == ["did 1", "run-start", "did 2"]


def test_a_handler_of_the_programs_own_stays(tmp_path: Path) -> None:
    program = """\
signal.signal(signal.SIGUSR1, lambda *about: print("did mine"))
try:
    tfdbg_cli.listen_for_signal()
except Exception as error:
    print("did", error)
os.kill(os.getpid(), signal.SIGUSR1)
run(1)
"""
    output = ran(tmp_path, program)
    assert "did The program handles SIGUSR1 itself." in output
    assert "did mine" in output
    assert "run-" not in output


def test_listen_from_inside_a_program(job: Start) -> None:
    program = PROGRAM.replace(
        "steps, pause", "import tfdbg_cli\ntfdbg_cli.listen(0)\nsteps, pause", 1
    )
    running = job(program=program, launcher=False)
    done = running.batch("run -f has_inf_or_nan", "lt")
    assert "run #8" in done.stdout
    assert running.ends() == 0
    assert running.steps == 20
    failing = job(program=program, launcher=False, args=(1, 0, "fail"))
    assert "ValueError: the data were bad" in failing.batch("run", "run").stderr


def test_sessions_wrapped_by_hand_are_attached_to(job: Start) -> None:
    program = PROGRAM.replace(
        "as session:\n",
        "as session:\n"
        "    import tfdbg_cli\n"
        "    session = tfdbg_cli.LocalCLIDebugWrapperSession(session)\n",
    )
    running = job(program=program)
    assert "z:0" in running.batch("run", "lt").stdout
    assert running.ends() == 0


def test_a_detached_program_stops_where_it_asks_to(job: Start) -> None:
    program = PROGRAM.replace("    for step", "    import tfdbg_cli\n    for step", 1).replace(
        "        time.sleep", "        if step == 5: tfdbg_cli.set_trace()\n        time.sleep", 1
    )
    running = job(program=program)
    assert running.batch("ri", "detach").returncode == 0
    # Whether the first stop had to wait depends on who was faster.
    until(lambda: "run-start: run #7" in running.err, running)
    assert "run #7" in running.batch("ri").stdout
    assert running.ends() == 0
    assert running.steps == 20


@pytest.mark.parametrize("address", ["nowhere", "unix:" + "x" * 200])
def test_where_nobody_can_listen(tmp_path: Path, address: str) -> None:
    program = f"""\
try:
    tfdbg_cli.listen({address!r})
except Exception as error:
    print("did", type(error).__name__)
"""
    assert places(ran(tmp_path, program)) == ["did UserError"]


LATE = (
    HEAD
    + """\
class Late(Exception):
    pass
def late(number, frame):
    raise Late("too long")
signal.signal(signal.SIGUSR1, late)
try:
    run(1)
except Late as error:
    print("it took", error, flush=True)
run(2)
"""
)


@pytest.mark.parametrize("ui", ["screen", "line", ""])
def test_a_handlers_error_reaches_the_program_that_waits_for_somebody(
    job: Start, screen: Callable[..., Screen], ui: str
) -> None:
    running = job(program=LATE, args=())
    running.waits()
    client = screen(running, "--ui", ui) if ui else None
    if client is not None:
        client.until("tfdbg>")
    running.process.send_signal(signal.SIGUSR1)
    until(lambda: "it took too long" in running.out, running)
    if client is None:
        assert "run-start" in running.batch("run_info", "exit").stdout
    else:
        client.type("lt\r")  # that stop is over: the next one asks
        client.until("run #2")
        client.type("exit\r")
        client.until("Leave")
        client.type("c\r")
    assert running.ends() == 0
    assert "did 2" in running.out
    assert "failed" not in running.err
