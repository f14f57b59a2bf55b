"""The pane beside a list: what it shows, when that is looked up, and where there is room for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from ui_player import Input, Player, enter, play

from tfdbg_cli.commands.builtin import make_registry
from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.reply import Reply
from tfdbg_cli.commands.service import CommandService
from tfdbg_cli.commands.shell.history import History
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.sources import Frame, Sources
from tfdbg_cli.filters.registry import FilterRegistry

Keys = Iterator[list[Input]]

COUNT = 60
FILE = "/me/train.py"
WIDE = (140, 30)


class Stop(CommandService):
    """A stop that notes what is run for the pane."""

    def __init__(self, path: Path | None = None) -> None:
        def node(n: int) -> Node:
            given = [f"op_{n - 1:02}:0"] if n else []
            return Node(f"op_{n:02}", "Mul", given, frames=[Frame(FILE, n + 1, "<module>")])

        text = "".join(f"line_{n} = {n}\n" for n in range(COUNT))
        dump = MemoryDump(Graph(map(node, range(COUNT))), Sources({FILE: text}, live=False))
        for number in range(COUNT):
            value = np.full(number + 1, number, np.float32)
            dump.add(f"op_{number:02}", 0, value, timestamp=number)
        context = Context(
            "run-end", make_registry(), FilterRegistry(), Settings(path), dump=dump, width=79
        )
        super().__init__(
            context, title="end", title_role="end", initial_command="lt", history=History(None)
        )
        self.looked: list[str] = []

    def run(self, text: str, width: int = 80) -> Reply:
        if text.startswith("preview"):
            self.looked.append(text)
        return super().run(text, width)


def pane(screen: Player) -> str:
    """What stands right of the list."""
    start = screen.rows[3].index("-- ")
    return "\n".join(row[start:] for row in screen.rows[3:-2])


def until(screen: Player, is_so: Callable[[], bool]) -> Keys:
    """Wait for what the loop does when no key is pressed."""
    for _ in range(20_000):
        if is_so():
            return
        yield []
    raise AssertionError(f"it doesn't come:\n{screen.text}")


def test_it_follows_the_cursor_and_goes_from_kind_to_kind(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    stop = Stop(path)

    def script(screen: Player) -> Keys:
        yield ["f6"]
        assert "config set pane value" in screen.text
        yield from until(screen, lambda: "pt op_00:0" in screen.text)
        assert "array([0.]" in pane(screen)
        yield ["j", "j"]
        yield from until(screen, lambda: "value: pt op_02:0" in screen.text)
        assert "array([2., 2., 2.]" in pane(screen)
        assert "op_05:0" in screen.text  # the list beside it
        yield ["f6"]
        yield from until(screen, lambda: "source: ps /me/train.py -b 3" in screen.text)
        assert "line_2 = 2" in pane(screen)
        assert "line_1 = 1" in pane(screen)  # and what is around it
        yield ["f6"]
        yield from until(screen, lambda: "graph: " in screen.text and "op_01" in pane(screen))
        assert "op_03" in pane(screen)
        yield ["k", "k"]
        yield from until(screen, lambda: "op_01" in pane(screen) and "op_03" not in pane(screen))
        yield ["q"]  # leaves the pane, not the debugger
        assert "graph: " not in screen.text
        assert "Leave" not in screen.text
        yield ["f6"]
        yield from until(screen, lambda: "pt op_00:0" in screen.text)

    play(script, stop, size=WIDE)
    assert Settings(path).get("pane") == "off"  # in the next program it isn't there


def test_nothing_is_looked_up_while_keys_are_pressed() -> None:
    stop = Stop()
    stop.settings.override("pane", "value")

    def script(screen: Player) -> Keys:
        yield ["esc"]
        yield from until(screen, lambda: "array([0.]" in screen.text)
        assert stop.looked == ["preview op_00:0 --kind value"]
        yield ["j"] * 10
        for _ in range(30):
            yield ["j"]
        assert len(stop.looked) == 1
        yield from until(screen, lambda: "pt op_40:0" in screen.text)
        assert stop.looked[1:] == ["preview op_40:0 --kind value"]
        yield ["k"]
        yield from until(screen, lambda: "pt op_39:0" in screen.text)
        yield ["j"]  # it is still known
        assert "pt op_40:0" in screen.text
        assert len(stop.looked) == 3
        assert stop.history.session == []  # a script has no use for it

    play(script, stop, size=WIDE)


def test_errors_are_a_dim_line_and_large_values_are_not_read() -> None:
    stop = Stop()
    stop.settings.override("pane", "value")
    read: list[str] = []
    dump = stop.context.dump
    assert isinstance(dump, MemoryDump)
    dump.add("huge", 0, np.broadcast_to(np.float32(1), (1 << 13, 1 << 13)), timestamp=100)
    value = dump.value

    def noted(datum):
        read.append(datum.tensor_name)
        return value(datum)

    dump.value = noted  # type: ignore[method-assign]

    def script(screen: Player) -> Keys:
        yield enter("lt -n huge -o name")
        yield ["esc"]
        yield from until(screen, lambda: "256" in pane(screen))
        assert "huge:0" not in read
        yield [":"]
        yield enter("li op_01")
        yield ["esc"]
        yield from until(screen, lambda: "array([0.]" in screen.text)
        stop.context.dump = None
        yield [":"]
        yield enter("say")
        yield ["esc", "j", "f6"]
        yield from until(screen, lambda: "There are no tensors" in pane(screen))
        assert screen.attribute("There are no tensors") == "dim"

    play(script, stop, size=WIDE)


def test_it_hides_where_there_is_no_room_and_comes_back() -> None:
    stop = Stop()
    stop.settings.override("pane", "value")

    def script(screen: Player) -> Keys:
        for size in ((80, 24), (50, 12), (140, 9), (99, 24)):
            screen.size = size
            yield ["window resize"]
            yield ["ctrl l"]
            assert "value: " not in screen.text
            assert "op_00:0" in screen.text
        for size in ((100, 24), (300, 60), (100, 24)):
            screen.size = size
            yield ["window resize"]
            yield from until(screen, lambda: "array([0.]" in screen.text)
            assert "op_01:0" in screen.text
        yield enter("pt op_07:0")
        assert "value: " not in screen.text  # beside lists only
        yield enter("lp")
        yield ["meta left"]

    play(script, stop, size=(80, 24))


def test_the_mouse() -> None:
    stop = Stop()
    stop.settings.override("pane", "source")

    def script(screen: Player) -> Keys:
        yield ["esc", "G"]
        yield from until(screen, lambda: "ps /me/train.py -b 60" in screen.text)
        assert "line_59 = 59" in pane(screen)
        column, row = screen.place("line_59 = 59")
        top = screen.rows[4:8]
        for _ in range(50):
            yield [("mouse press", 4, column, row)]
        assert "line_0 = 0" in pane(screen)
        assert [line[:40] for line in screen.rows[4:8]] == [line[:40] for line in top]
        yield ["J"]
        assert "line_0 = 0" not in pane(screen)
        yield [("mouse press", 4, 3, row)] * 30  # the list, where the pointer is
        assert "60 dumped tensor(s)" in screen.text
        yield from until(screen, lambda: "…" not in screen.rows[3])
        yield screen.click("ps /me/train.py")
        assert screen.rows[1].rpartition(" | ")[2].startswith("ps /me/train.py -b")

    play(script, stop, size=WIDE)
