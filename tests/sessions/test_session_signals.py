"""A signal handler of the program's may raise in the middle of what the debugger does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from program_server import python_in

ROOT = Path(__file__).resolve().parents[2]

STORM = """
import random
import signal

class Late(Exception):
    pass

armed, raised, caught = False, 0, 0
step()  # what a framework catches while it imports its own modules is lost without us, too

def late(number, frame):
    global armed, raised
    if armed:
        armed = False
        raised += 1
        raise Late

signal.signal(signal.SIGALRM, late)
assert signal.getsignal(signal.SIGALRM) is late
while raised < 40:
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.03))
        step()
        armed = False
    except Late:
        caught += 1
armed = False
signal.setitimer(signal.ITIMER_REAL, 0)
print("RESULT", raised - caught, "lost")
"""

STEPS = {
    "numpy": """
from tfdbg_cli.engines import numpy as tf
x = y = tf.placeholder(tf.float32, [None], name="x")
for i in range(60):
    y = tf.log(y + 1.0)
session = tf.Session()
def step():
    session.run(y, {x: [1.0]})
""",
    "torch": """
import torch
net = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(30)])
def step():  # fails where gradients have been left off
    net(torch.ones(3, 8)).sum().backward()
    for parameter in net.parameters():
        parameter.grad = None
""",
    "torch, an optimizer": """
import torch
net = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(30)])
optimizer = torch.optim.SGD(net.parameters(), 0.001)
def step():
    torch.set_grad_enabled(True)  # PyTorch's own optimizers can leave them off
    optimizer.zero_grad()
    net(torch.ones(3, 8)).sum().backward()
    optimizer.step()
""",
}


# What has begun to go bad is looked for by doing it again, which takes longest.
DIVERGED = (
    STEPS["torch, an optimizer"]
    + """
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(0.1)
        net[0].weight.fill_(1e38)
with torch.no_grad():
    net[0].weight.fill_(1e38)
"""
)

IMPATIENT = """
import runpy, sys
from tfdbg_cli.common.interpreter import signal_gate
signal_gate._LONGEST = 0.01
sys.argv[0] = "tfdbg_cli"
runpy.run_module("tfdbg_cli", run_name="__main__", alter_sys=True)
"""


def in_batch(launcher, commands, script, *arguments):
    """A debugged run of a script whose handlers' errors all reach it.

    Args:
        launcher: the text of a program that starts the debugger; empty: the debugger itself does.
        commands: at its stops.
        script: what is debugged.
        arguments: of it.
    """
    (script.parent / "launcher.py").write_text(launcher)
    words = ("launcher.py",) if launcher else ("-m", "tfdbg_cli")
    done = python_in(script.parent, *words, "--batch", *commands, str(script), *arguments)
    assert " 0 lost" in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]
    assert "the debugger failed" not in done.stderr
    return done


def check_nothing_is_lost(launcher, script, count):
    done = in_batch(launcher, ["-c", "run -f has_inf_or_nan"] * count, script)
    assert "RESULT 0 lost" in done.stdout
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("framework", STEPS)
def test_what_it_raises_amid_the_recording_reaches_the_program(framework, tmp_path):
    if framework != "numpy":
        pytest.importorskip("torch")
    script = tmp_path / "storm.py"
    script.write_text(STEPS[framework] + STORM)
    check_nothing_is_lost("", script, 100)


def test_what_it_raises_when_it_has_waited_for_too_long_does_too(tmp_path):
    pytest.importorskip("torch")
    script = tmp_path / "storm.py"
    script.write_text(DIVERGED.replace("range(30)", "range(10)") + STORM.replace("0.03", "0.3"))
    check_nothing_is_lost(IMPATIENT, script, 400)


STRUCK = """
import signal
import sys
import torch

class Late(Exception):
    pass

def late(number, frame):
    raise Late

signal.signal(signal.SIGALRM, late)
name, left = sys.argv[1], 3
struck = caught = 0
net = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(3)])
optimizer = torch.optim.SGD(net.parameters(), 0.001)

def strike(frame, event, arg):
    global left, struck
    code = frame.f_code
    if event == "call" and code.co_name == name and "tfdbg_cli" in code.co_filename:
        left -= 1
        if not left:
            sys.setprofile(None)
            struck += 1
            signal.raise_signal(signal.SIGALRM)

for step in range(3):
    try:
        if step == 1:
            sys.setprofile(strike)
        optimizer.zero_grad()
        net(torch.ones(3, 4)).mul_(2).sum().backward()
        optimizer.step()
    except Late:
        caught += 1
    finally:
        sys.setprofile(None)
    torch.set_grad_enabled(True)
print("RESULT", struck, "struck", struck - caught, "lost")
"""


@pytest.mark.parametrize("where", ["_make", "_complete", "_describe", "_done"])
def test_what_was_recorded_amid_it_is_whole(where, tmp_path):
    """Where one is raised amid the recording, what comes after it knows all that came before."""
    pytest.importorskip("torch")
    script = tmp_path / "struck.py"
    script.write_text(STRUCK)
    at_once = IMPATIENT.replace("0.01", "0")
    commands = ["-c", "run", "-c", "lt", "-c", "li -t 0.weight"] * 12
    done = in_batch(at_once, commands, script, where)
    assert "RESULT 1 struck 0 lost" in done.stdout
    assert "Error in the debugger" not in done.stderr


OWN = """
import signal
import torch

class Late(Exception):
    pass

def late(number, frame):
    raise Late

class Net(torch.nn.Module):
    def forward(self, x):
        return x + 1

signal.signal(signal.SIGUSR1, late)
previous = signal.signal(signal.SIGUSR1, late)
print("its own", previous is late, signal.getsignal(signal.SIGUSR1) is late)
print(signal.signal(signal.SIGUSR2, signal.SIG_IGN), signal.getsignal(signal.SIGUSR2))
net = Net()
net(torch.ones(2))
try:
    signal.raise_signal(signal.SIGUSR1)
except Late:
    import traceback
    traceback.print_exc()
    print("caught")
signal.raise_signal(signal.SIGUSR1)
"""


def test_the_handlers_of_the_program_are_its_own(tmp_path):
    pytest.importorskip("torch")
    script = tmp_path / "own.py"
    script.write_text(OWN)
    command = ["-m", "tfdbg_cli", "--batch", "-c", "run -f has_inf_or_nan"]
    plain, debugged = (
        subprocess.run(
            [sys.executable, *options, str(script)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for options in ([], command)
    )
    assert "caught" in plain.stdout
    assert debugged.stdout == plain.stdout
    ours = [line for line in debugged.stderr.splitlines(True) if line.startswith("tfdbg: ")]
    assert ours
    without = [line for line in debugged.stderr.splitlines(True) if not line.startswith("tfdbg: ")]
    assert "".join(without) == plain.stderr
    assert debugged.returncode == plain.returncode
