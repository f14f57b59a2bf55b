"""The keys in the status line, which change with the screen, and the ways out of a page of help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from ui_player import Input, Player, enter, play

from tfdbg_cli.commands.builtin import make_registry
from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.service import CommandService
from tfdbg_cli.commands.shell.history import History
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.filters.registry import FilterRegistry

Keys = Iterator[list[Input]]


class Stop(CommandService):
    """A stop; notes what was run.

    Args:
        nodes: of the graph; none: two logarithms of zero, each of an input of its own.
        values: of the first output of each.
    """

    def __init__(self, nodes: Sequence[Node] = (), values: Mapping[str, Any] | None = None) -> None:
        if values is None:
            given, made = np.array([1, 0], np.float32), np.array([0, -np.inf], np.float32)
            nodes = [Node("in_a", "Const"), Node("log_a", "Log", ["in_a:0"])]
            nodes += [Node("in_b", "Const"), Node("log_b", "Log", ["in_b:0"])]
            values = {"in_a": given, "log_a": made, "in_b": given, "log_b": made}
        dump = MemoryDump(Graph(nodes))
        for at, (name, value) in enumerate(values.items()):
            dump.add(name, 0, value, timestamp=at)
        context = Context("run-end", make_registry(), FilterRegistry(), Settings(None), dump=dump)
        super().__init__(
            context, title="end", title_role="error", initial_command="why", history=History(None)
        )
        self.ran: list[str] = []

    def run(self, text, width=80):
        self.ran.append(text)
        return super().run(text, width)


@pytest.mark.parametrize(
    ("key", "command"),
    [
        ("v", "pt --map"),
        ("p", "pt"),
        ("g", "graph"),
        ("i", "li -o op_type,health"),
        ("o", "lo -o op_type,health"),
        ("n", "why --next"),
    ],
)
def test_the_keys_of_a_verdict(key: str, command: str) -> None:
    stop = Stop()

    def script(screen: Player) -> Keys:
        assert "Esc v map | p value | s source | g graph | i inputs" in screen.rows[-2]
        yield ["esc"]
        assert " v map | p value" in screen.rows[-2]
        assert "Esc v" not in screen.rows[-2]
        yield [key]
        assert stop.ran[-1] == command
        assert "ERROR" not in screen.text

    play(script, stop, size=(110, 24))


def test_next_goes_from_origin_to_origin() -> None:
    def script(screen: Player) -> Keys:
        assert "It began in [Log] log_a:0" in screen.text
        yield ["esc", "n"]
        assert "It began in [Log] log_b:0" in screen.text
        yield ["n"]
        assert "No other op" in screen.text

    play(script, Stop())


@pytest.mark.parametrize("size", [(160, 50), (100, 30), (80, 24), (60, 15)])
def test_a_narrow_window_loses_the_last_hints_and_never_the_help(size: tuple[int, int]) -> None:
    def script(screen: Player) -> Keys:
        row = screen.rows[-2].rstrip()
        assert "v map" in row
        assert "F1: keys" in row
        assert size[0] == 160 or "Mouse" not in row  # that goes first
        yield []

    play(script, Stop(), size=size)


@pytest.mark.parametrize("opened", [["f1"], ["esc", "f1"], ["?"], enter("help"), enter("help pt")])
@pytest.mark.parametrize("key", ["esc", "q"])
def test_help_is_left_for_the_screen_before_it(opened: list[Input], key: str) -> None:
    def script(screen: Player) -> Keys:
        yield opened
        assert "It began in" not in screen.text
        assert "Esc back" in screen.rows[-2]
        yield [key]
        assert "It began in" in screen.text
        assert "Leave" not in screen.text

    play(script, Stop())


def test_f1_is_about_this_screen_and_ends_with_the_way_to_all_keys() -> None:
    def script(screen: Player) -> Keys:
        yield ["f1"]
        assert "On a verdict" in screen.text
        assert "On a row of a table" not in screen.text
        shown = [row for row in screen.rows[2:-2] if row.strip()]
        assert "help keys" in shown[-1]  # nothing of it is below the screen
        yield enter("help keys")
        yield enter("/On a row of a table")
        assert "line" in screen.rows[-2]

    play(script, Stop(), size=(100, 40))


def test_v_says_that_a_page_shows_no_tensor() -> None:
    def script(screen: Player) -> Keys:
        yield enter("ni")
        yield ["esc", "v"]
        assert "This page shows no tensor of numbers" in screen.text

    play(script, Stop())


def test_a_verdict_has_the_whole_width_beside_lists_with_a_pane() -> None:
    stop = Stop()
    stop.settings.override("pane", "value")
    stop.initial_command = "why -f has_inf_or_nan"

    def script(screen: Player) -> Keys:
        assert "It began in" in screen.text
        assert not any(command.startswith("preview") for command in stop.ran)
        assert not screen.rows[5].rstrip().endswith("│")
        yield enter("lt")
        yield ["esc"]
        assert any("-- " in row[40:] for row in screen.rows[2:-2])

    play(script, stop, size=(140, 30))
