"""The full screen: its parts, any size of it, and scrolling."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from ui_player import Input, Player, enter, play
from ui_service import SmallService

from tfdbg_cli.commands.reply import Leave, Reply
from tfdbg_cli.common.documents import LazyDocument, Line, line
from tfdbg_cli.ui.base import CommandQueue

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


def test_bad_numbers_differ_without_colour() -> None:
    def script(screen: Player) -> Keys:
        yield []
        looks = [screen.mono(name) for name in ("text", "nan", "inf", "nan+link", "link-focus")]
        assert len({str(look) for look in looks}) == len(looks)
        assert screen.mono("link+link").underline

    play(script)


def test_ten_million_lines_open_and_jump_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfdbg_cli.ui.screen.view._COUNT_SECONDS", 0.0)  # too many to be counted

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


@pytest.mark.parametrize("width", range(1, 130))
def test_the_status_line_holds_whole_items_only(width: int) -> None:
    whole = {"Mouse: ON", "F1: keys", "F4: find", "[0,0]-[19,1]", "1-20/500"}
    whole |= {"0.00%", "Scroll (PgUp/PgDn): 0.00%"}
    whole.add("Esc / search")  # no cursor and no links: this page has neither

    def script(screen: Player) -> Keys:
        yield enter("table 500")
        row = screen.canvas.decoded_text[-2]
        items = [part.strip() for item in row.split("|") for part in item.split("   ")]
        if width >= 14:
            narrow = {"[0,0]-[19,0]", "[0,0]-[9,1]", "1-20/1000"} if width <= 40 else set()
            assert set(filter(None, items)) <= whole | narrow, row

    play(script, size=(width, 24))


def test_the_garbage_collector_waits_while_a_screen_is_drawn() -> None:
    seen: list[bool] = []

    def line_of(number: int) -> Line:
        seen.append(gc.isenabled())
        return line(f"line {number}")

    class Service(SmallService):
        def run(self, text: str, width: int = 80) -> Reply:
            if text != "lines":
                return super().run(text, width)
            return Reply(text, LazyDocument(100, line_of))

    def script(screen: Player) -> Keys:
        yield enter("lines")
        assert "line 7" in screen.text
        yield ["page down"]
        assert gc.isenabled()

    assert gc.isenabled()
    play(script, Service())
    assert seen and seen.count(False) > 10 and gc.isenabled()
