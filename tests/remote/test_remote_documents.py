"""Documents, completions and settings seen through the socket: the same as without it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from remote_kit import until

from tfdbg_cli.commands.reply import (
    Candidate,
    Choice,
    CommandInfo,
    Completion,
    Leave,
    Question,
    Reply,
    Toast,
    UiRequest,
)
from tfdbg_cli.commands.run.choices import ExitChoice, RunChoice
from tfdbg_cli.commands.shell.history import History
from tfdbg_cli.common.documents import (
    Cell,
    Document,
    ElementStep,
    Field,
    LazyDocument,
    Line,
    MenuItem,
    Span,
    TableLines,
    TextDocument,
    line,
)
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.net.address import parse_address
from tfdbg_cli.net.tokens import find_token
from tfdbg_cli.tensors.pictures.document import Look, PictureDocument
from tfdbg_cli.tensors.pictures.source import Source
from tfdbg_cli.ui.base import CommandQueue
from tfdbg_cli.ui.remote.connection import (
    Connection,
    Disconnection,
    OverError,
    RunningProgram,
    StoppedProgram,
)
from tfdbg_cli.ui.remote.host import RemoteUI
from tfdbg_cli.ui.remote.proxies import RemoteDocument, RemoteHistory, RemoteService

COUNT = 20_000


class Table(LazyDocument):
    """Twenty thousand lines, which notes those that were made."""

    def __init__(self) -> None:
        super().__init__(COUNT, self._row, "a table", [MenuItem("more", "lt", False)])
        self.title_role, self.initial_line = "error", 7
        self.initial_search, self.steps = "7", "prime row"
        self.initial_element = (3, 0)
        self.is_data, self.kind = True, "source"
        self.made: set[int] = set()

    def _row(self, number: int) -> Line:
        self.made.add(number)
        return Line(line((f"{number:06d}", "number"), " row").spans, ((number, 0), (number, 9)))

    def locate(self, indices: Sequence[int]) -> int:
        if indices[0] >= COUNT:
            raise UserError("There is no such row.", "Use a smaller one.")
        return indices[0]

    def cells(self, number: int) -> list[Cell]:
        return [Cell(0, 6, (number, 0))]

    def fields(self, number: int) -> list[Field]:
        return [Field(0, 6, "number", "Number")] if self.table_at(number) else []

    def table_command(self, number: int, column: str, verb: str) -> str:
        if verb == "sort-down":
            return f"table {number} -s {column} -r"
        return super().table_command(number, column, verb)

    def element(self, indices: Sequence[int]) -> Document | None:
        return TextDocument([f"element {tuple(indices)}"]) if indices[0] < COUNT else None

    @property
    def tables(self) -> Sequence[TableLines]:
        return [TableLines(3, 100), TableLines(200, COUNT, 5)]

    def step(self, indices: Sequence[int] | None, direction: int = 1) -> ElementStep | None:
        at = None if indices is None else (2, 3, 5, 7).index(indices[0]) + direction
        if at == 9:
            return None
        number = 0 if at is None else at % 4
        row = (2, 3, 5, 7)[number]
        return ElementStep(None if row == 5 else row, (row,), number + 1, 4, number != (at or 0))

    def status(self, start: int, stop: int) -> str:
        return f"{start}-{stop}"

    def resized(self, width: int) -> Document:
        return self if width == 80 else TextDocument([f"{width} columns"])


class Slow(LazyDocument):
    """Lines that are computed while somebody looks."""

    def __init__(self) -> None:
        super().__init__(3, self._row)
        self.is_known = False
        self.asked = 0

    def _row(self, number: int) -> Line:
        self.asked += 1
        return line("known" if self.is_known else "…")

    @property
    def pending(self) -> bool:
        return not self.is_known

    def settle(self, start: int, stop: int) -> None:
        self.is_known = True


def a_map() -> PictureDocument:
    """The picture of an array with a nan in it."""
    values = np.arange(3 * 40 * 60.0).reshape(3, 40, 60)
    values[0, 7, 9] = np.nan
    return PictureDocument(Source(values), [Span("m", "bold")], Look(), 79)


class Everything:
    """A service with one command for each kind of Reply."""

    title, title_role, prompt, initial_command = "run-end: run #1", "end", "tfdbg> ", "first"

    def __init__(self) -> None:
        self.settings = Settings()
        self.history = History()
        self.history.items = ["old"]
        self.table, self.slow, self.map = Table(), Slow(), a_map()
        self.widths: list[int] = []

    def run(self, text: str, width: int = 80) -> Reply:
        self.widths.append(width)
        if text == "theme":
            self.settings.override("theme", "mono")
        if text == "spin":
            while True:
                pass
        return {
            "table": Reply("table", self.table),
            "slow": Reply("slow", self.slow),
            "map": Reply("map", self.map),
            "error": Reply("error", message=Toast("wrong", "error"), details=("a", "b")),
            "ask": Reply("ask", question=Question("Sure?", (Choice("y", "yes", "go"),))),
            "request": Reply("request", request=UiRequest("search", "x")),
            "script": Reply("script", rest=("a", "b")),
            "leave": Reply("leave", leave=Leave(RunChoice(times=3))),
            "exit --detach": Reply(leave=Leave(ExitChoice())),
        }.get(text, Reply(text))

    def complete(self, text: str, cursor: int) -> Completion:
        many = [Candidate(f"name{n}", "a name") for n in range(50_000)]
        return Completion(2, [*many, Candidate("nab")] if text == "many" else many[:3])

    def commands(self) -> list[CommandInfo]:
        return [CommandInfo("table", ("t",), "A table.", True)]


class Both:
    """The two ends of a connection in one process."""

    def __init__(self) -> None:
        self.ours = Everything()
        self.leaves: list[Leave] = []
        self.calls: list[str] = []
        self.before_wish: Callable[[], None] = lambda: None
        self.ui = RemoteUI(
            "0",
            self.ours.settings,
            waits=True,
            on_wish=self.wish,
            on_stop=lambda: self.calls.append("stop"),
            on_lost=lambda: self.calls.append("lost"),
            on_fork=lambda: None,
            how_ended=lambda: "badly",
        )
        self.begin()
        address = parse_address(self.ui.invitation.split()[-1])
        self.connection = Connection(address, find_token(address))
        self.wait(StoppedProgram)
        self.history = RemoteHistory(self.connection)
        self.settings = Settings()

    def begin(self) -> None:
        def stop() -> None:
            self.leaves.append(self.ui.interact(self.ours, CommandQueue()))

        self.thread = threading.Thread(target=stop)
        self.thread.start()

    def wish(self) -> None:
        self.before_wish()
        self.calls.append("wish")

    def wait(self, kind: type) -> object:
        while not isinstance(self.connection.state, kind):
            self.connection.wait(self.connection.seen()[0])
        return self.connection.state

    @property
    def service(self) -> RemoteService:
        stop = self.connection.state
        assert isinstance(stop, StoppedProgram)
        self.history.arrive(stop.number)
        return RemoteService(self.connection, stop, self.settings, self.history)

    def document(self, command: str) -> RemoteDocument:
        found = self.service.run(command).document
        assert isinstance(found, RemoteDocument)
        return found


@pytest.fixture
def both() -> Iterator[Both]:
    made = Both()
    yield made
    made.connection.close()
    made.ui.close()
    made.thread.join(10)
    assert not made.thread.is_alive()


def test_a_map_is_drawn_and_turned_from_afar(both: Both) -> None:
    theirs, ours = both.document("map"), both.ours.map
    assert list(theirs) == list(ours)  # the colours, too
    assert theirs.turns == ours.turns
    here, there = theirs.paged(12), ours.paged(12)
    assert list(here) == list(there)
    assert [here.cells(number) for number in range(12)] == [
        there.cells(number) for number in range(12)
    ]
    assert here.paged(12) is here
    for way, at in (
        ("next bad", None),
        ("closer", (0, 7, 9)),
        ("drag:3,-2", (0, 7, 9)),
        ("scale", None),
        ("next slice", (0, 7, 9)),
        ("tiles", None),
    ):
        other, mine = here.turned(way, at), there.turned(way, at)
        assert other.indices == mine.indices
        assert list(other.document) == list(mine.document)
        here, there = other.document, mine.document
    with pytest.raises(UserError, match="has no other view"):
        here.turned("inside out")
    with pytest.raises(UserError, match="no numbers to go back"):
        here.turned("picture")
    table = both.document("table")
    assert not table.turns
    assert table.paged(3) is table


def test_the_head_of_a_document(both: Both) -> None:
    theirs, ours = both.document("table"), both.ours.table
    for name in (
        "title",
        "title_role",
        "menu",
        "initial_line",
        "initial_element",
        "initial_search",
        "is_data",
        "steps",
        "kind",
    ):
        assert getattr(theirs, name) == getattr(ours, name)
    assert theirs.line_count == COUNT
    assert list(theirs.tables) == [tuple(table) for table in ours.tables]
    assert not ours.made
    assert [theirs.heads(number) for number in (3, 100, 200)] == [None] * 3
    assert theirs.heads(4) == theirs.heads(99) == Table().lines(3, 4)[0]
    assert theirs.heads(COUNT - 1) == Table().lines(200, 201)[0]


def test_the_cells_of_a_table_and_its_commands(both: Both) -> None:
    theirs, ours = both.document("table"), both.ours.table
    assert theirs.fields(9) == ours.fields(9) == [Field(0, 6, "number", "Number")]
    assert theirs.fields(0) == theirs.fields(COUNT) == []
    assert theirs.table_command(9, "number", "sort-down") == "table 9 -s number -r"
    with pytest.raises(UserError, match="keeps its order"):
        theirs.table_command(9, "number", "hide")
    assert theirs.table_at(150) is None
    assert theirs.table_at(300) == TableLines(200, COUNT, 5)


def test_what_a_command_has_changed_is_asked_for_again(both: Both) -> None:
    theirs, ours = both.document("table"), both.ours.table
    theirs.lines(0, 10)
    ours.made.clear()
    theirs.lines(0, 10)
    assert not ours.made
    both.service.run("nothing")  # a command without a screen, as select is one
    theirs.lines(0, 10)
    assert 9 in ours.made


def test_steps_from_element_to_element(both: Both) -> None:
    theirs = both.document("table")
    assert theirs.step(None) == ElementStep(2, (2,), 1, 4, False)
    assert theirs.step((3,)) == ElementStep(None, (5,), 3, 4, False)
    assert theirs.step((2,), -1) == ElementStep(7, (7,), 4, 4, True)
    assert both.document("slow").step(None) is None


def test_lines_come_when_somebody_looks_and_stay(both: Both) -> None:
    theirs, ours = both.document("table"), both.ours.table
    assert theirs.lines(5_000, 5_020) == Table().lines(5_000, 5_020)
    assert ours.made <= set(range(4_500, 5_500))
    ours.made.clear()
    assert theirs.lines(5_001, 5_010) == Table().lines(5_001, 5_010)
    assert not ours.made
    assert theirs.lines(-5, 3) == Table().lines(0, 3)
    assert theirs.lines(COUNT - 1, COUNT + 50) == Table().lines(COUNT - 1, COUNT)
    assert theirs.lines(9, 3) == []


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(start=st.integers(-10, COUNT + 10), length=st.integers(0, 10_000))
def test_any_lines_are_the_same(both: Both, start: int, length: int) -> None:
    theirs = both.document("table")
    assert theirs.lines(start, start + length) == both.ours.table.lines(start, start + length)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    pattern=st.sampled_from(["000", "9[0-9]99", "12345", "nothing", "^0", "ROW"]),
    start=st.integers(-5, COUNT + 5),
    direction=st.sampled_from([1, -1]),
    stop=st.none() | st.integers(-5, COUNT + 5),
)
def test_any_search_finds_the_same(
    both: Both, pattern: str, start: int, direction: int, stop: int | None
) -> None:
    theirs, compiled = both.document("table"), re.compile(pattern)
    expected = both.ours.table.find(compiled, start, direction, stop)
    assert theirs.find(compiled, start, direction, stop) == expected
    end = COUNT if stop is None else stop
    assert theirs.matches(compiled, start, end) == both.ours.table.matches(compiled, start, end)
    assert theirs.find(compiled, start, direction, stop) == expected


def test_a_search_in_slices_asks_seldom(both: Both) -> None:
    theirs, pattern = both.document("table"), re.compile("no such thing")
    asked: list[str] = []
    call = both.connection.call

    def count(stop: int, name: str, /, **arguments: object) -> object:
        asked.append(name)
        return call(stop, name, **arguments)

    both.connection.call = count  # type: ignore[method-assign]
    for at in range(0, COUNT, 256):
        assert theirs.find(pattern, at, 1, at + 256) is None
    assert len(asked) < 25


def test_flags_of_a_pattern_hold(both: Both) -> None:
    assert both.document("table").find(re.compile("ROW", re.IGNORECASE), 0) == 0


def test_what_else_a_document_says(both: Both) -> None:
    theirs = both.document("table")
    assert theirs.locate((12, 0)) == 12
    with pytest.raises(UserError, match=r"There is no such row\. Use a smaller one\."):
        theirs.locate((COUNT, 0))
    assert theirs.cells(3) == [Cell(0, 6, (3, 0))]
    assert theirs.cells(-1) == []
    assert theirs.status(3, 9) == "3-9"
    element = theirs.element((4, 2))
    assert element is not None
    assert element.text == "element (4, 2)"
    assert theirs.element((COUNT,)) is None
    assert theirs.resized(80) is theirs
    assert theirs.resized(50).text == "50 columns"
    assert theirs.lines(0, 1)  # it is still there


def test_placeholders_are_asked_for_again(both: Both) -> None:
    theirs, ours = both.document("slow"), both.ours.slow
    assert theirs.lines(0, 3)[0].text == "…"
    assert theirs.pending
    asked = ours.asked
    theirs.lines(0, 3)
    assert ours.asked == asked  # good enough for a moment
    ours.is_known = True
    limit = 1000
    while theirs.lines(0, 3)[0].text == "…" and limit:
        limit -= 1
        threading.Event().wait(0.01)
    assert theirs.lines(0, 3)[0].text == "known"
    assert not theirs.pending


def test_lines_for_good_are_settled(both: Both) -> None:
    theirs = both.document("slow")
    assert theirs.lines(0, 1)[0].text == "…"
    assert theirs.text == "known\nknown\nknown"


def test_every_kind_of_reply(both: Both) -> None:
    for command in ("error", "ask", "request", "script", "nothing"):
        assert both.service.run(command) == both.ours.run(command)
    both.service.run("nothing", 123)
    assert both.ours.widths[-1] == 123


def test_a_setting_that_a_command_changes_is_obeyed_here(both: Both) -> None:
    seen: list[tuple[str, object]] = []
    both.settings.on_change(lambda name, value: seen.append((name, value)))
    both.service.run("theme")
    assert seen == [("theme", "mono")]
    both.service.run("nothing")
    assert len(seen) == 1


def test_completions(both: Both) -> None:
    assert both.service.complete("x", 1) == both.ours.complete("x", 1)
    many = both.service.complete("many", 4)
    assert len(many.candidates) <= 2_000
    assert many.common_prefix == "na"
    assert both.service.commands() == both.ours.commands()


def test_the_history_is_the_programs(both: Both) -> None:
    service = both.service
    assert service.history.items == ["old"]
    assert service.history.add("!!") == "old"
    service.history.add("lt")
    service.history.play("pt")
    service.run("nothing")  # all of that is there by now
    assert both.ours.history.items == ["old", "lt"]


def test_leaving_and_the_next_stop(both: Both) -> None:
    service = both.service
    assert service.run("leave").leave is not None
    both.thread.join(10)
    assert both.leaves == [Leave(RunChoice(times=3))]
    assert both.connection.is_leaving
    # Whoever comes too late is told to leave.
    assert service.run("table").leave is not None
    both.begin()
    both.connection.wait(1)
    assert both.service.run("nothing") == Reply("nothing")


def test_documents_of_an_earlier_stop_are_still_there(both: Both) -> None:
    theirs = both.document("table")
    theirs.lines(0, 10)
    version, _ = both.connection.seen()
    both.service.run("leave")
    both.thread.join(10)
    (made,) = theirs.lines(15_000, 15_010)
    assert "can't be shown: " in made.text
    both.begin()
    both.connection.wait(version)
    assert theirs.lines(15_000, 15_010) == both.ours.table.lines(15_000, 15_010)


def test_documents_that_nobody_has_are_let_go(both: Both) -> None:
    for _ in range(20):
        both.document("table")
    both.service.run("nothing")
    assert len(both.ui._shelf._documents) <= 1


def test_a_command_without_end_is_cancelled(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a Ctrl-C in the thread that waits for the answer does it."""
    wait: Callable[..., None] = both.connection._wait
    waits = 0

    def interrupted(seconds: float = 60.0) -> None:
        nonlocal waits
        waits += 1
        if waits == 3:
            raise KeyboardInterrupt
        wait(min(seconds, 0.1))

    monkeypatch.setattr(both.connection, "_wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        both.service.run("spin")
    assert both.service.run("nothing") == Reply("nothing")
    assert not both.leaves


def test_the_end_of_the_program(both: Both) -> None:
    document, service = both.document("table"), both.service
    woken = threading.Event()
    both.connection.on_parted = woken.set
    both.ui.close()
    assert woken.wait(10)
    assert both.connection.state == Disconnection("end", "badly")
    with pytest.raises(OverError):
        _ = document.pending
    assert service.run("table").leave is not None
    assert service.complete("x", 1).candidates == ()
    both.thread.join(10)
    assert both.leaves == [Leave(ExitChoice())]


def test_a_client_that_is_lost_at_a_stop(both: Both) -> None:
    both.connection._channel.close()
    both.thread.join(10)
    assert both.leaves == [Leave(ExitChoice())]
    assert "lost" not in both.calls


@pytest.mark.parametrize("is_late", [False, True])
def test_a_stop_that_comes_is_the_one_that_was_wished_for(both: Both, is_late: bool) -> None:
    def come() -> None:
        both.begin()
        both.wait(StoppedProgram)

    assert both.service.run("leave").leave is not None
    both.thread.join(10)
    both.calls.clear()
    both.ui.running(lambda: "on")
    both.wait(RunningProgram)
    if is_late:
        both.before_wish = come
    both.connection.request_stop()
    if not is_late:
        until(lambda: both.calls)
        come()
    else:
        both.wait(StoppedProgram)
    assert both.service.run("nothing") == Reply("nothing")  # answered after what came before
    assert "wish" in both.calls
    assert both.calls[-1] == "stop"
