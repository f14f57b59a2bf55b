"""A signal handler of the program's may raise in the middle of what the debugger does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

STORM = """
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
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
while raised < 40:
    try:
        armed = True
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
optimizer = torch.optim.SGD(net.parameters(), 0.001)
def step():
    optimizer.zero_grad()
    net(torch.ones(3, 8)).sum().backward()
    optimizer.step()
""",
}


@pytest.mark.parametrize("framework", STEPS)
def test_what_it_raises_amid_the_recording_reaches_the_program(framework, tmp_path):
    if framework != "numpy":
        pytest.importorskip(framework)
    script = tmp_path / "storm.py"
    script.write_text(STEPS[framework] + STORM)
    commands = ["-c", "run -f has_inf_or_nan"] * 100
    done = subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", "--batch", *commands, str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert "RESULT 0 lost" in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]
    assert "the debugger failed" not in done.stderr
    assert done.returncode == 0
