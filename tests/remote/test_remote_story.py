"""A program in a job, debugged from other terminals: attach, look, leave, come back, die."""

from __future__ import annotations

import os
import signal
import stat
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from remote_kit import Job, Screen, until

Start = Callable[..., Job]
Attach = Callable[..., Screen]


def test_a_batch_client_debugs_a_program_without_a_terminal(job: Start) -> None:
    running = job()
    done = running.batch("run -f has_inf_or_nan", "lt", "pt y:0", "pt z:0 -w z.npy", "config")
    assert done.returncode == 0, done.stderr
    assert "run #8" in done.stdout
    assert "-inf" in done.stdout
    assert "detached" in done.stderr
    assert np.isneginf(np.load(running.folder / "z.npy")).any()
    assert running.ends() == 0
    assert running.steps == 20
    assert "step 19" in running.out


def test_a_command_that_fails_in_batch_is_the_clients_exit_status(job: Start) -> None:
    running = job()
    done = running.batch("pt nothing:0")
    assert done.returncode == 1
    assert "ERROR" in done.stderr
    assert running.ends() == 0


def test_commands_may_come_from_a_pipe(job: Start) -> None:
    running = job()
    done = running.attach(stdin="run; lt -s\nlt\n")
    assert "z:0" in done.stdout
    assert running.ends() == 0


def test_the_pane_and_the_keys_of_a_list_on_the_screen(job: Start, screen: Attach) -> None:
    running = job()
    shown = screen(running, "--ui", "screen", size=(120, 30))
    shown.until("run-start")
    shown.type("run -f has_inf_or_nan\r")
    shown.until("y:0")
    shown.type("lt\r")
    shown.until("4 dumped tensor(s)")
    shown.type("\x1b[17~")  # F6
    shown.until("value: pt x:0")
    shown.until("array([1., 0.]")
    shown.type("j")
    shown.until("value: pt y:0")
    shown.until("-inf")
    shown.type("]")
    shown.until("| lt -r")
    shown.type("<t")
    shown.until("● z:0")  # what the program selected is seen here
    shown.type("t")
    shown.until("2 tensor(s) selected")
    shown.type(":eval sorted(selected)\r")
    shown.until("['z/y:0', 'z:0']")
    shown.type("exit --detach\r")
    assert shown.ends() == 0
    assert running.ends() == 0


def test_the_whole_hunt_on_the_line(job: Start, screen: Attach) -> None:
    running = job()
    shown = screen(running, "--ui", "line")
    shown.until("Select one of the following commands")
    shown.type("run -f has_in\t")
    shown.until("tfdbg> run -f has_inf_or_nan")
    shown.type("\r")
    shown.until("y:0")
    shown.type("pt y:\t")
    shown.until("› pt y:0")
    shown.type("\r")
    shown.until("array([")
    assert "-inf" in shown.text
    shown.type("!!\r")
    shown.until(lambda: shown.text.count("array([") == 2)
    shown.type("/inf\r")
    shown.until(lambda: "5:" in shown.text.rpartition("/inf")[2])
    shown.type("nonsense\r")
    shown.until("There is no command")
    shown.type("exit\r")
    shown.until("Leave the debugger?")
    shown.type("e\r")
    assert shown.ends() == 0
    assert "the program has ended" in shown.raw
    assert running.ends() == 1


def test_the_full_screen(job: Start, screen: Attach) -> None:
    running = job(args=(300, 0.01))
    shown = screen(running, "--ui", "screen")
    shown.until("tfdbg>")
    shown.until("run-start: run #1")
    shown.type("run -f has_inf_or_nan\r")
    shown.until("y:0")
    assert "run-end: run #8" in shown.text
    shown.type("eval -a np.arange(300000).reshape(3000,100)\r")
    shown.until("shape: (3000, 100)")
    shown.type("@[2999,0]\r")
    shown.until("299900")
    shown.type("/2000\\d\\d\r")
    shown.until("200000")
    shown.type("prev\r")
    shown.until("y:0")
    shown.type("run -t 100000\r")
    shown.until("runs/s")  # the last row tells how far it is
    shown.type("\x03")
    shown.until("run-start")  # at the next run
    shown.type("detach\r")
    assert shown.ends() == 0
    until(lambda: running.steps == 300, running)
    assert running.ends() == 0


