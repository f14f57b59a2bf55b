"""The plain UI, and what all UIs that print share."""

from __future__ import annotations

import gc
import io
import json
import os
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
from ui_service import SmallService

from tfdbg_cli.commands.reply import Leave, Reply
from tfdbg_cli.common.documents import Document
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.ui.base import CommandQueue
from tfdbg_cli.ui.plain import PlainUI
from tfdbg_cli.ui.text import parse_indices

ROOT = Path(__file__).parents[2]


class Run:
    """One stop of a plain UI."""

    def __init__(
        self,
        *commands: str,
        batch: bool = True,
        stdin: str = "",
        tty: bool = False,
        service: SmallService | None = None,
        ui: PlainUI | None = None,
    ) -> None:
        out, err = io.StringIO(), io.StringIO()
        source = io.StringIO(stdin)
        source.isatty = lambda: tty  # type: ignore[method-assign]
        self.service = service or SmallService()
        self.queue = CommandQueue(commands, batch)
        self.ui = ui or PlainUI(source, out, err)
        self.leave = self.ui.interact(self.service, self.queue)
        self.out, self.err = out.getvalue(), err.getvalue()


def test_batch_prints_what_was_asked_for_and_lets_go() -> None:
    run = Run("numbers 2", "alert", "pick 3 1")
    assert run.out.splitlines() == [
        "--- run-start: run #1 ---",
        "--- numbers 2 ---",
        "line 0 first second",
        "line 1 first second",
        "--- NaN found ---",
        "bad",
        "--- pick 3 1 ---",
        "picked 3 1",
    ]
    assert run.err == ""
    assert run.leave == Leave("detach")
    assert not run.queue.failed
    assert "\x1b" not in run.out


def test_batch_without_output_prints_nothing() -> None:
    run = Run("run -t 3")
    assert run.out == ""
    assert run.leave == Leave("run -t 3")
    assert run.service.ran == ["run -t 3"]


def test_the_stop_that_a_command_leads_to_is_named() -> None:
    out = io.StringIO()
    ui = PlainUI(io.StringIO(), out, io.StringIO())
    queue = CommandQueue(["run", "pick 1 1"], batch=True)
    assert ui.interact(SmallService(), queue) == Leave("run")
    assert out.getvalue() == ""
    assert ui.interact(SmallService("run-end: run #1", "end"), queue) == Leave("detach")
    assert out.getvalue().splitlines() == [
        "--- run-end: run #1 ---",
        "--- pick 1 1 ---",
        "picked 1 1",
    ]


def test_a_stop_for_a_bad_reason_prints_its_first_screen() -> None:
    run = Run(service=SmallService("run-end: run #4", "error"))
    assert run.out.splitlines() == [
        "--- run-end: run #4 ---",
        "--- info ---",
        "Run 1",
        "Next: numbers",
    ]


def test_errors_go_to_stderr_and_the_next_command_still_runs() -> None:
    run = Run("bogus", "say hello", "@[1]", "/x", "prev", "mouse on")
    assert run.err.splitlines()[0] == 'ERROR: There is no command "bogus".'
    assert "hello" in run.out.splitlines()
    assert run.err.count("ERROR: ") == 5
    assert run.queue.failed


def test_nothing_is_wrapped_and_any_length_streams() -> None:
    run = Run("wide", "numbers 20000")
    assert "abcdefghij" * 30 + "END" in run.out.splitlines()
    assert run.out.count("\n") > 20000


def test_commands_from_a_pipe_work_as_those_of_the_queue() -> None:
    run = Run("pick 0 1", batch=False, stdin="pick 1 1\n\nbogus\npick 2 1\n")
    assert run.service.ran == [
        "pick 0 1",
        "pick 1 1",
        "bogus",
        "pick 2 1",
        "exit --detach",
    ]
    assert "tfdbg>" not in run.out
    assert run.queue.failed
    assert run.leave == Leave("detach")
    assert run.service.history.items == []


def test_a_person_gets_the_first_screen_and_a_prompt() -> None:
    run = Run(batch=False, tty=True, stdin="bogus\nexit\ns\nexit\ne\n")
    assert run.out.splitlines()[:3] == ["--- run-start: run #1 ---", "Run 1", "Next: numbers"]
    assert "tfdbg> " in run.out
    assert "[c] let the program continue  [e] end it  [s] stay" in run.out
    assert run.leave == Leave("end")
    assert not run.queue.failed  # a typing mistake of a person fails nothing
    assert run.service.history.items == ["bogus", "exit"]


def test_a_question_nobody_can_answer_takes_the_harmless_choice() -> None:
    run = Run("exit", "pick 1 1")
    assert run.leave == Leave("detach")
    assert "let the program continue" in run.out


def test_the_end_of_input_lets_go() -> None:
    assert Run(batch=False, tty=True, stdin="").leave == Leave("detach")


def test_search_prints_the_matching_lines_with_numbers() -> None:
    run = Run("numbers 300", "/line 1?50 ", "/", "/[", "/nowhere")
    assert run.out.count("51: line 50 first second\n151: line 150 first second\n") == 2
    assert '"[" is not a regular expression' in run.err
    assert 'Nothing matches "nowhere".' in run.err


def test_lines_for_other_programs_come_without_titles() -> None:
    ui_out, err = io.StringIO(), io.StringIO()
    ui = PlainUI(io.StringIO(), ui_out, err)
    queue = CommandQueue(["run", "data 2", "say done"], batch=True)
    ui.interact(SmallService(), queue)
    # The stop that a command led to is named otherwise, even where it prints nothing.
    ui.interact(SmallService("run-end: run #1", "end"), CommandQueue(["data 2"], batch=True))
    assert ui_out.getvalue().splitlines() == ['{"line": 0}', '{"line": 1}']
    assert Run("data 1", "pick 1 1").out.splitlines() == [
        '{"line": 0}',
        "--- run-start: run #1 ---",
        "--- pick 1 1 ---",
        "picked 1 1",
    ]


