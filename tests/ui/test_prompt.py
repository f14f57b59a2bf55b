"""The prompt of the full screen: editing, history, completion, paste."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ui_player import Input, Player, enter, play
from ui_service import SmallService

from tfdbg_cli.ui.screen.input.editor import LIMIT

Keys = Iterator[list[Input]]


@pytest.mark.parametrize(
    ("typed", "keys", "text", "column"),
    [
        ("abc", ["left", "left", "X"], "aXbc", 2),
        ("abc", ["ctrl a", "X"], "Xabc", 1),
        ("abc", ["home", "right", "delete"], "ac", 1),
        ("abc", ["ctrl a", "ctrl e", "backspace"], "ab", 2),
        ("pt a/b:0 -s", ["ctrl w"], "pt a/b:0", 9),
        ("pt a/b:0 -s", ["ctrl w", "ctrl w", "ctrl y"], "pt a/b:0", 9),
        ("pt a/b:0", ["meta b", "meta b", "ctrl k"], "pt a/b", 6),
        ("pt a/b", ["ctrl u", "x", "ctrl y"], "xpt a/b", 7),
        ("pt ab", ["ctrl a", "meta d", "meta f"], " ab", 3),
        ("pt ab", ["ctrl a", "ctrl right", "ctrl left", "ctrl d"], "t ab", 0),
        ("日本", ["left", "x"], "日x本", 3),
    ],
)
def test_editing(typed: str, keys: list[str], text: str, column: int) -> None:
    def script(screen: Player) -> Keys:
        yield [*typed, *keys]
        assert screen.rows[-1] == f"tfdbg> {text}".rstrip()
        assert screen.cursor == (7 + column, 23)

    play(script)


def test_a_long_line_scrolls_with_the_cursor() -> None:
    def script(screen: Player) -> Keys:
        yield [*("0123456789" * 10)]
        assert screen.rows[-1].endswith("89")
        assert screen.cursor == (79, 23)
        yield ["ctrl a"]
        assert screen.rows[-1].startswith("tfdbg> 0123456789")
        assert screen.cursor == (7, 23)

    play(script)


def test_history_by_prefix() -> None:
    service = SmallService()
    for text in ("numbers 1", "pick 1 1", "numbers 2", "wide", "pick 1 1"):
        service.history.add(text)

    def script(screen: Player) -> Keys:
        yield ["up"]
        assert screen.rows[-1] == "tfdbg> pick 1 1"
        yield ["up", "up", "up", "up", "up"]
        assert screen.rows[-1] == "tfdbg> numbers 1"
        yield ["down"] * 9
        assert screen.rows[-1] == "tfdbg>"
        yield [*"nu", "up"]
        assert screen.rows[-1] == "tfdbg> numbers 2"
        yield ["up"]
        assert screen.rows[-1] == "tfdbg> numbers 1"
        yield ["down", "down"]
        assert screen.rows[-1] == "tfdbg> nu"
        yield ["ctrl c", "2", "ctrl r"]
        assert screen.rows[-1] == "tfdbg> numbers 2"
        yield ["ctrl r"]
        assert "No other command" in screen.text

    play(script, service)


def test_typed_commands_are_remembered_and_links_are_not() -> None:
    service = SmallService()

    def script(screen: Player) -> Keys:
        yield enter("  numbers 5  ")
        yield ["tab", "enter"]
        yield enter("   ")
        yield enter("/line")

    play(script, service)
    assert service.ran[:3] == ["info", "numbers 5", "pick 0 1"]
    assert service.history.items == ["numbers 5", "/line"]


def test_completion_of_one_candidate() -> None:
    def script(screen: Player) -> Keys:
        yield [*"num", "tab"]
        assert screen.rows[-1] == "tfdbg> numbers"
        assert screen.cursor == (7 + len("numbers "), 23)
        yield ["ctrl c", *"pick lo", "tab"]
        assert screen.rows[-1] == "tfdbg> pick loss:0"
        assert screen.cursor == (7 + len("pick loss:0"), 23)
        yield ["ctrl c", *"pick zz", "tab"]
        assert "Nothing completes this" in screen.text

    play(script)


def test_the_list_of_candidates() -> None:
    def script(screen: Player) -> Keys:
        before = screen.rows
        yield [*"pick hid", "tab"]
        assert screen.rows[-1] == "tfdbg> pick hidden/"
        assert "hidden/Relu:0" in screen.rows[-4]
        assert "a tensor" in screen.rows[-4]
        yield ["tab"]
        assert screen.rows[-1] == "tfdbg> pick hidden/Relu:0"
        assert screen.attribute("hidden/Relu:0 ") == "popup-focus"
        yield ["tab", "tab", "tab"]
        assert screen.rows[-1] == "tfdbg> pick hidden/Relu:0"
        yield ["shift tab"]
        assert screen.rows[-1] == "tfdbg> pick hidden/weights/read:0"
        yield ["esc"]  # closes the list, and leaves the prompt only the next time
        assert "a tensor" not in screen.text
        assert screen.cursor is not None
        yield ["ctrl c"]
        assert screen.rows == before

    play(script)


def test_typing_in_the_middle_of_the_line_completes_the_word_there() -> None:
    def script(screen: Player) -> Keys:
        yield [*"pick lo -s", "left", "left", "left", "tab"]
        assert screen.rows[-1] == "tfdbg> pick loss:0 -s"

    play(script)


def test_candidates_are_chosen_by_mouse() -> None:
    def script(screen: Player) -> Keys:
        yield [*"pick hid", "tab"]
        yield screen.click("hidden/Relu:1")
        assert screen.rows[-1] == "tfdbg> pick hidden/Relu:1"
        assert "a tensor" not in screen.text

    play(script)


def test_many_candidates_scroll_with_the_choice() -> None:
    def script(screen: Player) -> Keys:
        yield ["x", "backspace", "tab"]  # empty: Tab is for links
        yield [" ", "ctrl a", "tab"]  # before the blank: all commands
        count = len(SmallService().complete("", 0).candidates)
        assert f"1-2 of {count}" in screen.text
        yield ["shift tab"]
        assert screen.rows[-1] == "tfdbg> wide"
        assert screen.attribute(" wide") == "popup-focus"

    play(script, size=(50, 12))


def test_a_paste_becomes_one_line_and_runs_nothing() -> None:
    service = SmallService()

    def script(screen: Player) -> Keys:
        yield ["begin paste", *"numbers 5", "enter", *"exit"]
        yield ["enter", "tab", "end paste"]  # a paste may come in several reads
        assert screen.rows[-1] == "tfdbg> numbers 5 exit"
        assert service.ran == ["info"]
        yield ["ctrl c", "begin paste", *("x" * 2 * LIMIT), "end paste"]
        yield enter("")
        assert len(service.ran[-1]) == LIMIT
        yield ["begin paste", "j", "ctrl c", "k"]  # a paste that never ends
        assert screen.rows[-1] == "tfdbg> k"

    play(script, service)


def test_ctrl_c_clears_and_never_kills() -> None:
    def script(screen: Player) -> Keys:
        yield [*"abc", "ctrl c"]
        assert screen.rows[-1] == "tfdbg>"
        yield ["ctrl c", "ctrl c", *"exit", "enter", "ctrl c"]
        assert "Leave" not in screen.text

    play(script)


def test_typing_narrows_the_list_and_enter_takes_the_chosen_one() -> None:
    service = SmallService()

    def script(screen: Player) -> Keys:
        yield [*"pick h", "tab"]
        assert screen.text.count("a tensor") == 3
        yield [*"R"]
        assert screen.text.count("a tensor") == 2
        yield ["backspace"]
        assert screen.text.count("a tensor") == 3
        yield ["down", "down"]  # in a list, the arrows move in it
        assert screen.attribute("hidden/Relu:1 ") == "popup-focus"
        yield ["enter"]  # takes it, and runs nothing
        assert screen.rows[-1] == "tfdbg> pick hidden/Relu:1"
        assert "a tensor" not in screen.text
        assert service.ran == ["info"]
        yield ["enter"]
        assert service.ran[-1] == "pick hidden/Relu:1"
        yield [*"pick h", "tab", *"w"]
        assert screen.text.count("a tensor") == 1
        yield ["tab"]  # the only one left
        assert screen.rows[-1] == "tfdbg> pick hidden/weights/read:0"
        assert "a tensor" not in screen.text
        yield ["ctrl u", *"pick h", "tab", *"zz"]
        assert "a tensor" not in screen.text
        assert screen.rows[-1] == "tfdbg> pick hidden/zz"
        yield ["ctrl u", *"pick h", "tab", "enter"]  # none chosen: the line is run
        assert service.ran[-1] == "pick hidden/"
        yield [*"pick h", "tab", "down", ":", *"1"]  # typing takes the chosen one, too
        assert screen.rows[-1] == "tfdbg> pick hidden/Relu:0:1"
        assert "a tensor" not in screen.text

    play(script, service)


def test_the_wheel_over_the_list_moves_in_it() -> None:
    def script(screen: Player) -> Keys:
        yield enter("numbers 300")
        yield [*"pick h", "tab"]
        column, row = screen.place("hidden/Relu:1")
        yield [("mouse press", 5, column, row), ("mouse press", 5, column, row)]
        assert screen.rows[-1] == "tfdbg> pick hidden/Relu:1"
        assert screen.rows[3].startswith("line 0 ")
        yield [("mouse press", 5, column, row)] * 5  # not beyond the end
        assert screen.rows[-1] == "tfdbg> pick hidden/weights/read:0"
        yield [("mouse press", 5, 3, 4)]
        assert screen.rows[3].startswith("line 3 ")
        yield ["page up", "page up"]
        assert screen.rows[-1] == "tfdbg> pick hidden/Relu:0"

    play(script)


def test_the_history_search_says_which_one_of_how_many() -> None:
    service = SmallService()
    for text in ("numbers 1", "pick 1 1", "numbers 2", "wide"):
        service.history.add(text)

    def script(screen: Player) -> Keys:
        yield [*"1", "ctrl r"]
        assert screen.rows[-1] == "tfdbg> pick 1 1"
        assert '1 of 2 former commands that contain "1".' in screen.text
        yield ["ctrl r"]
        assert screen.rows[-1] == "tfdbg> numbers 1"
        assert '2 of 2 former commands that contain "1".' in screen.text
        yield ["ctrl r"]
        assert "No other command" in screen.text
        yield ["ctrl c", "ctrl r"]
        assert "1 of 4 former commands." in screen.text

    play(script, service)


def test_the_history_search_goes_on_as_one_types() -> None:
    service = SmallService()
    for text in ("numbers 1", "pick 1 1", "numbers 2", "wide"):
        service.history.add(text)

    def script(screen: Player) -> Keys:
        yield [*"dra", "ctrl r"]
        assert screen.rows[-1] == "tfdbg> dra"
        yield ["ctrl u", *"ft", "ctrl u", "ctrl r"]
        assert screen.rows[-1] == "tfdbg> wide"
        yield ["n"]
        assert screen.rows[-1] == "tfdbg> numbers 2"
        assert '1 of 2 former commands that contain "n".' in screen.text
        yield [*"umbers 1"]
        assert screen.rows[-1] == "tfdbg> numbers 1"
        assert '1 of 1 former commands that contain "numbers 1".' in screen.text
        yield ["x"]
        assert screen.rows[-1] == "tfdbg> numbers 1"
        assert "No command contains this." in screen.text
        yield ["backspace"] * 2
        assert '2 of 2 former commands that contain "numbers ".' in screen.text
        assert screen.rows[-1] == "tfdbg> numbers 1"
        yield ["backspace"] * 8
        assert "4 of 4 former commands." in screen.text
        yield ["esc"]
        assert screen.rows[-1] == "tfdbg>"
        # Any other key takes the line as it is.
        yield ["ctrl r", *"ck", "left", "left", "2", "end"]
        assert screen.rows[-1] == "tfdbg> pick 12 1"
        yield ["ctrl u", *"keep", "ctrl r", "ctrl g", "!"]
        assert screen.rows[-1] == "tfdbg> keep!"
        yield ["ctrl u", "ctrl r", *"s 2", "enter"]
        assert service.ran[-1] == "numbers 2"
        yield ["x"]
        assert screen.rows[-1] == "tfdbg> x"

    play(script, service)


@pytest.mark.parametrize("size", [(20, 5), (50, 12), (300, 100), (3, 3), (1, 1)])
def test_resize_amid_a_list_and_a_question(size: tuple[int, int]) -> None:
    service = SmallService()

    def script(screen: Player) -> Keys:
        yield [*"pick 日", "backspace", *"h", "tab", "down"]
        screen.size = size
        yield ["window resize"]  # the player asserts that each row is as wide as the screen
        yield ["down"]
        screen.size = (80, 24)
        yield ["window resize"]
        assert screen.attribute("hidden/Relu:1 ") == "popup-focus"
        yield ["enter", "ctrl u", *"exit", "enter"]
        screen.size = size
        yield ["window resize"]
        yield ["x", "backspace"]
        screen.size = (80, 24)
        yield ["window resize"]
        assert "Leave the debugger?" in screen.text
        yield screen.click("[s] stay")
        assert "Leave" not in screen.text

    play(script, service)
