"""The full screen: searches, and the screens of before."""

from __future__ import annotations

from collections.abc import Iterator

from ui_player import Input, Player, enter, play, play_stops
from ui_service import SmallService

Keys = Iterator[list[Input]]


def test_screens_are_gone_back_to_as_they_were_left() -> None:
    def script(screen: Player) -> Keys:
        yield enter("numbers 300")
        yield ["page down", "page down"]
        yield enter("/line 5[0-9]")
        before = screen.page[1:]
        yield enter("wide")
        yield ["meta left"]
        assert screen.page[1:] == before
        yield enter("next")
        assert screen.rows[1].endswith("3/3 | wide")
        yield enter("next")
        assert "This is the last screen" in screen.text
        yield ["meta left", "meta left", "meta left"]
        assert "This is the first screen" in screen.text
        assert screen.rows[1].endswith("1/3 | info")
        yield enter("pick 1 1")  # what was behind is gone
        assert screen.rows[1].endswith("2/2 | pick 1 1")

    play(script)


def test_screens_of_earlier_stops_keep_their_title() -> None:
    first, second = SmallService(), SmallService("run-end: run #1", "end")

    def at_start(screen: Player) -> Keys:
        yield enter("numbers 300")
        yield ["page down"]
        yield enter("run")

    def at_end(screen: Player) -> Keys:
        assert screen.rows[0].startswith("--- run-end: run #1 ---")
        yield ["meta left"]
        assert screen.rows[3].startswith("line 18 ")
        yield ["meta left"]
        # Its links would be looked up in the tensors of this stop.
        assert screen.rows[0].startswith("--- run-start: run #1 (run #1, earlier) ---")
        assert screen.attribute("run-start") == "title-start"

    play_stops((first, at_start), (second, at_end))


def test_search_forwards_backwards_and_around() -> None:
    def script(screen: Player) -> Keys:
        yield enter("numbers 300")
        yield enter("/line 1?50 ")
        assert screen.attribute("line 50 ") == "match-current"
        assert "line 51, matching line 1 of 2." in screen.text
        yield ["esc", "n"]
        assert screen.attribute("line 150 ") == "match-current"
        assert "matching line 2 of 2" in screen.text
        yield ["n"]
        assert screen.attribute("line 50 ") == "match-current"
        assert "the search went on at the top" in screen.text
        yield ["N"]
        assert screen.attribute("line 150 ") == "match-current"
        assert "the search went on at the bottom" in screen.text
        yield ["N"]
        assert "matching line 1 of 2" in screen.text
        yield ["/", *"150", "enter"]
        assert screen.attribute("150") == "match-current"
        yield enter("/")
        assert "matching line 1 of 1" in screen.text

    play(script)


def test_a_visible_match_does_not_scroll() -> None:
    def script(screen: Player) -> Keys:
        yield enter("numbers 300")
        yield enter("/line 7 ")
        assert screen.rows[3].startswith("line 0 ")
        assert screen.attribute("line 7 ") == "match-current"
        yield enter("/line")
        assert screen.attribute("line") == "match-current"
        yield enter("/")
        assert screen.rows[3].startswith("line 0 ")

    play(script)


def test_a_match_far_to_the_right_is_scrolled_to() -> None:
    def script(screen: Player) -> Keys:
        yield enter("wide")
        yield enter("/END")
        assert screen.attribute("END") == "match-current"

    play(script)


def test_searches_that_find_nothing_say_so() -> None:
    def script(screen: Player) -> Keys:
        yield enter("/")
        assert "There was no search on this screen yet" in screen.text
        yield enter("/nowhere")
        assert 'Nothing matches "nowhere".' in screen.text
        yield enter("/[a")
        assert '"[a" is not a regular expression' in screen.text

    play(script)
