"""The line UI on prompt_toolkit's own test terminal, and the readline UI's completer."""

from __future__ import annotations

import asyncio
import io
import re
import threading
from collections.abc import Iterator

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document as EditedLine
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from ui_service import SmallService

from tfdbg_cli.commands.reply import Leave, Reply
from tfdbg_cli.common.documents import TextDocument, line
from tfdbg_cli.ui.base import CommandQueue
from tfdbg_cli.ui.line import LineUI
from tfdbg_cli.ui.line.adapters import ServiceCompleter
from tfdbg_cli.ui.readline_ui import make_completer
from tfdbg_cli.ui.text import rows_of


class Session:
    """A line UI whose input is a pipe and whose output is text."""

    def __init__(self, pipe: PipeInput, rows: int = 100, color: bool = True) -> None:
        self.pipe = pipe
        self.printed = io.StringIO()
        size = Size(rows=rows, columns=90)
        output = Vt100_Output(
            self.printed,
            lambda: size,
            term="xterm",
            default_color_depth=ColorDepth.DEPTH_4_BIT,
            enable_cpr=False,
        )
        self.service: SmallService = SmallService()
        self.ui = LineUI(self.service.settings, color=color, input=pipe, output=output)

    def run(self, typed: str, *commands: str, batch: bool = False) -> Leave:
        self.pipe.send_text(typed)
        return self.ui.interact(self.service, CommandQueue(commands, batch))

    @property
    def text(self) -> str:
        return self.printed.getvalue()


@pytest.fixture
def session() -> Iterator[Session]:
    with create_pipe_input() as pipe:
        yield Session(pipe)


def test_documents_are_printed_in_colour(session: Session) -> None:
    assert session.run("numbers 3\rexit --detach\r") == Leave("detach")
    assert "--- run-start: run #1 ---" in session.text
    assert "--- numbers 3 ---" in session.text
    assert "line 2 " in session.text
    assert "\x1b[0;94;4mfirst" in session.text.replace("\x1b[4m\x1b[94m", "\x1b[0;94;4m")
    assert session.service.widths[0] == 90


def test_without_colour_links_are_still_underlined() -> None:
    with create_pipe_input() as pipe:
        session = Session(pipe, color=False)
        session.run("numbers 3\rfail\rexit --detach\r")
        assert "\x1b[0;4mfirst" in session.text
        assert "ERROR: It failed." in session.text
        assert "\x1b[0;9" not in session.text
        assert "\x1b[0;3" not in session.text


def test_history_is_shared_and_searched_by_prefix(session: Session) -> None:
    session.service.history.add("pick 4 1")
    session.service.history.add("numbers 2")
    up = "\x1b[A"
    session.run(f"pi{up}\rexit --detach\r")
    assert "pick 4 1" in session.service.ran
    assert session.service.history.items == ["pick 4 1", "numbers 2", "pick 4 1", "exit --detach"]


def test_names_with_slashes_and_colons_are_one_word() -> None:
    completer = ServiceCompleter(SmallService())
    found = list(completer.get_completions(EditedLine("pick hidden/R"), CompleteEvent()))
    assert [(c.text, c.start_position) for c in found] == [
        ("hidden/Relu:0", -len("hidden/R")),
        ("hidden/Relu:1", -len("hidden/R")),
    ]
    assert found[0].display_meta_text == "a tensor"


@pytest.fixture
def small() -> Iterator[Session]:
    with create_pipe_input() as pipe:
        yield Session(pipe, rows=12)


@pytest.mark.parametrize("go_on", ["\r", " "])
def test_a_long_document_stops_after_each_screenful(small: Session, go_on: str) -> None:
    small.run(f"numbers 35\r{go_on}qexit --detach\r")
    assert "-- more -- (10 of 35 lines; Enter, q, or a command)" in small.text
    assert "-- more -- (20 of 35 lines; Enter, q, or a command)" in small.text
    assert "line 19 " in small.text
    assert "line 20 " not in small.text
    assert small.service.ran == ["info", "numbers 35", "exit --detach"]


def test_a_command_typed_between_two_screenfuls_runs_before_the_queue(small: Session) -> None:
    small.run("pick 7 1\rexit --detach\r", "numbers 35", "pick 8 1")
    assert small.service.ran == ["info", "numbers 35", "pick 7 1", "pick 8 1", "exit --detach"]
    assert small.service.history.items == ["pick 7 1", "exit --detach"]
    assert "line 10 " not in small.text


def test_ctrl_c_between_two_screenfuls_cancels_the_command(small: Session) -> None:
    small.run("numbers 35\r\x03exit --detach\r")
    assert "Cancelled." in small.text
    assert "line 10 " not in small.text


def test_long_lines_count_as_the_rows_that_they_take(small: Session) -> None:
    small.run("wide\rexit --detach\r")  # 4 lines, 3 + 1 + 4 + 2 rows of 90 columns
    assert "-- more --" not in small.text
    assert rows_of(line("日本" * 45), 90) == 2
    assert rows_of(line("e\u0301" * 90), 90) == 1
    assert rows_of(line(), 90) == 1


class LongStart(SmallService):
    """A stop whose first screen is longer than the terminal."""

    def do_info(self, text: str, rest: str) -> Reply:
        """long"""
        return Reply(text, TextDocument([f"info {number}" for number in range(30)]))


