"""The line UI on prompt_toolkit's own test terminal, and the readline UI's completer."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document as EditedLine
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from ui_service import SmallService

from tfdbg_cli.commands.reply import Leave
from tfdbg_cli.ui.base import CommandQueue
from tfdbg_cli.ui.line import LineUI
from tfdbg_cli.ui.line.adapters import ServiceCompleter
from tfdbg_cli.ui.readline_ui import make_completer


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
        self.service = SmallService()
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


def test_a_long_document_stops_after_each_screenful() -> None:
    with create_pipe_input() as pipe:
        session = Session(pipe, rows=12)
        session.run("numbers 35\r\rq\rexit --detach\r")
        assert session.text.count("-- more --") >= 2
        assert "line 19 " in session.text
        assert "line 20 " not in session.text
        assert session.service.ran == ["info", "numbers 35", "exit --detach"]


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
