"""The full screen: layout, scrolling, links, menu, search, screens, questions, mouse."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ui_player import Input, PlayedTerminal, Player, enter, play, play_stops
from ui_service import SmallService

from tfdbg_cli.commands.reply import Leave, Reply, Toast
from tfdbg_cli.documents import LazyDocument, Line, line
from tfdbg_cli.errors import DumpError
from tfdbg_cli.ui.base import CommandQueue
from tfdbg_cli.ui.keys import KEYS, Where
from tfdbg_cli.ui.screen import ScreenUI
from tfdbg_cli.ui.screen.app import App
from tfdbg_cli.ui.screen.controls import Controls
from tfdbg_cli.ui.screen.stack import ViewStack

Keys = Iterator[list[Input]]


@pytest.mark.parametrize("size", [(80, 24), (160, 50), (50, 12)])
def test_the_parts_of_the_screen_are_where_they_belong(size: tuple[int, int]) -> None:
    def script(screen: Player) -> Keys:
        yield enter("numbers 300")
        rows = screen.rows
        assert rows[0].startswith("--- numbers 300 ---")
        assert rows[0].endswith("---")
        assert rows[1] == "| <-- --> | 2/2 | numbers 300"
        assert rows[2].startswith("| numbers | run | dead |")
        assert rows[3].startswith("line 0 first second")
        height = size[1] - 5
        assert f"1-{height}/300" in rows[-2]
        assert "0.00%" in rows[-2]
        assert rows[-1] == "tfdbg>"
        assert screen.cursor == (7, size[1] - 1)
        assert screen.attribute("numbers 300") == "title-start"
        assert screen.attribute("dead") == "menu-disabled"

    play(script, size=size)


@pytest.mark.parametrize("rows", range(1, 12))
@pytest.mark.parametrize("cols", [1, 2, 7, 30])
def test_any_size_is_drawn(cols: int, rows: int) -> None:
    def script(screen: Player) -> Keys:
        yield enter("wide")
        yield enter("numbers 300")
        yield enter("exit")
        yield ["esc", *"pi", "tab"]
        yield ["ctrl c", "page down"]

    play(script, size=(cols, rows))


def test_the_title_tells_the_kind_of_stop_and_alerts() -> None:
    def script(screen: Player) -> Keys:
        assert screen.attribute("run-end") == "title-end"
        yield enter("alert")
        assert screen.attribute("NaN found") == "title-error"
        yield enter("prev")
        assert screen.attribute("run-end") == "title-end"

    play(script, SmallService("run-end: run #1", "end"))


def test_commands_get_the_width_of_the_page() -> None:
    service = SmallService()

    def script(screen: Player) -> Keys:
        yield enter("say hi")

    play(script, service, size=(100, 24))
    assert service.widths[:2] == [99, 99]


def test_scrolling_by_keys() -> None:
    def top(screen: Player) -> str:
        return screen.rows[3].split(" first")[0]

    def script(screen: Player) -> Keys:
        yield enter("numbers 300")  # 19 rows of page
        yield ["page down"]
        assert top(screen) == "line 18"
        yield ["shift down", "shift down", "shift up"]
        assert top(screen) == "line 19"
        yield ["page up"]
        assert top(screen) == "line 1"
        yield ["end"]
        assert top(screen) == "line 281"
        assert "100.00%" in screen.rows[-2]
        yield ["page down"]
        assert top(screen) == "line 281"
        yield ["home"]
        assert top(screen) == "line 0"
        yield ["page up"]
        assert top(screen) == "line 0"
        yield ["x", "ctrl end"]  # with something typed, too
        assert top(screen) == "line 281"
        assert screen.rows[-1] == "tfdbg> x"

    play(script)


def test_letters_scroll_in_page_mode_and_type_at_the_prompt() -> None:
    def script(screen: Player) -> Keys:
        yield enter("numbers 300")
        yield ["esc"]
        assert screen.cursor is None
        assert "PAGE" in screen.rows[-2]
        yield ["j", "j", "k", " ", "d", "u"]
        assert screen.rows[3].startswith("line 19 ")
        yield ["G"]
        assert screen.rows[3].startswith("line 281 ")
        yield ["g"]
        assert screen.rows[3].startswith("line 0 ")
        yield ["z"]
        assert '"z" does nothing on the page' in screen.text
        yield [":", "j"]
        assert screen.rows[-1] == "tfdbg> j"
        assert screen.cursor == (8, 23)

    play(script)


def test_the_initial_line_is_on_top() -> None:
    def script(screen: Player) -> Keys:
        yield enter("at 40")
        assert screen.page[0] == "row 40"
        yield enter("at 95")  # the last lines fill the page
        assert screen.page[-1] == "row 99"

    play(script)


def test_sideways_scrolling_shows_the_end_of_a_long_line() -> None:
    def script(screen: Player) -> Keys:
        yield enter("wide")
        assert screen.page[2].endswith(">")
        yield ["right"] * 20
        assert screen.page[2].endswith("END")
        assert "column" in screen.rows[-2]
        yield ["left"] * 20
        assert screen.page[2].startswith("abcdefghij")

    play(script)


@pytest.mark.parametrize("width", range(3, 40))
def test_wide_characters_never_break_a_row(width: int) -> None:
    # The player asserts that each row is exactly as wide as the screen.
    def script(screen: Player) -> Keys:
        yield enter("wide")
        yield ["esc", "l"]
        yield ["l", "l"]
        yield ["h"]

    play(script, size=(width, 12))


def test_wide_characters_are_cut_at_columns() -> None:
    def script(screen: Player) -> Keys:
        yield enter("wide")
        yield ["esc", "l"]
        # half of 21 columns: column 10 begins with the sixth character
        assert screen.page[0].startswith("ンソル|日本")
        assert screen.page[1].startswith("d")
        assert screen.attribute("本本") == "inf"

    play(script, size=(21, 12))


def test_links_by_keyboard() -> None:
    service = SmallService()

    def script(screen: Player) -> Keys:
        yield enter("numbers 300")
        assert screen.attribute("first") == "link+link"
        assert screen.attribute("second") == "op_type+link"
        yield ["tab"]
        assert screen.attribute("first") == "link-focus"
        yield ["tab", "tab", "shift tab"]
        assert screen.attribute("second") == "link-focus"
        yield ["tab", "tab", "enter"]
        assert screen.page[0] == "picked 1 2"
        yield ["meta left"]
        assert service.ran[-1] == "pick 1 2"
        yield ["page down", "tab", "enter"]  # the focus is no longer visible: the first one is
        assert service.ran[-1] == "pick 18 1"

    play(script, service)


def test_tab_goes_on_beyond_the_page() -> None:
    service = SmallService()

    def script(screen: Player) -> Keys:
        yield enter("numbers 300")
        yield ["tab"] * 39  # 19 lines of page, two links each, and one more
        yield ["enter"]
        assert service.ran[-1] == "pick 19 1"
        yield enter("numbers 1")
        yield ["tab", "tab", "tab"]
        assert "No more links" in screen.text

    play(script, service)


def test_links_menu_and_arrows_by_mouse() -> None:
    service = SmallService()

    def script(screen: Player) -> Keys:
        yield screen.click("numbers |")
        assert service.ran[-1] == "numbers 100"
        column, row = screen.place("line 7")
        yield [("mouse press", 1, column, row)]  # beside the link
        assert service.ran[-1] == "numbers 100"
        yield [("mouse press", 1, column + len("line 7 first sec"), row)]
        assert service.ran[-1] == "pick 7 2"
        yield screen.click("<--")
        assert screen.rows[1].endswith("2/3 | numbers 100")
        yield screen.click("dead")
        assert service.ran[-1] == "pick 7 2"
        yield screen.click("-->")
        assert screen.page[0] == "picked 7 2"
        yield screen.click("-->")  # leads nowhere: no link
        assert screen.page[0] == "picked 7 2"

    play(script, service)


def test_wheel_and_scroll_bar() -> None:
    def script(screen: Player) -> Keys:
        yield enter("numbers 100")
        yield [("mouse press", 5, 10, 10)]
        assert screen.rows[3].startswith("line 3 ")
        yield [("mouse press", 4, 10, 10), ("mouse press", 4, 10, 10)]
        assert screen.rows[3].startswith("line 0 ")
        yield [("mouse press", 1, 79, 20)]  # below the thumb: a page
        assert screen.rows[3].startswith("line 18 ")
        column, row = screen.place("█")
        assert column == 79
        yield [("mouse press", 1, 79, row), ("mouse drag", 1, 79, 21)]
        assert screen.rows[3].startswith("line 81 ")
        yield [("mouse release", 0, 79, 21), ("mouse drag", 1, 79, 3)]
        assert screen.rows[3].startswith("line 81 ")
        yield [("mouse press", 1, 79, 3)]  # above it
        assert screen.rows[3].startswith("line 63 ")

    play(script)


def test_the_menu_by_keyboard() -> None:
    service = SmallService()

    def script(screen: Player) -> Keys:
        yield ["f10"]
        assert screen.attribute("numbers") == "menu-focus"
        yield ["right", "right", "left", "right"]  # the disabled entry is passed over
        assert screen.attribute("numbers") == "menu-focus" or "run" in screen.rows[2]
        yield ["esc"]
        assert screen.attribute("numbers") == "menu+link"
        yield ["f10", "enter"]
        assert service.ran[-1] == "numbers 100"

    play(script, service)


def test_mouse_on_and_off() -> None:
    def script(screen: Player) -> Keys:
        assert screen.mouse
        assert "Mouse: ON" in screen.rows[-2]
        yield enter("mouse off")
        assert not screen.mouse
        assert "Mouse mode: off" in screen.text
        yield ["home"]
        assert "Mouse: OFF" in screen.rows[-2]
        yield enter("mouse")
        assert "Mouse mode: off" in screen.text
        yield enter("mouse sideways")
        assert "is no mouse mode" in screen.text
        assert not screen.mouse
        yield enter("set mouse_mode on")
        assert screen.mouse
        assert "| 1/1 |" in screen.rows[1]  # none of these made a screen

    play(script)


def test_settings_decide_whether_the_mouse_is_taken() -> None:
    service = SmallService()
    service.settings.override("mouse_mode", False)

    def script(screen: Player) -> Keys:
        assert not screen.mouse
        yield []

    play(script, service)


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
        assert '"[a" is no regular expression' in screen.text

    play(script)


def test_an_element_is_scrolled_to_and_its_row_stays_readable() -> None:
    def script(screen: Player) -> Keys:
        yield enter("table 500")
        assert "[0,0]-[19,1]" in screen.rows[-2]
        yield enter("@[300,1]")
        assert screen.attribute("[  300] 300.0 300.1") == "mark"
        yield enter("@[1,2,3]")
        assert "There is no element [1, 2, 3]. The shape is [rows, 2]." in screen.text
        yield enter("@x")
        assert '"x" names no element' in screen.text
        yield enter("info")
        yield enter("@[0]")
        assert "This screen shows no tensor" in screen.text

    play(script)


def test_resize_keeps_the_place() -> None:
    def script(screen: Player) -> Keys:
        yield enter("table 500")
        yield enter("@[300,0]")
        yield ["page down"]
        first = screen.page[0]
        screen.size = (60, 15)
        yield ["window resize"]
        assert len(screen.rows) == 15
        assert screen.page[0] == first
        screen.size = (30, 15)  # rows take two lines now
        yield ["window resize"]
        assert screen.page[0] == first[: first.rindex(" ")]
        screen.size = (120, 40)
        yield ["window resize"]
        assert screen.page[0] == first
        assert screen.rows[0].startswith("--- table of 500 ---")
        assert screen.rows[0].endswith("-" * 40)

    play(script)


def test_a_question_waits_for_its_answer() -> None:
    service = SmallService()

    def script(screen: Player) -> Keys:
        yield enter("ask")
        assert "Really?" in screen.text
        assert "[y] yes" in screen.text
        assert screen.cursor is None
        yield ["x", "enter"]
        assert "Really?" in screen.text
        yield ["esc"]
        assert "Really?" not in screen.text
        yield enter("ask")
        yield enter("yonder")  # a command of somebody who didn't look is no answer
        assert "Really?" in screen.text
        yield enter("n")
        assert "Really?" not in screen.text
        assert service.ran[-1] == "ask"
        yield enter("ask")
        yield [*"nx", "backspace", "backspace"]
        yield enter("yes")
        assert service.ran[-1] == "say yes it is"
        assert "yes it is" in screen.text
        yield enter("ask")
        yield screen.click("[y] yes")
        assert service.ran[-1] == "say yes it is"

    play(script, service)


def test_leaving_asks_first() -> None:
    def script(screen: Player) -> Keys:
        yield ["ctrl d"]
        assert "Leave the debugger?" in screen.text
        yield enter("e")
        raise AssertionError("still there")

    assert play(script) == Leave("end")


def test_a_shorter_message_leaves_nothing_of_a_longer_one() -> None:
    def script(screen: Player) -> Keys:
        yield enter("say " + "a-message-that-needs-more-than-one-row-of-the-screen " * 3)
        assert screen.text.count("a-message") == 3
        yield enter("say short")
        assert screen.rows[-2] == " short"
        assert "a-message" not in screen.text
        yield ["x"]
        assert "short" not in screen.text
        assert "Scroll" in screen.rows[-2]

    play(script)


def test_errors_and_their_details() -> None:
    def script(screen: Player) -> Keys:
        yield ["f2"]
        assert "no error with details" in screen.text
        yield enter("nonsense")
        assert 'ERROR: There is no command "nonsense".' in screen.text
        assert screen.attribute("ERROR") == "toast-error"
        assert "details" not in screen.text
        yield ["f2"]
        assert screen.page[0] == 'There is no command "nonsense".'
        yield enter("fail")
        assert "It failed. Try again.  (F2: details)" in screen.text
        yield ["f2"]
        assert screen.page[0] == "Traceback (most recent call last):"
        yield ["meta left", "esc", "e"]
        assert "ValueError: no" in screen.text

    play(script)


def test_the_message_while_a_command_is_at_work() -> None:
    def script(screen: Player) -> Keys:
        screen.seen.clear()
        yield enter("pick 1 1")
        assert any(" Processing…" in rows for rows in screen.seen[:-1])
        assert "Processing" not in screen.text

    play(script)


def test_the_help_of_the_keys_names_every_key() -> None:
    def script(screen: Player) -> Keys:
        yield ["f1"]
        assert screen.rows[0].startswith("--- Keys ---")
        yield ["meta left", "?"]
        assert screen.rows[1].endswith("| (keys)")
        yield enter("/half a page up")
        assert "u Ctrl-U" in screen.text

    play(script, size=(100, 30))


def test_every_key_of_the_table_does_something() -> None:
    app = App(SmallService(), CommandQueue(), ViewStack(), True, (80, 24))
    actions = Controls(app).actions
    assert {key.action for key in KEYS} == actions
    names = [(key.where, name) for key in KEYS for name in key.keys]
    assert len(names) == len(set(names))
    assert {key.where for key in KEYS} == set(Where)


def test_queued_commands_run_before_the_screen_is_shown() -> None:
    def script(screen: Player) -> Keys:
        assert screen.rows[1].endswith("3/3 | wide")
        yield ["meta left"]
        assert screen.rows[1].endswith("2/3 | numbers 300")

    queue = CommandQueue(["numbers 300", "bogus", "wide"])
    play(script, queue=queue)
    assert queue.failed


def test_a_queue_that_leaves_never_opens_the_terminal() -> None:
    def script(screen: Player) -> Keys:
        raise AssertionError("the screen was drawn")
        yield []

    queue = CommandQueue(["run -t 5", "pick 1 1"])
    assert play(script, queue=queue) == Leave("run -t 5")
    assert queue.take() == "pick 1 1"


def test_the_queue_goes_on_after_a_question() -> None:
    service = SmallService()

    def script(screen: Player) -> Keys:
        assert "Really?" in screen.text
        assert service.ran == ["info", "ask"]
        yield enter("n")
        assert service.ran == ["info", "ask", "pick 1 1"]

    play(script, service, queue=CommandQueue(["ask", "pick 1 1"]))


def test_a_bug_in_a_command_reaches_the_caller_as_it_is() -> None:
    def script(screen: Player) -> Keys:
        yield enter("crash now")

    with pytest.raises(RuntimeError, match=r"^crash now$"):
        play(script)


def test_a_stop_inside_a_command_of_a_stop_is_passed_over() -> None:
    service = SmallService()

    def script(screen: Player) -> Keys:
        yield enter("nested")
        assert "inner left with detach" in screen.text

    ui = ScreenUI(service.settings, open_terminal=lambda: PlayedTerminal(script, (80, 24)))

    def nested(text: str, rest: str) -> Reply:
        leave = ui.interact(SmallService(), CommandQueue())
        return Reply(text, message=Toast(f"inner left with {leave.action}"))

    service.do_nested = nested  # type: ignore[attr-defined]
    ui.interact(service, CommandQueue())


def test_bad_numbers_differ_without_colour() -> None:
    def script(screen: Player) -> Keys:
        yield []
        looks = [screen.mono(name) for name in ("text", "nan", "inf", "nan+link", "link-focus")]
        assert len({str(look) for look in looks}) == len(looks)
        assert screen.mono("link+link").underline

    play(script)


def test_a_document_that_breaks_spoils_its_own_screen_only() -> None:
    service = SmallService()

    def broken(text: str, rest: str) -> Reply:
        def make(number: int) -> Line:
            if number >= 30:
                raise DumpError("The file a_0 is damaged.")
            return line(f"line {number} ", ("link", "link", "pick 1 1"))

        return Reply(text, LazyDocument(100, make))

    service.do_broken = broken  # type: ignore[attr-defined]

    def script(screen: Player) -> Keys:
        yield enter("broken")
        yield ["end", "tab"]
        assert "This part can't be shown: DumpError: The file a_0 is damaged." in screen.text
        yield enter("/nowhere")
        assert "ERROR: The file a_0 is damaged." in screen.text
        yield ["home", "tab", "enter"]
        assert service.ran[-1] == "pick 1 1"

    play(script, service)


def test_ten_million_lines_open_and_jump_at_once() -> None:
    def script(screen: Player) -> Keys:
        yield enter("numbers 10000000")
        yield ["end"]
        assert "line 9999999 " in screen.text
        yield ["home"]
        yield enter("/line 4000 ")
        while "Searching: " in screen.text:  # a busy machine takes longer
            yield []
        assert "line 4001." in screen.text

    play(script, size=(200, 60))


def test_in_batch_nothing_is_drawn(capfd: pytest.CaptureFixture[str]) -> None:
    def script(screen: Player) -> Keys:
        raise AssertionError("the screen was drawn")
        yield []

    leave = play(script, queue=CommandQueue(["pick 1 1"], batch=True))
    assert leave == Leave("detach")
    assert capfd.readouterr().out.splitlines()[-1] == "picked 1 1"


@pytest.mark.parametrize("size", [(20, 5), (28, 8), (50, 12)])
def test_all_answers_of_a_question_can_be_seen_and_clicked(size: tuple[int, int]) -> None:
    def script(screen: Player) -> Keys:
        yield enter("exit")
        for key in ("[c]", "[e]", "[s]", "[Esc]"):
            column, row = screen.place(key)
            target = screen.rows[row][column : column + len(key)]
            assert target == key
        yield screen.click("[e]")
        raise AssertionError("still there")

    assert play(script, size=size) == Leave("end")


def test_a_message_without_room_is_a_key_away() -> None:
    text = " ".join(f"word-{number}" for number in range(60))

    def script(screen: Player) -> Keys:
        yield enter(f"say {text}")
        assert "… (F2: all of it)" in screen.text
        yield ["f2"]
        assert screen.page[0].startswith("word-0 word-1 ")
        yield enter("/word-59")
        assert screen.attribute("word-59") == "match-current"

    play(script, size=(40, 12))


@pytest.mark.parametrize("cols", range(1, 60, 7))
def test_wide_words_in_every_bar(cols: int) -> None:
    service = SmallService("run-start: 日本語のテンソル " * 3)

    def script(screen: Player) -> Keys:
        # The player asserts that each row is exactly as wide as the screen.
        yield enter("say e\u0301 日本語 " + "語" * 50)
        yield enter("pick 日本 e\u0301" + "語" * 40)
        yield [*"語e\u0301語" * 10, "left", "left"]
        yield ["ctrl u", *"pick 日", "tab", "f4", *"日本語" * 5]

    play(script, service, size=(cols, 9))


def test_the_status_line_can_be_clicked() -> None:
    def script(screen: Player) -> Keys:
        yield screen.click("Mouse: ON")
        assert "Mouse off" in screen.text
        yield ["x"]
        yield screen.click("F1: keys")
        assert screen.rows[0].startswith("--- Keys ---")
        yield ["ctrl c", "esc"]
        yield screen.click("PAGE")
        assert screen.cursor is not None

    play(script, size=(100, 24))


@pytest.mark.parametrize("width", range(1, 130))
def test_the_status_line_holds_whole_items_only(width: int) -> None:
    whole = {"Mouse: ON", "F1: keys", "F4: find", "[0,0]-[19,1]", "1-20/500"}
    whole |= {"0.00%", "Scroll (PgUp/PgDn): 0.00%"}

    def script(screen: Player) -> Keys:
        yield enter("table 500")
        row = screen.canvas.decoded_text[-2]
        items = [part.strip() for item in row.split("|") for part in item.split("   ")]
        if width >= 14:
            narrow = {"[0,0]-[19,0]", "[0,0]-[9,1]", "1-20/1000"} if width <= 40 else set()
            assert set(filter(None, items)) <= whole | narrow, row

    play(script, size=(width, 24))


def test_the_scroll_bar_follows_the_hand_that_holds_it() -> None:
    def script(screen: Player) -> Keys:
        yield enter("numbers 40")  # 19 rows: the thumb is nine rows long
        yield [("mouse press", 1, 79, 8)]  # somewhere inside it
        assert screen.rows[3].startswith("line 0 ")
        yield [("mouse drag", 1, 79, 8)]
        assert screen.rows[3].startswith("line 0 ")
        yield [("mouse drag", 1, 79, 23)]
        assert screen.rows[3].startswith("line 21 ")
        yield [("mouse drag", 1, 79, 1), ("mouse release", 0, 79, 1)]
        assert screen.rows[3].startswith("line 0 ")

    play(script)
