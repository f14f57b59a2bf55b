"""The original's verified defects, by number: what was drawn, scrolled and typed."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
from stop_kit import stop_over
from ui_player import Input, Player, enter, play
from ui_service import SmallService

from tfdbg_cli.commands.reply import Leave
from tfdbg_cli.dumps.dump import RunError, RunInfo
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.ui.base import CommandQueue
from tfdbg_cli.ui.plain import PlainUI

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
Keys = Iterator[list[Input]]

LONG = "Redirect-to-a-very-long-place /some/where/that/does/not/exist/at/all/out.txt"


def test_defect_37_a_shorter_message_leaves_nothing_of_a_longer_one() -> None:
    """The original left the tail of the toast before it on the row."""

    def script(screen: Player) -> Keys:
        yield enter(f"say {LONG}")
        assert "out.txt" in screen.text
        yield enter("say short")
        assert screen.rows[-2].strip() == "short"
        assert "out.txt" not in screen.text
        yield enter("fail")
        yield enter("say ok")
        assert screen.rows[-2].strip() == "ok"

    play(script)


@pytest.mark.parametrize("size", [(120, 40), (50, 12), (81, 24), (30, 10)])
def test_defect_38_the_title_is_drawn_again_after_a_resize(size: tuple[int, int]) -> None:
    """The original kept the title row of the old width, and 50x12 showed no output."""

    def script(screen: Player) -> Keys:
        yield enter("numbers 300")
        screen.size = size
        yield ["window resize"]
        assert len(screen.rows[0]) == size[0]
        assert screen.rows[0].startswith("--- numbers 300 ---")
        assert screen.rows[0].endswith("-")
        lines = [row for row in screen.rows if row.startswith("line ")]
        assert len(lines) == size[1] - 5

    play(script)


@pytest.mark.parametrize("width", [50, 60, 80, 81, 100, 220])
def test_defect_39_the_status_line_is_whole(width: int) -> None:
    """The original's status line was one character too long: "Mouse: ON --" was cut."""

    def script(screen: Player) -> Keys:
        yield enter("table 500")
        row = screen.canvas.decoded_text[-2]
        assert len(row) == width
        assert "0.00% | [0,0]-[19,1] | 1-20/500" in row
        # What there is no room for is left out whole; the state of the mouse goes first.
        end = "F1: keys | Mouse: ON" if width >= 100 else "F1: keys"
        assert row.rstrip().endswith(end), row
        assert row.endswith(" ")

    play(script, size=(width, 24))


def test_defect_40_mouse_makes_no_screen() -> None:
    """The original's mouse command put an empty screen into the history of prev and next."""

    def script(screen: Player) -> Keys:
        yield enter("numbers 300")
        yield enter("pick 1 1")
        for command in ("mouse", "mouse off", "mouse on", "mouse sideways"):
            yield enter(command)
            assert screen.page[0] == "picked 1 1"
            assert screen.rows[1].endswith("3/3 | pick 1 1")
        yield enter("prev")
        assert screen.rows[1].endswith("2/3 | numbers 300")
        yield enter("next")
        assert screen.rows[1].endswith("3/3 | pick 1 1")

    play(script)


def test_defect_41_page_down_is_a_page() -> None:
    """The original's PgDn and PgUp moved by one line."""

    def script(screen: Player) -> Keys:
        yield enter("numbers 300")
        rows = sum(row.startswith("line ") for row in screen.rows)
        yield ["page down"]
        top = int(screen.rows[3].split()[1])
        assert rows - 2 <= top <= rows
        yield ["page up"]
        assert screen.rows[3].startswith("line 0 ")

    play(script)


def test_defect_42_every_line_of_an_error_is_whole() -> None:
    """The original drew the later lines of an OpError without their first characters."""
    message = "Input is not finite : Tensor had Inf values\n\t [[node check]]\nSecond line of it"
    info = RunInfo(3, ["y:0"], error=RunError("InvalidArgumentError", message, "check"))
    dump = MemoryDump(Graph([Node("check", "CheckNumerics")]), run_info=info)
    service = stop_over(
        dump, info=info, title="run-end: run #3", title_role="error", initial_command="error"
    )

    def script(screen: Player) -> Keys:
        rows = [row[:-1].strip() for row in screen.canvas.decoded_text]
        for text in ("Input is not finite : Tensor had Inf values", "Second line of it"):
            assert text in rows
        assert "[[node check]]" in rows
        assert "!!! An error occurred during the run !!!" in rows
        assert screen.attribute("An error occurred: ") == "title-error"
        yield []

    play(script, service, size=(80, 40))  # type: ignore[arg-type]


def test_defect_45_an_empty_line_does_nothing() -> None:
    """The original's readline UI answered Enter with an error."""
    out, err = io.StringIO(), io.StringIO()
    source = io.StringIO("\n   \npick 1 1\n")
    source.isatty = lambda: True  # type: ignore[method-assign]
    service = SmallService()
    leave = PlainUI(source, out, err).interact(service, CommandQueue())
    assert leave == Leave("detach")
    assert "ERROR" not in err.getvalue() + out.getvalue()
    assert [text for text in service.ran if text.strip()][:2] == ["info", "pick 1 1"]


@pytest.mark.parametrize("kind", ["readline", "line", "plain"])
def test_defect_45_enter_and_ctrl_d_on_a_terminal(kind: str) -> None:
    """The original's readline UI: an error for Enter, an EOFError in the program for Ctrl-D."""
    child = pexpect.spawn(
        sys.executable,
        [str(HERE / "ui_program.py"), kind],
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)]),
            "TERM": "xterm-256color",
            "PROMPT_TOOLKIT_NO_CPR": "1",
        },  # type: ignore[arg-type]
        dimensions=(24, 80),
        encoding="utf-8",
        timeout=20,
    )
    try:
        child.expect("tfdbg> ")
        child.send("\r\r")
        child.send("pick 1 1\r")
        child.expect("picked 1 1")
        assert "ERROR" not in child.before
        child.send("\x04")
        child.expect("let the program continue")
        child.send("c\r")
        child.expect("left with 'detach'")
        child.expect(pexpect.EOF)
        assert "EOFError" not in child.before
        child.close()
        assert child.exitstatus == 0
    finally:
        child.close(force=True)


@pytest.mark.parametrize("given", ["", "run\n"])
def test_defect_45_the_end_of_input_lets_the_program_go_on(given: str) -> None:
    """The original raised an EOFError out of the user's run() where there was no stdin."""
    code = (
        "import tfdbg_cli\n"
        "from tfdbg_cli.engines import numpy as tf\n"
        "session = tfdbg_cli.LocalCLIDebugWrapperSession(tf.Session(), ui_type='readline')\n"
        "print('result', [session.run(tf.constant(3.0)) * 2 for _ in range(3)])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert "result [" in done.stdout and done.stdout.count("6.0") == 3
    assert "EOFError" not in done.stderr
