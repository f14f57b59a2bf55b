"""The readline UI, and the line UI where only a real terminal will do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

pytest.importorskip("readline")

from terminal_kit import Make, Terminal, terminals

PROGRAM = """
import readline
from ui_service import SmallService
from tfdbg_cli.ui.base import CommandQueue
from tfdbg_cli.ui.choose import make_ui

def state():
    count = readline.get_current_history_length()
    items = [readline.get_history_item(number + 1) for number in range(count)]
    return items, readline.get_completer_delims(), readline.get_completer()

readline.add_history("the program's own")
readline.set_completer_delims("=")
{setup}
before = state()
service = SmallService()
service.history.add("numbers 1")
ui = make_ui("readline", service.settings)
print(ui.interact(service, CommandQueue({commands!r})))
print("state kept" if state() == before else f"{{before}} became {{state()}}")
print("history", service.history.items)
print("typed", repr(input("program> ")))
"""


@pytest.fixture
def readline_program(tmp_path: Path) -> Iterator[Make]:
    def start(*commands: str, setup: str = "", rows: int = 12) -> Terminal:
        path = tmp_path / "program.py"
        path.write_text(PROGRAM.format(commands=list(commands), setup=setup))
        command = [sys.executable, str(path)]
        return make(command=command, size=(80, rows), INPUTRC="/dev/null")

    with terminals() as make:
        yield start


def test_history_completion_and_what_the_program_gets_back(readline_program: Make) -> None:
    shown = readline_program(rows=24)
    shown.until("tfdbg>")
    shown.type("\x1b[A\r")  # the last command of our history
    shown.until("line 0 first second")
    shown.type("pick hidden/R\t1\r")
    shown.until("picked hidden/Relu:1")
    shown.type("exit\r")
    shown.until("[s] stay\n?")
    shown.type("s\r")
    shown.until(lambda: shown.text.rstrip().endswith("tfdbg>"))
    shown.type("\x1b[A --detach\r")  # the answer is not in the history
    shown.until("state kept")
    shown.until("program>")
    shown.type("a\tb\r")
    shown.until(r"typed 'a\tb'")
    assert shown.ends() == 0
    assert "'numbers 1', 'pick hidden/Relu:1', 'exit', 'exit --detach'" in shown.text


def test_a_completer_of_the_programs_own_works_again(readline_program: Make) -> None:
    setup = (
        "def complete(text, state): return ['zebra'][state] if state < 1 else None\n"
        "readline.set_completer(complete); readline.parse_and_bind('tab: complete')"
    )
    shown = readline_program("exit --detach", setup=setup)
    shown.until("program>")
    shown.type("ze\t\r")
    shown.until("typed 'zebra")
    assert "state kept" in shown.text


def test_lines_that_the_program_reads_are_edited_only_if_it_wants_that(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfrom tfdbg_cli.engines import numpy as tf\n"
        "session, x = tf.Session(), tf.constant(1.0)\n"
        "for number in range(2):\n    session.run(x)\n"
        "    print('readline' in sys.modules, repr(input(f'program{number}> ')))\n"
        "import readline\nsession.run(x)\nprint(repr(input('program2> ')))\n"
    )
    arguments = ["-m", "tfdbg_cli", "--ui", "readline", str(script)]
    shown = pexpect.spawn(sys.executable, arguments, dimensions=(100, 100), timeout=60)
    for number, told in enumerate((r"False 'ab\x1b[DX'", r"False 'ab\x1b[DX'", "'aXb'")):
        while shown.expect_exact(["tfdbg> ", f"program{number}> "]) == 0:
            shown.send("run\r")
        shown.send("ab\x1b[DX\r")
        shown.expect_exact(told)
    shown.expect_exact(pexpect.EOF)


def test_long_output_pauses(readline_program: Make) -> None:
    shown = readline_program()
    shown.until("tfdbg>")
    shown.type("numbers 30\r")
    shown.until("-- more -- (10 of 30 lines")
    shown.type("\r")
    shown.until("-- more -- (20 of 30 lines")
    shown.type("pick 7 7\r")
    shown.until("picked 7 7")
    shown.type("exit --detach\r")
    shown.until("'pick 7 7', 'exit --detach'")


@pytest.mark.parametrize("thread", [[], ["--thread"]])
def test_the_line_ui_takes_what_was_typed_ahead(thread: list[str]) -> None:
    shown = Terminal("line", *thread)
    try:
        shown.type("pick 1 1\rpick 2 2\r")  # before Python has even started
        shown.until("picked 2 2")
        shown.type("pick hid\t")
        shown.until("a tensor")  # the menu tells what each candidate is
        shown.type("\x03exit --detach\r")
        shown.until("handlers restored")
        assert shown.ends() == 0
    finally:
        shown.child.close(force=True)


def test_ctrl_x_ctrl_e_edits_the_line_in_the_editor(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\necho pick 9 9 > $1\n")
    editor.chmod(0o755)
    shown = Terminal("line", VISUAL=str(editor))
    try:
        shown.until("tfdbg>")
        shown.type("numbers\x18\x05")
        shown.until("tfdbg> pick 9 9")
        shown.type("\r")
        shown.until("picked 9 9")
        shown.type("exit --detach\r")
        assert shown.ends() == 0
    finally:
        shown.child.close(force=True)


def test_the_line_ui_in_a_program_that_runs_a_loop() -> None:
    program = (
        "import asyncio\nfrom ui_program import main\nasync def go(): main()\nasyncio.run(go())\n"
    )
    shown = Terminal(command=[sys.executable, "-c", program, "line"])
    try:
        shown.until("tfdbg>")
        shown.type("numbers 100\r")
        shown.until("-- more --")
        shown.type("q")
        shown.until(lambda: shown.text.rstrip().endswith("tfdbg>"))
        shown.type("run\r")
        shown.until("run-end: run #1")
        shown.type("exit --detach\r")
        shown.until("left again with 'detach'")
        assert shown.ends() == 0
    finally:
        shown.child.close(force=True)
