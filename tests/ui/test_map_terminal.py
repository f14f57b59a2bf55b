"""A map on a real terminal: its pixels, in as many colours as there are, by keys and mouse."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from terminal_kit import Terminal

PROGRAM = """
import numpy as np
from tfdbg_cli.engines import numpy as tf
rows, columns = np.mgrid[0:64, 0:128]
value = (rows + columns).astype(np.float32)
value[20, 30] = np.nan
x = tf.placeholder(tf.float32, [64, 128], name="x")
y = tf.multiply(x, 1.0, name="y")
with tf.Session() as session:
    session.run(y, {x: value})
"""
RED = "ff0000"


@pytest.fixture
def shown(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Terminal]:
    size, environ = request.param
    script = tmp_path / "program.py"
    script.write_text(PROGRAM, encoding="utf-8")
    command = (sys.executable, "-m", "tfdbg_cli", "-c", "run", "-c", "pt y:0 --map", str(script))
    home = {"XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    terminal = Terminal(command=command, size=size, **home, **environ)
    yield terminal
    terminal.child.close(force=True)


def colours(terminal: Terminal, first: int = 5) -> list[str]:
    """The colours of all pixels below the legend, upper ones and lower ones."""
    rows = range(first, terminal.display.lines - 2)
    cells = [terminal.display.buffer[y][x] for y in rows for x in range(terminal.display.columns)]
    return [part for cell in cells if cell.data == "▀" for part in (cell.fg, cell.bg)]


TRUE = {"COLORTERM": "truecolor"}


@pytest.mark.parametrize(
    ("shown", "least"),
    [(((80, 24), TRUE), 24), (((50, 12), TRUE), 6), (((80, 24), {"COLORTERM": ""}), 12)],
    indirect=["shown"],
)
def test_pixels(shown: Terminal, least: int) -> None:
    shown.until("NaN")
    shown.until(lambda: "y:0 ›" in shown.text)
    found = colours(shown)
    assert found.count(RED) == 1
    assert len(set(found)) > least
    shown.type("\x1b")
    shown.until("PAGE" if shown.display.columns > 60 else "exact")
    shown.type("n")
    shown.until("1 NaN")
    shown.type("v")
    shown.until("= nan")


@pytest.mark.parametrize("shown", [((80, 24), TRUE | {"NO_COLOR": "1"})], indirect=True)
def test_shades_without_colours(shown: Terminal) -> None:
    shown.until("N NaN")
    shown.until(lambda: "y:0 ›" in shown.text)
    assert not colours(shown)
    picture = shown.display.display[6:-2]
    assert sum(row.count("N") for row in picture) == 1
    assert {*".:=x#@"} <= {*"".join(picture)}
    assert "\x1b[38" not in shown.raw


@pytest.mark.parametrize("shown", [((100, 30), TRUE)], indirect=True)
def test_the_mouse(shown: Terminal) -> None:
    shown.until("[0:64, 0:128]")
    for _ in range(3):  # the wheel, over the same place
        shown.type("\x1b[<64;20;12M")
    shown.until(lambda: "[0:64, 0:128]" not in shown.text)
    shown.type("\x1b[<0;20;12M")
    shown.until("] = ")
    before = shown.display.display[-2]
    shown.type("\x1b[<32;30;16M\x1b[<0;30;16m")  # dragged along
    shown.type("\x1b[<0;20;12M\x1b[<0;20;12m")
    shown.until(lambda: shown.display.display[-2] != before and "] = " in shown.text)