HOSTILE = """\
from tfdbg_cli.engines import numpy as tf

acts = "A\\x1b]0;hacked\\x07\\x9b31m\\u202eD"
x = tf.placeholder(tf.float32, [None], name="x" + acts)
y = tf.log(x, name="y" + acts)
with tf.Session() as session:
    for step in range(50):
        session.run(y, {x: [float(step != 7)]})
"""
SHOWN = "A\\x1b]0;hacked\\x07\\x9b31m\\u202eD"


@pytest.mark.parametrize("ui", ["screen", "line", "plain"])
def test_names_that_a_terminal_would_obey(ui: str, job: Start, screen: Attach) -> None:
    running = job(program=HOSTILE, args=())
    shown = screen(running, "--ui", ui, size=(160, 30))
    shown.until("tfdbg>")
    shown.type("run -f has_inf_or_nan\r")
    shown.until("run-end: run #8")
    shown.until("1 dumped tensor")
    shown.until("-inf")
    shown.type(f"pt 'y{SHOWN}:0'\r")  # as it is printed
    shown.until("array([-inf]")
    shown.type("pt y\r")
    shown.until("Did you mean")
    shown.type("pt \t\t" if ui == "line" else "ri\r")
    shown.until(f"x{SHOWN}:0")
    told = ("\x1b]0;hacked", "\x9b", "\u202e")
    assert [each for each in told if each in shown.raw] == []
    shown.type("\x03" if ui == "line" else "")
    shown.type("exit --detach\r")
    assert shown.ends() == 0
    assert running.ends() == 0


def test_ctrl_c_cancels_a_command_and_not_the_program(job: Start, screen: Attach) -> None:
    running = job()
    shown = screen(running, "--ui", "line")
    shown.until("Select one of the following commands")
    shown.type("eval \"sum(1 for _ in __import__('itertools').count())\"\r")
    shown.until("itertools")
    time.sleep(0.5)  # until it is at work: nothing can be seen of that
    shown.type("\x03")
    shown.until("Cancelled.")
    shown.type("run\r")
    shown.until("z:0")
    shown.type("exit --detach\r")
    assert shown.ends() == 0
    assert running.ends() == 0


def test_detach_and_attach_again(job: Start) -> None:
    running = job(args=(100_000, 0.01))
    assert "run #1" in running.batch("ri", "detach").stdout
    before = running.steps
    until(lambda: running.steps > before + 5, running)  # it runs without stops
    again = running.batch("ri", "run", "lt", "pt z:0")
    assert again.returncode == 0, again.stderr
    assert "--- run-start: run #" in again.stdout
    assert "array([" in again.stdout
    third = running.batch("exit --end")
    assert third.returncode == 0
    assert running.ends() == 1


def test_ctrl_c_twice_leaves_a_running_program(job: Start, screen: Attach) -> None:
    running = job(args=(3, 1.0))
    shown = screen(running, "--ui", "line")
    shown.until("Select one of the following commands")
    shown.type("run -t 3\r")
    shown.until("until run #3")
    shown.type("\x03")
    shown.until("Ctrl-C again leaves the program running")
    shown.type("\x03")
    assert shown.ends() == 130
    assert running.ends() == 0
    assert running.steps == 3


def test_a_program_may_be_left_to_run_to_its_goal(job: Start) -> None:
    running = job()
    done = running.batch("detach -f has_inf_or_nan")
    assert done.returncode == 0
    assert "waits for somebody to attach" in done.stderr
    until(lambda: "run-end: run #8" in running.err, running)
    assert "-inf" in running.batch("pt y:0").stdout


