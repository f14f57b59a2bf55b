"""Keys of the user's own: how they are written, what they do, and what is said of wrong ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ui_player import Input, Player, enter, play
from ui_service import SmallService

from tfdbg_cli.common.settings import Settings
from tfdbg_cli.ui.bindings import KeyTable
from tfdbg_cli.ui.keys import KEYS, Where, key_name, read_key

Keys = Iterator[list[Input]]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("ctrl t", "ctrl t"),
        ("Ctrl-T", "ctrl t"),
        ("C-t", "ctrl t"),
        ("alt+x", "meta x"),
        ("M-x", "meta x"),
        ("Alt-Shift-X", "meta X"),
        ("F5", "f5"),
        ("PgDn", "page down"),
        ("Ctrl-PageUp", "ctrl page up"),
        ("Shift-Tab", "shift tab"),
        ("space", " "),
        ("N", "N"),
        ("shift n", "N"),
        ("c", "c"),
        ("-", "-"),
        ("Alt--", "meta -"),
        ("ctrl x ctrl e", "ctrl x ctrl e"),
        ("C-x C-e", "ctrl x ctrl e"),
        ("", None),
        ("hyper x", None),
        ("ctrl 1", None),
        ("ctrl", None),
        ("f99", None),
        ("xy", None),
        ("\n", None),
        ("a ctrl x", None),
    ],
)
def test_how_keys_are_written(written: str, name: str | None) -> None:
    assert read_key(written) == name


def test_what_the_help_calls_a_key_can_be_written() -> None:
    for key in KEYS:
        for name in key.keys:
            assert read_key(key_name(name)) == name


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=20), max_size=5))
def test_any_rubbish_is_a_warning_or_a_key(bindings: dict[str, str]) -> None:
    table = KeyTable(bindings)
    assert len(table.warnings) <= len(bindings)
    assert table.document().line_count > 50
    assert table.find("enter", (Where.PALETTE,)) == "palette_run"


def with_keys(tmp_path: Path, keys: object) -> SmallService:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"mouse_mode": False, "keys": keys}))
    service = SmallService()
    service.settings = Settings(path)
    return service


def test_keys_of_the_settings_file(tmp_path: Path) -> None:
    service = with_keys(
        tmp_path,
        {
            "page: x": "page_down",
            "ctrl u": "bottom",
            "prompt: F5": "command: numbers 7",
            "z": "top",
            "page: q": "nothing",
        },
    )

    def script(screen: Player) -> Keys:
        yield enter("numbers 300")
        yield ["ctrl u"]  # taken from the prompt and from the page
        assert screen.rows[3].startswith("line 281 ")
        yield ["f5"]
        assert service.ran[-1] == "numbers 7"
        yield ["meta left", "esc", "z"]
        assert screen.rows[3].startswith("line 0 ")
        yield ["x"]
        assert screen.rows[3].startswith("line 18 ")
        yield ["q"]
        assert "does nothing" not in screen.text and "Leave" not in screen.text
        yield [":", "x", "z"]
        assert screen.rows[-1] == "tfdbg> xz"
        yield ["ctrl c", "?", "f1"]
        yield enter("/numbers 7$")
        assert "F5" in next(row for row in screen.rows if "numbers 7" in row)
        yield enter("/page_down")
        assert any("Ctrl-F x " in row for row in screen.rows)

    play(script, service, size=(100, 24))


def test_what_holds_at_a_place_beats_what_holds_everywhere() -> None:
    for items in ([0, 1], [1, 0]):
        given = [("ctrl t", "top"), ("page: ctrl t", "bottom")]
        table = KeyTable(dict(given[item] for item in items))
        assert table.find("ctrl t", (Where.PAGE, Where.ANYWHERE)) == "bottom"
        assert table.find("ctrl t", (Where.PROMPT, Where.EDIT, Where.ANYWHERE)) == "top"


def test_two_keys_after_each_other(tmp_path: Path) -> None:
    service = with_keys(tmp_path, {"C-x C-f": "open_palette"})

    def script(screen: Player) -> Keys:
        yield ["ctrl x"]
        assert "Ctrl-X …" in screen.text
        yield ["ctrl f"]
        assert "find>" in screen.rows[-1]

    play(script, service)


@pytest.mark.parametrize(
    ("key", "action", "said"),
    [
        ("page: xy", "top", '"xy" is not a key'),
        ("pgae: x", "top", 'there is no place "pgae". Did you mean page?'),
        ("f5", "topp", 'there is no action "topp". Did you mean top'),
        ("f5", "command: ", 'there is no action "command: "'),
        ("prompt: x", "top", "could not be typed any more"),
        ("anywhere: x", "top", "could not be typed any more"),
    ],
)
def test_a_wrong_entry_is_one_line_at_the_first_stop(
    tmp_path: Path, key: str, action: str, said: str
) -> None:
    service = with_keys(tmp_path, {key: action, "f6": "command: numbers 3"})

    def script(screen: Player) -> Keys:
        text = " ".join(row.strip() for row in screen.rows)
        assert said in text
        assert screen.attribute("Key ") == "toast-warning"
        yield ["f6"]
        assert service.ran[-1] == "numbers 3"

    play(script, service, size=(150, 24))
    assert said in service.settings.warning


def test_keys_that_are_no_table(tmp_path: Path) -> None:
    service = with_keys(tmp_path, ["f5"])
    assert service.settings.get("mouse_mode") is False
    assert '"keys" in the settings file is not used' in service.settings.warning
    service.settings.set("mouse_mode", "on")  # and it stays in the file
    assert json.loads((tmp_path / "config.json").read_text())["keys"] == ["f5"]


@pytest.mark.parametrize("columns", [58, 78, 158])
def test_no_help_text_is_cut(columns: int) -> None:
    table = KeyTable({})
    short = table.document_of([Where.MAP, Where.TENSOR, Where.PAGE], columns)
    for document in (short, table.document(columns)):
        texts = [each.text for each in document.lines(0, document.line_count)]
        assert max(map(len, texts)) <= columns
        narrow = document.resized(61)
        assert max(len(each.text) for each in narrow.lines(0, narrow.line_count)) <= 60
    assert "the next slice of a tensor" in "".join(each.text for each in short.lines(0, 99))


@pytest.mark.parametrize(
    "where", [Where.VERDICT, Where.MAP, Where.TENSOR, Where.ROW, Where.ELEMENT, Where.BESIDE]
)
def test_the_keys_of_a_screen_say_one_thing_each(where: Where) -> None:
    document = KeyTable({}).document_of([where, Where.TABLE, Where.PAGE, Where.ANYWHERE], 158)
    at_the_prompt = {row.help for row in KEYS if row.where is Where.PROMPT}
    told: dict[str, str] = {}
    for each in document.lines(0, document.line_count):
        row = re.match(r"  (\S+(?: \S+)*) {2,}(.+)", each.text)
        for name in set(row[1].split()) if row and row[2] not in at_the_prompt else ():
            assert told.setdefault(name, row[2]) == row[2]
