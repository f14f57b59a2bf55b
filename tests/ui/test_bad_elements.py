"""``pt --bad`` on the screen and on paper: n and N go from bad element to bad element."""

from __future__ import annotations

import numpy as np
import pytest
from stop_kit import stop_over
from test_plain import Run
from ui_player import Player, enter, play

from tfdbg_cli.commands.service import CommandService
from tfdbg_cli.common.documents import ElementStep
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.tensors.badness import BadSteps, find_bad
from tfdbg_cli.tensors.formatting import TensorView
from tfdbg_cli.tensors.magnitude import MagnitudeView

NAME = "inf/nan:0"  # names and heads have the words of bad elements too

VALUES = np.ones((128, 10), np.float32)
VALUES[3, 2:8] = [np.nan, 1, -np.inf, np.inf, 1, np.nan]
VALUES[50:72] = np.nan
BAD = [tuple(map(int, place)) for place in np.argwhere(~np.isfinite(VALUES))]


def service() -> CommandService:
    dump = MemoryDump(Graph([Node("inf/nan", "Log")]))
    dump.add("inf/nan", 0, VALUES, timestamp=1)
    return stop_over(dump, width=79)


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", "-s", "-a -s", "--sort-by-magnitude", "-r [0,2]"])
def test_every_bad_element_is_counted_once(options: str) -> None:
    def script(screen: Player):
        yield enter(f"pt {NAME} --bad {options}")
        assert f"bad element 1 of {len(BAD)}" in screen.text
        seen = [screen.rows[-2]]
        yield ["esc"]
        for _ in BAD:
            yield ["n"]
            seen.append(screen.rows[-2])
        places = [text.partition(" = ")[0].strip() for text in seen]
        wanted = [f"[{row},{column}]" for row, column in BAD]
        if "magnitude" not in options:
            assert places == [*wanted, wanted[0]]
        assert sorted(places[:-1]) == sorted(wanted)
        for number, text in enumerate(seen[:-1], 1):
            assert text.rstrip().endswith(f"bad element {number} of {len(BAD)}")
        assert "bad element 1 of" in seen[-1]
        assert "went on at the top" in seen[-1]
        yield ["N"]
        assert f"bad element {len(BAD)} of {len(BAD)}" in screen.text
        assert "went on at the bottom" in screen.text
        yield ["N"]
        assert f"bad element {len(BAD) - 1} of {len(BAD)}" in screen.text

    play(script, service())


def test_from_where_the_cursor_is() -> None:
    def script(screen: Player):
        yield enter(f"pt {NAME} --bad")
        yield enter("@[60,4]")
        yield ["esc", "n"]
        assert "[60,5] = nan" in screen.text
        assert f"bad element {BAD.index((60, 5)) + 1} of {len(BAD)}" in screen.text
        yield [":", *"@[127,9]", "enter"]
        yield ["esc", "N"]
        assert f"bad element {len(BAD)} of {len(BAD)}" in screen.text
        # A search of one's own is one for lines again.
        yield ["/", *"dtype", "enter"]
        assert "matching line 2 of 2" in screen.text
        yield ["n"]
        assert "matching line 1 of 2" in screen.text

    play(script, service())


def test_with_some_lines_only() -> None:
    def script(screen: Player):
        yield enter(f"pt {NAME} --bad")
        yield enter("&nan, +nan")
        yield ["esc", "n"]
        assert f"bad element 2 of {len(BAD)}, [3, 4], isn't shown" in screen.text
        for _ in range(3):
            yield ["n"]
        assert "[50,0] = nan" in screen.text
        assert f"bad element 5 of {len(BAD)}" in screen.text

    play(script, service())


def test_where_lines_are_printed() -> None:
    out = Run(f"pt {NAME} --bad -s", "/", service=service()).out  # type: ignore[arg-type]
    found = [text for text in out.splitlines() if text.startswith("bad element")]
    assert len(found) == len(BAD)
    assert found[0] == f"bad element 1 of {len(BAD)}: [3,2] = nan"
    assert found[1] == f"bad element 2 of {len(BAD)}: [3,4] = -inf"


@pytest.mark.parametrize(
    "values",
    [
        VALUES,
        VALUES.T,
        VALUES[:, ::3],
        VALUES.astype(np.float16),
        VALUES.astype(np.complex64),
        VALUES.reshape(4, 32, 10),
        np.array(np.nan),
        np.broadcast_to(np.float32("inf"), (3, 2)),
        np.where(np.arange(3_000_001) % 1_000_000 == 0, np.nan, 0.0),
    ],
    ids=lambda values: f"{values.dtype}{values.shape}",
)
def test_steps_agree_with_numpy(values: np.ndarray) -> None:
    wanted = [tuple(map(int, place)) for place in np.argwhere(~np.isfinite(values))]
    for start in (None, wanted[0]):
        view = TensorView(values, threshold=0, bad=BadSteps(values, find_bad(values)))
        at, seen = start, []
        for _ in wanted:
            found = view.step(at)
            assert found is not None
            assert found.line is not None
            shown = view.lines(found.line, found.line + 1)[0].indices
            assert shown is not None
            assert shown[0] <= found.indices <= shown[1]
            seen.append(found)
            at = found.indices
        first = 0 if start is None else 1
        assert [found.indices for found in seen] == [*wanted[first:], *wanted[:first]]
        assert [found.number for found in seen][-1] == (len(wanted) if start is None else 1)
    assert view.step(None, -1) == view.step(wanted[0], -1)._replace(wrapped=False)  # type: ignore[union-attr]
    backwards = MagnitudeView(values, is_reversed=True, bad=BadSteps(values, find_bad(values)))
    last = backwards.step(None, -1)
    assert isinstance(last, ElementStep)
    assert last.line == values.size - 1