@pytest.mark.parametrize("typed", ["", "eval \"__import__('time').sleep(600)\"\r"])
def test_the_program_runs_on_when_its_client_is_killed(
    job: Start, screen: Attach, typed: str
) -> None:
    running = job(args=(100_000, 0.01))
    shown = screen(running, "--ui", "line")
    shown.until("Select one of the following commands")
    if typed:
        # It can't be interrupted in the middle of one long sleep, so sleep often.
        shown.type("eval \"[__import__('time').sleep(0.01) for _ in range(60000)]\"\r")
        shown.until("60000")
        time.sleep(0.3)
    shown.kill()
    until(lambda: running.steps > 5, running)
    assert "z:0" in running.batch("run", "lt").stdout


def test_a_client_killed_while_the_program_runs(job: Start, screen: Attach) -> None:
    running = job(args=(100_000, 0.01))
    shown = screen(running, "--ui", "line")
    shown.until("Select one of the following commands")
    shown.type("run -t 5000\r")
    shown.until("until run #5000")
    shown.kill()
    before = running.steps
    until(lambda: running.steps > before + 5, running)
    assert "z:0" in running.batch("run", "lt").stdout


@pytest.mark.parametrize("ui", ["line", "screen", "readline"])
def test_a_program_that_is_killed_ends_its_client(job: Start, screen: Attach, ui: str) -> None:
    running = job()
    shown = screen(running, "--ui", ui)
    shown.until("tfdbg>")
    running.process.kill()
    assert shown.ends() == 1
    assert "the connection to the program is lost" in shown.raw


def test_the_end_of_the_program_ends_its_client(job: Start) -> None:
    running = job(args=(2, 0))
    done = running.batch("run", "run", "run")
    assert done.returncode == 0
    assert "the program has ended." in done.stderr
    assert "1 command(s) were not run: run" not in done.stderr
    assert running.ends() == 0


def test_a_program_that_fails_tells_its_client(job: Start) -> None:
    running = job(args=(1, 0, "fail"))
    done = running.batch("run", "run")
    assert done.returncode == 0
    assert "ended with an error: ValueError: the data were bad" in done.stderr
    assert running.ends() == 1
    assert "ValueError: the data were bad" in running.err


def test_a_run_that_fails_is_shown_before_it_is_raised(job: Start) -> None:
    program = """\
from tfdbg_cli.engines import numpy as tf
x = tf.placeholder(tf.float32, [None], name="x")
y = tf.matmul(tf.reshape(x, [1, -1]), tf.ones([3, 1]), name="product")
with tf.Session() as session:
    session.run(y, {x: [1.0, 2.0]})
"""
    running = job(program=program)
    done = running.batch("run", "ni product")
    assert "An error occurred during the run" in done.stdout
    assert "Op: MatMul" in done.stdout
    assert running.ends() == 1


def test_the_second_client_is_told_who_is_there_and_may_take_over(
    job: Start, screen: Attach
) -> None:
    running = job()
    shown = screen(running, "--ui", "line")
    shown.until("Select one of the following commands")
    second = running.batch("lt")
    assert second.returncode == 1
    assert f"pid {shown.child.pid}" in second.stderr
    third = running.attach("--take-over", "--batch", "-c", "run", "-c", "lt")
    assert "z:0" in third.stdout
    assert shown.ends() == 0
    assert "has taken over" in shown.raw
    assert running.ends() == 0


def test_it_runs_on_until_somebody_attaches(job: Start) -> None:
    running = job("--no-wait", args=(100_000, 0.01))
    until(lambda: running.steps > 5, running)
    assert "z:0" in running.batch("run", "lt", "exit --end").stdout
    assert running.ends() == 1
    assert "waits for" not in running.err


def test_commands_of_the_job_come_before_the_client(job: Start) -> None:
    running = job("-c", "run -f has_inf_or_nan", "-c", "pt y:0")
    running.waits()
    assert "run-end: run #8" in running.err
    assert "-inf" in running.out
    assert "-inf" in running.batch("pt z:0").stdout


