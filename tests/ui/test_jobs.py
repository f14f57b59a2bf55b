"""Search and filter: over Documents of any length, in slices, and to be given up."""

from __future__ import annotations

import re
import time

from ui_player import Input, Player, enter, play
from ui_service import SmallService

from tfdbg_cli.commands.reply import Reply, UiRequest
from tfdbg_cli.common.documents import LazyDocument, line
from tfdbg_cli.ui.screen.jobs import FilteredDocument, Hit, find_steps, matching_steps

Keys = list[Input]


class LongService(SmallService):
    """Documents of many lines, slow ones too."""

    def run(self, text: str, width: int = 80) -> Reply:
        if text.startswith("&"):
            return Reply(text, request=UiRequest("filter", text[1:]))
        return super().run(text, width)

    def do_long(self, text: str, rest: str) -> Reply:
        """that many lines"""
        return Reply(text, LazyDocument(int(rest), lambda number: line(f"line {number}")))

    def do_lazy(self, text: str, rest: str) -> Reply:
        """a hundred thousand lines that take their time"""

        def make(number: int):
            time.sleep(0.0002)
            return line(f"line {number}")

        return Reply(text, LazyDocument(100_000, make))


def ends(steps):
    *shares, last = steps
    assert shares == sorted(shares)
    assert all(0 <= share <= 1 for share in shares)
    return last


def test_a_search_is_the_same_in_slices():
    document = LazyDocument(5000, lambda number: line(f"line {number}"))
    for pattern, start, direction, expected in [
        ("line 4321$", 0, 1, Hit(4321, False)),
        ("line 7$", 100, 1, Hit(7, True)),
        ("line 7$", 100, -1, Hit(7, False)),
        ("line 4999$", 100, -1, Hit(4999, True)),
        ("line 100$", 100, 1, Hit(100, False)),
        ("line 100$", 100, -1, Hit(100, False)),
        ("nothing", 100, 1, Hit(None, True)),
        ("nothing", 100, -1, Hit(None, True)),
    ]:
        assert ends(find_steps(document, re.compile(pattern), start, direction)) == expected


def test_filtered_lines():
    document = LazyDocument(5000, lambda number: line(f"line {number}"))
    shown = ends(matching_steps(document, re.compile("9$")))
    assert isinstance(shown, FilteredDocument)
    assert shown.line_count == 500
    assert [made.text for made in shown.lines(498, 600)] == ["line 4989", "line 4999"]
    assert shown.number(3) == 39
    assert shown.place(40) == 4
    assert shown.status(0, 1) == "&9$: 500 of 5000 lines"
    assert shown.lines(600, 700) == []


def test_a_filter_narrows_and_comes_off_again_at_the_same_place():
    def script(screen: Player):
        yield enter("long 5000")
        yield enter("&99$")
        while "Filtering:" in screen.text:  # a busy machine takes longer
            yield []
        assert "line 99" in screen.text
        assert "line 98" not in screen.text
        assert "&99$: 50 of 5000 lines" in screen.text
        yield ["esc", "G"]
        assert "line 4999" in screen.text
        yield enter(":/99")
        yield ["esc", "&", "9", "8", "$", "enter"]
        while "Filtering:" in screen.text:
            yield []
        assert "line 4998" in screen.text
        assert "line 4999" not in screen.text
        yield enter("&nothing")
        while "Filtering:" in screen.text:
            yield []
        assert 'Nothing matches "nothing"' in screen.text
        assert "line 4998" in screen.text
        top = screen.page[0]
        yield ["esc", "&", "enter"]
        assert screen.page[0] == top
        yield enter("&[")
        assert "not a regular expression" in screen.text

    play(script, LongService())


def test_a_long_search_leaves_the_keys_alone_and_can_be_given_up():
    def script(screen: Player):
        yield enter("lazy")
        yield enter("/line 99999$")
        assert "Searching: " in screen.text
        yield ["esc"]
        assert "Cancelled" in screen.text
        yield ["esc", "j", "j"]
        assert screen.page[0] == "line 2"
        yield enter(":/line 99998$")
        yield ["esc"]
        yield ["esc"]

    began = time.monotonic()
    play(script, LongService())
    assert time.monotonic() - began < 15  # all of it would take twenty seconds, twice


def test_a_long_search_ends_while_other_keys_are_pressed(monkeypatch):
    # Once it is found, the matches in all lines are counted, which would take thirty seconds.
    monkeypatch.setattr("tfdbg_cli.ui.screen.view._COUNT_SECONDS", 0.1)

    def script(screen: Player):
        yield enter("lazy")
        yield enter("/line 4000$")
        yield ["esc"] if "line 4000" in screen.text else ["page down"]
        while "line 4000" not in screen.text:
            yield []
        assert screen.attribute("line 4000") == "match-current"

    play(script, LongService())
