"""The UIs on a real terminal: choice, restoring, signals, the program's own output."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from terminal_kit import ALTERNATE_ON, Make, modes, restored, terminals

HERE = Path(__file__).parent


@pytest.fixture
def terminal() -> Iterator[Make]:
    with terminals() as make:
        yield make


@pytest.mark.parametrize("thread", [[], ["--thread"]])
def test_the_terminal_is_given_back(terminal: Make, thread: list[str]) -> None:
    shown = terminal("screen", *thread)
    before = modes(shown.child.child_fd)
    shown.until("tfdbg>")
    assert ALTERNATE_ON in shown.raw
    assert modes(shown.child.child_fd) != before
    shown.type("run -t 2\r")
    shown.until("run-end: run #1")
    shown.type("exit\r")
    shown.until("Leave the debugger?")
    shown.type("c\r")
    shown.until("handlers restored")
    assert modes(shown.child.child_fd) == before
    assert shown.ends() == 0
    assert restored(shown)
    assert shown.normal_screen.splitlines() == [
        "begin",
        "left with 'run -t 2'",
        "left again with 'detach'",
        "handlers restored",
    ]


def test_after_an_exception_the_terminal_is_given_back_and_it_goes_on(terminal: Make) -> None:
    shown = terminal("screen")
    before = modes(shown.child.child_fd)
    shown.until("tfdbg>")
    shown.type("crash badly\r")
    shown.until("raised crash badly")
    shown.until("handlers restored")
    assert modes(shown.child.child_fd) == before
    assert restored(shown)


def test_what_the_program_prints_waits_until_the_screen_is_gone(terminal: Make) -> None:
    shown = terminal("screen")
    shown.until("tfdbg>")
    shown.type("print hello\r")
    shown.until("done")
    assert "printed: hello" not in shown.text
    shown.type("\x1bOR")  # F3
    shown.until("logged: hello")
    shown.type("\x1b[1;3D")  # Alt-Left
    shown.until(lambda: "logged: hello" not in shown.text)
    shown.type("exit --detach\r")
    assert shown.ends() == 0
    assert shown.normal_screen.splitlines()[:4] == [
        "begin",
        "printed: hello",
        "logged: hello",
        "left with 'detach'",
    ]


def test_resize_redraws_everything(terminal: Make) -> None:
    shown = terminal("screen")
    shown.until("tfdbg>")
    shown.type("numbers 300\r")
    shown.until("line 18 ")
    for cols, rows in ((160, 50), (50, 12)):
        shown.display.resize(rows, cols)
        shown.display.reset()
        shown.child.setwinsize(rows, cols)
        shown.until(f"1-{rows - 5}/300")
        first = shown.display.display[0]
        assert first.startswith("--- numbers 300 ---")
        assert first.endswith("---")
        assert len(first) == cols


@pytest.mark.parametrize("thread", [[], ["--thread"]])
def test_ctrl_c_at_the_prompt_clears_the_line(terminal: Make, thread: list[str]) -> None:
    shown = terminal("screen", *thread)
    shown.until("tfdbg>")
    shown.type("abc")
    shown.until("tfdbg> abc")
    shown.type("\x03")
    shown.until(lambda: "abc" not in shown.text)
    shown.type("exit --end\r")
    shown.until("left with 'end'")
    assert shown.ends() == 0


def test_sigint_from_elsewhere_is_ctrl_c(terminal: Make) -> None:
    shown = terminal("screen")
    shown.until("tfdbg>")
    shown.type("abc")
    shown.until("tfdbg> abc")
    shown.child.kill(signal.SIGINT)
    shown.until(lambda: "abc" not in shown.text)


def test_ctrl_c_cancels_a_command_at_work(terminal: Make) -> None:
    shown = terminal("screen")
    shown.until("tfdbg>")
    shown.type("slow 60\r")
    shown.until("Processing…")
    shown.type("\x03")
    shown.until("Cancelled.")
    shown.type("say well\r")
    shown.until(" well")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs a shell with job control")
def test_suspend_and_resume(terminal: Make) -> None:
    shown = terminal(command=["bash", "--norc", "-i"])
    program = f"{sys.executable} {HERE / 'ui_program.py'} screen"
    shown.type(f"PS1='shell$ '\r{program}\r")
    shown.until("F1: keys")
    shown.type("\x1a")
    shown.until(lambda: "Stopped" in shown.normal_screen)
    shown.display.reset()
    shown.type("stty -a\r")
    shown.until(lambda: " echo " in shown.text)
    shown.display.reset()
    shown.type("fg\r")
    shown.until("F1: keys")
    shown.type("say back\r")
    shown.until(" back")
    shown.type("exit --end\r")
    shown.until("left with 'end'")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_being_killed_gives_the_terminal_back(terminal: Make, number: int) -> None:
    shown = terminal("screen")
    shown.until("tfdbg>")
    shown.child.kill(number)
    assert shown.ends() == -1
    assert shown.child.signalstatus == number
    assert restored(shown)
    assert shown.normal_screen.splitlines() == ["begin"]


def test_a_command_at_work_is_killed_at_once(terminal: Make) -> None:
    shown = terminal("screen")
    shown.until("tfdbg>")
    shown.type("slow 60\r")
    shown.until("Processing…")
    shown.child.kill(signal.SIGTERM)
    assert shown.ends() == -1
    assert restored(shown)


def test_a_paste_runs_nothing(terminal: Make) -> None:
    shown = terminal("screen")
    shown.until("tfdbg>")
    shown.type("\x1b[200~numbers 5\rexit --end\r\x1b[201~")
    shown.until("tfdbg> numbers 5 exit --end")


def test_mouse_clicks_and_turning_the_mouse_off(terminal: Make) -> None:
    shown = terminal("screen")
    shown.until("tfdbg>")
    row = next(i for i, text in enumerate(shown.display.display) if "Next: numbers" in text)
    shown.type(f"\x1b[<0;8;{row + 1}M\x1b[<0;8;{row + 1}m")
    shown.until("line 18 ")
    shown.type("mouse off\r")
    shown.until("Mouse mode: off")
    assert shown.raw.rfind("\x1b[?1000l") > shown.raw.rfind("\x1b[?1000h")


def test_a_terminal_without_colours_gets_none(terminal: Make) -> None:
    shown = terminal("screen", NO_COLOR="1")
    shown.until("tfdbg>")
    shown.type("numbers 5\r")
    shown.until("line 4 ")
    assert "\x1b[0;39;49m" in shown.raw or "\x1b[0;39;" in shown.raw
    assert ";94" not in shown.raw
    assert ";44" not in shown.raw
    cell = next(c for c in shown.display.buffer[3].values() if c.data == "f")
    assert cell.underscore


def test_auto_takes_the_screen_where_it_can(terminal: Make) -> None:
    shown = terminal("auto")
    shown.until("F1: keys")


@pytest.mark.parametrize("kind", ["auto", "screen"])
def test_a_dumb_terminal_is_not_drawn_on(terminal: Make, kind: str) -> None:
    shown = terminal(kind, TERM="dumb")
    shown.until("tfdbg>")
    shown.type("pick 1 1\r")
    shown.until("picked 1 1")
    assert ALTERNATE_ON not in shown.raw
    assert kind == "screen" or "\x1b" not in shown.raw
    assert ("no full screen" in shown.text) is (kind == "screen")
    shown.type("exit --end\r")
    assert shown.ends() == 0


@pytest.mark.parametrize("kind", ["line", "readline"])
def test_the_line_uis_complete_and_remember(terminal: Make, kind: str) -> None:
    shown = terminal(kind)
    before = modes(shown.child.child_fd)
    shown.until("tfdbg>")
    shown.type("pick lo\t")
    shown.until("pick loss:0")
    shown.type("\r")
    shown.until("picked loss:0")
    shown.until(lambda: shown.text.rstrip().endswith("tfdbg>"))
    shown.type("\x1b[A")
    shown.until(lambda: shown.text.count("pick loss:0") == 2)
    shown.type("\x03")
    shown.until(lambda: shown.text.rstrip().endswith("tfdbg>"))
    shown.type("exit\r")
    shown.until("[c] let the program continue")
    shown.type("c\r")
    shown.until("handlers restored")
    assert modes(shown.child.child_fd) == before
    assert shown.ends() == 0


@pytest.mark.parametrize("kind", ["line", "readline", "plain"])
def test_ctrl_c_cancels_in_the_line_uis(terminal: Make, kind: str) -> None:
    shown = terminal(kind)
    shown.until("tfdbg>")
    shown.type("print working\rslow 60\r")
    shown.until("logged: working")
    shown.until(lambda: shown.text.count("slow 60") >= 1)
    shown.type("\x03")
    shown.until("Cancelled.")
    shown.type("exit --end\r")
    shown.until("left with 'end'")