def test_a_unix_socket(job: Start, tmp_path: Path) -> None:
    path = tmp_path / "s"
    running = job("--listen", f"unix:{path}")
    assert running.address == f"unix:{path}"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert "z:0" in running.batch("run", "lt").stdout
    assert running.ends() == 0
    assert not path.exists()


def test_the_socket_of_a_program_that_was_killed_is_taken(job: Start, tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 's'}"
    first = job("--listen", address)
    first.waits()
    second = job("--listen", address)
    assert second.ends() == 2
    assert "can't listen" in second.err
    assert "Traceback" not in second.err
    first.process.kill()
    first.process.wait()
    third = job("--listen", address)
    assert "z:0" in third.batch("run", "lt").stdout


def test_ranks_take_the_next_ports(job: Start) -> None:
    first = job()
    second = job("--listen", str(first.port))
    assert second.port != first.port
    assert f"port {first.port} is taken" in second.err
    assert "z:0" in second.batch("run", "lt").stdout
    assert "z:0" in first.batch("run", "lt").stdout


def test_without_an_address_there_is_only_one_program_to_mean(job: Start) -> None:
    first = job(args=(100_000, 0.01))
    first.waits()
    assert "run #1" in first.bare("ri").stdout
    second = job()
    second.waits()
    done = second.bare("ri")
    assert done.returncode == 1
    assert "2 programs listen" in done.stderr
    first.process.kill()
    first.process.wait()
    assert "run #1" in second.bare("ri", "exit --end").stdout
    assert second.ends() == 1
    assert "No program of yours listens" in second.bare("ri").stderr


def test_a_run_in_another_thread_of_the_program(job: Start) -> None:
    program = """\
import threading
from tfdbg_cli.engines import numpy as tf
x = tf.placeholder(tf.float32, [None], name="x")
z = tf.multiply(x, 2.0, name="z")
session = tf.Session()
def work():
    session.run(z, {x: [1.0]})
    session.run(z, {x: [2.0]})
thread = threading.Thread(target=work, name="worker")
thread.start()
thread.join()
"""
    running = job(program=program)
    done = running.batch("run", "pt z:0", "run -t 1", "pt z:0")
    assert "--- run-end: worker: run #1" in done.stdout
    assert "array([4.]" in done.stdout
    assert running.ends() == 0


def test_a_program_that_ends_while_a_thread_of_its_waits(job: Start) -> None:
    program = """\
import threading, time
from tfdbg_cli.engines import numpy as tf
x = tf.placeholder(tf.float32, [None], name="x")
z = tf.multiply(x, 2.0, name="z")
session = tf.Session()
threading.Thread(target=lambda: session.run(z, {x: [1.0]}), daemon=True).start()
time.sleep(1)
"""
    running = job(program=program)
    running.waits()
    assert running.ends() == 0
    assert not running.tokens


def test_forked_children_neither_hold_nor_answer_the_socket(job: Start) -> None:
    program = """\
import os, sys, time
from tfdbg_cli.engines import numpy as tf
x = tf.placeholder(tf.float32, [None], name="x")
z = tf.multiply(x, 2.0, name="z")
session = tf.Session()
session.run(z, {x: [1.0]})
if os.fork() == 0:
    os.write(1, b"child %d\\n" % session.run(z, {x: [4.0]})[0])
    until = time.monotonic() + 30
    while not os.path.exists("stop") and time.monotonic() < until:
        time.sleep(0.05)
    os._exit(0)
session.run(z, {x: [1.0]})
print("parent done", flush=True)
"""
    running = job(program=program)
    port = running.port
    done = running.batch("run", "run", "lt")
    assert "z:0" in done.stdout
    assert running.ends() == 0
    until(lambda: "child 8" in running.out, running)
    # The child lives, and nobody listens.
    again = job("--listen", str(port))
    assert again.port == port
    (running.folder / "stop").touch()


def test_the_job_can_be_interrupted_while_it_waits(job: Start) -> None:
    running = job()
    running.waits()
    running.process.send_signal(signal.SIGINT)
    running.ends()
    assert "KeyboardInterrupt" in running.err
    assert not running.tokens
