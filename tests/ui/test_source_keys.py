"""The screen of a source file: keys of its own, from bad line to bad line, and folding."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from stop_kit import stop_over
from test_plain import Run
from ui_player import Player, enter, play

from tfdbg_cli.commands.service import CommandService
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.sources import Frame, Sources
from tfdbg_cli.ui.bindings import KeyTable
from tfdbg_cli.ui.keys import Where, key_name, read_key

PATH = "/me/model.py"
# Lines 10, 20, … make something; those of 30 and 80 make something bad.
SOURCE = [f"x{number} = step({number})" for number in range(1, 101)]
BAD = (30, 80)


def service(settings: Settings | None = None, *, is_clean: bool = False) -> CommandService:
    nodes = [
        Node(f"op{at}", "Op", frames=[Frame(PATH, at, "<module>")]) for at in range(10, 101, 10)
    ]
    dump = MemoryDump(Graph(nodes), Sources({PATH: "\n".join(SOURCE)}, live=False))
    for at in range(10, 101, 10):
        value = np.array([1.0, np.nan if at in BAD and not is_clean else 2])
        dump.add(f"op{at}", 0, value, timestamp=at)
    return stop_over(dump, settings=settings)


def shown(screen: Player, number: int) -> bool:
    return any(row.startswith(f"L{number} ") for row in screen.rows)


def test_from_bad_line_to_bad_line() -> None:
    def script(screen: Player):
        yield enter("ps model.py")
        assert shown(screen, 1)  # nobody is carried away by what is bad
        yield ["esc", "]"]
        assert "] …" in screen.text
        yield ["b"]
        assert "bad line 1 of 2" in screen.text and shown(screen, 30)
        yield ["]", "b"]
        assert "bad line 2 of 2" in screen.text and shown(screen, 80)
        yield ["]", "b"]
        assert "bad line 1 of 2; the search went on at the top" in screen.text
        yield ["[", "b"]
        assert "bad line 2 of 2; the search went on at the bottom" in screen.text
        yield ["n"]  # as for other searches
        assert "bad line 1 of 2" in screen.text
        # A search for something else leaves these keys as they are.
        yield ["/", *"x55", "enter"]
        yield ["]", "b"]
        assert "bad line 2 of 2" in screen.text
        yield ["enter"]
        assert screen.rows[1].rstrip().endswith("pt op80:0 --bad")

    play(script, service(), size=(80, 24))


def test_the_search_goes_on_where_somebody_looks() -> None:
    def script(screen: Player):
        yield enter("ps model.py -b 50")
        yield ["esc", "]", "b"]
        assert "bad line 2 of 2" in screen.text
        yield ["g", "]", "b"]
        assert "bad line 1 of 2" in screen.text
        yield ["G", "[", "b"]
        assert "bad line 2 of 2" in screen.text
        yield ["&", *"x[1-6]", "enter"]
        yield ["g", "]", "b"]
        assert "bad line 1 of 2" in screen.text and shown(screen, 30)

    play(script, service(), size=(80, 24))


def test_where_nothing_is_bad_the_keys_say_so() -> None:
    def script(screen: Player):
        yield enter("ps model.py")
        yield ["esc", "]", "b"]
        assert "No line of this file made a nan" in screen.text
        yield ["]", "x"]
        assert "]x does nothing here" in screen.text
        yield ["]", "esc", "j"]
        assert "does nothing" not in screen.text and screen.rows[3].startswith("L2 ")

    play(script, service(is_clean=True), size=(80, 24))


def test_the_brackets_lead_through_the_screens_there_and_elsewhere() -> None:
    def script(screen: Player):
        yield enter("lt")
        yield enter("ps model.py")
        yield ["esc", "[", "["]
        assert "| 1/2 | lt" in screen.text
        yield ["]"]  # no prefix here
        assert "| 2/2 | ps model.py" in screen.text
        yield ["[", "[", "]"]
        yield ["]", "]"]
        assert "This is the last screen" in screen.text

    play(script, service(), size=(80, 24))


@pytest.mark.parametrize("size", [(80, 24), (50, 12), (160, 50)])
def test_one_key_folds_and_unfolds_at_the_same_line(size: tuple[int, int]) -> None:
    def script(screen: Player):
        yield enter("ps model.py -b 40")
        assert any("op40" in row for row in screen.rows)
        yield ["esc", "z"]
        assert shown(screen, 40) and not any("  op40" in row for row in screen.rows)
        assert "▸" in next(row for row in screen.rows if row.startswith("L40 "))
        yield ["z"]
        assert any("  op40" in row for row in screen.rows)
        yield [":", *enter("lt")]
        yield ["esc", "z"]
        assert '"z" does nothing on the page' in screen.text

    play(script, service(), size=size)


def test_the_keys_can_be_bound_and_found(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    keys = {"source: w": "next_bad", "[q": "top", "source: ]b": "nothing"}
    path.write_text(json.dumps({"mouse_mode": False, "keys": keys}))

    def script(screen: Player):
        yield enter("ps model.py")
        yield ["esc", "w"]
        assert "bad line 1 of 2" in screen.text
        yield ["[", "q"]
        assert screen.rows[3].startswith("L1 ")
        yield ["]", "b"]
        assert "bad line" not in screen.text
        yield ["f4", *"fold or"]
        assert any("fold or unfold" in row and "z" in row for row in screen.rows)
        yield ["esc", "f1", "f1"]
        yield enter("/bad line before")
        assert any("[b" in row and "previous_bad" in row for row in screen.rows)
        yield [":", *enter("lt")]
        yield ["esc", "w"]
        assert "does nothing" in screen.text

    play(script, service(Settings(path)), size=(100, 24))


def test_how_two_keys_are_written() -> None:
    assert read_key("]b") == read_key("] b") == "] b"
    assert key_name("] b") == "]b" and key_name("[ [") == "[["
    assert read_key("[\x1b") is None and read_key("]bb") is None
    table = KeyTable()
    places = (Where.SOURCE, Where.PAGE, Where.ANYWHERE)
    assert table.is_prefix("]", places) and not table.is_prefix("]", places[1:])
    assert not table.is_prefix("] b", places) and table.find("] b", places) == "next_bad"
    assert not KeyTable({"]b": "top"}).warnings
    assert KeyTable({"prompt: ]b": "top"}).warnings


def test_where_lines_are_printed() -> None:
    out = Run("ps model.py", "/", service=service()).out  # type: ignore[arg-type]
    assert [row for row in out.splitlines() if row.startswith("bad line")] == [
        "bad line 1 of 2: L30  * x30 = step(30)  ◀ op30:0 1 nan",
        "bad line 2 of 2: L80  * x80 = step(80)  ◀ op80:0 1 nan",
    ]
