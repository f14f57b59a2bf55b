"""Table mode: a cursor on rows and columns, keys that write commands, frozen columns."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from stop_kit import stop_over
from test_heads import narrowed, service
from ui_player import Input, Player, enter, play

from tfdbg_cli.commands.service import CommandService
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.tables import VERBS
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.ui.keys import KEYS, Where

Keys = Iterator[list[Input]]


def shown(screen: Player) -> str:
    """The command of the screen."""
    return screen.rows[1].rpartition(" | ")[2]


def rows(screen: Player) -> list[str]:
    """The names in the rows below the heads."""
    at = next(n for n, row in enumerate(screen.page) if "Tensor name" in row)
    return [
        next(word for word in row.split() if word.startswith("op_"))
        for row in screen.page[at + 1 :]
        if "op_" in row
    ]


def test_a_cursor_moves_over_rows_and_columns() -> None:
    def script(screen: Player) -> Keys:
        yield enter("lt")
        yield ["esc", "c"]
        assert "row 1/100, t (ms)" in screen.text
        assert "TABLE (c leaves)" in screen.text
        yield ["j", "j", "l", "l"]
        assert "row 3/100, Op type" in screen.text
        assert screen.attribute("Add") in {"table-cell", "op_type"}
        yield ["$"]
        assert "row 3/100, Tensor name" in screen.text
        yield ["k", "0", "h"]
        assert "row 2/100, t (ms)" in screen.text
        yield ["G"]
        assert "row 100/100" in screen.text
        assert rows(screen)[-1] == "op_99:0"
        yield ["j"]
        assert "row 100/100" in screen.text
        yield ["page up"]
        assert "row 100/100" not in screen.text  # the cursor stays on the page
        yield ["<"]
        assert "row 1/100" in screen.text
        yield ["/", *"op_50", "enter"]
        yield ["enter"]  # the cursor went along
        assert 'Tensor "op_50:0' in screen.text
        yield ["backspace", "esc", "j"]
        assert "row " not in screen.text

    play(script, service(), size=(100, 24))


@pytest.mark.parametrize(("size", "many"), [((100, 30), 20), ((80, 24), 10), ((50, 12), 1)])
def test_keys_write_the_commands_that_they_stand_for(size: tuple[int, int], many: int) -> None:
    stop = service()

    def script(screen: Player) -> Keys:
        yield enter("lt -o size,op_type,health,name")
        yield ["esc", "c", "]"]
        assert stop.history.items[-1] == "lt -o size,op_type,health,name -s size -r"
        assert "-s size -r" in screen.text
        assert rows(screen)[0] == "op_99:0"
        assert len(rows(screen)) >= many
        yield ["["]
        assert stop.history.items[-1] == "lt -o size,op_type,health,name -s size"
        yield ["r"]
        assert stop.history.items[-1].endswith("-s size -r")
        yield ["backspace"]  # the screen before: as it was
        assert rows(screen)[0] == "op_00:0"
        yield ["O"]
        assert stop.history.items[-1] == "lt -o size,op_type,health,name -s op_type"
        yield ["O"]
        assert stop.history.items[-1] == "lt -o size,op_type,health,name -s op_type -r"
        assert rows(screen)[0] == "op_01:0"
        yield ["-"]
        assert stop.history.items[-1] == "lt -o size,health,name -s op_type -r"
        assert "Op type" not in screen.text
        yield ["l", "l", "l", "!"]
        assert stop.history.items[-1] == "lt -o name!,size,health -s op_type -r"
        yield ["_"]
        assert "name:11!,size,health" in stop.history.items[-1]
        yield ["_", "!"]
        assert stop.history.items[-1] == "lt -o name,size,health -s op_type -r"
        yield ["="]
        assert stop.history.items[-1] == "lt -n ^op_01$ -o name,size,health -s op_type -r"
        assert rows(screen) == ["op_01:0"]
        yield ["-"]
        assert "name column can't be hidden" in screen.text
        # What was run by keys does the same as a script.
        typed = [stop.run(text, size[0]).document for text in stop.history.items]
        assert all(document is not None for document in typed)

    play(script, stop, size=size)


@pytest.mark.parametrize("size", [(160, 50), (80, 24), (50, 12)])
def test_a_list_of_neighbours_becomes_a_table(size: tuple[int, int]) -> None:
    nodes = [Node("x", "Placeholder"), *(Node(f"op_{n:02}", "Mul", ["x:0"]) for n in range(9))]
    dump = MemoryDump(Graph(nodes))
    for n in range(9):
        dump.add(f"op_{n:02}", 0, np.full(n + 1, np.nan if n == 4 else n, "f4"), timestamp=n)
    stop = service(dump=dump)

    def script(screen: Player) -> Keys:
        yield enter("lo x")
        yield ["esc", "c", "]"]
        assert stop.history.items[-1] == "lo x -s name --reverse"
        assert "Node↓" in screen.text
        yield ["H", "H"]
        assert stop.history.items[-1] == "lo x -s health --reverse"
        first = next(row for row in screen.page if "op_0" in row).removesuffix("│")
        assert "5 nan" in first
        assert first.split()[-1] == "op_04"
        yield [" "]
        assert stop.history.items[-1] == "select op_04:0"
        assert "● op_04" in screen.text
        yield ["$", "!"]
        assert stop.history.items[-1].startswith("lo x -o name!,op_type,")
        assert any(row.startswith("Node") for row in screen.page)
        yield ["enter"]
        assert 'Recipients of node "op_00"' in screen.text  # a selection goes on to the next row

    play(script, stop, size=size)


def test_the_rows_of_a_cell() -> None:
    stop = service()

    def script(screen: Player) -> Keys:
        yield enter("lt")
        yield ["esc", "c", "l", "l", "j", "="]
        assert shown(screen) == "lt -t ^Mul$"
        assert rows(screen)[:2] == ["op_01:0", "op_03:0"]
        yield ["0", "l", "="]  # no option is for sizes: the lines are filtered
        while "Filtering" in screen.text:
            yield []
        assert stop.history.items[-1].startswith("&")
        assert rows(screen) == ["op_03:0"]
        yield ["]"]
        while stop.history.items[-1].startswith("&") or "Filtering" in screen.text:
            yield []
        assert "lt -t ^Mul$ -s size -r; &" in stop.history.items[-1]
        assert rows(screen) == ["op_03:0"]

    play(script, stop)


def test_what_is_selected_is_for_other_commands(tmp_path: Path) -> None:
    stop = service()

    def script(screen: Player) -> Keys:
        yield enter("lt")
        yield ["esc", "c", "j", " ", " "]
        assert stop.history.items[-2:] == ["select op_01:0", "select op_02:0"]
        assert "● op_01:0" in screen.text
        assert "2 tensor(s) selected" in screen.text
        yield ["k", " "]
        assert stop.history.items[-1] == "select -d op_02:0"
        assert "● op_02:0" not in screen.text
        yield ["l", "l", ","]
        assert stop.history.items[-1] == "select -t ^Mul$"
        yield ['"']
        assert shown(screen) == "lt --selected"
        assert rows(screen)[:2] == ["●", "●"] or "● op_03:0" in screen.text
        yield [":"]
        yield enter(f"pt --selected -w {tmp_path / 'mul.npz'}")
        with np.load(tmp_path / "mul.npz") as saved:
            assert len(saved.files) == 50
            assert saved["op_03:0"].tolist() == [3.0] * 4
        yield enter('eval "sum(v.size for v in selected.values())"')
        assert "2550" in screen.text
        yield enter("lt")
        yield ["esc", "c", "U"]
        assert "No tensor is selected" in screen.text
        assert "●" not in screen.text

    play(script, stop)


def test_two_rows_are_compared_with_few_keys() -> None:
    """As many as VisiData takes: into the list, one row selected, the other under the cursor."""
    stop = service()

    def script(screen: Player) -> Keys:
        yield enter("lt")
        yield ["down", " ", "j", '"']
        assert shown(screen) == "lt --selected"
        assert list(stop.context.selected) == ["op_00:0", "op_02:0"]
        listed = [row for row in screen.text.splitlines() if "● " in row]
        assert len(listed) == 2
        yield ["backspace", "U", '"']
        assert stop.context.selected == {}
        yield ["esc", "esc", *"pt op_00", "enter", "up", "ctrl a", "ctrl k", "down"]
        assert "row " not in screen.text  # no list: the history, as ever

    play(script, stop)


@pytest.mark.parametrize("size", [(60, 20), (50, 12)])
def test_a_frozen_name_stays_while_the_rest_scrolls(size: tuple[int, int]) -> None:
    def script(screen: Player) -> Keys:
        yield enter("lt -o name!,time,size,op_type,dtype,shape,health,min,max,mean,device")
        yield ["esc", "c"]
        for _ in range(10):
            yield ["l"]
        assert "Device" in screen.text
        assert "t (ms)" not in screen.page[-3]
        lines = [row for row in screen.page if "op_0" in row]
        assert lines
        assert all(row.startswith("op_0") for row in lines)
        assert any(row.startswith("Tensor name") for row in screen.page)
        yield screen.click("op_02:0")  # where it is seen, though the rest is scrolled
        assert 'Tensor "op_02:0' in screen.text

    play(script, service(), size=size)


def test_a_click_puts_the_cursor_on_a_cell() -> None:
    def script(screen: Player) -> Keys:
        yield enter("lt")
        yield screen.click("[0.002]")
        assert "row 3/100, t (ms)" in screen.text
        yield ["down", "right"]
        assert "row 4/100, Size (B)" in screen.text
        yield ["enter"]
        assert 'Tensor "op_03:0' in screen.text
        yield ["l", "t"]
        assert screen.rows[-1] == "op_03:0 › lt"

    play(script, service())


def test_lists_without_columns_have_a_cursor_too() -> None:
    def script(screen: Player) -> Keys:
        yield enter("pt op_03:0")
        yield ["esc", "]"]  # no table: as ever
        assert "This is the last screen" in screen.text
        yield [":"]
        yield enter("ni op_03")
        yield ["esc", "r"]
        assert "does nothing on the page" in screen.text

    play(script, service())


def commands_of(stop: CommandService, text: str, width: int) -> Iterator[str]:
    """What can be done to a list, by each verb at some cells of it."""
    document = stop.run(text, width).document
    assert document is not None
    table = document.tables[0]
    draw = random.Random(7)
    for number in draw.sample(range(table.first + 1, table.behind), 3):
        for field in document.fields(number):
            made = document.lines(number, number + 1)[0].text[field.start : field.stop]
            assert made == made.strip()
            for verb in VERBS:
                try:
                    yield document.table_command(number, field.column, verb)
                except UserError:
                    continue


@pytest.mark.parametrize("text", ["lt", "lt -o name!,op_type:5,mean -s health", "lt -t Mul -r"])
def test_each_command_that_keys_write_is_understood(text: str) -> None:
    stop = service()
    for command in commands_of(stop, text, 120):
        reply = stop.run(command, 120)
        assert not reply.failed, (command, reply.message)
        if reply.document is not None:
            assert reply.document.line_count >= 4 or "--selected" in command


def test_sorting_keeps_to_a_filter() -> None:
    def script(screen: Player) -> Keys:
        yield enter("lt")
        yield from narrowed(screen, enter("&op_9"))
        yield ["esc", "c", "S"]
        while "Filtering" in screen.text:
            yield []
        assert rows(screen)[0] == "op_90:0"
        yield ["r"]
        while "Filtering" in screen.text:
            yield []
        assert rows(screen)[0] == "op_99:0"
        assert len(rows(screen)) == 10

    play(script, service())


NAMES = ("日本語/テンソル", "e\u0301", "x" * 300, "a b", "esc\x1b[31m", "quote'\"", "")


@pytest.mark.parametrize("seed", range(12))
def test_any_keys_on_any_list_draw_a_screen(seed: int) -> None:
    draw = random.Random(seed)
    dump = MemoryDump()
    for number in range(draw.choice([0, 1, 9])):
        name = f"{draw.choice(NAMES)}{number}"
        value = draw.choice([np.zeros(0), np.float32("nan"), np.array([b"x"]), np.full(9, np.inf)])
        dump.add(name, 0, value, timestamp=number)
    stop = stop_over(dump, title="end", initial_command="lt")
    keys = [name for key in KEYS if key.where is Where.TABLE for name in key.keys if name != "esc"]
    sizes = [(160, 50), (100, 12), (80, 24), (50, 12), (20, 5), (7, 3), (1, 1)]

    def script(screen: Player) -> Keys:
        yield ["esc", "c"]
        for _ in range(60):
            if draw.random() < 0.1:
                screen.size = draw.choice(sizes)
                yield ["window resize"]
            yield [draw.choice([*keys, "f6", "n", "f", "b", ("mouse press", 1, 3, 4)])]
            assert "Error in the debugger" not in screen.text
            assert "can't be shown" not in screen.text
        screen.size = (80, 24)
        yield ["window resize"]

    play(script, stop, size=(120, 24))
    assert not any("\x1b" in item for item in stop.history.items)
