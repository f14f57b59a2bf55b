"""The full screen: links and the menu, by keyboard and mouse."""

from __future__ import annotations

from collections.abc import Iterator

from ui_player import Input, Player, enter, play
from ui_service import SmallService

Keys = Iterator[list[Input]]


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
        assert "is not a mouse mode" in screen.text
        assert not screen.mouse
        yield enter("set mouse_mode on")
        assert screen.mouse
        assert "| 1/1 |" in screen.rows[1]  # none of these made a screen

    play(script, size=(140, 24))


def test_settings_decide_whether_the_mouse_is_taken() -> None:
    service = SmallService()
    service.settings.override("mouse_mode", False)

    def script(screen: Player) -> Keys:
        assert not screen.mouse
        yield []

    play(script, service)


def test_the_status_line_can_be_clicked() -> None:
    def script(screen: Player) -> Keys:
        yield screen.click("Mouse: ON")
        assert "Mouse off" in screen.text
        yield ["x"]
        yield screen.click("F1: keys")
        assert screen.rows[0].startswith("--- Keys of this screen ---")
        yield ["ctrl c", "esc", "esc"]
        yield screen.click("PAGE")
        assert screen.cursor is not None

    play(script, size=(140, 24))


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
