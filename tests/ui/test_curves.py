"""Curves on the full screen: a cursor that tells run and number, keys that zoom."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from stop_kit import stop_over
from ui_player import Input, Player, enter, play

from tfdbg_cli.commands.service import CommandService
from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.series.points import Series
from tfdbg_cli.dumps.series.tracks import Tracks


def service() -> CommandService:
    tracks = Tracks([Series("loss")])
    for run in range(1, 101):
        tracks["loss"].add(run, 1.0 / run if run != 60 else math.nan)
    info = RunInfo(1, tracks=tracks)
    return stop_over(
        None, "offline", info=info, title="a stop", title_role="offline", initial_command="plot"
    )


@pytest.mark.parametrize("size", [(80, 24), (50, 12), (160, 50)])
def test_the_cursor_moves_from_run_to_run(size: tuple[int, int]) -> None:
    def script(player: Player) -> Iterator[list[Input]]:
        yield ["esc", "c"]
        assert "loss at run " in player.text
        yield ["l"] * 3
        assert "loss at run " in player.text
        yield ["enter"]
        assert "zoom in: plot loss -r" in player.text
        yield enter("exit")

    play(script, service(), size=size)


def test_keys_zoom() -> None:
    def script(player: Player) -> Iterator[list[Input]]:
        yield ["esc"]
        assert "runs 1 to 100" in player.text
        yield ["+"]
        assert "runs 51 to 100" in player.text
        yield ["("]
        assert "runs 26 to 75" in player.text
        yield [")"]
        assert "runs 51 to 100" in player.text
        yield [")"]
        assert "no more runs that way" in player.text
        yield ["-"]
        assert "runs 26 to 100" in player.text
        yield ["backspace"]
        assert "runs 51 to 100" in player.text
        yield ["c", "+"]
        assert "runs 45 to 57" in player.text
        yield [":", *enter("config")]
        yield ["esc", "+"]
        assert "shows no curve" in player.text
        yield [":", *enter("exit")]

    play(script, service())