def test_the_first_screen_of_a_stop_leads_to_the_prompt(small: Session) -> None:
    small.service = LongStart()
    small.run("pick 1 1\rexit --detach\r")
    assert "info 8" in small.text
    assert "info 9" not in small.text
    assert "(21 more lines: Enter shows them)" in small.text
    assert "-- more --" not in small.text
    assert small.service.ran == ["info", "pick 1 1", "exit --detach"]


def test_enter_at_the_prompt_goes_on_with_the_first_screen(small: Session) -> None:
    small.service = LongStart()
    small.run("\r\r\r\rexit --detach\r")
    assert "-- more -- (19 of 30 lines" in small.text
    assert small.text.count("info 29") == 1
    assert small.service.ran == ["info", "exit --detach"]


def test_a_document_opens_where_it_says(small: Session) -> None:
    small.run("at 95\rexit --detach\r")
    assert "(95 lines above: at 95 | cat shows all)" in small.text
    assert "row 94" not in small.text
    assert "row 95" in small.text


def test_links_are_listed_and_followed_without_a_mouse(session: Session) -> None:
    session.run("numbers 3\rlink\rlink 3\rlink 9\rlink 0\rpick 1 1\rlink\rexit --detach\r")
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", session.text)
    listed = [text.rstrip() for text in shown.splitlines() if re.match(r" +\d ", text)]
    assert listed == [
        "    1 numbers 100",
        "    2 run",
        "    3 pick 0 1  (first)",
        "    4 pick 0 2  (second)",
        "    5 pick 1 1  (first)",
        "    6 pick 1 2  (second)",
        "    7 pick 2 1  (first)",
        "    8 pick 2 2  (second)",
    ]
    assert "picked 0 1" in shown
    # What was followed is the last output now.
    assert "There is no link 9. The last output has 0." in shown
    assert "There is no link 0." in shown
    assert "The last output has no links." in shown


def test_ctrl_r_searches_the_history(session: Session) -> None:
    session.service.history.add("pick 4 1")
    session.service.history.add("numbers 2")
    session.run("\x12pick\r\rexit --detach\r")
    assert session.service.ran == ["info", "pick 4 1", "exit --detach"]


def test_the_history_holds_what_was_run_a_moment_ago(small: Session) -> None:
    up = "\x1b[A"
    small.run("numbers 35\rpick 5 5\rexit --detach\r")
    small.run(f"{up}{up}\rexit --detach\r")
    assert small.service.ran.count("pick 5 5") == 2


def test_it_works_in_a_thread(session: Session) -> None:
    thread = threading.Thread(target=session.run, args=("numbers 2\rexit --detach\r",))
    thread.start()
    thread.join(20)
    assert session.service.ran == ["info", "numbers 2", "exit --detach"]


def test_a_command_outside_of_a_stop(session: Session) -> None:
    session.pipe.send_text("y\r")
    assert session.ui.execute(session.service, CommandQueue(), "ask") is None
    assert session.service.ran == ["ask", "say yes it is"]
    assert session.ui.execute(session.service, CommandQueue(), "run 3") == Leave("run 3")
    assert "---" not in session.text


def test_a_document_of_just_one_screenful_asks_nothing() -> None:
    with create_pipe_input() as pipe:
        session = Session(pipe, rows=12)
        session.run("numbers 10\rexit --detach\r")
        assert "-- more --" not in session.text


def test_ctrl_d_asks_and_ctrl_c_drops_the_line(session: Session) -> None:
    assert session.run("abc\x03\x04s\rpick 1 1\r\x04e\r") == Leave("end")
    assert session.text.count("Leave the debugger?") == 2
    assert session.service.ran == ["info", "exit", "pick 1 1", "exit", "exit --end"]


def test_search_rows_and_screens(session: Session) -> None:
    session.run("table 50\r/3[01]\\.1\r@[7,0]\rpick 1 1\rprev\rexit --detach\r")
    assert "31: " in session.text
    assert "[    7] 7.0 7.1" in session.text
    assert session.text.count("--- table of 50 ---") == 2


def test_queued_commands_run_first(session: Session) -> None:
    assert session.run("", "pick 1 1", "run -t 2") == Leave("run -t 2")
    assert session.service.ran == ["info", "pick 1 1", "run -t 2"]


def test_it_works_inside_a_running_event_loop(session: Session) -> None:
    async def program() -> Leave:
        return session.run("pick 1 1\rexit --detach\r")

    assert asyncio.run(program()) == Leave("detach")
    assert "picked 1 1" in session.text


def test_a_pasted_line_feed_runs_nothing(session: Session) -> None:
    session.run("\x1b[200~pick 1 1\nexit --end\x1b[201~\x03exit --detach\r")
    assert session.service.ran == ["info", "exit --detach"]


@pytest.mark.parametrize(
    ("text", "begin", "expected"),
    [
        ("pick hid", 5, ["hidden/Relu:0", "hidden/Relu:1", "hidden/weights/read:0"]),
        ("pick hidden/R", 12, ["Relu:0", "Relu:1"]),  # readline's word begins later
        ("pick lo", 0, ["pick loss:0"]),  # or earlier
        ("zzz", 0, []),
    ],
)
def test_candidates_for_readline(text: str, begin: int, expected: list[str]) -> None:
    complete = make_completer(SmallService(), lambda: (text, begin, len(text)))
    found = []
    while (candidate := complete(text[begin:], len(found))) is not None:
        found.append(candidate)
    assert found == expected
