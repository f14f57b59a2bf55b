"""What the program lets go of after a stop is let go of."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from terminal_kit import Terminal

PROGRAM = """\
import gc, weakref
import numpy as np
from tfdbg_cli.engines import numpy as tf

class Array(np.ndarray):
    pass

x = tf.placeholder(tf.float32, [None], name="x")
y = tf.square(x, name="y")
session = tf.Session()
kept = []
for step in range(3):
    fed = np.zeros(1000).view(Array)
    kept.append(weakref.ref(fed))
    session.run(y, {x: fed})
    del fed
    gc.collect()
    if step == 0:
        print("AFTER THE STOP", kept[0]() is None)
print("RESULT", [each() is None for each in kept])
"""


@pytest.mark.parametrize("ui", ["screen", "line", "readline", "plain"])
def test_feeds_are_let_go_of_when_the_stop_is_left(tmp_path: Path, ui: str) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    shown = Terminal(command=[sys.executable, "-m", "tfdbg_cli", "--ui", ui, str(script)])
    try:
        shown.until("tfdbg>")
        shown.type("run\r")
        shown.until("dumped tensor(s)")
        shown.type("exit\r")
        shown.until("Leave the debugger?")
        shown.type("c\r")
        shown.until("RESULT [True, True, True]")
        assert "AFTER THE STOP True" in shown.raw
        assert shown.ends() == 0
    finally:
        shown.child.close(force=True)
