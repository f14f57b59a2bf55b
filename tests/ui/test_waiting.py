"""While the program runs between two stops: the last row, and Ctrl-C."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from terminal_kit import Make, Terminal, modes, restored, terminals

PROGRAM = str(Path(__file__).parent / "waiting_program.py")


@pytest.fixture
def debugged(tmp_path: Path) -> Iterator[Make]:
    def debug(*arguments: str, ui: str = "screen") -> Terminal:
        command = [sys.executable, "-m", "tfdbg_cli", "--ui", ui, PROGRAM, *arguments]
        environ = {"XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
        return make(command=command, **environ)

    with terminals() as make:
        yield debug


def last_row(shown: Terminal) -> str:
    return shown.display.display[-1].rstrip()


def test_the_last_row_tells_how_far_it_is_and_the_program_prints_above(debugged: Make) -> None:
    shown = debugged()
    shown.until("tfdbg>")
    shown.type("run -f has_inf_or_nan\r")
    shown.until("runs/s")
    assert re.match(r"run #\d+ \| [\d.]+ runs/s \| 0:\d\d \| until has_inf_or_nan", last_row(shown))
    shown.until("Ctrl-C: stop")
    shown.until("step 90 of the program")  # it has scrolled
    rows = [row.rstrip() for row in shown.display.display]
    assert rows[-1].startswith("run #")
    assert all(row.startswith("step ") for row in rows[2:-2])
    # The first Ctrl-C: the end of this run.
    shown.type("\x03")
    shown.until("tfdbg>")
    shown.until("y:0")
    assert "run-end" in shown.text
    shown.type("exit --end\r")
    assert shown.ends() == 1
    assert restored(shown)
    assert "\x1b[r" in shown.raw.rpartition("\x1b[1;23r")[2]


def test_ctrl_c_in_undebugged_runs_stops_before_the_next_one(debugged: Make) -> None:
    shown = debugged()
    shown.until("tfdbg>")
    shown.type("run -t 90000\r")
    shown.until("until run #90000")
    shown.type("\x03")
    shown.until("tfdbg>")
    assert "run-start" in shown.text
    shown.type("run\r")
    shown.until("--- run-end")
    shown.type("exit --end\r")
    assert shown.ends() == 1


def test_a_second_ctrl_c_is_the_programs(debugged: Make) -> None:
    shown = debugged("30")
    before = modes(shown.child.fileno())
    shown.until("tfdbg>")
    shown.type("run -f has_inf_or_nan\r")
    shown.until("until has_inf_or_nan")
    shown.type("\x03")
    shown.until("Ctrl-C again interrupts the program")
    shown.type("\x03")
    shown.until("KeyboardInterrupt")
    assert shown.ends() == -1
    assert restored(shown)
    assert "tfdbg_cli" not in shown.normal_screen.partition("Traceback")[2]
    assert before


def test_the_line_ui_says_it_once(debugged: Make) -> None:
    shown = debugged(ui="line")
    shown.until("tfdbg>")
    shown.type("run -f has_inf_or_nan\r")
    shown.until("Ctrl-C stops at the end of a run")
    shown.until("step 3 of the program")
    shown.type("\x03")
    shown.until("dumped tensor(s)")
    shown.until("tfdbg>")
    assert shown.raw.count("Ctrl-C stops") == 1
    shown.type("exit --end\r")
    assert shown.ends() == 1
