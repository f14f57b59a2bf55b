"""Screens over several stops: what is kept of them, and that nothing else is."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Iterator

import numpy as np
import pytest
from stop_kit import stop_over
from ui_player import Input, Player, enter, play, play_stops
from ui_service import SmallService, TableDocument

from tfdbg_cli.commands.service import CommandService
from tfdbg_cli.common.documents import LazyDocument, Line, TextDocument, line
from tfdbg_cli.common.errors import DumpError, UserError
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.ui.screen.kept import KeptDocument, keep
from tfdbg_cli.ui.screen.stack import ViewStack
from tfdbg_cli.ui.screen.view import View

Keys = Iterator[list[Input]]
LATER = 60.0


def soon() -> float:
    return time.monotonic() + LATER


def numbered(count: int) -> LazyDocument:
    return LazyDocument(count, lambda number: line(f"line {number}"))


def test_a_short_document_is_kept_whole() -> None:
    kept = keep(numbered(300), 0, 20, soon())
    assert [made.text for made in kept] == [f"line {i}" for i in range(300)]


def test_of_a_long_one_the_lines_around_the_page_are_kept() -> None:
    asked: list[int] = []

    def make(number: int) -> Line:
        asked.append(number)
        return line(f"line {number}")

    kept = keep(LazyDocument(10_000_000, make), 5_000_000, 20, soon())
    assert isinstance(kept, KeptDocument)
    assert len(asked) < 3000
    texts = [made.text for made in kept]
    at = kept.place(5_000_000)
    assert texts[at : at + 2] == ["line 5000000", "line 5000001"]
    above = 5_000_000 - int(texts[1].split()[1])
    first = int(texts[1].split()[1])
    assert texts[0] == f"… {first} more lines above, not kept after their run"
    assert above >= 500
    last = int(texts[-2].split()[1])
    assert texts[-1].startswith(f"… {10_000_000 - last - 1} more lines below")
    assert kept.place(0) == 0
    assert kept.place(9_999_999) == kept.line_count - 1


def test_when_time_is_up_the_visible_page_is_kept_at_least() -> None:
    kept = keep(numbered(1000), 500, 20, time.monotonic() - 1)
    texts = [made.text for made in kept]
    assert texts[1:-1] == [f"line {i}" for i in range(500, 520)]


def test_elements_are_found_in_what_was_kept() -> None:
    kept = keep(TableDocument(100_000), 50_000, 20, soon())
    assert isinstance(kept, KeptDocument)
    at = kept.locate([50_010, 1])
    assert kept.lines(at, at + 1)[0].text.startswith("[50010]")
    assert kept.status(at, at + 2) == "[50010,0]-[50011,1]"
    with pytest.raises(UserError, match="was not kept"):
        kept.locate([3, 0])
    assert keep(TextDocument(["x"]), 0, 1, soon()).line_count == 1


def test_text_is_not_copied() -> None:
    document = TextDocument(["x"])
    assert keep(document, 0, 10, soon()) is document


def test_a_screen_that_cannot_be_kept_says_so() -> None:
    def make(number: int) -> Line:
        raise DumpError("The file a_0 is damaged.")

    views = ViewStack()
    views.begin_stop("run #1")
    views.push(View(LazyDocument(50, make), "lt", "t", "end"))
    views.push(View(numbered(50), "b", "t", "end"))
    views.end_stop()
    views.move(-1)
    view = views.current
    assert view is not None
    assert "The file a_0 is damaged." in view.visible()[0].text


def test_many_long_screens_hold_the_program_up_for_a_moment_only() -> None:
    made: list[int] = []

    def make(number: int) -> Line:
        time.sleep(0.001)
        made.append(number)
        return line(f"line {number}")

    views = ViewStack()
    views.begin_stop("run #1")
    for _ in range(5):
        views.push(View(LazyDocument(100_000, make), "lt", "t", "end", (80, 20)))
    made.clear()
    views.end_stop(0.1)
    assert len(made) < 1000  # of half a million, of which two thousand each are kept at most


def stop_of(dump: MemoryDump, number: int) -> CommandService:
    return stop_over(dump, title=f"run-end: run #{number}", initial_command="lt")


def test_the_tensors_of_a_run_are_let_go_and_its_screens_stay_readable() -> None:
    first, second = MemoryDump(), MemoryDump()
    first.add("big", 0, np.arange(4000.0).reshape(1000, 4))
    second.add("small", 0, np.zeros(3))
    gone = weakref.ref(first)
    stops = [stop_of(first, 1), stop_of(second, 2)]
    dumps = [first]
    page: list[str] = []
    del first

    def at_first(screen: Player) -> Keys:
        yield enter("pt -a big:0")
        yield enter("@[500,0]")
        yield enter("/2.004e")
        while "Searching" in screen.text:
            yield []
        page.extend(screen.page[1:])
        yield enter("eval 1+1")
        yield enter("prev")
        yield enter("exit --detach")

    def at_second(screen: Player) -> Keys:
        stops[0].context.dump = None
        stops.clear()
        dumps.clear()
        gc.collect()
        assert gone() is None
        assert "small:0" in screen.text
        yield ["meta left"]
        assert "(run #1, earlier)" in screen.rows[0]
        assert screen.page[1:] == page  # as it was left
        assert screen.attribute("2.004e") == "match-current"
        assert "[494,0]-[512,3]" in screen.rows[-2]
        yield enter("@[700,0]")
        assert "2.800e+03" in screen.text
        yield enter("&2.8..e")
        while "Filtering" in screen.text:
            yield []
        assert "more lines" not in screen.text
        yield enter("&")
        yield ["meta right"]
        assert "earlier" not in screen.rows[0]

    play_stops((stops[0], at_first), (stops[1], at_second))  # type: ignore[arg-type]


def test_links_of_an_earlier_screen_run_at_this_stop() -> None:
    first, second = SmallService("run-end: run #1", "end"), SmallService("run-end: run #2", "end")

    def at_first(screen: Player) -> Keys:
        yield enter("numbers 300")
        yield ["page down", "tab", "tab"]
        yield enter("run")

    def at_second(screen: Player) -> Keys:
        yield ["meta left"]
        assert screen.rows[0].startswith("--- numbers 300 (run #1, earlier) ---")
        assert screen.attribute("second") == "link-focus"  # as it was left
        yield ["enter"]
        assert second.ran[-1] == "pick 18 2"
        assert "earlier" not in screen.rows[0]

    play_stops((first, at_first), (second, at_second))


def test_a_long_title_leaves_room_for_what_tells_it_is_old() -> None:
    first, second = SmallService("run-end: run #1: " + "日本 " * 40), SmallService("b")

    def at_first(screen: Player) -> Keys:
        assert screen.rows[0].rstrip("-").rstrip().endswith("…")
        yield enter("run")

    def at_second(screen: Player) -> Keys:
        yield ["meta left"]
        assert screen.rows[0].rstrip("-").rstrip().endswith("… (run #1, earlier)")

    play_stops((first, at_first), (second, at_second))


def test_the_help_of_the_keys_is_there_once() -> None:
    def script(screen: Player) -> Keys:
        yield enter("numbers 300")
        yield enter("wide")
        yield ["meta left", "f1"]
        assert screen.rows[1].endswith("| 3/4 | (keys)")
        yield ["f1", "f1"]
        assert screen.rows[1].endswith("| 3/4 | (keys)")
        yield ["meta right"]  # help takes nothing away
        assert screen.rows[1].endswith("| 4/4 | wide")
        yield ["f1"]
        assert screen.rows[1].endswith("| 4/4 | (keys)")
        yield ["meta left"]
        assert screen.rows[1].endswith("| 3/4 | wide")
        yield ["meta left", "meta left", "f1"]
        assert screen.rows[1].endswith("| 2/4 | (keys)")
        yield enter("pick 1 1")
        assert screen.rows[1].endswith("| 3/3 | pick 1 1")

    play(script)


def test_each_screen_keeps_its_own_search_and_focus() -> None:
    def script(screen: Player) -> Keys:
        yield enter("numbers 300")
        yield enter("/line 70 ")
        yield enter("numbers 200")
        yield ["esc", "n"]
        assert "no search on this screen yet" in screen.text
        yield ["tab", "meta left", "n"]
        assert screen.attribute("line 70 ") == "match-current"
        assert "link-focus" not in {a for row in screen.canvas.content() for a, _, _ in row}
        yield ["meta right"]
        assert screen.attribute("first") == "link-focus"

    play(script)


def test_the_oldest_screens_are_dropped() -> None:
    views = ViewStack(limit=3)
    views.begin_stop("")
    for name in "abcd":
        views.push(View(TextDocument([name]), name, "t", "end"))
    assert (len(views), views.position) == (3, 3)
    views.show(View(TextDocument(["keys"]), "(keys)", "t", "end"))
    assert (len(views), views.position) == (3, 3)
    assert views.current is not None and views.current.command == "(keys)"
    assert views.mark(views.current) == ""
    views.begin_stop("run #2")
    assert views.mark(views.current) == "earlier"
