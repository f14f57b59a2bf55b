"""The list of commands: what is in it, how typing filters it, what it runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stop_kit import stop_over
from test_heads import service
from ui_player import Input, Player, enter, play
from ui_service import SmallService

from tfdbg_cli.ui.fuzzy import Query, lower
from tfdbg_cli.ui.screen.input.palette import Palette, PaletteEntry

Keys = Iterator[list[Input]]


def best(query: str, *texts: str) -> list[str]:
    """The texts that fit, the best first."""
    found = [(Query(query).score(lower(text)), text) for text in texts]
    return [
        text for _, text in sorted((-score, text) for score, text in found if score is not None)
    ]


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        ("lt", ["lt", "list_tensors", "a long text", "salt"]),
        ("lite", ["list_tensors", "li to the end"]),
        ("pt", ["pt", "print_tensor", "opt"]),
        ("ht", ["hidden table", "what"]),
        ("TENSOR list", ["list_tensors"]),
        ("İ", ["İstanbul"]),
    ],
)
def test_the_best_fit_comes_first(query: str, texts: list[str]) -> None:
    assert best(query, *reversed(texts), "nix") == texts


@given(st.text(max_size=8), st.text(max_size=30))
def test_what_fits_are_the_letters_in_their_order(query: str, text: str) -> None:
    lowered, words = lower(text), lower(query).split()
    assert len(lowered) == len(text)
    rests = [iter(lowered) for _ in words]
    fits = all(all(c in rest for c in word) for word, rest in zip(words, rests, strict=True))
    assert (Query(query).score(lowered) is not None) is fits
    if fits:
        places = Query(query).places(lowered)
        assert {lowered[at] for at in places} == set("".join(words))
        assert list(places) == sorted(set(places))


def test_ten_thousand_entries_are_found_and_come_back() -> None:
    entries = [
        PaletteEntry(
            "history", f"pt hidden_{i}/weights/Variable:{i % 7} -s", f"number {i}", str(i), ""
        )
        for i in range(10_000)
    ]
    palette = Palette(entries)
    for letter in "hwvar9":
        palette.line.insert(letter)
        palette.touch()
    assert 0 < len(palette.found) < 10_000
    for _ in range(6):
        palette.line.delete_left()
        palette.touch()
    assert len(palette.found) == 10_000


def test_commands_menu_links_keys_aliases_and_former_lines_are_found() -> None:
    service = SmallService()
    service.settings.set_alias("big", "numbers 70")
    service.history.add("table 12")

    def script(screen: Player) -> Keys:
        yield ["f4"]
        assert screen.rows[-1] == "find>"
        assert screen.cursor == (6, 23)
        for query, shown in [
            ("wide", "wide, combining and long lines"),
            ("menu run", "menu"),
            ("numbers 50", "link"),
            ("top", "ctrl-home"),
            ("big", "numbers 70"),
            ("table 12", "typed before"),
        ]:
            yield ["ctrl u", *query]
            first = screen.rows[screen.place(" of ")[1] - 14 :][:14]
            assert any(shown in row.lower() for row in first), (query, screen.text)
        yield ["ctrl u", *"zzzz"]
        assert "Nothing matches" in screen.text
        yield ["enter", "esc"]
        assert screen.rows[-1] == "tfdbg>"
        assert service.ran == ["info"]

    play(script, service)


def test_what_is_chosen_is_run() -> None:
    service = SmallService()

    def script(screen: Player) -> Keys:
        yield ["meta x", *"wide", "enter"]
        assert service.ran[-1] == "wide"
        assert service.history.items == ["wide"]
        yield ["esc", "meta x", *"pick", "enter"]  # needs words: the prompt has it
        assert screen.rows[-1] == "tfdbg> pick"
        assert screen.cursor == (12, 23)
        yield ["1", " ", "1", "enter", "f4", *"keys page", "enter"]
        yield ["ctrl c", "f4", *"show_keys", "enter"]
        assert screen.rows[0].startswith("--- Keys of this screen ---")
        yield ["f4", "down", "down", "up", "tab", "shift tab", "page down", "page up", "esc"]
        yield ["x", "f4", *"prev", "left", "right", "ctrl c"]  # the line below it stays
        assert screen.rows[-1] == "tfdbg> x"
        yield ["f4", "f1"]  # what holds anywhere ends it
        assert screen.rows[-1] == "tfdbg> x"
        assert screen.rows[0].startswith("--- Keys ---")

    play(script, service)


def test_by_mouse() -> None:
    service = SmallService()

    def script(screen: Player) -> Keys:
        yield enter("numbers 300")
        yield screen.click("F4: find")
        top = screen.rows[3:8]
        column, row = screen.place(" crash")
        yield [("mouse press", 5, column, row)] * 9
        assert " crash" not in screen.text
        assert screen.rows[3:8] == top  # the list scrolls, not the page
        yield [("mouse press", 5, 3, 4)]  # the page where no list covers it
        assert screen.rows[3].startswith("line 3 ")
        yield screen.click("wide, combining")
        assert service.ran[-1] == "wide"
        yield ["f4"]
        yield [("mouse press", 1, 3, 4)]  # beside it: closes it, and nothing more
        assert screen.rows[-1] == "tfdbg>"
        assert service.ran[-1] == "wide"

    play(script, service, size=(100, 30))


@pytest.mark.parametrize("size", [(20, 5), (1, 1), (50, 12), (300, 100), (7, 3)])
def test_resize_amid_the_list(size: tuple[int, int]) -> None:
    service = SmallService()

    def script(screen: Player) -> Keys:
        yield ["f4", *"wi"]
        screen.size = size
        yield ["window resize"]  # the player asserts that each row is as wide as the screen
        yield ["down", "up"]
        screen.size = (80, 24)
        yield ["window resize"]
        yield [*"de", "enter"]
        assert service.ran[-1] == "wide"

    play(script, service)


def test_the_letters_that_fit_are_marked() -> None:
    def script(screen: Player) -> Keys:
        yield ["f4", *"ta"]
        yield ["down"]
        assert "popup-match" in {
            attribute for row in screen.canvas.content() for attribute, _, _ in row
        }

    play(script)


def test_all_real_commands_are_in_it() -> None:
    service = stop_over(
        None, "run-start", title="run-start: run #1", title_role="start", initial_command="run_info"
    )
    commands = {command.name: command for command in service.commands()}
    assert "print_tensor" not in commands  # there are no tensors yet
    assert commands["run"].aliases == ("r",)
    assert not commands["run"].needs_argument
    assert commands["print_feed"].needs_argument

    def script(screen: Player) -> Keys:
        yield ["f4", *"prfeed", "enter"]
        assert screen.rows[-1] == "tfdbg> print_feed"
        yield ["ctrl c", "f4", *"version", "enter"]
        assert screen.rows[0].startswith("--- version")

    play(script, service)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [(160, 50), (80, 24), (60, 15)])
def test_what_the_list_cuts_ends_with_a_sign(size: tuple[int, int]) -> None:

    def script(screen: Player) -> Keys:
        yield ["f4", *"explain the first bad"]
        rows = screen.text.splitlines()
        row = next(text for text in rows if text.startswith(" why "))
        summary = row.partition(" command")[0].rstrip().split("  ")[-1].strip()
        assert summary.endswith((".", "…")), row
        assert rows[-2].rstrip().endswith(("Tab: next", "Esc closes", "type to find")), rows[-2]

    play(script, service(), size=size)
