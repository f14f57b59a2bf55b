"""The cursor of a drawn graph: there at once, from node to node, and Enter opens one."""

from __future__ import annotations

import numpy as np
import pytest
from stop_kit import stop_over
from test_golden import SIZES
from ui_player import Player, enter, play

from tfdbg_cli.commands.service import CommandService
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump

NODES = [
    Node("x", "Const"),
    Node("zero", "Const"),
    Node("ratio", "Div", ["x:0", "zero:0"]),
    *(Node(f"use_{at}", "Neg", ["ratio:0"]) for at in range(6)),
]


def service() -> CommandService:
    dump = MemoryDump(Graph(NODES))
    dump.add("x", 0, np.ones(3, np.float32), timestamp=1)
    dump.add("zero", 0, np.zeros(3, np.float32), timestamp=2)
    dump.add("ratio", 0, np.full(3, np.inf, np.float32), timestamp=3)
    return stop_over(dump)


@pytest.mark.parametrize("size", [*SIZES.values()], ids=[*SIZES])
def test_arrows_go_from_node_to_node(size: tuple[int, int]) -> None:
    def script(screen: Player):
        yield enter("graph ratio")
        while "…" in screen.rows[-2]:
            yield []
        assert "[Div] ratio  ✗ 3 +inf" in screen.rows[-2]
        assert any("║ ratio" in row for row in screen.rows)
        yield ["down"]
        assert "[Neg] use_" in screen.rows[-2]
        for _ in range(6):
            yield ["right"]
        assert any("│ use_5" in row for row in screen.rows)
        for _ in range(6):
            yield ["up"]
        assert "[Const] " in screen.rows[-2]
        yield ["enter"]
        assert "Node " in screen.text
        assert "Op: Const" in screen.text
        yield ["meta left", "down"]
        assert "ratio" in screen.rows[-2]
        # Letters are for the prompt, whose history is one key further.
        yield [*"lt"]
        assert screen.rows[-1] == "zero › lt"
        yield ["down"]
        assert "ratio" in screen.rows[-2]

    play(script, service(), size=size)


def test_tab_goes_to_the_other_links_and_an_arrow_back_to_the_nodes() -> None:
    def script(screen: Player):
        yield enter("graph ratio -d 1")
        yield ["tab", "tab", "enter"]
        assert "graph x" in screen.text or "Node" in screen.text
        yield ["meta left", "left", "up", "enter"]
        assert "Op: Const" in screen.text

    play(script, service())


def test_it_stays_in_sight_when_the_terminal_shrinks() -> None:
    def script(screen: Player):
        yield enter("graph ratio")
        yield ["down", "right", "right", "right"]
        name = screen.rows[-2].split("[Neg] ")[1].split()[0]
        screen.size = (50, 12)
        yield ["window resize"]
        assert any(f"│ {name}" in row for row in screen.rows)

    play(script, service(), size=(160, 50))
