"""``PYTHONBREAKPOINT=tfdbg_cli.set_trace``: the built-in ``breakpoint()`` opens the debugger."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import numpy as np
from tfdbg_cli.engines import numpy as tf

x = tf.placeholder(tf.float32, [2], name="x")
y = tf.log(x, name="y")
with tf.Session() as session:
    for step in range(3):
        if step == 1:
            breakpoint()
        print("step", step, flush=True)
        session.run(y, {x: np.float32([1.0, 2.0])})
"""


def test_breakpoint_stops_at_the_next_run(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, script],
        input="run\nlt\nexit\n",
        env={
            **os.environ,
            "PYTHONBREAKPOINT": "tfdbg_cli.set_trace",
            "TFDBG_CONFIG": str(tmp_path / "config"),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    before, _, after = done.stdout.partition("step 1\n")
    assert "step 0" in before and "y:0" not in before
    assert "y:0" in after, done.stderr
