"""The heads of a table stay in sight while its rows scroll, also where only some are shown."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from stop_kit import stop_over
from test_golden import SIZES
from ui_player import Input, Player, enter, play, play_stops

from tfdbg_cli.commands.service import CommandService
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump

COUNT = 100


def service(width: int = 79, dump: MemoryDump | None = None) -> CommandService:
    if dump is None:
        dump = MemoryDump(
            Graph([Node(f"op_{n:02}", "Mul" if n % 2 else "Add") for n in range(COUNT)])
        )
        for number in range(COUNT):
            value = np.full(number + 1, number, np.float32)
            dump.add(f"op_{number:02}", 0, value, timestamp=number)
    return stop_over(dump, width=width)


def names(screen: Player) -> list[str]:
    """The tensors on the page, whose first row must be the heads."""
    head, *rows = [row[:-1].rstrip() for row in screen.canvas.decoded_text[3:-2]]
    assert head.endswith("Tensor name")
    return [row.split()[-1] for row in rows if row]


def narrowed(screen: Player, keys: list[Input]) -> Iterator[list[Input]]:
    """Type a filter, and wait until it is done."""
    yield keys
    while "Filtering" in screen.text:
        yield []


def test_they_stay_while_the_rows_scroll() -> None:
    for size in SIZES.values():
        height = size[1] - 5

        def script(screen: Player, height: int = height):
            yield enter("lt")
            seen = [row.split()[-1] for row in screen.page[4:]]
            yield ["esc", "j", "j"]
            assert screen.page[1].endswith("Tensor name")
            yield ["j"]
            assert names(screen)[0] == "op_01:0"  # each key moves the rows
            yield ["k"]
            assert names(screen)[0] == "op_00:0"
            yield ["k", "g"]
            while seen[-1] != "op_99:0":
                yield [" "]
                shown = names(screen)
                assert len(shown) == height - 1
                assert shown[0] in seen  # a page down leaves a row to go on from
                seen += [name for name in shown if name not in seen]
            assert len(seen) == COUNT
            assert "100.00%" in screen.text
            yield ["k"]
            assert names(screen)[-1] == "op_98:0"
            yield ["/", *"op_50", "enter"]
            assert "op_50:0" in names(screen)
            yield ["g"]
            assert screen.page[1].startswith("100 dumped tensor(s)")

        play(script, service(), size=size)


def test_they_stay_where_only_some_lines_are_shown() -> None:
    def script(screen: Player):
        yield enter("lt")
        yield from narrowed(screen, enter("&Mul"))
        assert names(screen)[0] == "op_01:0"
        assert len(names(screen)) == 18
        yield ["esc", "G"]
        assert names(screen)[-1] == "op_99:0"
        yield ["k", "g"]
        assert names(screen)[0] == "op_01:0"
        yield from narrowed(screen, [":", *"&op_9[0-3]", "enter"])
        assert names(screen)[:4] == [f"op_9{n}:0" for n in range(4)]
        yield screen.click("op_92:0")
        assert 'Tensor "op_92:0' in screen.text

    play(script, service())


def test_they_stay_when_the_run_is_over() -> None:
    def first(screen: Player):
        yield enter("lt")
        yield enter("lt")
        yield from narrowed(screen, enter("&Mul"))
        yield enter("run")

    def second(screen: Player):
        yield ["esc", "j", "j"]
        assert names(screen)[0] == "op_05:0"
        yield ["backspace", " ", " "]
        assert "op_40:0" in names(screen)

    play_stops((service(), first), (service(), second))


def test_a_head_sorts_and_says_so() -> None:
    def script(screen: Player):
        yield enter("lt")
        assert "↑" not in screen.text
        assert "↓" not in screen.text
        yield ["page down"]
        yield screen.click("Size (B)")
        assert "Size (B)↑" in screen.text
        yield ["page down"]
        yield screen.click("↑")
        assert "Size (B)↓" in screen.text
        assert screen.page[4].endswith("op_99:0")
        # A column that has no place here otherwise is shown if the list is sorted by it.
        yield enter("lt -s mean -r")
        assert "Mean↓" in screen.text
        yield enter("lt -s name -r")
        assert "Tensor name↓" in screen.text
        yield enter("lt -r")
        assert "t (ms)↓" in screen.text

    play(script, service())


def test_the_element_under_the_heads_is_the_one_that_is_clicked() -> None:
    def script(screen: Player):
        yield enter("lp")
        yield enter("pt op_99:0 -a")
        yield screen.click("99., 99.")
        assert "= 99.0" in screen.text

    play(script, service())