def test_a_person_sees_whose_lines_they_are() -> None:
    run = Run(batch=False, tty=True, stdin="data 1\nexit --detach\n")
    assert run.out.splitlines()[0] == "--- run-start: run #1 ---"
    assert '{"line": 0}' in run.out


def test_json_is_json_in_a_file_and_in_a_pipe(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from tfdbg_cli.engines import numpy as tf\n"
        "x = tf.placeholder(tf.float32, [2], name='x')\n"
        "tf.Session().run(tf.log(x, name='y'), {x: [0, 1]})\n"
    )
    file = tmp_path / "out.json"
    commands = ["-c", "run", "-c", f"lt --json > {file}", "-c", "lt --json"]
    done = subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", "--batch", *commands[:2], *commands[4:], program],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    printed = [json.loads(text) for text in done.stdout.splitlines()]
    assert [item["tensor"] for item in printed] == ["x:0", "y:0"]
    subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", "--batch", *commands[:4], program],
        capture_output=True,
        check=True,
        cwd=ROOT,
    )
    written = [json.loads(text) for text in file.read_text().splitlines()]
    assert [item["health"] for item in written] == [item["health"] for item in printed]


def test_links_are_listed_and_followed_by_number() -> None:
    run = Run("link", "numbers 1", "link", "link 4")
    assert "    1 numbers 100\n    2 run\n    3 pick 0 1  (first)\n" in run.out
    assert run.out.splitlines()[-1] == "picked 0 2"
    assert "There is no output yet." in run.err


def test_an_element_prints_its_row() -> None:
    run = Run("table 50", "@[30,1]", "@[99,0]")
    assert run.out.splitlines()[-1] == "[   30] 30.0 30.1"
    assert "There is no element [99, 0]" in run.err


def test_prev_and_next_print_again() -> None:
    run = Run("pick 1 1", "pick 2 2", "prev", "next", "next")
    tail = run.out.splitlines()[-4:]
    assert tail == ["--- pick 1 1 ---", "picked 1 1", "--- pick 2 2 ---", "picked 2 2"]
    assert "This is the last output." in run.err


@pytest.mark.parametrize(("text", "indices"), [("1,0", (1, 0)), ("[1, 2]", (1, 2)), ("3", (3,))])
def test_indices(text: str, indices: tuple[int, ...]) -> None:
    assert parse_indices(text) == indices


@pytest.mark.parametrize("text", ["", "[]", "x", "1.5"])
def test_no_indices(text: str) -> None:
    with pytest.raises(UserError):
        parse_indices(text)


def test_ctrl_c_ends_the_command_of_a_person_and_the_program_of_nobody() -> None:
    class Interrupted(SmallService):
        def do_slow(self, text: str, rest: str) -> None:  # type: ignore[override]
            raise KeyboardInterrupt

    run = Run(batch=False, tty=True, stdin="slow\npick 1 1\n", service=Interrupted())
    assert "Cancelled.\n" in run.out
    assert "picked 1 1\n" in run.out
    with pytest.raises(KeyboardInterrupt):
        Run("slow", service=Interrupted())


def _python(program: str, **options: object) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "ui")])
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.Popen([sys.executable, "-c", program], env=environment, **options)  # type: ignore[call-overload, no-any-return]


_PROGRAM = """
from ui_service import SmallService
from tfdbg_cli.ui.base import CommandQueue
from tfdbg_cli.ui.choose import make_ui
import sys
import weakref
service = SmallService()
ui = make_ui("auto", service.settings, batch=True)
print("before")
ui.interact(service, CommandQueue({commands!r}, batch=True))
print("after")
sys.stderr.write("ended well")
"""


def test_output_is_in_order_with_the_programs_own() -> None:
    program = _PROGRAM.format(commands=["pick 1 1"])
    process = _python(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate()
    assert out.decode().splitlines() == [
        "before",
        "--- run-start: run #1 ---",
        "--- pick 1 1 ---",
        "picked 1 1",
        "after",
    ]
    assert err == b"ended well"


def test_a_reader_that_goes_away_does_no_harm() -> None:
    # The program itself prints nothing after us, so a broken pipe would be ours.
    program = _PROGRAM.format(commands=["numbers 200000", "say more"]).replace('print("after")', "")
    process = _python(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"before\n"
    process.stdout.close()
    assert process.stderr.read() == b"ended well"
    process.stderr.close()
    assert process.wait() == 0


def test_text_that_stdout_cannot_encode_is_replaced() -> None:
    program = "import sys; sys.stdout.reconfigure(encoding='ascii')\n" + _PROGRAM.format(
        commands=["wide"]
    )
    process = _python(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate()
    assert b"????" in out
    assert err == b"ended well"


def test_without_stdin_the_program_goes_on() -> None:
    ui = PlainUI(None, io.StringIO(), io.StringIO())
    ui.stdin = None  # type: ignore[assignment]
    assert ui.interact(SmallService(), CommandQueue()) == Leave("detach")


def test_what_was_printed_at_a_stop_is_let_go_when_it_is_left() -> None:
    documents: list[weakref.ref[Document]] = []

    class Watched(SmallService):
        def do_numbers(self, text: str, rest: str) -> Reply:
            reply = super().do_numbers(text, rest)
            assert reply.document is not None
            documents.append(weakref.ref(reply.document))
            return reply

    ui = PlainUI(io.StringIO(), io.StringIO(), io.StringIO())
    ui.interact(Watched(), CommandQueue(["numbers 3", "prev", "run"], batch=True))
    gc.collect()
    assert [found() for found in documents] == [None]
